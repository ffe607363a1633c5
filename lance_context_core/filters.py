"""The one filter language of the store: dicts, and the typed tree that they are parsed into."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lance_context_core._filter_tree import (
    MAX_DEPTH,
    Absent,
    And,
    Comparison,
    Contains,
    ContainsAll,
    ContainsAny,
    Field,
    Filter,
    Membership,
    Not,
    Or,
    Text,
    refused,
    shown,
)
from lance_context_core.errors import FilterError

__all__ = [
    "METADATA",
    "RECORD_COLUMNS",
    "Absent",
    "And",
    "ColumnType",
    "Columns",
    "Comparison",
    "Contains",
    "ContainsAll",
    "ContainsAny",
    "Field",
    "Filter",
    "Membership",
    "Not",
    "Or",
    "Text",
    "parse",
]

METADATA = "metadata"
"""The JSON column in which every key is looked up that is not a column's name."""

_LOGICAL = ("$and", "$or", "$not")
_OPERATORS = (
    *("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists"),
    *("$contains", "$contains_any", "$contains_all", "$text", "$not"),
)
_TIME_BOUNDS = {"created_after": "$gte", "created_before": "$lte"}


class ColumnType(StrEnum):
    """What a column holds, as far as filters care."""

    TEXT = "text"
    INTEGER = "64-bit integer"
    FLOAT = "64-bit float"
    TIMESTAMP = "timestamp"
    TEXT_LIST = "list of texts"
    JSON = "JSON"
    OPAQUE = "opaque"
    """Bytes, vectors and the like: the column exists, and no filter can name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of a table that filters can name."""

    types: Mapping[str, ColumnType]
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Further public names of columns."""

    def find(self, key: str) -> str | None:
        """The column that goes by the public name `key`, or None."""
        name = self.aliases.get(key, key)
        return name if name in self.types else None

    def type_of(self, column: str) -> ColumnType:
        """Raises FilterError for a column that does not exist or cannot be filtered."""
        type_ = self.types.get(column, ColumnType.OPAQUE)
        if type_ is ColumnType.OPAQUE:
            known = sorted(name for name in self.types if self.types[name] is not type_)
            problem = "cannot be filtered" if column in self.types else "is not a column"
            detour = f"; 'metadata.{column}' names a metadata key" if METADATA in known else ""
            raise FilterError(f"{column!r} {problem}; filter by {', '.join(known)}{detour}")
        return type_


RECORD_COLUMNS = Columns(
    types={
        **dict.fromkeys(
            (
                *("id", "external_id", "context", "kind", "layer", "role", "content_type", "text"),
                *("tenant", "user_id", "agent_id", "session_id", "run_id", "source"),
                *("payload_uri", "payload_checksum", "lifecycle_status", "retention_policy"),
                *("retired_reason", "supersedes_id", "superseded_by_id"),
            ),
            ColumnType.TEXT,
        ),
        **dict.fromkeys(
            ("created_at", "updated_at", "expires_at", "retired_at"), ColumnType.TIMESTAMP
        ),
        **dict.fromkeys(("tags", "source_ids"), ColumnType.TEXT_LIST),
        "payload_size": ColumnType.INTEGER,
        METADATA: ColumnType.JSON,
        **dict.fromkeys(
            # `relationships`: the engine has no expression that looks into a list of structs.
            ("relationships", "state_metadata", "parts", "blob", "vector", "embedding"),
            ColumnType.OPAQUE,
        ),
    },
    aliases={"bot_id": "agent_id"},
)
"""The public columns of the tables of records."""


def parse(filter: Mapping[str, Any] | Filter | None, *, columns: Columns) -> Filter | None:
    """The tree that a filter dict stands for; None where it restricts nothing.

    A dict maps keys to values or to operators, and all of its entries must hold:

        {"session_id": "s1", "price": {"$gte": 5, "$lt": 10}, "$or": [{"a.b": 1}, {"c": None}]}

    A key is a column's public name, or else a metadata key. "metadata.role" is the metadata key
    "role". A key with dots is itself in records that have it, and otherwise the path it spells:
    "a.b" is the key "a.b", or else "b" in the object under "a". `{"a": {"b": 1}}` is the path too.

    A value that is absent or of another type than the operand does not match. So `$ne`, `$nin` and
    `$not` match absent values.

    `$eq`, or the plain value
        equality as in `Comparison`. `None` matches absent and null values: null is absence.
    `$ne`
        not `$eq`
    `$gt`, `$gte`, `$lt`, `$lte`
        the order of texts, numbers and timestamps
    `$in`, `$nin`
        equal to one of, or to none of, a list
    `$exists`
        True: there, and not null. False: absent or null.
    `$contains`
        an element of a list, or a part of a text (case counts). `contains` alone means the same.
    `$contains_any`, `$contains_all`
        at least one, or every one, of a list of elements is in the list
    `$text`
        a part of a text, upper and lower case being the same
    `$not`
        on a field, a value or operators that must not match; at the top, a filter that must not
        match, or a list of filters none of which may match
    `$and`, `$or`
        a list of filters
    "created_after", "created_before"
        bounds of `created_at`, both inclusive

    On a column the operators may be written without `$`. Raises FilterError for what is not
    understood, naming the key, the operator and what is known.
    """
    if filter is None or isinstance(filter, Filter):
        return filter
    return _one(_entries(filter, columns=columns, depth=0)) if filter else None


def _entries(filter: Any, *, columns: Columns, depth: int) -> list[Filter]:
    """The conditions that a dict lists; all of them must hold."""
    if not isinstance(filter, Mapping):
        raise FilterError(f"a filter is a dict or a Filter, not {shown(filter)}")
    if depth > MAX_DEPTH:
        raise FilterError(f"filters are nested at most {MAX_DEPTH} deep")
    found: list[Filter] = []
    for key, value in filter.items():
        if not isinstance(key, str):
            raise FilterError(f"the keys of a filter are texts, not {shown(key)}")
        if key.startswith("$"):
            found.append(_logical(key, value, columns=columns, depth=depth + 1))
        elif key in _TIME_BOUNDS and columns.find(key) is None and columns.find("created_at"):
            found.append(_operation(Field("created_at"), _TIME_BOUNDS[key], value, depth=depth))
        else:
            name = _field(key, columns=columns)
            is_json = columns.type_of(name.column) is ColumnType.JSON
            found += _conditions(name, value, is_json=is_json, depth=depth + 1)
    return found


def _logical(operator: str, operand: Any, *, columns: Columns, depth: int) -> Filter:
    if operator not in _LOGICAL:
        raise FilterError(
            f"unknown operator {operator!r} at the top of a filter, which knows "
            f"{', '.join(_LOGICAL)}; a metadata key is written 'metadata.{operator}'"
        )
    if operator == "$not" and isinstance(operand, Mapping | Filter):
        operand = [operand]
    if isinstance(operand, str) or not isinstance(operand, Sequence):
        raise FilterError(f"{operator} takes a list of filters, not {shown(operand)}")
    filters = tuple(
        one if isinstance(one, Filter) else _one(_entries(one, columns=columns, depth=depth))
        for one in operand
    )
    if operator == "$and":
        return And(filters)
    return Or(filters) if operator == "$or" else Not(Or(filters))


def _field(key: str, *, columns: Columns) -> Field:
    column = columns.find(key)
    if column is not None:
        return Field(column)
    columns.type_of(METADATA if METADATA in columns.types else key)
    return Field(METADATA).child(key.removeprefix(f"{METADATA}."))


def _conditions(name: Field, value: Any, *, is_json: bool, depth: int) -> list[Filter]:
    """What `{name: value}` says: equality, operators, or conditions on what is below `name`."""
    if not isinstance(value, Mapping):
        return [name.eq(value)]
    if not value:
        raise FilterError(
            f"{str(name)!r} is compared with {{}}; to mean that, write {{'$eq': {{}}}}"
        )
    if depth > MAX_DEPTH:
        raise FilterError(f"filters are nested at most {MAX_DEPTH} deep")
    spelled = [isinstance(key, str) and key.startswith("$") for key in value]
    if all(spelled):
        return [_operation(name, key, operand, depth=depth) for key, operand in value.items()]
    if any(spelled):
        raise FilterError(f"{str(name)!r} has operators and keys side by side: {shown(value)}")
    if not is_json:
        return [_operation(name, f"${key}", operand, depth=depth) for key, operand in value.items()]
    if (
        list(value) == ["contains"]
        and name.paths != ((),)
        and not isinstance(value["contains"], Mapping)
    ):
        return [name.contains(value["contains"])]
    return [
        condition
        for key, below in value.items()
        for condition in _conditions(name.child(key), below, is_json=True, depth=depth + 1)
    ]


def _operation(name: Field, operator: str, operand: Any, *, depth: int) -> Filter:
    match operator:
        case "$eq":
            return name.eq(operand)
        case "$ne":
            return name.ne(operand)
        case "$gt":
            return name.gt(operand)
        case "$gte":
            return name.gte(operand)
        case "$lt":
            return name.lt(operand)
        case "$lte":
            return name.lte(operand)
        case "$in":
            return name.is_in(operand)
        case "$nin":
            return name.not_in(operand)
        case "$contains":
            return name.contains(operand)
        case "$contains_any":
            return name.contains_any(operand)
        case "$contains_all":
            return name.contains_all(operand)
        case "$text":
            return name.text(operand)
        case "$exists" if isinstance(operand, bool):
            return name.exists() if operand else Absent(name)
        case "$exists":
            raise refused(operand, field=name, operator=operator, wanted="True or False")
        case "$not":
            return Not(_one(_conditions(name, operand, is_json=True, depth=depth + 1)))
    raise FilterError(
        f"unknown operator {operator!r} on {str(name)!r}, which knows {', '.join(_OPERATORS)}"
    )


def _one(filters: list[Filter]) -> Filter:
    return filters[0] if len(filters) == 1 else And(tuple(filters))
