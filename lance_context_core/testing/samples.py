"""Values that have broken stores before."""

NAMES = [
    "a", "A", "a ", " a", " ", "\t", "\n", "a\r\nb", "ä", "a\u0308", "\u202egnp.exe", "日本語", "🐶", "🏳️‍🌈",
    "'", "''", "a'b", '"', "`", "\\", "\\'", "%", "_", "*", "a/b", "../a", "/", ".", "a.b", ".41", "~", "$ne",
    "' OR 1=1 --", "'; DROP TABLE records; --", "a) OR (true", "${x}", "{}", "[]",
    "None", "null", "NULL", "true", "0", "-1", "1e3", "default", "key", "\x01", "\x7f", "\ufffd", "x" * 5_000,
]  # fmt: skip
"""Different names, each of which must name something of its own."""

NO_NAMES = ["a\0b", "\0", "\ud800", "a\udfff"]
"""What cannot name anything: it holds a NUL or a lone surrogate."""

TEXTS = ["", " ", " \n\t ", "\0", "a\0b", "'", '{"a": 1}', "é e\u0301", "\u202e", "🐶" * 1_000, "long " * 50_000]  # fmt: skip

METADATA = [
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
"""Objects of every shape that JSON has."""


def nested(depth: int) -> dict:
    """An object with `depth` objects in each other."""
    value: dict = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


METADATA.append(nested(100))
