"""Filters that a machine makes up, on tables, against an evaluator that knows nothing of SQL."""

import asyncio
import functools
import operator
import random
from datetime import timedelta

import pytest
from core.filters.filtering import (
    DAY,
    filled_table,
    found_by_scan,
    found_by_text,
    found_by_vector,
    found_in_memory,
    matching,
    places,
    where,
)
from core.filters.oracle import holds, satisfies
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context_core.filters import Field

KEYS = ["k", "a", "b", "a.b", "file name", "a'b", 'q"q', "x", "é😀", "", "0"]
SCALARS = [
    *("", "a", "b", "ab", "A b", "a b", "a'b", 'q"q', "back\\slash", "\\n", "\n", "é", "É", "日本"),
    *("1", "1.0", "true", "null", '"a"', "[1]", "a\0b", "%", "_", "zzz' OR '1'='1", "~", "\x7f"),
    *(0, 1, -1, 2, 1.0, 1.5, -0.0, 1e300, 1e-7, 1e16, 10**16, 0.1, -1.5, 2**53, 2**53 + 1),
    *(float(2**53), 2**63 - 1, 2**63, 2**64 - 1, float(2**63), float(2**64), -(2**63)),
    *(True, False, None),
]
LIST_VALUES = [[], ["a"], [1], [1.0], [["a"]], ["a", "b", ""], [None], [True, 1], [[1], 2], ["1"]]
LIST_VALUES += [[2**53 + 1, 1.5], [{"a": 1}], ["a'b", 'q"q'], [-0.0], [False, "true"], [[]]]
OBJECTS = [
    {"b": 1, "a": "x"},
    {"b": 1.0, "a": "x"},
    {"b": {"0": "deep"}},
    {"a.b": 5, "a": {"b": 6}},
]
OBJECTS += [{"": None}, {"é😀": [1, 2.0], "x": {"y": None}}]
TAGS = ["a", "b", "a'b", "c d", "", "a\0b"]
MOMENTS = [DAY + timedelta(microseconds=step) for step in (-1, 0, 1, 500_000)]


def _records():
    draw = random.Random(7)

    def value(depth=0):
        kind = draw.random()
        if kind < 0.55 or depth == 3:
            return draw.choice(SCALARS)
        if kind < 0.7:
            return draw.choice([draw.choice(LIST_VALUES), draw.sample(SCALARS, draw.randint(1, 4))])
        if kind < 0.8:
            return draw.choice(OBJECTS)
        return {key: value(depth + 1) for key in draw.sample(KEYS, draw.randint(1, 3))}

    def maybe(pool):
        return draw.choice([None, *pool])

    return [
        {
            "id": f"r{n % 7}",
            "role": maybe(["user", "tool", "a'b", "", "zzz' OR '1'='1"]),
            "agent_id": maybe(["a", "b"]),
            "text": maybe(["A b", "a%b", "É", "a\0b"]),
            "created_at": draw.choice(MOMENTS),
            "expires_at": maybe(MOMENTS),
            "payload_size": maybe([0, 1, 2**53 + 1, 2**63 - 1, -(2**63) + 1]),
            "tags": maybe([[], *(draw.sample(TAGS, draw.randint(1, 3)) for _ in range(4))]),
            "edges": maybe([[], ["a"], ["a", "b"]]),
            "metadata": {key: value() for key in draw.sample(KEYS, draw.randint(0, 6))},
        }
        for n in range(150)
    ]


RECORDS = _records()


@functools.cache
def tables():
    async def main():
        return (
            await filled_table(RECORDS, is_searchable=True),
            await filled_table(RECORDS, is_searchable=True, is_indexed=True),
        )

    return asyncio.run(main())


def _operators(operands, ordered):
    several = st.lists(operands, max_size=4)
    return {
        "$eq": operands,
        "$ne": operands,
        **dict.fromkeys(("$gt", "$gte", "$lt", "$lte"), ordered),
        "$in": several,
        "$nin": several,
        "$exists": st.booleans(),
    }


