"""Filters documents by keys of the metadata first, then by columns of the store."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lance_context_core import Field, Filter
from lance_context_core.arguments import FilterLike
from lance_context_core.filters import (
    DOCUMENT_FIELDS,
    METADATA,
    Absent,
    And,
    Condition,
    ContainsAll,
    ContainsAny,
    Membership,
    Not,
    Or,
    parse,
)

_LOGICAL = ("$and", "$or", "$not")


def metadata_first(filter: FilterLike | None) -> Filter | None:
    """The filter of a collection in which a name means a metadata key.

    For documents without a metadata key `id`, `text` or `written_by` the name means the column. A
    `Filter` is used unchanged, and `Field("id")` is always the column. Raises FilterError as the
    store does.
    """
    if not isinstance(filter, Mapping):
        found = parse(filter, columns=DOCUMENT_FIELDS)
        return found if found is None or isinstance(filter, Filter) else _yielding(found)
    entries = [_entry(*one) for one in filter.items()]
    whole = entries[0] if len(entries) == 1 else {"$and": entries}
    return parse(whole, columns=DOCUMENT_FIELDS) if entries else None


def _entry(key: Any, value: Any) -> Any:
    """One entry of a dict, as a filter."""
    if key in _LOGICAL:
        is_list = isinstance(value, list | tuple)
        return {key: [_member(one) for one in value] if is_list else _member(value)}
    found = parse({key: value}, columns=DOCUMENT_FIELDS)
    return found and _yielding(found)


def _member(value: Any) -> Any:
    if not isinstance(value, Mapping | str):
        return value  # a filter as it is, or what the store refuses
    return metadata_first(value) or {}


def _yielding(filter: Filter) -> Filter:
    match filter:
        case And() | Or():
            return type(filter)(tuple(map(_yielding, filter.filters)))
        case Not():
            return Not(_yielding(filter.filter))
        case Condition(field=Field(column=name)) if name != METADATA:
            return _either(filter, Field(METADATA, name))
    return filter


def _either(column: Condition, key: Field) -> Filter:
    """The condition on the metadata key if a document has it, else on the column."""
    of_key = replace(column, field=key)
    # Every document has these columns, and text conditions need no list semantics.
    is_of_key = isinstance(column, Absent | ContainsAny | ContainsAll)
    if is_of_key or (isinstance(column, Membership) and None in column.operands):
        return of_key
    return Or((And((key.exists(), of_key)), And((Absent(key), column))))
