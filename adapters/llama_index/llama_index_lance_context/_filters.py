"""Converts LlamaIndex's metadata filters to the store's filter language."""

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time
from typing import Any
from uuid import UUID

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from lance_context_core import Field, Filter
from lance_context_core.errors import FilterError
from lance_context_core.filters import Absent, And, Membership, Not, Or
from llama_index_lance_context._nodes import CLASS_NAME, NATIVE, SOURCE_ID
from llama_index_lance_context._words import in_words

EVERYTHING = And(())
NOTHING = Or(())

_PLACES = {
    "doc_id": SOURCE_ID,
    "document_id": SOURCE_ID,
    "ref_doc_id": SOURCE_ID,
    "_node_type": CLASS_NAME,
}
"""The fields outside of the metadata that LlamaIndex's filters can name."""


def place_of(key: str) -> Field:
    """The store's key for LlamaIndex's `key`."""
    literal = Field("metadata", key)
    name = _PLACES.get(key)
    # Nodes of other frameworks have only their own metadata.
    return literal if name is None else Field("metadata", NATIVE, name).otherwise(key)


def to_filter(filters: MetadataFilters, *, place: Callable[[str], Field] = place_of) -> Filter:
    """Converts `filters`, nested ones too, as LlamaIndex's own filter function reads them.

    A key is a literal key of the metadata, never a path. A value that is missing, null or of
    another type than the operand does not match, except for `!=` and `nin`. As in Python, True
    equals 1 and is above 0. Operands are only texts and numbers, so a text in ISO 8601 or of a UUID
    also means times, dates and UUIDs: see `_readings`. Empty filters match everything, with any
    condition. `place` returns the stored key of a key.

    Raises FilterError, a ValueError, for an operand that the operator cannot take.
    """
    if not isinstance(filters, MetadataFilters):
        raise FilterError(f"filters={filters!r:.80}: give MetadataFilters(filters=[…])")
    if not filters.filters:
        return EVERYTHING
    parts = tuple(
        to_filter(one, place=place)
        if isinstance(one, MetadataFilters)
        else _condition(one, place=place)
        for one in filters.filters
    )
    match filters.condition:
        case None | FilterCondition.AND:
            return And(parts) if len(parts) > 1 else parts[0]
        case FilterCondition.OR:
            return Or(parts) if len(parts) > 1 else parts[0]
        case FilterCondition.NOT:
            return ~(Or(parts) if len(parts) > 1 else parts[0])
    raise FilterError(f"condition={filters.condition!r:.80}: use 'and', 'or' or 'not'")


def of_sources(ref_doc_ids: Sequence[str]) -> Filter:
    """The filter for nodes of these documents."""
    return place_of("ref_doc_id").is_in(ref_doc_ids)


def _condition(filter: MetadataFilter, *, place: Callable[[str], Field]) -> Filter:
    value = f"the operand for {filter.key!r:.80}"
    with in_words(
        (r"^the operand of \S+ on '.*?'(?=[ \[])", lambda _: value),
        (r"^the name of a field", "the key of a filter"),
    ):
        return _CONDITIONS[filter.operator](place(filter.key), filter)


def _equal(place: Field, filter: MetadataFilter) -> Filter:
    # LlamaIndex tests for empty values with IS_EMPTY: nothing equals None.
    return NOTHING if filter.value is None else Membership(place, _equals(filter.value))


def _unequal(place: Field, filter: MetadataFilter) -> Filter:
    return Not(_equal(place, filter))


def _ordered(
    compare: Callable[[Field, Any], Filter], holds: Callable[[Any, Any], bool]
) -> Callable[[Field, MetadataFilter], Filter]:
    def condition(place: Field, filter: MetadataFilter) -> Filter:
        value = filter.value
        if not isinstance(value, str | int | float):
            raise _refused(filter, wanted="a text or a number")
        if isinstance(value, str):
            return _any([compare(place, one) for one in _bounds(value)])
        booleans = tuple(one for one in (False, True) if holds(one, value))
        return Or((compare(place, value), Membership(place, booleans)))

    return condition


def _among(place: Field, filter: MetadataFilter) -> Filter:
    equals = (equal for one in _listed(filter) for equal in _equals(one))
    return Membership(place, tuple(equals))


