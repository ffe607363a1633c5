"""Filters compare what an adapter has kept in metadata, and numbers of any size, as Python does."""

import asyncio
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from operator import eq, ge, gt, le, lt
from uuid import UUID

import pytest
from core.filters.filtering import filled_table, found_by_scan, where
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context_core import Field
from lance_context_core.adapting import JsonCodec

TENTH = 0.1
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
NAIVE_MIN = datetime.min  # noqa: DTZ901 - it is to be naive
LATER = timezone(timedelta(hours=5, minutes=30))
DECIMALS = [Decimal(one) for one in ("0.1", "-0.1", "1.50", "10", "-1E+3", "2E+400", "1E-400")]
NUMBERS = [
    *(0, 1, -1, 10, 2**53 + 1, 2**63, 2**64 - 1, 2**64, -(2**70), 10**400),
    *(-0.0, 0.1, -0.1, 1.5, 10.0, 2.0**53, 1e300, 5e-324, math.inf, -math.inf, math.nan),
    *DECIMALS,
    *(Decimal("Infinity"), Decimal("NaN"), Decimal("sNaN"), Decimal(TENTH)),
]
OTHERS = [
    *(NOON, NOON.astimezone(LATER), NOON - timedelta(microseconds=1), NOON.replace(tzinfo=None)),
    *(NAIVE_MIN, datetime.max.replace(tzinfo=LATER), datetime.min.replace(tzinfo=LATER)),
    *(NOON.date(), date(2025, 12, 31), NOON.time(), NOON.timetz(), time(3, tzinfo=LATER)),
    *(timedelta(days=1), timedelta(seconds=-1), timedelta.max, timedelta.min),
    *(UUID(int=1), UUID(int=2**127)),
    *("a", "10", "2026-01-02", str(UUID(int=1)), True, False, None, b"a", {"a": 1}, {1: 2}),
]
LISTS = [
    *([1, "a"], (1, "a"), {1, "a"}, frozenset({"a"}), [], (), [Decimal("0.1"), UUID(int=1)]),
    *((NOON, 0.1), [math.inf, math.nan], {"value": ["a"]}, [[1]], ("a", None, True)),
]
VALUES = [*NUMBERS, *OTHERS, *LISTS]
COMPARABLE = [NUMBERS, *([one] for one in OTHERS)]
SIGNS = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}

CODEC = JsonCodec()


@pytest.fixture(scope="module")
def loop():
    runner = asyncio.Runner()
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def table(loop):
    """A row for each of the values."""
    return loop.run(
        filled_table(
            [
                {
                    "id": str(number),
                    "payload_size": number,
                    "metadata": CODEC.encode_object({"it": value}, "metadata"),
                }
                for number, value in enumerate(VALUES)
            ]
        )
    )


def is_nan(value):
    return isinstance(value, float | Decimal) and Decimal(value).is_nan()


def kind(value):
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, int | float | Decimal):
        return "number"
    if isinstance(value, datetime | time):
        return type(value), value.utcoffset() is None
    return "list" if isinstance(value, list | tuple | set | frozenset) else type(value)


def holds(compare, value, operand):
    """What Python says, of two values of a kind."""
    return kind(value) == kind(operand) and not is_nan(value) and compare(value, operand)


def is_in(operand, values):
    return any(holds(eq, one, operand) for one in values)


def found(loop, table, filter):
    return loop.run(found_by_scan(table, where(filter)))


def expected(condition):
    return [number for number, value in enumerate(VALUES) if condition(value)]


SCALARS = [one for one in [*NUMBERS, *OTHERS] if not isinstance(one, bytes | dict | None)]


