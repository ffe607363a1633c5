"""Converts LangGraph's store operations to the store's, and its items back."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
    get_text_at_path,
    tokenize_path,
)

from lance_context_core import Field, Filter, InvalidRequestError
from lance_context_core import Item as StoredItem
from lance_context_core.arguments import ItemKey
from lance_context_core.errors import FilterError
from lance_context_core.filters import And
from langchain_lance_context._values import decode_object, encode_object

_TTL_MINUTES = "langgraph.ttl_minutes"
"""The metadata key of an item with a time to live."""

_COMPARISONS = {
    "$eq": Field.eq,
    "$ne": Field.ne,
    "$gt": Field.gt,
    "$gte": Field.gte,
    "$lt": Field.lt,
    "$lte": Field.lte,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A value to write under a key; None deletes the key."""

    value: dict[str, Any] | None
    texts: Sequence[tuple[str, str]]
    """An indexed text with its path in the value."""
    ttl_minutes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A page of the items below a prefix that match a filter; with a query, the nearest first."""

    query: str | None
    prefix: tuple[str, ...]
    filter: Filter | None
    limit: int
    offset: int
    is_refreshing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Get:
    """One item."""

    key: ItemKey
    is_refreshing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page of the namespaces; None in a path matches any segment."""

    prefix: Sequence[str | None]
    suffix: Sequence[str | None]
    max_depth: int | None
    limit: int
    offset: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Validated operations. Reads keep their positions; the last put of a key counts."""

    n_operations: int
    gets: dict[int, Get] = field(default_factory=dict)
    searches: dict[int, Search] = field(default_factory=dict)
    listings: dict[int, Listing | None] = field(default_factory=dict)
    puts: dict[ItemKey, Put] = field(default_factory=dict)


def to_batch(ops: Iterable[Op], *, fields: Sequence[str] | None) -> Batch:
    """Validates operations; `fields` are the indexed paths, None without an index.

    Raises a ValueError for an invalid operation. Copies all values.
    """
    ops = list(ops)
    batch = Batch(len(ops))
    for place, op in enumerate(ops):
        match op:
            case GetOp():
                batch.gets[place] = Get(key=_key(op), is_refreshing=bool(op.refresh_ttl))
            case SearchOp():
                batch.searches[place] = _search(op, has_index=fields is not None)
            case ListNamespacesOp():
                batch.listings[place] = _listing(op)
            case PutOp():
                batch.puts[_key(op)] = _put(op, fields)
            case _:
                raise InvalidRequestError(f"operation {place} is {op!r:.80}: give LangGraph's own")
    return batch


def to_stored(key: ItemKey, put: Put, *, vectors: Sequence[Any], now: datetime) -> StoredItem:
    """The item to write, with its expiry counted from `now`."""
    ttl = put.ttl_minutes
    return StoredItem(
        namespace=key[0],
        key=key[1],
        value=put.value,
        vectors=vectors,
        data=None if ttl is None else repr(ttl).encode(),
        data_type=None if ttl is None else _TTL_MINUTES,
        expires_at=None if ttl is None else expiry(ttl, now),
    )


def to_item(stored: StoredItem) -> Item:
    """LangGraph's item, as a copy."""
    return Item(**_parts(stored))


def to_found(stored: StoredItem, score: float | None) -> SearchItem:
    """Like `to_item`, with the cosine to the query, if any."""
    return SearchItem(**_parts(stored), score=score)


def ttl_of(stored: StoredItem) -> float | None:
    """Minutes from the last access to expiry; None means never."""
    is_mortal = stored.data_type == _TTL_MINUTES and stored.data is not None
    return float(stored.data or b"") if is_mortal else None


def expiry(ttl_minutes: float, now: datetime) -> datetime:
    """The expiry of a lifetime that begins at `now`."""
    try:
        return now + timedelta(minutes=ttl_minutes)
    except OverflowError as error:
        raise InvalidRequestError(
            f"ttl={ttl_minutes!r} minutes end after the year 9999: give None for no end"
        ) from error


def checked_minutes(value: Any, where: str) -> float:
    """`value` as a duration in minutes. Raises InvalidRequestError for an invalid one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not value > 0 or math.isinf(value):
        raise InvalidRequestError(f"{where}={value!r:.80}: give minutes, more than 0, or None")
    return float(value)


def to_filter(filter: Mapping[str, Any] | None) -> Filter | None:
    """The store filter of a LangGraph filter on values; None if it matches all.

    A key with dots is a literal key in the values that have it, and a path in the others. An absent
    value equals only None. Raises FilterError, a ValueError, for an operator that LangGraph does
    not have.
    """
    if not filter:
        return None
    if not isinstance(filter, Mapping):
        raise FilterError(f"filter={filter!r:.80}: give a dict")
    return And(tuple(_conditions(Field("value"), filter)))


def _conditions(outer: Field, wanted: Mapping[Any, Any]) -> Iterable[Filter]:
    for key, value in wanted.items():
        if not isinstance(key, str):
            raise FilterError(f"the filter's key {key!r:.80} is not text")
        if key.startswith("$"):
            raise FilterError(
                f"unknown operator {key!r} among the keys of a filter: operators, which are "
                f"{', '.join(_COMPARISONS)}, belong below a key"
            )
        place = outer.child(key)
        if not isinstance(value, Mapping) or not value:
            yield place.eq(value)
        elif any(isinstance(one, str) and one.startswith("$") for one in value):
            yield from (_comparison(place, operator, one) for operator, one in value.items())
        else:
            # Otherwise a value that is absent inside would be found outside.
            yield place.exists()
            yield from _conditions(place, value)


def _comparison(place: Field, operator: Any, operand: Any) -> Filter:
    if operator not in _COMPARISONS:
        raise FilterError(
            f"unknown operator {operator!r} on {str(place)!r}, which knows {', '.join(_COMPARISONS)}"
        )
    return _COMPARISONS[operator](place, operand)


def _key(op: GetOp | PutOp) -> ItemKey:
    return _namespace(op.namespace), op.key


def _namespace(labels: Any) -> tuple[str, ...]:
    """A path of plain types. The base class validates it too, but operations bypass that."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise InvalidNamespaceError(f"namespace={labels!r:.80}: give a tuple of labels")
    path = tuple(labels)
    for label in path:
        if not isinstance(label, str) or not label or "." in label or "\0" in label:
            raise InvalidNamespaceError(
                f"namespace={path!r:.80}: a label is a text, not empty, without '.' and NUL"
            )
    return path