def _not_among(place: Field, filter: MetadataFilter) -> Filter:
    return Not(_among(place, filter))


def _contains(place: Field, filter: MetadataFilter) -> Filter:
    if isinstance(filter.value, list):
        raise _refused(filter, wanted="one value, which a list may have or a text contain")
    return _has(place, filter.value)


def _contains_any(place: Field, filter: MetadataFilter) -> Filter:
    return Or(tuple(_has(place, one) for one in _listed(filter)))


def _contains_all(place: Field, filter: MetadataFilter) -> Filter:
    return And((place.exists(), *(_has(place, one) for one in _listed(filter))))


def _has(place: Field, value: Any) -> Filter:
    """A list that contains `value`, or a text that contains the text `value`."""
    if not isinstance(value, str):
        return place.contains_any(equals_of(value))
    return _any([place.contains(one) for one in _equals(value)])


def _text(place: Field, filter: MetadataFilter) -> Filter:
    # Only texts can be at or after the empty text.
    return And((place.contains(_worded(filter)), place.gte("")))


def _text_in_any_case(place: Field, filter: MetadataFilter) -> Filter:
    return place.text(_worded(filter))


def _empty(place: Field, filter: MetadataFilter) -> Filter:
    del filter  # its value says nothing
    return Or((Absent(place), Membership(place, ("", []))))


def equals_of(value: Any) -> tuple[Any, ...]:
    """Everything that equals `value` in Python: 1 and True are equal there, but not in JSON."""
    return (value, bool(value)) if isinstance(value, int | float) and value in (0, 1) else (value,)


def _equals(value: Any) -> tuple[Any, ...]:
    return (value, *_readings(value)) if isinstance(value, str) else equals_of(value)


def _readings(text: str) -> tuple[Any, ...]:
    """The date, times or UUID that a text may mean; a time without an offset may be in UTC.

    A text without a dash or colon means none.
    """
    if "-" not in text and ":" not in text:
        return ()
    for read in (date.fromisoformat, datetime.fromisoformat, time.fromisoformat, UUID):
        with suppress(ValueError):
            return _with_utc(read(text))
    return ()


def _bounds(text: str) -> tuple[Any, ...]:
    """Values before or after a text, in each of its meanings; times against a date's midnight."""
    found = _readings(text)
    midnights = [datetime.combine(one, time()) for one in found if type(one) is date]
    return (text, *found, *(one for midnight in midnights for one in _with_utc(midnight)))


def _with_utc(value: Any) -> tuple[Any, ...]:
    is_naive = isinstance(value, datetime | time) and value.tzinfo is None
    return (value, value.replace(tzinfo=UTC)) if is_naive else (value,)


def _any(filters: Sequence[Filter]) -> Filter:
    return filters[0] if len(filters) == 1 else Or(tuple(filters))


def _listed(filter: MetadataFilter) -> list[Any]:
    if not isinstance(filter.value, list):
        raise _refused(filter, wanted="a list")
    return filter.value


def _worded(filter: MetadataFilter) -> str:
    if not isinstance(filter.value, str):
        raise _refused(filter, wanted="a text")
    return filter.value


def _refused(filter: MetadataFilter, *, wanted: str) -> FilterError:
    return FilterError(
        f"{filter.operator.value!r} on {filter.key!r:.80} takes {wanted}, not {filter.value!r:.80}"
    )


_CONDITIONS: dict[FilterOperator, Callable[[Field, MetadataFilter], Filter]] = {
    FilterOperator.EQ: _equal,
    FilterOperator.NE: _unequal,
    FilterOperator.GT: _ordered(Field.gt, operator.gt),
    FilterOperator.GTE: _ordered(Field.gte, operator.ge),
    FilterOperator.LT: _ordered(Field.lt, operator.lt),
    FilterOperator.LTE: _ordered(Field.lte, operator.le),
    FilterOperator.IN: _among,
    FilterOperator.NIN: _not_among,
    FilterOperator.ANY: _contains_any,
    FilterOperator.ALL: _contains_all,
    FilterOperator.TEXT_MATCH: _text,
    FilterOperator.TEXT_MATCH_INSENSITIVE: _text_in_any_case,
    FilterOperator.CONTAINS: _contains,
    FilterOperator.IS_EMPTY: _empty,
}
