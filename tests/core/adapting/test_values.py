"""Whatever Python's own library can hold goes through JSON and comes back as it was."""

import json
import math
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from pathlib import Path, PurePath
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context_core import InvalidRequestError
from lance_context_core._util.json_tags import order_of
from lance_context_core.adapting import JsonCodec, TypeCodec


@dataclass(frozen=True)
class Page:
    """Something that only a framework knows."""

    title: str
    notes: object


class Colour(Enum):
    RED = "red"
    GREY = (1, 1, 1)


def plain(value):
    if isinstance(value, Enum):
        return value.value
    raise TypeError


PAGES = TypeCodec(
    name="page",
    python_type=Page,
    encode=lambda page: {"title": page.title, "notes": page.notes},
    decode=lambda fields: Page(**fields),
)
PATHS = TypeCodec(name="path", python_type=PurePath, encode=str, decode=Path)

BARE = JsonCodec()
RICH = JsonCodec([PAGES, PATHS], default=plain)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(
    ["lance_context:type", "value", "tuple", "page"]
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
    st.tuples(texts),
)
no_numbers = st.sampled_from([math.nan, Decimal("NaN"), Decimal("-sNaN")])
values = st.recursive(
    hashable | no_numbers,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(texts, inner, max_size=3),
        st.dictionaries(hashable, inner, max_size=3),
        st.frozensets(hashable, max_size=3),
        st.sets(hashable, max_size=3),
        st.builds(Page, texts, inner),
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
    if isinstance(value, Page):
        return Page, value.title, typed(value.notes)
    if isinstance(value, float | Decimal) and Decimal(value).is_nan():
        return type(value), repr(value)
    return type(value), value


def there_and_back(codec, value):
    return codec.decode(json.loads(json.dumps(codec.encode(value, "value"), allow_nan=False)))


@settings(max_examples=150)
@given(values)
def test_any_value_comes_back_equal_and_of_its_type(value):
    assert typed(there_and_back(RICH, value)) == typed(value)


@settings(max_examples=150)
@given(values)
def test_any_value_comes_back_from_its_text_equal_and_of_its_type(value):
    assert typed(RICH.decode(json.loads(RICH.encode_text(value, "value")))) == typed(value)


@settings(max_examples=100)
@given(st.dictionaries(texts, values, max_size=3))
def test_an_object_keeps_its_keys_whatever_they_are(metadata):
    encoded = json.loads(json.dumps(RICH.encode_object(metadata, "metadata"), allow_nan=False))
    assert encoded.keys() == metadata.keys()
    assert typed(RICH.decode_object(encoded)) == typed(metadata)


def test_the_text_of_what_looks_like_a_stand_in_comes_back_as_it_was():
    given = {"lance_context:type": "set", "value": [1]}
    assert typed(BARE.decode(json.loads(BARE.encode_text(given, "it")))) == typed(given)


@pytest.mark.parametrize("metadata", [None, [("a", 1)], {1: "a"}, {"a": 1, None: 2}])
def test_what_is_no_object_with_texts_as_keys_is_refused(metadata):
    with pytest.raises(InvalidRequestError, match=r"^metadata (must be a mapping|has the key)"):
        BARE.encode_object(metadata, "metadata")


def test_numbers_of_numpy_are_those_of_python():
    given = [np.int64(1), np.float32(0.5), np.float64(1.5), np.bool_(1), np.uint64(2**64 - 1)]
    assert typed(there_and_back(BARE, given)) == typed([1, 0.5, 1.5, True, 2**64 - 1])
    for other in (np.array([1]), np.datetime64("2026-01-02", "ns"), np.longdouble(1)):
        for encode in (BARE.encode, BARE.encode_text):
            with pytest.raises(InvalidRequestError, match=r"^it is a \w+, which cannot be stored"):
                encode(other, "it")


SORTS = [
    st.integers() | st.floats(allow_nan=False) | st.decimals(allow_nan=False),
    st.sampled_from(
        [1, 1.5, 1.25, 10, 15, 0.1, Decimal("0.1"), 0, -1, -1.5, -10, Decimal("-1.50")]
    ),
    st.integers(-120, 120).map(lambda n: Decimal(n).scaleb(n % 7)),
    st.datetimes(),
    st.datetimes(timezones=st.timezones() | st.just(timezone(timedelta(hours=5, minutes=30)))),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.timedeltas(timedelta(-1), timedelta(1)),
    st.uuids(),
]


@pytest.mark.parametrize("sort", SORTS)
@settings(max_examples=60)
@given(st.data())
def test_stand_ins_sort_as_the_values_do(sort, data):
    one, other = data.draw(sort), data.draw(sort)
    first, second = order_of(one), order_of(other)
    # Between two zones Python says nothing of an hour that is there twice, so the instants are asked.
    if isinstance(one, datetime) and one.tzinfo is not None:
        one, other = one.astimezone(UTC), other.astimezone(UTC)
    assert (first < second, first == second) == (one < other, one == other)


@pytest.mark.parametrize(
    "value",
    [math.nan, Decimal("NaN"), Decimal("sNaN"), True, None, "a", b"a", (1,), {1}, {}, Path("a")],
)
def test_what_has_no_order_has_none(value):
    assert order_of(value) is None


def test_what_python_does_not_compare_is_told_apart():
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    sorts = [1, moment, moment.replace(tzinfo=None), moment.date(), moment.time(), UUID(int=1)]
    sorts += [moment.timetz(), timedelta(1)]
    assert len({order_of(one).key for one in sorts}) == len(sorts)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("datetime", "yesterday"),
        ("decimal", "much"),
        ("decimal", None),
        ("uuid", 7),
        ("bytes", "€"),
        ("mapping", [1]),
        ("set", [[]]),
        ("timedelta", [10**12, 0, 0]),
        ("tuple", None),
        ("page", {"no": "page"}),
    ],
)
def test_a_stand_in_of_which_nothing_can_be_made_stays_as_it_is(name, content):
    value = {"lance_context:type": name, "value": content}
    assert RICH.decode([value, 1]) == [value, 1]


