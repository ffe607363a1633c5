"""Ten nodes, and the filters by which vector stores are told apart."""

from adapters.llama_index.doubles import node
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

METADATA = [
    {"fruit": "apple", "n": 1, "x": 0.5, "tags": ["a", "b"], "note": "It's ripe", "a.b": 1},
    {"fruit": "pineapple", "n": 2, "x": 1.5, "tags": ["b"], "flag": True, "file name": "a.txt"},
    {"fruit": "Apple", "n": 3, "x": 2.0, "tags": [], "flag": False, "x-y": 1},
    {"fruit": "a_ple", "n": 4, "x": -1.0, "tags": ["a", "c"], "a'b": "quoted", "mixed": "1"},
    {"fruit": "banana", "n": 5, "x": 2, "note": "", 'q"q': "double", "mixed": 1},
    {"fruit": None, "n": 6, "x": 1e300, "numbers": [1, 2], "mixed": 1.0, "a": {"b": 1}},
    {"n": 7, "numbers": [2.0, 3], "mixed": True, "note": None},
    {"fruit": "zzz' OR '1'='1", "n": 8, "mixed": ["1"], "": "empty key"},
    {"fruit": "100%", "n": 9, "mixed": {"1": 1}, "note": "100 percent", "id": "mine"},
    {"fruit": 'say "hi"', "n": 10, "mixed": [1, True], "schöner Schlüssel": "ja", "text": "t"},
]

NODES = [
    node(f"common word{i}", id=f"n{i}", source=f"doc{i % 3}" if i % 4 else None, metadata=metadata)
    for i, metadata in enumerate(METADATA)
]


def leaf(key, operator, value=None):
    return MetadataFilter(key=key, operator=FilterOperator(operator), value=value)


def every(*filters):
    return MetadataFilters(filters=list(filters))


def some(*filters):
    return MetadataFilters(filters=list(filters), condition=FilterCondition.OR)


def none(*filters):
    return MetadataFilters(filters=list(filters), condition=FilterCondition.NOT)


_LEAVES = [
    leaf("fruit", "==", "apple"),
    leaf("n", "==", 3),
    leaf("x", "==", 2.0),
    leaf("x", "==", 2),
    leaf("n", ">", 5),
    leaf("n", ">=", 5),
    leaf("n", "<", 5),
    leaf("n", "<=", 5),
    leaf("x", ">", 0.5),
    leaf("fruit", ">", "b"),
    leaf("fruit", "<=", "apple"),
    leaf("fruit", "in", ["apple", "banana"]),
    leaf("n", "in", [1, 2, 99]),
    leaf("note", "==", "It's ripe"),
    leaf("note", "text_match", "It's"),
    leaf("fruit", "==", "zzz' OR '1'='1"),
    leaf("fruit", "==", "nothing' OR '1'='1"),
    leaf("fruit", "==", 'say "hi"'),
    leaf("flag", "==", 1),
    leaf("flag", "==", 0),
    leaf("flag", ">", 0),
    leaf("fruit", "!=", "apple"),
    leaf("n", "!=", 3),
    leaf("fruit", "nin", ["apple", "banana"]),
    leaf("n", "nin", [1, 2]),
    leaf("fruit", "text_match", "apple"),
    leaf("fruit", "text_match", "a_p"),
    leaf("fruit", "text_match", "0%"),
    leaf("fruit", "text_match_insensitive", "APPLE"),
    leaf("note", "is_empty"),
    leaf("tags", "is_empty"),
    leaf("fruit", "is_empty"),
    leaf("unknown", "==", "x"),
    leaf("unknown", "!=", "x"),
    leaf("unknown", "nin", ["x"]),
    leaf("unknown", ">", 1),
    leaf("unknown", "is_empty"),
    leaf("fruit", "==", None),
    leaf("fruit", "!=", None),
    leaf("fruit", "in", []),
    leaf("fruit", "nin", []),
    leaf("tags", "contains", "a"),
    leaf("numbers", "contains", 2),
    leaf("fruit", "contains", "apple"),
    leaf("tags", "any", ["a", "c"]),
    leaf("tags", "any", []),
    leaf("tags", "all", ["a", "b"]),
    leaf("tags", "all", []),
    leaf("fruit", "any", ["ban", "100"]),
    leaf("tags", "==", ["a", "b"]),
    leaf("tags", "!=", ["b"]),
    leaf("mixed", "==", 1),
    leaf("mixed", "==", "1"),
    leaf("mixed", ">", 0),
    leaf("mixed", ">=", "1"),
    leaf("mixed", "contains", "1"),
    leaf("mixed", "contains", 1),
    leaf("mixed", "!=", 1),
    leaf("mixed", "text_match", "1"),
    leaf("n", "==", float("nan")),
    leaf("n", "!=", float("nan")),
    leaf("n", "<", float("inf")),
    leaf("n", "==", 2**64),
    leaf("n", "<", 2**64),
    leaf("a.b", "==", 1),
    leaf("file name", "==", "a.txt"),
    leaf("x-y", "==", 1),
    leaf("a'b", "==", "quoted"),
    leaf('q"q', "==", "double"),
    leaf("", "==", "empty key"),
    leaf("schöner Schlüssel", "==", "ja"),
    leaf("id", "==", "mine"),
    leaf("text", "==", "t"),
    leaf("ref_doc_id", "==", "doc1"),
    leaf("doc_id", "in", ["doc1", "doc2"]),
    leaf("document_id", "is_empty"),
    leaf("_node_type", "==", "TextNode"),
]

_APPLE, _SMALL, _TAGGED = (
    leaf("fruit", "==", "apple"),
    leaf("n", "<", 5),
    leaf("tags", "contains", "b"),
)


def _named(leaves):
    """Each alone, by what it says."""
    return {f"{one.key!r} {one.operator.value} {one.value!r}": every(one) for one in leaves}


CASES = {
    **_named(_LEAVES),
    "no filters": every(),
    "no filters, or": some(),
    "no filters, not": none(),
    "and": every(_SMALL, _TAGGED),
    "or": some(_APPLE, leaf("n", ">", 8)),
    "not": none(_APPLE, leaf("n", ">", 8)),
    "not, a key that is missing": none(leaf("flag", "==", 1)),
    "condition=None": MetadataFilters(filters=[_APPLE, _SMALL], condition=None),
    "and of or": every(_SMALL, some(_APPLE, leaf("fruit", "==", "a_ple"))),
    "or of and": some(every(_SMALL, _TAGGED), leaf("n", "==", 9)),
    "and of not": every(_SMALL, none(_APPLE)),
    "not of and": none(every(_SMALL, _TAGGED)),
    "not of not": none(none(_APPLE)),
    "or of not": some(none(_SMALL), _APPLE),
    "nested, none inside": every(_SMALL, some()),
    "five deep": every(some(none(every(none(_APPLE), _SMALL)), _TAGGED)),
}
"""Filters by what they are called."""

REFUSED = _named(
    leaf("n", operator, value)
    for operator, value in [
        *((">", None), (">", [1]), ("<", ["a"]), (">=", None), ("<=", [1.5])),
        *(("in", "apple"), ("in", 1), ("in", None), ("nin", "apple"), ("any", "a"), ("all", 1)),
        *(("text_match", 1), ("text_match", None), ("text_match_insensitive", ["a"])),
        *(("contains", ["a"]), ("==", "\ud800"), ("==", [float("nan")]), ("==", [2**64])),
    ]
)
"""Filters whose operand the operator cannot take, by what they are called."""