def _asked(operators):
    """Up to two operators on one field, some of them under `$not`."""
    plain = st.sampled_from(sorted(operators)).flatmap(
        lambda name: operators[name].map(lambda operand: {name: operand})
    )
    merged = st.lists(plain, min_size=1, max_size=2).map(
        lambda some: functools.reduce(dict.__or__, some)
    )
    return merged | merged.map(lambda one: {"$not": one})


def _conditions():
    scalars = st.sampled_from(SCALARS)
    elements = st.lists(scalars, max_size=3)
    contained = {"$contains": scalars, "$contains_any": elements, "$contains_all": elements}
    words = {"$text": st.sampled_from([one for one in SCALARS if isinstance(one, str)])}
    anything = st.sampled_from([*SCALARS, *LIST_VALUES, *OBJECTS])
    comparable = st.sampled_from([one for one in SCALARS if one is not None])
    json_operators = _operators(anything, comparable) | contained | words
    in_metadata = (
        _asked(json_operators)
        | st.sampled_from([*SCALARS, *LIST_VALUES])
        | st.fixed_dictionaries({"contains": scalars})
    )
    names = st.sampled_from(KEYS)
    dotted = st.lists(names, min_size=1, max_size=3).map(".".join)
    keys = dotted | dotted.map("metadata.".__add__) | st.just("metadata.$x")

    texts = _operators(scalars, comparable) | {"$contains": scalars} | words
    sizes = st.sampled_from([*SCALARS, 0.5, -(2.0**63), 1.5, -1e300])
    lists = st.lists(st.sampled_from(TAGS), max_size=2)
    tags = {
        "$eq": lists,
        "$ne": lists,
        "$in": st.lists(lists, max_size=2),
        "$exists": st.booleans(),
    }
    moments = st.sampled_from(
        [*MOMENTS, *(one.isoformat() for one in MOMENTS), "2024-01-01T01:00:00+01:00"]
    )
    by_field = {
        "role": _asked(texts) | scalars,
        "bot_id": _asked(texts) | scalars,
        "text": _asked(texts),
        "payload_size": _asked(_operators(sizes, sizes.filter(lambda size: size is not None))),
        "created_at": _asked(_operators(moments, moments)),
        "expires_at": _asked(_operators(moments | st.none(), moments)),
        "tags": _asked(
            tags
            | {
                "$contains": scalars,
                "$contains_any": elements | lists,
                "$contains_all": elements | lists,
            }
        ),
        "relationships": _asked(
            {
                "$contains": scalars,
                "$contains_any": lists,
                "$contains_all": lists,
                "$exists": st.booleans(),
            }
        ),
    }
    on_columns = [st.fixed_dictionaries({name: asked}) for name, asked in by_field.items()]
    bounds = st.sampled_from(["created_after", "created_before"])
    return st.one_of(
        st.dictionaries(keys, in_metadata, min_size=1, max_size=2),
        names.flatmap(
            lambda key: st.fixed_dictionaries(
                {key: st.dictionaries(dotted, in_metadata, min_size=1, max_size=2)}
            )
        ),
        *on_columns,
        st.dictionaries(bounds, st.sampled_from(MOMENTS), min_size=1),
    )


FILTERS = st.recursive(
    _conditions(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda some: {"$and": some}),
        st.lists(inner, max_size=3).map(lambda some: {"$or": some}),
        inner.map(lambda one: {"$not": one}),
        st.lists(inner, max_size=2).map(lambda some: {"$not": some}),
        st.tuples(_conditions(), inner).map(lambda pair: {**pair[0], **pair[1]}),
    ),
    max_leaves=5,
)


@settings(max_examples=3 * settings.default.max_examples)
@given(filter=FILTERS)
def test_every_way_of_asking_finds_what_the_oracle_finds(filter):
    expected = [n for n, record in enumerate(RECORDS) if holds(filter, record)]
    clause = where(filter)

    plain, indexed = tables()

    async def main():
        n_all = len(RECORDS)
        assert await found_by_scan(plain, clause) == expected
        assert await found_by_scan(indexed, clause) == expected
        assert await plain.count_rows(clause) == len(expected)
        assert found_in_memory(RECORDS, clause) in (expected, None)
        assert await found_by_vector(indexed, clause, n_all) == expected
        assert await found_by_text(indexed, clause, n_all) == expected
        if len(expected) > 3:
            assert len(await found_by_vector(plain, clause, 3)) == 3
            assert len(await found_by_text(plain, clause, 3)) == 3

    asyncio.run(main())


