"""What tools return beside their answer reads back equal, and JSON can hold it meanwhile."""

import json
import math
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_lance_context._values import decode, encode

from lance_context_core import InvalidRequestError, Message

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(
    ["lance_context:type", "value", "tuple"]
)
hashable = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**62, 2**65),
    st.floats(allow_nan=False),
    texts,
    st.binary(max_size=5),
    st.dates(),
    st.datetimes(timezones=st.none() | st.just(timezone(timedelta(hours=5, minutes=30)))),
    st.times(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.uuids(),
)
values = st.recursive(
    hashable,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(texts, inner, max_size=3),
        st.dictionaries(hashable, inner, max_size=3),
        st.frozensets(hashable, max_size=3),
        st.sets(hashable, max_size=3),
        st.builds(
            Document,
            texts,
            id=st.none() | texts,
            metadata=st.dictionaries(texts, inner, max_size=2),
        ),
    ),
    max_leaves=8,
)


def typed(value):
    """The value with its types, which equality alone does not tell apart."""
    if isinstance(value, dict):
        return {(type(key), key): typed(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [typed(one) for one in value]
    if isinstance(value, set | frozenset):
        return type(value), {(type(one), one) for one in value}
    return type(value), value


@settings(max_examples=50)
@given(values)
def test_any_value_reads_back_equal_after_a_store_had_it(value):
    kept = Message.user("", native={"framework": "x", "value": encode(value, "value")}).to_json()
    assert typed(decode(json.loads(kept)["native"]["value"])) == typed(value)


@pytest.mark.parametrize("value", [None, "a", 1, 1.5, True, [1, {"a": None}], {"a": {"b": []}}])
def test_what_json_holds_stays_as_it_is(value):
    assert encode(value, "value") == value


def test_what_is_no_number_stays_none():
    assert math.isnan(decode(encode(math.nan, "value")))


def test_a_text_of_a_narrower_type_is_a_text():
    class Colour(StrEnum):
        RED = "red"

    assert type(encode(Colour.RED, "value")) is str


@pytest.mark.parametrize("value", [object(), print, {1: [object()]}, {object()}])
def test_what_cannot_be_kept_is_refused(value):
    with pytest.raises(InvalidRequestError, match=r"^it.* cannot be stored"):
        encode(value, "it")


def test_each_kind_of_value_has_a_name_that_stays():
    """What was written by this release is read by the next one."""
    kept = {
        "bytes": ("AP8=", b"\x00\xff"),
        "datetime": ("2026-01-02T03:04:05+00:00", datetime.fromisoformat("2026-01-02T03:04:05Z")),
        "date": ("2026-01-02", date(2026, 1, 2)),
        "time": ("03:04:05", time(3, 4, 5)),
        "timedelta": ([1, 2, 3], timedelta(days=1, seconds=2, microseconds=3)),
        "decimal": ("1.50", Decimal("1.50")),
        "uuid": ("00000000-0000-0000-0000-000000000001", UUID(int=1)),
        "int": ("36893488147419103232", 2**65),
        "float": ("inf", math.inf),
        "tuple": ([1, "a"], (1, "a")),
        "set": ([1], {1}),
        "frozenset": ([1], frozenset({1})),
        "mapping": ([[1, "a"]], {1: "a"}),
        "document": (
            {"id": "d", "metadata": {"a": 1}, "page_content": "tea"},
            Document("tea", id="d", metadata={"a": 1}),
        ),
    }
    for name, (content, value) in kept.items():
        form = {"lance_context:type": name, "value": content}
        assert decode(form) == value
        assert encode(value, "value") == form
