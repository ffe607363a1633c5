"""A language model, as the store asks one: any that a program has, and what is made of its answers."""

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from lance_context_core._util.calls import called
from lance_context_core._util.checks import (
    check_count,
    check_json,
    check_json_object,
    check_name,
    check_seconds,
    check_text,
    dumps,
    listed,
    shown,
)
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.errors import InvalidRequestError, ModelAnswerError
from lance_context_core.messages import Message

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # What a model is
    "LanguageModel",
    "ModelRequest",
    "Completion",
    "FunctionModel",
    "Said",
    # Asking one
    "ask",
    "read_answer",
    "Answer",
    "FAULTS",
    "REPAIRS",
]


# What a model is asked, what it answers, and what makes one.


@frozen_by_name
class ModelRequest:
    """One question to a model. All that it is to know stands in it."""

    purpose: str
    """What it is for, in a word: `extract`, `consolidate` or `summarise`."""
    messages: tuple[Message, ...]
    """In order, as a chat model takes them; instructions are of the role `system`."""
    schema: Mapping[str, Any] | None = None
    """The JSON schema that the answer has to fit; None where a text is asked for."""
    max_output: int | None = None
    """In tokens; None leaves it to the model."""

    def __post_init__(self) -> None:
        messages = tuple(listed(self.messages, "ModelRequest.messages"))
        for one in messages:
            if not isinstance(one, Message):
                raise InvalidRequestError(f"ModelRequest.messages has {shown(one)}: pass Messages")
        plain: dict[str, object] = {
            "purpose": check_name(self.purpose, "ModelRequest.purpose"),
            "messages": messages,
        }
        if self.schema is not None:
            plain["schema"] = check_json_object(self.schema, "ModelRequest.schema")
        if self.max_output is not None:
            plain["max_output"] = check_count(self.max_output, "ModelRequest.max_output")
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @property
    def prompt(self) -> str:
        """The texts of all messages, for a model that takes one text."""
        return "\n\n".join(one.text for one in self.messages if one.text)

    @property
    def key(self) -> str:
        """The SHA-256 of `to_dict()` in canonical JSON: the same for the same question, anywhere."""
        return hashlib.sha256(dumps(self.to_dict()).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The question as JSON; of the messages their roles, names and texts."""
        return {
            "purpose": self.purpose,
            "messages": [
                {"role": one.role, **({"name": one.name} if one.name else {}), "text": one.text}
                for one in self.messages
            ],
            "schema": None if self.schema is None else dict(self.schema),
            "max_output": self.max_output,
        }


@frozen_by_name
class Completion:
    """What a model answered."""

    text: str = ""
    """Word for word; may hold JSON, and whatever the model put around it."""
    data: Any = None
    """The answer as JSON, where the model gives it so; then it counts, and not the text."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """What it took, such as `input_tokens` and `output_tokens`."""

    def __post_init__(self) -> None:
        usage = check_json_object(self.usage, "Completion.usage")
        for name, amount in usage.items():
            check_count(amount, f"Completion.usage[{name!r}]", least=0)
        object.__setattr__(self, "text", check_text(self.text, "Completion.text"))
        object.__setattr__(self, "data", check_json(self.data, "Completion.data"))
        object.__setattr__(self, "usage", usage)


@runtime_checkable
class LanguageModel(Protocol):
    """Answers questions. The adapters make one of any model of their framework."""

    @property
    def name(self) -> str:
        """Which one it is: what another one makes is told from what this one made."""
        ...

    def complete(self, request: ModelRequest) -> Completion | Awaitable[Completion]:
        """The answer to a question, at once or to be awaited; what blocks runs in a thread.

        What it raises, for want of a network or at a limit of its provider, leaves the work to be
        done later.
        """
        ...


# Asking a model, which may block or be awaited; and a model of whatever can be called.

Said = str | Mapping[str, Any] | Completion
"""What a called function may answer: a text, JSON, or all of it."""


@frozen
class FunctionModel:
    """A model of a function from the text of a prompt to the text of an answer.

    The function may be a coroutine, and may return a mapping in place of JSON, or a `Completion`.
    """

    call: Callable[[str], Said | Awaitable[Said]]
    name: str = "function"

    def __post_init__(self) -> None:
        if not callable(self.call):
            raise InvalidRequestError(f"call is {shown(self.call)}: pass what can be called")
        check_name(self.name, "name")

    async def complete(self, request: ModelRequest) -> Completion:
        """What the function answers to `request.prompt`."""
        return completed(await called(self.call, request.prompt), self.name)


def check_model(value: object, where: str) -> LanguageModel:
    """`value` as a model. Refuses what has no name, or cannot be asked."""
    if not isinstance(value, LanguageModel) or not callable(value.complete):
        raise InvalidRequestError(
            f"{where} is {shown(value)}: it needs a name and complete(request); make one of a "
            "function with FunctionModel, or of a framework's model with its adapter's"
        )
    check_name(value.name, f"{where}.name")
    return value


async def ask(
    model: LanguageModel, request: ModelRequest, *, timeout: float | None = None
) -> Completion:
    """What a model answers to a question.

    - `timeout`: in seconds; after it TimeoutError is raised. A model that blocks is left to end by
      itself, and what it says then is not heard.

    Raises what the model raises, and InvalidRequestError if it returns no `Completion`.
    """
    if timeout is not None:
        check_seconds(timeout, "timeout")
    try:
        answer = await asyncio.wait_for(called(model.complete, request), timeout)
    except TimeoutError as error:
        if timeout is None or str(error):
            raise
        raise TimeoutError(f"model {model.name!r} took more than {timeout:g} seconds") from error
    return completed(answer, model.name)


def check_asking(model: object, instructions: object, timeout: object) -> None:
    """Raise InvalidRequestError for a model that cannot be asked so, or within such a time."""
    check_model(model, "model")
    check_text(instructions, "instructions")
    check_seconds(timeout, "timeout")


def completed(answer: object, name: str) -> Completion:
    """What was returned, as an answer."""
    if isinstance(answer, Completion):
        return answer
    if isinstance(answer, str):
        return Completion(text=answer)
    if isinstance(answer, Mapping):
        return Completion(data=answer)
    raise InvalidRequestError(
        f"model {name!r} returned {shown(answer)}: it has to return a Completion, a text, or JSON"
    )


# What of an answer does not fit a JSON schema: as much of the standard as models are asked with.

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda one: isinstance(one, Mapping),
    "array": lambda one: isinstance(one, list | tuple),
    "string": lambda one: isinstance(one, str),
    "integer": lambda one: _is_number(one) and float(one).is_integer(),
    "number": lambda one: isinstance(one, int | float) and not isinstance(one, bool),
    "boolean": lambda one: isinstance(one, bool),
    "null": lambda one: one is None,
}

_BOUNDS: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (lambda one, bound: _is_number(one) and one < bound, "is below"),
    "maximum": (lambda one, bound: _is_number(one) and one > bound, "is above"),
    "minLength": (lambda one, bound: isinstance(one, str) and len(one) < bound, "is shorter than"),
    "maxLength": (lambda one, bound: isinstance(one, str) and len(one) > bound, "is longer than"),
    "minItems": (lambda one, bound: isinstance(one, list) and len(one) < bound, "has less than"),
    "maxItems": (lambda one, bound: isinstance(one, list) and len(one) > bound, "has more than"),
}


def problem_of(value: Any, schema: Mapping[str, Any], where: str = "answer") -> str | None:
    """What does not fit, the first of it, in words; None if all does.

    Understands `type`, `enum`, `const`, `properties`, `required`, `additionalProperties: false`,
    `items`, `anyOf`, the bounds of numbers, texts and lists, and `$ref` into `$defs`; what else a
    schema says is passed over.
    """
    return _problem(value, schema, where, schema)


def _problem(value: Any, schema: Any, where: str, root: Mapping[str, Any]) -> str | None:
    if not isinstance(schema, Mapping):
        return None
    if "$ref" in schema:
        return _problem(value, _referred(schema["$ref"], root), where, root)
    if "anyOf" in schema:
        problems = [_problem(value, one, where, root) for one in schema["anyOf"]]
        if problems and None not in problems:
            return problems[0]
    for check in (_of_type, _of_choice, _of_bounds):
        if (problem := check(value, schema, where)) is not None:
            return problem
    return _inside(value, schema, where, root)


def _of_type(value: Any, schema: Mapping[str, Any], where: str) -> str | None:
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else wanted or []
    if not names or any(_TYPES.get(name, lambda _: True)(value) for name in names):
        return None
    return f"{where} is {shown(value)}, not {' or '.join(names)}"


def _of_choice(value: Any, schema: Mapping[str, Any], where: str) -> str | None:
    allowed = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else []
    if not allowed or value in allowed:
        return None
    return f"{where} is {shown(value)}, not one of {', '.join(map(str, allowed))}"


def _of_bounds(value: Any, schema: Mapping[str, Any], where: str) -> str | None:
    for name, (is_beyond, words) in _BOUNDS.items():
        if name in schema and is_beyond(value, schema[name]):
            return f"{where} {words} {schema[name]}"
    return None


def _inside(
    value: Any, schema: Mapping[str, Any], where: str, root: Mapping[str, Any]
) -> str | None:
    if isinstance(value, Mapping):
        return _of_object(value, schema, where, root)
    if isinstance(value, Sequence) and not isinstance(value, str) and "items" in schema:
        for index, one in enumerate(value):
            if problem := _problem(one, schema["items"], f"{where}[{index}]", root):
                return problem
    return None


def _of_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], where: str, root: Mapping[str, Any]
) -> str | None:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where} lacks {name!r}"
    for name, one in value.items():
        if name in properties:
            if problem := _problem(one, properties[name], f"{where}.{name}", root):
                return problem
        elif schema.get("additionalProperties") is False:
            return f"{where} has the unknown key {shown(name)}"
    return None


def _referred(path: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for name in path.removeprefix("#/").split("/"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _is_number(one: Any) -> bool:
    return _TYPES["number"](one)


# The JSON in a model's answer: found where the model has hidden it, and checked; never guessed.
#
# What is mended is named, so that nobody takes it for an answer as it was asked for; what cannot be
# used raises an error that names the fault.

MOST_CHARACTERS = 200_000
"""Of an answer: what is longer is a loop."""

REPAIRS = ("reasoning", "fenced", "prose", "trailing_comma", "bare_list")
"""What is mended: thoughts before the answer, a fence of Markdown, words around it, commas before a
closing bracket, and a list in place of the object that has it alone."""

FAULTS = ("empty", "refusal", "too_long", "truncated", "not_json", "wrong_schema")
"""What no answer can be had of."""

_THOUGHT = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
_FENCE = re.compile(r"```[\w-]*[ \t]*\n?(.*?)```", re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_REFUSES = re.compile(
    r"\b(?:I (?:can['\N{RIGHT SINGLE QUOTATION MARK}]?t|cannot|am unable|won't|will not)"
    r"|I['\N{RIGHT SINGLE QUOTATION MARK}]?m (?:sorry|unable|not able)|as an AI)\b",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"[{\[]")
_MOST_BRACKETS = 100
"""Where JSON may begin: so many places are tried."""
_DECODER = json.JSONDecoder(strict=False)


@frozen_by_name
class Answer:
    """What a model answered, as JSON that fits the schema."""

    data: Any
    repairs: tuple[str, ...] = ()
    """What had to be mended, of `REPAIRS`, in that order."""


def read_answer(completion: Completion, schema: Mapping[str, Any]) -> Answer:
    """The JSON of an answer. Raises ModelAnswerError, whose `fault` is one of `FAULTS`."""
    if completion.data is not None:
        return _fitting([Answer(data=completion.data)], schema)
    text = completion.text.strip()
    if not text:
        raise ModelAnswerError("the model answered nothing", fault="empty")
    if len(text) > MOST_CHARACTERS:
        raise ModelAnswerError(
            f"the model answered {len(text):,} characters: more than {MOST_CHARACTERS:,} is a loop",
            fault="too_long",
        )
    found = [*_found(text)]
    if not found:
        raise _nothing_in(text)
    return _fitting(found, schema)


def _found(text: str) -> Iterator[Answer]:
    """Whatever JSON is in a text, the most likely first."""
    if (data := _decoded(text)) is not None:
        yield Answer(data=data)
        return
    repairs: tuple[str, ...] = ()
    if thought := _THOUGHT.match(text):
        repairs, text = ("reasoning",), text[thought.end() :].strip()
    if fence := _FENCE.search(text):
        outside = (text[: fence.start()] + text[fence.end() :]).strip()
        repairs += ("fenced", *(("prose",) if outside else ()))
        text = fence[1].strip()
    for mended, more in ((text, ()), (_TRAILING_COMMA.sub(r"\1", text), ("trailing_comma",))):
        if (data := _decoded(mended)) is not None:
            yield Answer(data=data, repairs=repairs + more)
            return
        among = tuple(one for one in REPAIRS if one in (*repairs, "prose", *more))
        inner = [Answer(data=data, repairs=among) for data in _inner(mended)]
        yield from inner
        if inner:
            return


def _inner(text: str) -> Iterator[Any]:
    """The objects and lists among words, from left to right, up to one that is never closed."""
    at = 0
    for _ in range(_MOST_BRACKETS):
        bracket = _BRACKET.search(text, at)
        if bracket is None:
            return
        try:
            data, at = _DECODER.raw_decode(text, bracket.start())
            yield data
        except json.JSONDecodeError as error:
            if _is_cut(error, text):
                return
            at = bracket.end()
        except RecursionError:
            return


def _is_cut(error: json.JSONDecodeError, text: str) -> bool:
    """Whether there is nothing wrong with the JSON but that it goes on where the text ends."""
    return error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip())


def _ends_within(text: str, start: int) -> bool:
    try:
        _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return _is_cut(error, text)
    except RecursionError:
        return True
    return False


def _decoded(text: str) -> Any:
    """The object or list that a text is; None if it is something else."""
    try:
        data = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict | list) else None


def _fitting(found: list[Answer], schema: Mapping[str, Any]) -> Answer:
    """The first that fits the schema."""
    problems = []
    for one in found:
        for answer in (one, *_wrapped(one, schema)):
            problem = problem_of(answer.data, schema) or _unkeepable(answer.data)
            if problem is None:
                return answer
            problems.append(problem)
    raise ModelAnswerError(
        f"the model's answer is not of the shape that was asked for: {problems[0]}",
        fault="wrong_schema",
    )


def _wrapped(one: Answer, schema: Mapping[str, Any]) -> Iterator[Answer]:
    """The object that was asked for, made of the one list that it has."""
    required = schema.get("required", ())
    if isinstance(one.data, list) and len(required) == 1:
        yield Answer(data={required[0]: one.data}, repairs=(*one.repairs, "bare_list"))


def _unkeepable(data: Any) -> str | None:
    try:
        check_json(data, "answer")
    except InvalidRequestError as error:
        return str(error)
    return None


def _nothing_in(text: str) -> ModelAnswerError:
    # Of the text nothing is told but its beginning: it may hold what the user said.
    if any(
        _ends_within(text, one.start()) for one in islice(_BRACKET.finditer(text), _MOST_BRACKETS)
    ):
        return ModelAnswerError(
            f"the model's answer ends before its JSON does, after {len(text):,} characters",
            fault="truncated",
        )
    if _REFUSES.search(text):
        return ModelAnswerError(f"the model refused: {shown(text[:200])}", fault="refusal")
    return ModelAnswerError(f"the model's answer has no JSON: {shown(text)}", fault="not_json")
