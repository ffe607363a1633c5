"""Conditions in SQL find what a database finds by them."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context_core import ContextStore, Document, Message
from lance_context_core.errors import FilterError

ROWS = {
    "tea": {"color": "red", "minutes": 5, "cook": {"name": "Ann"}, "hot": True},
    "soup": {"color": "blue", "minutes": 40.5, "cook.name": "Ben", "hot": False},
    "cake": {"color": 'it\'s "red"', "minutes": 90, "order by": 1},
    "odd": {"select": "x", "color": None},
}


@pytest.fixture(scope="module")
def vectors():
    with ContextStore.open("memory://") as store:
        vectors = store.vectors()
        vectors.add([Document(id=id, text=id, metadata=row) for id, row in ROWS.items()])
        yield vectors


def found(vectors, condition):
    return [one.id for one in vectors.list(filter=condition)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("color = 'red'", ["tea"]),
        ("metadata.color == 'red'", ["tea"]),
        ("color <> 'red'", ["soup", "cake"]),
        ("NOT color = 'red'", ["soup", "cake"]),
        ("color = 'it''s \"red\"'", ["cake"]),
        ("minutes >= 40 and minutes < 90.0", ["soup"]),
        ("minutes BETWEEN 5 AND 41", ["tea", "soup"]),
        ("minutes NOT BETWEEN 5 AND 41", ["cake"]),
        ("minutes > -1e3", ["tea", "soup", "cake"]),
        ("color IS NULL", ["odd"]),
        ("color is not null", ["tea", "soup", "cake"]),
        ("color IN ('red', 'blue')", ["tea", "soup"]),
        ("color NOT IN ('red', 'blue')", ["cake"]),
        ("hot = TRUE OR minutes = 90", ["tea", "cake"]),
        ("NOT (hot = true OR minutes = 90)", ["soup"]),
        ("NOT (hot = true AND minutes = 5)", ["soup", "cake"]),
        ("color LIKE '%ed%'", ["tea", "cake"]),
        ("color NOT LIKE '%ed%'", ["soup"]),
        ("color ILIKE '%RED%'", ["tea", "cake"]),
        ("cook.name IN ('Ann', 'Ben')", ["tea", "soup"]),
        ("\"cook.name\" = 'Ben'", ["soup"]),
        ("`cook`.`name` = 'Ann'", ["tea"]),
        ('"order by" = 1', ["cake"]),
        ("metadata.\"select\" = 'x'", ["odd"]),
        ("id = 'tea' OR id = 'odd'", ["tea", "odd"]),
        ("\"id\" = 'tea'", ["tea"]),
        ("((id = 'tea'))", ["tea"]),
        ({"$and": ["minutes > 5", {"hot": False}]}, ["soup"]),
        ({"$not": "minutes > 5"}, ["tea", "odd"]),
    ],
)
def test_a_condition_says_which_are_found(vectors, condition, expected):
    assert found(vectors, condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "",
        "  ",
        "color",
        "color =",
        "color = red",
        "= 'red'",
        "color = 'red' AND",
        "color = 'red' color",
        "color = 'red'; DROP TABLE x",
        "color = 'red' -- and the rest",
        "(color = 'red'",
        "color = 'red')",
        "color = 'red",
        "color IN ()",
        "color IN ('a' 'b')",
        "color LIKE 'r_d'",
        "color LIKE '%r%d%'",
        "color LIKE 5",
        "lower(color) = 'red'",
        "1 = 1",
        "'a' = 'a'",
        "color = (SELECT 1)",
        "color IS 'red'",
        "TIMESTAMP 'x' = created_at",
        "a = TIMESTAMP 'tomorrow'",
        "text = 5 OR embedding = 1",
        "(" * 40 + "a = 1" + ")" * 40,
        "NOT " * 40 + "a = 1",
    ],
)
def test_what_is_not_understood_is_refused(vectors, condition):
    with pytest.raises(FilterError):
        vectors.list(filter=condition)


def test_records_have_times(open_store, run):
    store = open_store()
    run(store.history.append("", Message.user("hi", id="m"), session_id="s"))
    for condition, n in (
        ("created_at >= TIMESTAMP '2026-01-01T00:00:00+00:00' AND session_id = 's'", 1),
        ("created_at < TIMESTAMP '2026-01-01T00:00:00+00:00'", 0),
    ):
        assert len(run(store.context().list(filters=condition))) == n


def test_a_wall_is_not_climbed(open_store, run):
    store = open_store()
    run(store.scope(user_id="ada").vectors().add([Document(id="a", text="hers")]))
    ben = store.scope(user_id="ben").vectors()
    for condition in ("id = 'a' OR id IS NOT NULL", "id = 'x' OR 1 = 1"):
        try:
            assert run(ben.list(filter=condition)) == []
        except FilterError:
            assert "1 = 1" in condition


# Beside a database


names = st.sampled_from(["a", "b"])
numbers = st.integers(-2, 2) | st.sampled_from([0.5, -1.5])
texts = st.sampled_from(["", "x", "it's", "ö", "X"])


def literal(value):
    return "'{}'".format(value.replace("'", "''")) if isinstance(value, str) else repr(value)


def conditions(name, values):
    value = values.map(literal)
    sign = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    yield st.builds("{} {} {}".format, st.just(name), sign, value)
    yield st.builds("{} IS {}NULL".format, st.just(name), st.sampled_from(["", "NOT "]))
    negation = st.sampled_from(["", "NOT "])
    listed = st.lists(value, min_size=1, max_size=3).map(", ".join)
    yield st.builds("{} {}IN ({})".format, st.just(name), negation, listed)
    yield st.builds("{} {}BETWEEN {} AND {}".format, st.just(name), negation, value, value)


leaves = st.one_of(*conditions("a", numbers), *conditions("b", texts))
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds("NOT ({})".format, inner),
        st.builds("({}) AND {}".format, inner, leaves),
        st.builds("{} OR ({})".format, leaves, inner),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def two_databases():
    rows = [
        (a, b) for a in (None, -2, -1.5, 0, 0.5, 1, 2) for b in (None, "", "x", "it's", "ö", "X")
    ]
    other = sqlite3.connect(":memory:")
    other.execute("CREATE TABLE rows (id TEXT, a, b)")
    other.executemany(
        "INSERT INTO rows VALUES (?, ?, ?)", [(str(n), *row) for n, row in enumerate(rows)]
    )
    with ContextStore.open("memory://") as store:
        documents = [
            Document(
                id=str(n),
                text="t",
                metadata={key: one for key, one in zip("ab", row, strict=True) if one is not None},
            )
            for n, row in enumerate(rows)
        ]
        store.vectors().add(documents)
        yield store.vectors(), other
    other.close()


@settings(max_examples=60)
@given(condition=trees)
def test_a_database_finds_the_same(two_databases, condition):
    vectors, other = two_databases
    expected = [id for (id,) in other.execute(f"SELECT id FROM rows WHERE {condition}")]
    assert found(vectors, condition) == expected
