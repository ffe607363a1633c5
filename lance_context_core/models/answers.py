"""JSON in a model's answer: extraction, repair and schema checks."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from lance_context_core._util.checks import check_json, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError, ModelAnswerError
from lance_context_core.models.asking import Completion

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
    """The first schema violation, in words; None if there is none.

    Understands `type`, `enum`, `const`, `properties`, `required`, `additionalProperties: false`,
    `items`, `anyOf`, the bounds of numbers, texts and lists, and `$ref` into `$defs`; ignores other
    keywords.
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
"""The maximum length of an answer: a longer one is a loop."""

REPAIRS = ("reasoning", "fenced", "prose", "trailing_comma", "bare_list", "number")
"""Repairs: reasoning before the answer, a Markdown fence, surrounding words, trailing commas, a list
in place of an object with that single field, and numbers written as texts."""

FAULTS = ("empty", "refusal", "too_long", "truncated", "not_json", "wrong_schema")
"""The faults of an unusable answer."""

_THOUGHT = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
_FENCE = re.compile(r"```[\w-]*[ \t]*\n?(.*?)```", re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_REFUSES = re.compile(
    r"\b(?:I (?:can['\N{RIGHT SINGLE QUOTATION MARK}]?t|cannot|am unable|won't|will not)"
    r"|I['\N{RIGHT SINGLE QUOTATION MARK}]?m (?:sorry|unable|not able)|as an AI)\b",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"[{\[]")
_NUMBER = re.compile(r"\s*-?\d{1,15}(?:\.\d{1,15})?\s*")
_MOST_BRACKETS = 100
"""Where JSON may begin: so many places are tried."""
_DECODER = json.JSONDecoder(strict=False)


@frozen_by_name
class Answer:
    """The answer of a model, as JSON that fits the schema."""

    data: Any
    repairs: tuple[str, ...] = ()
    """The applied repairs, in the order of `REPAIRS`."""


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
    answer = _fitting(found, schema)
    if answer.repairs and not _fullness(answer.data) and _is_cut_short(text):
        # What is empty may have been an example of the one that has no end.
        raise _nothing_in(text)
    return answer


def _found(text: str) -> Iterator[Answer]:
    """The JSON in a text."""
    if (data := _decoded(text)) is not None:
        yield Answer(data=data)
        return
    repairs: tuple[str, ...] = ()
    if thought := _THOUGHT.match(text):
        repairs, text = ("reasoning",), text[thought.end() :].strip()
    outside = _FENCE.sub(" ", text).strip()
    fenced = (*repairs, "fenced", *(("prose",) if outside else ()))
    n_found = 0
    for fence in _FENCE.finditer(text):
        for one in _among(fence[1].strip(), fenced):
            n_found += 1
            yield one
    if not n_found or _BRACKET.search(outside):
        yield from _among(outside if n_found else text, repairs)


def _among(text: str, repairs: tuple[str, ...]) -> list[Answer]:
    """The text as JSON, else the JSON within the text."""
    for mended, more in ((text, ()), (_TRAILING_COMMA.sub(r"\1", text), ("trailing_comma",))):
        if (data := _decoded(mended)) is not None:
            return [Answer(data=data, repairs=_in_order(*repairs, *more))]
        if inner := [*_inner(mended)]:
            among = _in_order(*repairs, "prose", *more)
            return [Answer(data=data, repairs=among) for data in inner]
    return []


def _in_order(*repairs: str) -> tuple[str, ...]:
    return tuple(one for one in REPAIRS if one in repairs)


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
    """Whether the JSON is valid but cut off at the end of the text."""
    return error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip())


def _ends_within(text: str, start: int) -> bool:
    try:
        _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return _is_cut(error, text)
    except RecursionError:
        return True
    return False


def _is_cut_short(text: str) -> bool:
    """Whether the text ends inside JSON."""
    brackets = islice(_BRACKET.finditer(text), _MOST_BRACKETS)
    return any(_ends_within(text, one.start()) for one in brackets)


def _decoded(text: str) -> Any:
    """The object or list that a text is; None if it is something else."""
    try:
        data = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict | list) else None


def _fitting(found: list[Answer], schema: Mapping[str, Any]) -> Answer:
    """The fullest that fits the schema; of several the first."""
    problems, fitting = [], []
    for one in found:
        for answer in (one, *_wrapped(one, schema)):
            data = as_numbers(answer.data, schema)
            problem = problem_of(data, schema) or _unkeepable(data)
            if problem is not None:
                problems.append(problem)
                continue
            more = () if data == answer.data else ("number",)
            fitting.append(Answer(data=data, repairs=_in_order(*answer.repairs, *more)))
            break
    if fitting:
        return max(fitting, key=lambda one: _fullness(one.data))
    raise ModelAnswerError(
        f"the model's answer is not of the shape that was asked for: {problems[0]}",
        fault="wrong_schema",
    )


def _fullness(data: Any) -> int:
    """How many values an answer has."""
    if isinstance(data, Mapping):
        return sum(map(_fullness, data.values()))
    return sum(map(_fullness, data)) if isinstance(data, list) else 1


def as_numbers(value: Any, schema: Any) -> Any:
    """The value with texts converted to numbers where the schema requires numbers."""
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, str):
        return _as_number(value, schema)
    if isinstance(value, Mapping):
        properties = schema.get("properties", {})
        return {name: as_numbers(one, properties.get(name)) for name, one in value.items()}
    if isinstance(value, list):
        return [as_numbers(one, schema.get("items")) for one in value]
    return value


def _as_number(text: str, schema: Mapping[str, Any]) -> Any:
    wanted = schema.get("type")
    names = {wanted} if isinstance(wanted, str) else {*(wanted or ())}
    if "string" in names or not names & {"integer", "number"} or not _NUMBER.fullmatch(text):
        return text
    number = float(text)
    return int(number) if number.is_integer() else number


def _wrapped(one: Answer, schema: Mapping[str, Any]) -> Iterator[Answer]:
    """The requested object, built from its only list."""
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
    if _is_cut_short(text):
        return ModelAnswerError(
            f"the model's answer ends before its JSON does, after {len(text):,} characters",
            fault="truncated",
        )
    if _REFUSES.search(text):
        return ModelAnswerError(f"the model refused: {shown(text[:200])}", fault="refusal")
    return ModelAnswerError(f"the model's answer has no JSON: {shown(text)}", fault="not_json")