@pytest.mark.parametrize("operand", SCALARS)
def test_a_scalar_is_compared_as_in_python(loop, table, operand):
    equal = expected(lambda value: not is_nan(operand) and holds(eq, value, operand))
    others = [number for number in range(len(VALUES)) if number not in equal]
    assert found(loop, table, {"it": operand}) == equal
    assert found(loop, table, {"it": {"$ne": operand}}) == others
    for sign, compare in SIGNS.items():
        if isinstance(operand, bool):
            continue
        assert found(loop, table, {"it": {sign: operand}}) == expected(
            lambda value, compare=compare: not is_nan(operand) and holds(compare, value, operand)
        )


@settings(max_examples=40)
@given(st.lists(st.sampled_from(SCALARS), max_size=5))
def test_one_of_many_is_what_equals_one_of_them(loop, table, operands):
    wanted = [one for one in operands if not is_nan(one)]
    equal = expected(lambda value: any(holds(eq, value, one) for one in wanted))
    assert found(loop, table, {"it": {"$in": operands}}) == equal
    assert found(loop, table, {"it": {"$nin": operands}}) == sorted(
        set(range(len(VALUES))).difference(equal)
    )


@pytest.mark.parametrize(
    "operand",
    [1, 1.0, Decimal(1), 0.1, Decimal("0.1"), "a", True, None, UUID(int=1), NOON, math.inf],
)
def test_tuples_and_sets_hold_elements_as_lists_do(loop, table, operand):
    def has(value):
        if isinstance(value, str):
            return isinstance(operand, str) and operand in value
        return kind(value) == "list" and is_in(operand, value)

    def has_as_list(value):
        return kind(value) == "list" and is_in(operand, value)

    assert found(loop, table, {"it": {"$contains": operand}}) == expected(has)
    assert found(loop, table, {"it": {"$contains_any": [operand, "no"]}}) == expected(has_as_list)
    assert found(loop, table, {"it": {"$contains_all": [operand]}}) == expected(has_as_list)


def test_nan_is_in_no_list(loop, table):
    assert found(loop, table, {"it": {"$contains": math.nan}}) == []


@pytest.mark.parametrize("operand", [[1, "a"], (1, "a"), [], ["a"]])
def test_a_list_equals_tuples_and_sets_of_the_same(loop, table, operand):
    def in_order(value):
        return sorted(value, key=repr) if isinstance(value, set | frozenset) else list(value)

    equal = expected(lambda value: kind(value) == "list" and in_order(value) == [*operand])
    assert found(loop, table, {"it": operand}) == equal
    assert found(loop, table, {"it": {"$in": [operand, 77]}}) == equal


@pytest.mark.parametrize(
    ("filter", "n_rows"),
    [
        ({"payload_size": {"$lt": math.inf}}, len(VALUES)),
        ({"payload_size": {"$gte": -math.inf}}, len(VALUES)),
        ({"payload_size": {"$gt": math.inf}}, 0),
        ({"payload_size": math.inf}, 0),
        ({"payload_size": {"$ne": math.nan}}, len(VALUES)),
        ({"payload_size": {"$in": [math.inf, math.nan, 2**70, Decimal(3)]}}, 1),
        ({"payload_size": {"$lt": Decimal("2.5")}}, 3),
        ({"payload_size": {"$gte": math.nan}}, 0),
        ({"payload_size": {"$lt": 10**400}}, len(VALUES)),
        ({"id": {"$lt": math.inf}}, 0),
    ],
)
def test_columns_are_compared_with_any_number(loop, table, filter, n_rows):
    assert len(found(loop, table, filter)) == n_rows


def test_a_key_with_dots_is_found_where_it_is(loop):
    rows = [{"a.b": NOON}, {"a": {"b": NOON}}, {"a": {"b": NOON.isoformat()}}, {"a.b": 1}]
    kept = [{"id": "x", "metadata": CODEC.encode_object(one, "metadata")} for one in rows]
    table = loop.run(filled_table(kept))
    assert found(loop, table, {"a.b": {"$gte": NOON}}) == [0, 1]
    assert found(loop, table, Field("metadata", "a", "b").eq(NOON)) == [1]
