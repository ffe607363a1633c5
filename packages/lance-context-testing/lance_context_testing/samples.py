"""Values that have broken stores before, for the contracts and for your own tests."""

from typing import Any

from lance_context_core import messages as m

NAMES = [
    "a", "A", "a ", " a", " ", "\t", "\n", "a\r\nb", "ä", "a\u0308", "\u202egnp.exe", "日本語", "🐶", "🏳️‍🌈",
    "'", "''", "a'b", '"', "`", "\\", "\\'", "%", "_", "*", "a/b", "../a", "/", ".", "a.b", ".41", "~", "$ne",
    "' OR 1=1 --", "'; DROP TABLE records; --", "a) OR (true", "${x}", "{}", "[]",
    "None", "null", "NULL", "true", "0", "-1", "1e3", "default", "key", "\x01", "\x7f", "\ufffd", "x" * 5_000,
]  # fmt: skip
"""Different names, which must never collide."""

NO_NAMES = ["a\0b", "\0", "\ud800", "a\udfff"]
"""Invalid names: with a NUL or a lone surrogate."""

TEXTS = ["", " ", " \n\t ", "\0", "a\0b", "'", '{"a": 1}', "é e\u0301", "\u202e", "🐶" * 1_000, "long " * 50_000]  # fmt: skip

METADATA: list[dict[str, Any]] = [
    {},
    {"": ""},
    {"a": None, "b": True, "c": False},
    {"zero": 0, "one": 1.0, "tiny": 5e-324, "huge": 1.7976931348623157e308, "tenth": 0.1},
    {"smallest": -(2**63), "largest": 2**64 - 1, "2**53+1": 2**53 + 1},
    {"list": [], "mixed": [1, "1", 1.5, None, True, [[]], {}], "object": {}},
    {"deep": {"er": {"and": [{"deep": [{"er": "still"}]}]}}},
    {
        "a.b": 1,
        "a": {"b": 2},
        "$ne": 3,
        "it's": '"quoted"',
        "b\\": "\\",
        "日本": "語",
        "🐶": "\u202e",
    },
    {"z": 1, "a": 2, "m": 3},
    {"control": "\x00\x01\x1f\x7f\u2028", "spaces": "  \n\t "},
    {f"k{i}": i for i in range(500)},
    {"long": "x" * 100_000},
]
"""Objects of every JSON shape."""


def nested(depth: int) -> dict[str, Any]:
    """`depth` nested objects."""
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


METADATA.append(nested(100))

_EVERY_BYTE = bytes(range(256))
PARTS: list[tuple[m.Part, ...]] = [
    (),
    (m.TextPart(text="a"), m.TextPart(text=""), m.TextPart(text="a")),
    (m.ImagePart(data=_EVERY_BYTE, media_type="image/png", name="ä.png", caption="a cat"),),
    (m.ImagePart(url="https://example.com/a.png?b=c#d"), m.ImagePart(file_id="f-1"), m.ImagePart(data=b"")),
    (m.AudioPart(data=_EVERY_BYTE), m.VideoPart(url="u"), m.FilePart(data=b"\0", name="it's.pdf")),
    (m.ReasoningPart(text="hm", signature="s=="), m.ReasoningPart()),
    (m.ToolCallPart(call_id="c", name="add", arguments={"a": [1, None, {"b": 0.1}]}),),
    (m.ToolCallPart(name="", arguments="{broken"),),
    (
        m.ToolResultPart(
            call_id="c",
            content=(
                m.TextPart(text="2"),
                m.ImagePart(data=_EVERY_BYTE),
                m.ToolResultPart(content=(m.TextPart(text="3"),)),
            ),
        ),
        m.ToolResultPart(name="f", is_error=True),
    ),
    (m.DataPart(data={"a": [1, "2", None]}), m.DataPart(data=None), m.DataPart(data=[])),
    (m.UnknownPart(type="hologram", payload={"x": [1, {"y": None}]}), m.UnknownPart(type="image")),
    (m.TextPart(text="a", extra={"cache": {"ttl": 5}, "citations": []}),),
]  # fmt: skip
"""Parts of every kind, with all of their fields."""

NATIVE = {"framework": "elsewhere", "lc": 1, "kwargs": {"content": "a", "none": None}}
"""Metadata of the framework that wrote a message."""