@pytest.mark.parametrize("value", [None, "a", 1, 1.5, True, [1, {"a": None}], {"a": {"b": []}}])
def test_what_json_has_stays_as_it_is(value):
    assert BARE.encode(value, "value") == value
    assert BARE.decode(value) == value


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1])
def test_an_integer_of_64_bits_is_one_in_json(value):
    assert BARE.encode(value, "value") == value
    beyond = value + (1 if value > 0 else -1)
    assert isinstance(BARE.encode(beyond, "value"), dict)
    assert there_and_back(BARE, beyond) == beyond


def test_what_is_no_number_stays_none():
    assert math.isnan(there_and_back(BARE, math.nan))


def test_of_a_subclass_the_base_comes_back():
    class Small(IntEnum):
        ONE = 1

    class Name(StrEnum):
        ADA = "ada"

    given = [Small.ONE, Name.ADA, OrderedDict(a=1), {Name.ADA: 2}]
    assert typed(there_and_back(BARE, given)) == typed([1, "ada", {"a": 1}, {"ada": 2}])
    assert type(BARE.encode(Name.ADA, "value")) is str


@pytest.mark.parametrize("value", [object(), print, {1: [object()]}, {object()}, Page("a", None)])
def test_what_has_no_codec_is_refused(value):
    with pytest.raises(InvalidRequestError, match=r"^it.* cannot be stored"):
        BARE.encode(value, "it")


def test_an_error_says_where_it_is():
    with pytest.raises(InvalidRequestError, match=r"^it\['a'\]\[1\]\['b'\] is a object"):
        BARE.encode({"a": [0, {"b": object()}]}, "it")


def test_what_holds_itself_is_refused():
    loop = []
    loop.append({"again": loop})
    with pytest.raises(InvalidRequestError, match=r"^it holds itself, or is nested too deep"):
        BARE.encode(loop, "it")


def test_the_default_answers_for_what_nothing_else_knows():
    assert RICH.encode({"a": Colour.RED, "b": (Colour.RED,)}, "it")["a"] == "red"
    assert there_and_back(RICH, (Colour.RED, Colour.GREY)) == ("red", (1, 1, 1))
    with pytest.raises(InvalidRequestError, match=r"^it\[0\] is a Fraction"):
        RICH.encode([Fraction(1, 2)], "it")


def test_a_type_of_ones_own_is_asked_before_the_others():
    class Stamp(datetime):
        """As dataframes have them."""

    stamps = TypeCodec(
        name="stamp", python_type=Stamp, encode=Stamp.isoformat, decode=Stamp.fromisoformat
    )
    given = [Stamp(2026, 1, 2), datetime(2026, 1, 2)]  # noqa: DTZ001 - it is to stay naive
    assert typed(there_and_back(JsonCodec([stamps]), given)) == typed(given)


def test_a_type_may_go_by_a_name_that_is_taken():
    triples = TypeCodec(name="tuple", python_type=tuple, encode=len, decode=lambda n: (None,) * n)
    assert there_and_back(JsonCodec([triples]), (1, 2)) == (None, None)
    assert there_and_back(BARE, (1, 2)) == (1, 2)


def test_what_another_codec_wrote_stays_as_it_is():
    """One framework's values are read where the other one is not installed."""
    written = RICH.encode({"page": Page("a", (1,)), "at": date(2026, 1, 2)}, "it")
    read = BARE.decode(written)
    assert read["at"] == date(2026, 1, 2)
    assert read["page"]["lance_context:type"] == "page"
    assert read["page"]["value"]["notes"] == (1,)


@pytest.mark.parametrize(
    "value",
    [
        {"lance_context:type": "tuple"},
        {"lance_context:type": ["tuple"], "value": []},
        {"lance_context:type": "tuple", "value": [], "more": 1},
        {"lance_context:type": None, "value": 1},
    ],
)
def test_what_only_looks_like_a_stand_in_is_data(value):
    assert BARE.decode(value) == value
    assert there_and_back(BARE, value) == value


def test_an_object_like_a_stand_in_comes_back_as_the_object_that_it_is():
    for value in (BARE.encode((1,), "it"), {"a": BARE.encode((1,), "it")}):
        assert there_and_back(BARE, value) == value


@pytest.mark.parametrize("kind", [set, frozenset])
def test_equal_sets_are_the_same_json(kind):
    """Whoever names things by a digest of the JSON gives equal ones one name."""
    one, other = kind([0, 8]), kind([8, 0])
    assert list(one) != list(other)
    assert BARE.encode(one, "it") == BARE.encode(other, "it")


def test_each_type_has_a_name_that_stays():
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
        "page": ({"title": "a", "notes": None}, Page("a", None)),
    }
    orders = {
        "datetime": ("instant", "11000000000000000001763902919845"),
        "date": ("date", "2026-01-02"),
        "time": ("time", "11000000000000000001111045"),
        "timedelta": ("duration", "11000000000000000001186402000003"),
        "decimal": ("number", "11000000000000000000115"),
        "uuid": ("uuid", "00000000-0000-0000-0000-000000000001"),
        "int": ("number", "11000000000000000002036893488147419103232"),
        "float": ("number", "2"),
    }
    for name, (content, value) in kept.items():
        form = {"lance_context:type": name, "value": content}
        assert RICH.decode(form) == value
        if name in orders:
            kind, text = orders[name]
            form[f"lance_context:{kind}"] = text
        assert RICH.decode(form) == value
        assert RICH.encode(value, "value") == form
