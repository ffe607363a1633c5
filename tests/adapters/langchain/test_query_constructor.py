"""A structured query, as a model makes one of a question, finds what it says."""

import asyncio
from datetime import UTC, date, datetime, timedelta

import pytest
from langchain_core.structured_query import (
    Comparator,
    Comparison,
    Operation,
    Operator,
    StructuredQuery,
)
from langchain_lance_context import LanceContextTranslator, LanceContextVectorStore

from lance_context_core.errors import FilterError

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
FILMS = {
    "old": {"year": 1950, "genre": "Crime", "tags": ["noir", "night"], "id": "x"},
    "new": {"year": 2020, "genre": "comedy", "tags": ("day",), "by": {"name": "Ann"}},
    "none": {"genre": "crime comedy"},
    "odd": {"year": "1950", "genre": 7},
}
COMPARISONS = [
    (Comparator.EQ, "year", 1950, ["old"]),
    (Comparator.EQ, "id", "x", ["old"]),
    (Comparator.EQ, "by.name", "Ann", ["new"]),
    (Comparator.NE, "year", 1950, ["new", "none", "odd"]),
    (Comparator.GT, "year", 1950, ["new"]),
    (Comparator.GTE, "year", 1950, ["new", "old"]),
    (Comparator.LT, "year", 2020, ["old"]),
    (Comparator.LTE, "year", 2020.0, ["new", "old"]),
    (Comparator.CONTAIN, "tags", "day", ["new"]),
    (Comparator.CONTAIN, "genre", "com", ["new", "none"]),
    (Comparator.LIKE, "genre", "CRIME", ["none", "old"]),
    (Comparator.LIKE, "genre", "%comedy%", ["new", "none"]),
    (Comparator.IN, "year", [1950, 2021], ["old"]),
    (Comparator.IN, "genre", "comedy", ["new"]),
    (Comparator.IN, "genre", [], []),
    (Comparator.NIN, "year", [1950, 2021], ["new", "none", "odd"]),
]


@pytest.fixture
def films(store, embedding):
    documents = LanceContextVectorStore(store, embedding)
    documents.add_texts(["a film"] * len(FILMS), [*FILMS.values()], ids=[*FILMS])
    return documents


def found(documents, filter, **more):
    """What a retriever finds: it hands over what the translator returns."""
    query, how = StructuredQuery(query="film", filter=filter).accept(LanceContextTranslator())
    assert query == "film"
    assert how.keys() == ({"filter"} if filter else set())
    hits = documents.similarity_search(query, **{"k": 99, **how, **more})
    others = asyncio.run(documents.asimilarity_search(query, **{"k": 99, **how, **more}))
    assert sorted(hit.id for hit in hits) == sorted(hit.id for hit in others)
    return sorted(hit.id for hit in hits)


@pytest.mark.parametrize(("comparator", "attribute", "value", "ids"), COMPARISONS)
def test_a_comparison_finds_what_it_says(films, comparator, attribute, value, ids):
    assert found(films, Comparison(comparator, attribute, value)) == ids


def test_every_comparator_and_operator_is_known():
    assert {one for one, *_ in COMPARISONS} == set(Comparator)
    assert set(LanceContextTranslator.allowed_comparators) == set(Comparator)
    assert set(LanceContextTranslator.allowed_operators) == set(Operator)


def test_operations_join_comparisons(films):
    old = Comparison(Comparator.LT, "year", 2000)
    comedy = Comparison(Comparator.LIKE, "genre", "comedy")
    both = [old, comedy]
    assert found(films, Operation(Operator.AND, both)) == []
    assert found(films, Operation(Operator.OR, both)) == ["new", "none", "old"]
    assert found(films, Operation(Operator.NOT, [old])) == ["new", "none", "odd"]
    assert found(films, Operation(Operator.NOT, both)) == ["odd"]
    nested = Operation(Operator.AND, [comedy, Operation(Operator.NOT, [old])])
    assert found(films, nested) == ["new", "none"]


def test_a_query_without_a_filter_restricts_nothing(films):
    assert found(films, None) == sorted(FILMS)


DAY = {"date": "2026-01-02", "type": "date"}
MOMENT = {"datetime": "2026-01-02T12:00:00", "type": "datetime"}
IN_ZONE = {"datetime": "2026-01-02T13:00:00+01:00", "type": "datetime"}


def as_kept(moment):
    """A moment in each of the types in which metadata may have it."""
    naive = moment.replace(tzinfo=None)
    return [moment, naive, moment.date(), naive.isoformat(), moment.date().isoformat()]


@pytest.mark.parametrize(
    ("comparator", "days"),
    [
        (Comparator.EQ, [2]),
        (Comparator.NE, [1, 3]),
        (Comparator.GT, [3]),
        (Comparator.GTE, [2, 3]),
        (Comparator.LT, [1]),
        (Comparator.LTE, [1, 2]),
    ],
)
def test_a_day_is_all_of_it_however_it_is_kept(store, embedding, comparator, days):
    documents = LanceContextVectorStore(store, embedding)
    for shift in (-1, 0, 1):
        kept = as_kept(NOON + timedelta(days=shift))
        ids = [f"{2 + shift}:{number}" for number in range(len(kept))]
        documents.add_texts(ids, [{"on": one} for one in kept], ids=ids)
    names = [f"{day}:{number}" for day in days for number in range(len(kept))]
    assert found(documents, Comparison(comparator, "on", DAY)) == names


def test_days_may_be_listed(store, embedding):
    documents = LanceContextVectorStore(store, embedding)
    metadatas = [{"on": NOON}, {"on": date(2026, 1, 5)}, {"on": "never"}, {}]
    documents.add_texts(["a"] * 4, metadatas, ids=["0", "1", "2", "3"])
    listed = [DAY, {"date": "2026-01-05", "type": "date"}]
    assert found(documents, Comparison(Comparator.IN, "on", listed)) == ["0", "1"]
    assert found(documents, Comparison(Comparator.NIN, "on", listed)) == ["2", "3"]


def test_a_moment_is_compared_with_moments(store, embedding):
    documents = LanceContextVectorStore(store, embedding)
    kept = [NOON, NOON.replace(tzinfo=None), NOON + timedelta(seconds=1), "2026-01-02T12:00:00"]
    documents.add_texts(["a"] * 4, [{"at": one} for one in kept], ids=["0", "1", "2", "3"])
    assert found(documents, Comparison(Comparator.EQ, "at", MOMENT)) == ["0", "1", "3"]
    assert found(documents, Comparison(Comparator.GT, "at", MOMENT)) == ["2"]
    assert found(documents, Comparison(Comparator.LTE, "at", IN_ZONE)) == ["0", "3"]


@pytest.mark.parametrize(
    ("comparator", "value", "message"),
    [
        (Comparator.LIKE, "a%b", "'genre' takes a part of a text"),
        (Comparator.LIKE, 7, "'genre' takes a part of a text"),
        (Comparator.EQ, {"date": "soon", "type": "date"}, "'soon' is not a date"),
        (Comparator.EQ, {"datetime": None, "type": "datetime"}, "None is not a time"),
        (Comparator.EQ, {"date": "9999-12-31", "type": "date"}, "'9999-12-31' is not a date"),
    ],
)
def test_what_cannot_be_translated_is_named(comparator, value, message):
    with pytest.raises(FilterError, match=message):
        Comparison(comparator, "genre", value).accept(LanceContextTranslator())
