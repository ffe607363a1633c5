"""The JSON in a model's answer: found where the model has hidden it, and checked; never guessed.

What is mended is named, so that nobody takes it for an answer as it was asked for; what cannot be
used raises an error that names the fault.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from lance_context_core._util.checks import check_json, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError, ModelAnswerError
from lance_context_core.models.schemas import problem_of
from lance_context_core.models.values import Completion

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