SINGLE = ("$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$contains", "$contains_any", "$contains_all")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SINGLE, "$text"])
def test_every_operator_is_right_about_every_value_and_operand(name):
    values = [*SCALARS, *LIST_VALUES, *OBJECTS]
    values += [[one] for one in SCALARS] + [[[one]] for one in SCALARS]
    operands = [*SCALARS, *LIST_VALUES, *OBJECTS] if name in {"$eq", "$in"} else SCALARS
    if name == "$text":
        operands = [one for one in operands if isinstance(one, str)]
    elif name in {"$gt", "$gte", "$lt", "$lte"}:
        operands = [one for one in operands if one is not None]
    elif name in {"$in", "$contains_any", "$contains_all"}:
        operands = [[one] for one in operands] + [[one, "a"] for one in operands]
    asked = [{name: operand} for operand in operands]
    asked += [{"$not": one} for one in asked]
    records = [{"metadata": {"k": value}} for value in values] + [{"metadata": {}}]
    for one, found in zip(asked, places(records, *({"k": one} for one in asked)), strict=True):
        assert found_in_memory(records, where({"k": one})) in (found, None)
        assert found == [n for n, value in enumerate([*values, None]) if satisfies(value, one)], one


@pytest.mark.parametrize("name", [*SINGLE, "$text"])
def test_what_stands_in_memory_is_asked_without_the_engine(name):
    values = ["a", "É", 1, 1.5, True, None, ["a", 1], {"a": 1}]
    records = [{"metadata": {"k": value}} for value in values]
    operands = ["a", "é"] if name == "$text" else ["a", 1, 1.5]
    if name in {"$in", "$contains_any", "$contains_all"}:
        operands = [[one] for one in operands]
    for operand in operands:
        found = found_in_memory(records, where({"k": {name: operand}}))
        assert found == [n for n, one in enumerate(values) if satisfies(one, {name: operand})]


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        (10**30, {"$gt": 1}),
        ({"lance_context:type": "tuple", "value": [1]}, {"$eq": [1]}),
        ("\u0378", {"$text": "a"}),
        ("x", {"$gt": DAY}),
    ],
)
def test_what_only_the_engine_can_tell_is_not_told_in_memory(value, asked):
    assert found_in_memory([{"metadata": {"k": value}}], where({"k": asked})) is None


@pytest.mark.parametrize(
    "filter",
    [
        {"role": "user"},
        {"role": "user", "k": {"$ne": 1}},
        {"role": {"$in": ["user", "tool"]}},
        {"role": {"$in": ["user", None]}},
        {"role": {"$ne": "user"}},
        {"role": {"$gt": "a", "$lt": "z"}},
        {"created_after": DAY},
        {"tags": {"$contains": "a"}},
        {"payload_size": {"$gt": 1.5}},
        {"$or": [{"role": "user"}, {"agent_id": None}]},
    ],
)
def test_scalar_indexes_answer_conditions_on_columns(filter):
    _, indexed = tables()

    async def main():
        return await indexed.query().where(where(filter)).select(["n"]).explain_plan()

    assert "ScalarIndexQuery" in asyncio.run(main())


HOSTILE = [
    "",
    "'",
    '"',
    "\\",
    "a.b",
    ".",
    "a'b",
    'q"q',
    "$x",
    "\0",
    "]",
    "@[0]",
    "'; DROP TABLE records; --",
]
HOSTILE += [
    "zzz' OR '1'='1",
    "`",
    "%",
    "_",
    "{}",
    "é",
    "😀",
    "\u2028",
    "0",
    "+1",
    "007",
    "1e3",
    "null",
    "[1]",
]
TEXT = st.sampled_from(HOSTILE) | st.text(st.characters(codec="utf-8"), max_size=8)


