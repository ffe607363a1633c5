"""Filters of many values: what they find, and that they are put as one condition."""

import pytest

from lance_context_core.filters import DOCUMENT_FIELDS
from lance_context_core.storage import sql

ROWS = [
    {"id": "a", "metadata": '{"n": 1, "s": "x"}'},
    {"id": "b", "metadata": '{"n": 1.0, "s": true}'},
    {"id": "c", "metadata": '{"n": true, "s": null}'},
    {"id": "d", "metadata": '{"n": "1", "s": [1, "x"]}'},
    {"id": "e", "metadata": "{}"},
]


def found(filter):
    holds = sql.filtered(filter, columns=DOCUMENT_FIELDS).holds
    return "".join(row["id"] for row in ROWS if holds(row))


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1], "ab"), ([True], "c"), (["1"], "d"), ([1, "1", True], "abcd"), ([2, None], "e")],
    ids=["a number", "a truth", "a text", "one of each", "nothing"],
)
def test_one_of_many_is_told_apart_by_its_kind_as_each_alone(values, expected):
    equals = [{"metadata.n": {"$eq": one}} for one in values]
    assert found({"metadata.n": {"$in": values}}) == found({"$or": equals}) == expected
    others = "".join(row["id"] for row in ROWS if row["id"] not in expected)
    assert found({"metadata.n": {"$nin": values}}) == others
    assert found({"$not": {"$or": equals}}) == others


def test_lists_and_scalars_may_be_asked_for_together():
    either = [{"metadata.s": {"$eq": [1, "x"]}}, {"metadata.s": "x"}, {"id": "e"}, {"id": "b"}]
    assert found({"$or": either}) == "abde"
    assert found({"metadata.s": {"$in": [[1, "x"], "x", True]}}) == "abd"


def test_a_thousand_equalities_are_one_condition_as_long_as_their_values():
    either = [{"id": f"d{n}"} for n in range(1_000)]
    clause = sql.filtered({"$or": either}, columns=DOCUMENT_FIELDS)
    listed = sql.filtered({"id": {"$in": [f"d{n}" for n in range(1_000)]}}, columns=DOCUMENT_FIELDS)
    assert clause == listed
    assert clause.count(" OR ") == 0
