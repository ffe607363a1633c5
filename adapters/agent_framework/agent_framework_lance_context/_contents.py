"""Contents of the framework's messages, in their dictionary form, as canonical parts."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from lance_context_core import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    InvalidRequestError,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
)
from lance_context_core.adapting import arguments_of
from lance_context_core.messages import Part, UnknownPart

Content: TypeAlias = Mapping[str, Any]
"""The dictionary form of a content: its `to_dict`."""

_MEDIA: dict[str, type[ImagePart | AudioPart | VideoPart]] = {
    "image": ImagePart,
    "audio": AudioPart,
    "video": VideoPart,
}
_ANSWERS = ("items", "outputs", "output", "screenshot", "result")
"""Where a result has what the tool returned; the first one counts."""
_FACTS = (
    *("type", "id", "call_id", "image_id", "name", "tool_name", "status", "hosted"),
    *("exception", "informational_only", "additional_properties", "annotations", "merge_mode"),
)
"""The fields of a call that are not its arguments."""


def to_parts(contents: Iterable[Content], tools: dict[str, str]) -> list[Part]:
    """Returns the parts of contents, in order; no content is refused.

    `tools` maps ids of calls to names of tools: calls are added, and results are looked up.
    """
    return [part for content in contents for part in _to_parts(content, tools)]


def _to_parts(content: Content, tools: dict[str, str]) -> Iterator[Part]:
    kind = str(content.get("type"))
    try:
        yield from _known(kind, content, tools)
    except (InvalidRequestError, KeyError, TypeError, ValueError):
        yield _unknown(kind, content)


def _known(kind: str, content: Content, tools: dict[str, str]) -> Iterator[Part]:
    match kind:
        case "text":
            yield TextPart(text=content.get("text") or "")
        case "text_reasoning":
            text, proof = content.get("text"), content.get("protected_data")
            yield ReasoningPart(text=text or "", signature=proof)
        case "data" | "uri":
            yield _media(content)
        case "hosted_file":
            name, media_type = content.get("name"), content.get("media_type")
            yield FilePart(file_id=content["file_id"], name=name, media_type=media_type)
        case "shell_command_output":
            said = [content.get(name) for name in ("stdout", "stderr")]
            yield TextPart(text="\n".join(one for one in said if one))
        case _ if kind.endswith("_call"):
            yield _call(kind, content, tools)
        case _ if kind.endswith("_result"):
            yield _result(content, tools)
        case _:
            yield _unknown(kind, content)


def _media(content: Content) -> Part:
    media_type = content.get("media_type")
    made = _MEDIA.get(str(media_type).partition("/")[0], FilePart)
    return made.from_url(content["uri"], media_type=media_type, name=content.get("name"))


def _call(kind: str, content: Content, tools: dict[str, str]) -> Part:
    call_id = _call_id(content)
    tool = _name(content.get("tool_name"), content.get("name")) or kind.partition("_tool_call")[0]
    if call_id:
        tools[call_id] = tool
    given = content.get("arguments")
    if given is None:
        given = {key: value for key, value in content.items() if key not in _FACTS}
    try:
        return ToolCallPart(call_id=call_id, name=tool, arguments=arguments_of(given))
    except InvalidRequestError:  # Such as NaN: the text of the arguments is exact.
        return ToolCallPart(call_id=call_id, name=tool, arguments=json.dumps(given))


def _result(content: Content, tools: dict[str, str]) -> Part:
    call_id = _call_id(content)
    answers = [content[name] for name in _ANSWERS if content.get(name) is not None]
    return ToolResultPart(
        call_id=call_id,
        name=_name(content.get("tool_name"), content.get("name"), tools.get(call_id or "")),
        content=tuple(_answered(answers[0], tools)) if answers else (),
        is_error="exception" in content,
    )


def _answered(answer: Any, tools: dict[str, str]) -> Iterator[Part]:
    """Yields the parts of what a tool returned: contents, a text, or any JSON."""
    if isinstance(answer, list):
        for one in answer:
            yield from _answered(one, tools)
    elif isinstance(answer, Mapping) and isinstance(answer.get("type"), str):
        yield from (
            one for one in _to_parts(answer, tools) if not isinstance(one, TextPart) or one.text
        )
    elif isinstance(answer, str):
        if answer:
            yield TextPart(text=answer)
    else:
        yield DataPart(data=answer)


def _unknown(kind: str, content: Content) -> Part:
    rest = {key: value for key, value in content.items() if key != "type"}
    try:
        return UnknownPart(type=kind, payload=rest)
    except InvalidRequestError:  # Such as NaN.
        return UnknownPart(type=kind, payload={"json": json.dumps(rest)})


def _call_id(content: Content) -> str | None:
    return _name(content.get("call_id"), content.get("image_id"), content.get("id"))


def _name(*given: Any) -> str | None:
    """Returns the first text that can name something."""
    names = (one for one in given if isinstance(one, str) and one and "\0" not in one)
    return next(names, None)