@given(path=st.lists(TEXT, min_size=1, max_size=4), asked=TEXT, other=TEXT)
def test_any_text_can_be_a_key_and_a_value(path, asked, other):
    texts = [asked, other]
    values = [*texts, texts, [texts], None]
    records = [
        {"metadata": functools.reduce(lambda below, key: {key: below}, reversed(path), value)}
        for value in values
    ]
    field = Field("metadata", *path)
    expected = [
        (field.eq(asked), lambda value: value == asked),
        (field.ne(asked), lambda value: value != asked),
        (field.gt(asked), lambda value: value in texts and value > asked),
        (field.is_in([asked, None]), lambda value: value in (asked, None)),
        (
            field.contains(asked),
            lambda value: value == texts or (value in texts and asked in value),
        ),
        (field.contains_any([asked]), lambda value: value == texts),
        (field.eq(texts), lambda value: value == texts),
        (field.exists(), lambda value: value is not None),
    ]
    found = places(records, *(filter for filter, _ in expected))
    for some, (filter, holds_for) in zip(found, expected, strict=True):
        assert some == [n for n, value in enumerate(values) if holds_for(value)], filter


@given(values=st.lists(TEXT, min_size=1, max_size=4), asked=TEXT)
def test_any_text_can_be_asked_of_columns(values, asked):
    records = [{"role": value, "tags": values} for value in values]
    expected = {
        "$eq": [value == asked for value in values],
        "$ne": [value != asked for value in values],
        "$lte": [value <= asked for value in values],
        "$contains": [asked in value for value in values],
    }
    found = places(
        records,
        {"tags": {"$contains": asked}},
        {"tags": values},
        *({"role": {name: asked}} for name in expected),
    )
    everything = list(range(len(values)))
    assert found[:2] == [everything if asked in values else [], everything]
    assert found[2:] == [[n for n in everything if some[n]] for some in expected.values()]


WHOLE = st.builds(
    lambda sign, edge, step: sign * (edge + step),
    st.sampled_from([1, -1]),
    st.sampled_from([0, 2**53, 2**60, 2**63, 2**64]),
    st.integers(-3, 3),
)
WHOLE = WHOLE.filter(lambda number: -(2**63) <= number < 2**64)
HALF = st.integers(-5, 5).map(lambda number: number / 2)
NUMBER = WHOLE | WHOLE.map(float) | HALF | st.floats(allow_nan=False, allow_infinity=False)
COMPARISONS = {
    "$eq": operator.eq,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


@given(numbers=st.lists(NUMBER, min_size=1, max_size=8), asked=NUMBER)
def test_integers_and_floats_compare_exactly_on_one_scale(numbers, asked):
    numbers = [*numbers, asked]
    found = matching(numbers, {"$in": [asked, "x"]}, *({name: asked} for name in COMPARISONS))
    equal = [number for number in numbers if number == asked]
    assert found == [
        equal,
        *([one for one in numbers if is_so(one, asked)] for is_so in COMPARISONS.values()),
    ]
    lists = [[number, "x"] for number in numbers]
    found = matching(lists, {"$contains": asked}, {"$eq": [asked, "x"]})
    assert found == [[one for one in lists if one[0] == asked]] * 2


def test_integer_columns_compare_exactly_with_integers_and_floats():
    sizes = [
        0,
        *(sign * (edge + step) for sign in (1, -1) for edge in (2, 2**53) for step in (0, 1)),
    ]
    sizes += [2**63 - 1, 2**63 - 2, -(2**63), 1 - 2**63]
    operands = [*sizes, *map(float, sizes), 0.5, 1.5, 2.5, -2.5, 1e300, -1e300, 2**64 - 1]
    asked = [(name, operand) for name in COMPARISONS for operand in operands]
    records = [{"payload_size": size} for size in sizes] + [{"payload_size": None}]
    found = places(records, *({"payload_size": {name: operand}} for name, operand in asked))
    for (name, operand), some in zip(asked, found, strict=True):
        expected = [n for n, size in enumerate(sizes) if COMPARISONS[name](size, operand)]
        assert some == expected, (name, operand)
