import copy
import json
import math
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum, IntEnum
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lance_context_core._util.checks import (
    MAX_DEPTH,
    check_json,
    check_json_object,
    check_name,
    check_text,
    check_time,
    dumps,
    loads,
)
from lance_context_core.errors import InvalidRequestError

HOSTILE = ["it's", 'q"q', "a.b", "'; DROP TABLE records; --", "a\0b", "\u2028", "é😀", "%s{}"]


FIRST = datetime(1, 1, 1)  # noqa: DTZ001
LAST = datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001


class Colour(str, Enum):  # noqa: UP042  # as older frameworks do it; its str() is not its value
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def nested(depth):
    value = 1
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


texts = st.text() | st.sampled_from(HOSTILE)
integers = st.integers(-(2**63), 2**64 - 1)
good_leaves = (
    st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | texts
)
bad_leaves = (
    st.sampled_from(
        [
            math.nan,
            math.inf,
            -math.inf,
            2**64,
            -(2**63) - 1,
            "\ud800",
            b"b",
            {1},
            object(),
            1j,
            Colour,
        ]
    )
    | st.datetimes()
)


def values(leaves):
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=10,
    )


@pytest.mark.slow
@given(values(good_leaves))
def test_a_json_value_is_accepted_and_its_text_reads_back_as_it_was(value):
    checked = check_json(value, "metadata")
    assert repr(checked) == repr(value)
    text = dumps(checked)
    text.encode("utf-8")
    assert json.loads(text) == value
    assert loads(text, "metadata") == value


@given(values(good_leaves), bad_leaves, st.lists(st.sampled_from("ld"), max_size=4))
def test_one_bad_value_anywhere_is_refused_and_the_message_leads_to_it(good, bad, steps):
    value, path = bad, ""
    for step in steps:
        value = [good, value] if step == "l" else {"a": good, "b'c": value}
        path = ("[1]" if step == "l" else """["b'c"]""") + path
    with pytest.raises(InvalidRequestError) as caught:
        check_json(value, "metadata")
    assert str(caught.value).startswith(f"metadata{path} is ")


def test_plain_types_come_out_of_enums_tuples_and_foreign_mappings():
    value = MappingProxyType({Colour.RED: (Level.HIGH, True, None), "c": Colour.RED})
    plain = check_json(value, "v")
    assert plain == {"red": [3, True, None], "c": "red"}
    leaves = [*plain, *plain["red"], plain["c"]]
    assert [type(leaf) for leaf in leaves] == [str, str, int, bool, type(None), str]


@pytest.mark.parametrize(
    "wrap", [dict, MappingProxyType], ids=["as JSON knows it", "as it does not"]
)
def test_plain_types_come_out_whichever_way_a_value_is_copied(wrap):
    plain = check_json(wrap({Colour.RED: Level.HIGH, "a": np.float64(1), "b": True, "c": 1.0}), "v")
    assert repr(plain) == "{'red': 3, 'a': 1.0, 'b': True, 'c': 1.0}"


def test_a_checked_value_shares_nothing_with_the_original():
    value = {"a": [{"b": 1}]}
    before = copy.deepcopy(value)
    checked = check_json(value, "v")
    value["a"][0]["b"] = 2
    value["a"].append(3)
    assert checked == before


@pytest.mark.parametrize("key", [1, None, b"a", ("a",), 1.5])
def test_a_key_that_is_no_string_is_refused(key):
    with pytest.raises(InvalidRequestError, match=r"^v\['a'\] is a mapping with the key .*strings"):
        check_json({"a": {key: 1}}, "v")


def test_a_key_with_a_lone_surrogate_is_refused():
    with pytest.raises(InvalidRequestError, match="lone surrogate"):
        check_json({"\udfff": 1}, "v")


def test_values_may_be_nested_as_deep_as_promised_and_no_deeper():
    assert check_json(nested(MAX_DEPTH), "v") == nested(MAX_DEPTH)
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(InvalidRequestError, match="nested more than 100 deep"):
            check_json(nested(depth), "v")


def test_a_value_that_holds_itself_is_refused():
    value = {}
    value["self"] = value
    with pytest.raises(InvalidRequestError, match="or holds itself") as caught:
        check_json(value, "v")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [None, [], "{}", 1, [("a", 1)]])
def test_an_object_is_a_mapping_and_nothing_else(value):
    with pytest.raises(InvalidRequestError, match="metadata must be a mapping"):
        check_json_object(value, "metadata")


@given(st.text(st.characters(), max_size=5) | st.sampled_from(HOSTILE))
def test_text_is_what_utf_8_can_hold_and_a_name_is_that_without_nul_and_not_empty(text):
    is_text = text == text.encode("utf-8", "replace").decode()
    assert accepts(check_text, text) == is_text
    assert accepts(check_name, text) == (is_text and text != "" and "\0" not in text)


def accepts(check, value):
    try:
        return check(value, "v") == value
    except InvalidRequestError:
        return False


@pytest.mark.parametrize("check", [check_text, check_name])
@pytest.mark.parametrize("value", [None, 1, b"bytes", ["a"]])
def test_what_is_no_string_is_neither_text_nor_a_name(check, value):
    with pytest.raises(InvalidRequestError, match="role must be a str, not"):
        check(value, "role")


def test_an_enum_that_is_a_string_becomes_its_value():
    assert type(check_name(Colour.RED, "role")) is str
    assert check_name(Colour.RED, "role") == "red"


@given(st.datetimes(), st.integers(-14 * 60, 14 * 60))
@example(FIRST, 1)
@example(LAST, -1)
def test_a_time_keeps_its_instant_and_comes_out_in_utc(naive, minutes):
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    shifted = (naive - FIRST) - timedelta(minutes=minutes)
    if timedelta() <= shifted <= LAST - FIRST:
        checked = check_time(moment, "created_at")
        assert checked.tzinfo is UTC
        assert checked.replace(tzinfo=None) == FIRST + shifted
    else:
        with pytest.raises(InvalidRequestError, match=r"created_at .* outside the years"):
            check_time(moment, "created_at")


def test_a_time_of_a_subclass_becomes_a_plain_one():
    class Stamp(datetime):
        pass

    checked = check_time(Stamp(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "created_at")
    assert type(checked) is datetime
    assert checked == datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


@pytest.mark.parametrize("value", [datetime(2026, 1, 2), "2026-01-02T00:00:00Z", 0, None])  # noqa: DTZ001
def test_a_time_without_a_zone_and_what_is_no_time_is_refused(value):
    with pytest.raises(InvalidRequestError, match=r"created_at (must be a datetime|.*time zone)"):
        check_time(value, "created_at")


def test_canonical_text_is_compact_not_escaped_and_keeps_the_order_of_keys():
    assert dumps({"b": ["é😀", 1.0, None], "a": '"\0'}) == '{"b":["é😀",1.0,null],"a":"\\"\\u0000"}'


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", "[-Infinity]", '{"a":Infinity}', "1 2", "[" * 100_000, None, b"{}"]
)
def test_text_that_is_no_json_is_refused(text):
    with pytest.raises(InvalidRequestError, match="parts"):
        loads(text, "parts")
