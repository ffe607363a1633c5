"""The parts that a message is made of.

Import them from `lance_context_core.messages`.
"""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, fields
from typing import Any, ClassVar, Self, TypeAlias
from urllib.parse import unquote_to_bytes

from lance_context_core._util.checks import (
    check_json,
    check_json_object,
    check_name,
    check_text,
    shown,
)
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError

MAX_NESTING = 16
"""How many tool results may stand in each other, as when a sub-agent's transcript is a result."""
TOO_NESTED = f"tool results are nested more than {MAX_NESTING} deep: flatten them"


@frozen_by_name
class BasePart:
    """What all the parts that we have words for share."""

    type: ClassVar[str]
    """The kind, as the JSON form names it."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """JSON by key, for what we have no word for: citations, cache marks, a provider's block id.

    In the JSON form it is merged with the fields, so it cannot use their names, nor `type`.
    """

    def __post_init__(self) -> None:
        _check(self, "extra", check_json_object)
        own = {"type", *(f.name for f in fields(self) if f.name != "extra")} if self.extra else ()
        if taken := sorted(self.extra.keys() & own):
            raise InvalidRequestError(
                f"{type(self).__name__}.extra has the keys {taken}: set the fields of that name"
            )


@frozen_by_name
class TextPart(BasePart):
    """Text that a person would read."""

    type: ClassVar[str] = "text"
    text: str
    """Any text, the empty one included."""

    def __post_init__(self) -> None:
        BasePart.__post_init__(self)
        _check(self, "text", check_text)


@frozen_by_name
class MediaPart(BasePart):
    """What images, sounds, films and files share: to ask with `isinstance`, not to be made.

    Exactly one of `data`, `url` and `file_id` is set.
    """

    data: bytes | None = field(default=None, repr=False)
    url: str | None = None
    """Any URL or URI."""
    file_id: str | None = None
    """A model provider's name for a file that was uploaded to it."""
    media_type: str | None = None
    """Such as `image/png`; absent if unknown."""
    name: str | None = None
    """The file's name or title."""

    def __post_init__(self) -> None:
        BasePart.__post_init__(self)
        sources = [n for n in ("data", "url", "file_id") if getattr(self, n) is not None]
        if len(sources) != 1:
            raise InvalidRequestError(
                f"{type(self).__name__} needs exactly one of data, url and file_id, "
                f"not {' and '.join(sources) or 'none of them'}"
            )
        _check_given(self, "data", _check_bytes)
        for name in ("url", "file_id", "media_type", "name"):
            _check_given(self, name, check_name)

    @classmethod
    def from_url(cls, url: str, *, media_type: str | None = None, name: str | None = None) -> Self:
        """The part at `url`; a `data:` URL (RFC 2397) is decoded into `data`.

        An absent `media_type` is taken from a `data:` URL and left absent for any other.
        """
        if not check_name(url, "url").lower().startswith("data:"):
            return cls(url=url, media_type=media_type, name=name)
        head, comma, body = url[len("data:") :].partition(",")
        if not comma:
            raise InvalidRequestError(f"url is a data: URL without a comma: {shown(url)}")
        data = unquote_to_bytes(body)
        if head.lower().endswith(";base64"):
            head = head[: -len(";base64")]
            data = decode_base64(data, "url")
        if not head or head.startswith(";"):
            head = f"text/plain{head}"
        return cls(data=data, media_type=media_type or head, name=name)

    def to_url(self) -> str | None:
        """`url`, or `data` as a `data:` URL; None for a `file_id`, which has none."""
        if self.data is None:
            return self.url
        media_type = self.media_type or "application/octet-stream"
        return f"data:{media_type};base64,{base64.b64encode(self.data).decode()}"


@frozen_by_name
class ImagePart(MediaPart):
    """A picture."""

    type: ClassVar[str] = "image"
    caption: str | None = None
    """What the picture shows, in words that a text search can find."""

    def __post_init__(self) -> None:
        MediaPart.__post_init__(self)
        _check_given(self, "caption", check_text)


@frozen_by_name
class AudioPart(MediaPart):
    """A sound."""

    type: ClassVar[str] = "audio"


@frozen_by_name
class VideoPart(MediaPart):
    """A film."""

    type: ClassVar[str] = "video"


@frozen_by_name
class FilePart(MediaPart):
    """A document, or any other file."""

    type: ClassVar[str] = "file"


@frozen_by_name
class DataPart(BasePart):
    """A JSON value that is meant for programs rather than for reading."""

    type: ClassVar[str] = "data"
    data: Any = None

    def __post_init__(self) -> None:
        BasePart.__post_init__(self)
        _check(self, "data", check_json)


@frozen_by_name
class ToolCallPart(BasePart):
    """A model's request to run a tool."""

    type: ClassVar[str] = "tool_call"
    call_id: str | None = None
    """What the result refers to; absent if the model gave none."""
    name: str
    """The tool's name; empty when a broken call names none."""
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    """The arguments by name, or the raw string where it does not parse, or is not meant to."""

    def __post_init__(self) -> None:
        BasePart.__post_init__(self)
        _check_given(self, "call_id", check_name)
        _check(self, "name", check_text)
        raw = isinstance(self.arguments, str)
        _check(self, "arguments", check_text if raw else check_json_object)