def _put(op: PutOp, fields: Sequence[str] | None) -> Put:
    if op.value is None:
        return Put(value=None, texts=(), ttl_minutes=None)
    where = f"the value of {op.key!r:.80} in {op.namespace!r:.80}"
    if not isinstance(op.value, Mapping):
        raise InvalidRequestError(f"{where} is {op.value!r:.80}: give a dict, or None to delete")
    ttl = None if op.ttl is None else checked_minutes(op.ttl, "ttl")
    value = encode_object(op.value, where)
    texts = [] if fields is None else list(_texts(_readable(op.value), _paths(op.index, fields)))
    return Put(value=value, texts=texts, ttl_minutes=ttl)


def _paths(index: Any, fields: Sequence[str]) -> Sequence[str]:
    if index is None:
        return fields
    return () if index is False else checked_fields(index, "index")


def checked_fields(value: Any, where: str) -> list[str]:
    """Paths into a value, as a list. Raises InvalidRequestError for an invalid one."""
    if not isinstance(value, list | tuple) or not all(isinstance(path, str) for path in value):
        raise InvalidRequestError(f"{where}={value!r:.80}: give a list of paths")
    return list(value)


def _texts(value: dict[str, Any], paths: Sequence[str]) -> Iterable[tuple[str, str]]:
    for path in paths:
        found = get_text_at_path(value, path if path == "$" else tokenize_path(path))
        for number, text in enumerate(found):
            if text.strip():
                yield (f"{path}.{number}" if len(found) > 1 else path), text


def _readable(value: Any) -> Any:
    """The decoded value, as JSON with plain texts."""
    if isinstance(value, Mapping):
        return {str(key): _readable(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_readable(one) for one in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _search(op: SearchOp, *, has_index: bool) -> Search:
    if op.query is not None and not isinstance(op.query, str):
        raise InvalidRequestError(f"query={op.query!r:.80}: give a text")
    return Search(
        query=op.query if has_index and op.query else None,
        prefix=_namespace(op.namespace_prefix),
        filter=to_filter(op.filter),
        limit=_number(op.limit, "limit"),
        offset=_number(op.offset, "offset"),
        is_refreshing=bool(op.refresh_ttl),
    )


def _number(value: Any, where: str) -> int:
    if type(value) is not int or value < 0:
        raise InvalidRequestError(f"{where}={value!r:.80}: give a whole number, 0 or more")
    return value


def _listing(op: ListNamespacesOp) -> Listing | None:
    """The filter of a list; None if the conditions contradict each other."""
    conditions = op.match_conditions or ()
    if unknown := [one for one in conditions if one.match_type not in ("prefix", "suffix")]:
        raise InvalidRequestError(f"{unknown[0]!r:.120}: a match is a 'prefix' or a 'suffix'")
    if op.max_depth is not None and (type(op.max_depth) is not int or op.max_depth < 1):
        raise InvalidRequestError(f"max_depth={op.max_depth!r}: give a whole number, 1 or more")
    prefix = _merged([_pattern(one) for one in conditions if one.match_type == "prefix"])
    suffix = _merged([_pattern(one)[::-1] for one in conditions if one.match_type == "suffix"])
    limit, offset = _number(op.limit, "limit"), _number(op.offset, "offset")
    if prefix is None or suffix is None:
        return None
    return Listing(
        prefix=prefix, suffix=suffix[::-1], max_depth=op.max_depth, limit=limit, offset=offset
    )


def _pattern(condition: MatchCondition) -> list[str | None]:
    return [None if label == "*" else label for label in _namespace(condition.path)]


def _merged(patterns: Sequence[Sequence[str | None]]) -> list[str | None] | None:
    """The pattern that all patterns agree on; None if nothing can match them all."""
    merged: list[str | None] = [None] * max(map(len, patterns), default=0)
    for pattern in patterns:
        for place, label in enumerate(pattern):
            if label is not None and merged[place] not in {None, label}:
                return None
            merged[place] = merged[place] if label is None else label
    return merged


def _parts(stored: StoredItem) -> dict[str, Any]:
    return {
        "namespace": stored.namespace,
        "key": stored.key,
        "value": decode_object(stored.value or {}),
        "created_at": stored.created_at,
        "updated_at": stored.updated_at,
    }