@frozen_by_name
class ToolResultPart(BasePart):
    """What a tool answered."""

    type: ClassVar[str] = "tool_result"
    call_id: str | None = None
    """The call that is answered."""
    name: str | None = None
    """The tool's name; absent if the framework does not repeat it."""
    content: tuple["Part", ...] = ()
    """In order; whatever `Content` allows is accepted and made a tuple.

    Tool results may stand in each other, at most `MAX_NESTING` deep.
    """
    is_error: bool = False

    def __post_init__(self) -> None:
        BasePart.__post_init__(self)
        _check_given(self, "call_id", check_name)
        _check_given(self, "name", check_name)
        _check(self, "content", as_parts)
        if _nesting(self.content) >= MAX_NESTING:
            raise InvalidRequestError(TOO_NESTED)
        if not isinstance(self.is_error, bool):
            raise InvalidRequestError(
                f"ToolResultPart.is_error must be True or False, not {shown(self.is_error)}"
            )

    @property
    def text(self) -> str:
        """The text parts of the content, joined by newlines."""
        return parts_text(self.content)


@frozen_by_name
class ReasoningPart(BasePart):
    """What a model thought before it answered; not among what a person reads."""

    type: ClassVar[str] = "reasoning"
    text: str = ""
    """Empty when the provider withholds it."""
    signature: str | None = None
    """The provider's proof that the text is its own, which it wants back."""

    def __post_init__(self) -> None:
        BasePart.__post_init__(self)
        _check(self, "text", check_text)
        _check_given(self, "signature", check_text)


@frozen_by_name
class UnknownPart:
    """A part that these classes have no word for, kept verbatim.

    Its type may be one of ours nevertheless: a foreign `image` that cannot be translated.
    """

    type: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    """The rest of the JSON object, without its `type`."""

    def __post_init__(self) -> None:
        _check(self, "type", check_text)
        _check(self, "payload", check_json_object)
        if "type" in self.payload:
            raise InvalidRequestError("UnknownPart.payload has a `type`: pass it as the type")


Part: TypeAlias = (
    TextPart
    | ImagePart
    | AudioPart
    | VideoPart
    | FilePart
    | DataPart
    | ToolCallPart
    | ToolResultPart
    | ReasoningPart
    | UnknownPart
)
"""Any part of a message."""

Content: TypeAlias = str | Part | Iterable[str | Part]
"""What is accepted where parts are wanted; a string stands for one `TextPart`."""


def as_parts(content: Content, where: str) -> tuple[Part, ...]:
    """What `content` stands for; `where` is what an error calls it."""
    if isinstance(content, str):
        return (text_part(content, f"{where}[0]"),)
    items: object = (content,) if isinstance(content, Part) else content
    if not isinstance(items, Iterable) or isinstance(items, Mapping | bytes):
        raise InvalidRequestError(
            f"{where} must be a str, a part, or several of them, not {shown(items)}"
        )
    return tuple(
        item if isinstance(item, Part) else _as_part(item, f"{where}[{index}]")
        for index, item in enumerate(items)
    )


def iter_parts(parts: Iterable[Part]) -> Iterator[Part]:
    """Every part in order; a tool result comes before the parts that it holds."""
    for part in parts:
        yield part
        if isinstance(part, ToolResultPart):
            yield from iter_parts(part.content)


def parts_text(parts: Iterable[Part]) -> str:
    """What a person would read: the text parts, those in tool results too, joined by newlines."""
    return "\n".join(part.text for part in iter_parts(parts) if isinstance(part, TextPart))


def decode_base64(text: str | bytes, where: str) -> bytes:
    """The bytes of strict base64: no spaces, padded."""
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(f"{where} is not base64: {error}; got {shown(text)}") from error


def _nesting(parts: Iterable[Part]) -> int:
    """How many tool results stand in each other at the deepest place."""
    results = (part for part in parts if isinstance(part, ToolResultPart))
    return max((1 + _nesting(result.content) for result in results), default=0)


def text_part(text: object, where: str) -> TextPart:
    """`TextPart(text=text)`, checked under the name that the caller knows it by, and not once more."""
    part = object.__new__(TextPart)
    object.__setattr__(part, "text", check_text(text, where))
    object.__setattr__(part, "extra", {})
    return part


def _as_part(item: object, where: str) -> TextPart:
    if isinstance(item, str):
        return text_part(item, where)
    raise InvalidRequestError(
        f"{where} must be a str or a part, not {shown(item)}; "
        "parts in their JSON form are read by Message.from_dict"
    )


def _check_bytes(value: object, where: str) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InvalidRequestError(f"{where} must be bytes, not {shown(value)}")
    return bytes(value)


def _check(value: object, name: str, check: Callable[[Any, str], object]) -> None:
    """Put a field into plain types, while its value is being made."""
    plain = check(getattr(value, name), f"{type(value).__name__}.{name}")
    object.__setattr__(value, name, plain)


def _check_given(value: object, name: str, check: Callable[[Any, str], object]) -> None:
    """As `_check`, unless the field is absent."""
    if getattr(value, name) is not None:
        _check(value, name, check)
