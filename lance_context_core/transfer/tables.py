"""The rows and columns to export: enough to restore each row, and nothing twice."""

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lance_context_core._resources import Resources
from lance_context_core._util.checks import dumps, loads, shown
from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.records import NO_CONTEXT, OF_ALL, checked, from_row, to_row
from lance_context_core.errors import InvalidRequestError
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage import sql
from lance_context_core.storage.database import COLD_TABLE, RECORDS_TABLE, spec_of
from lance_context_core.storage.lance.schema import (
    COLD,
    KEY,
    LINK,
    OWES,
    RECORDS,
    VECTOR,
    TableSpec,
)
from lance_context_core.storage.table import Table
from lance_context_core.text.composer import Composer
from lance_context_core.versioning.locations import Whole

_PACKED = (KEY, "revision", LINK, OWES, "fields", "text", "parts", "native", "blob")
"""The exported columns of a record: `fields` has the rest."""

OF_RECORDS = (RECORDS_TABLE, COLD_TABLE)
"""The tables whose rows are records."""

_JSON_TEXTS = frozenset(("fields", "parts", "native", "metadata", "value", "properties"))
"""Columns of JSON as text, which is exported as JSON."""


@frozen
class Outgoing:
    """A table to export."""

    table: Table
    where: sql.Clause

    @property
    def columns(self) -> list[str]:
        """The exported columns of each row, without the vector."""
        if self.table.name in OF_RECORDS:
            return list(_PACKED)
        return [one.name for one in self.table.spec.schema]


async def outgoing(resources: Resources, scope: Scope) -> list[Outgoing]:
    """Returns the tables that a handle sees, the records last: hidden rows are exported, too."""
    inside = sql.all_equal(scope.parts())
    tables = await Whole(resources, scope).tables()
    tables.sort(key=lambda one: (one.name == RECORDS_TABLE, one.name))
    return [
        Outgoing(
            one,
            sql.all_of([inside, sql.differs("context", NO_CONTEXT)])
            if one.name in OF_RECORDS
            else inside,
        )
        for one in tables
    ]


# Rows to lines of JSON


def lines(name: str, batch: pa.RecordBatch) -> list[str]:
    """Returns a line of JSON for each row, without absent values."""
    begun = f'{{"table": {dumps(name)}'
    cells: list[list[str]] = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if column.null_count == batch.num_rows:
            continue
        begin = f", {dumps(field.name)}: "
        write = _writer(field)
        cells.append(
            [
                "" if value is None else begin + write(value)
                for value in (
                    column.storage if isinstance(column, pa.ExtensionArray) else column
                ).to_pylist()
            ]
        )
    return [f"{begun}{''.join(row)}}}\n" for row in zip(*cells, strict=True)]


def _writer(field: pa.Field) -> Callable[[Any], str]:
    if field.name in _JSON_TEXTS:
        return str
    if pa.types.is_timestamp(field.type):
        return lambda moment: f'"{moment.astimezone(UTC).isoformat()}"'
    if pa.types.is_large_binary(field.type):
        return lambda data: f'"{base64.b64encode(data).decode("ascii")}"'
    return dumps


# Lines of JSON to rows


@frozen
class Incoming:
    """A table to import."""

    name: str
    composer: Composer
    scope: Scope

    @property
    def spec(self) -> TableSpec:
        """The spec of the table."""
        return spec_of(self.name)

    def row(self, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Returns the row of a line. Raises InvalidRequestError, which names `where`."""
        try:
            row = self._record(given) if self.spec in (RECORDS, COLD) else self._other(given)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidRequestError(f"{where} is not a row of an export: {error}") from error
        for part in SCOPE_PARTS:
            wanted = self.scope.parts().get(part)
            if wanted is not None and row.get(part) != wanted:
                raise InvalidRequestError(
                    f"{where} is of {part}={shown(row.get(part))}, and this handle of {wanted!r}: "
                    "import it through a handle that may see it"
                )
        return row

    def _record(self, given: Mapping[str, Any]) -> dict[str, Any]:
        packed = {**given, VECTOR: given.get(VECTOR)}
        for name in ("fields", "parts", "native"):
            if packed.get(name) is not None and not isinstance(packed[name], str):
                packed[name] = dumps(packed[name])
        packed["blob"] = _bytes(packed.get("blob"))
        record = from_row(packed)
        checked({name: getattr(record, name) for name in _CHECKED}, "")
        if record.context == NO_CONTEXT:
            raise InvalidRequestError("a record has no context")
        row = to_row(record, key=_text(given[KEY]), search_text=self.composer.index_text(record))
        return row | {
            "revision": int(given["revision"]),
            LINK: given.get(LINK) if record.context in OF_ALL else None,
            OWES: given.get(OWES),
            VECTOR: given.get(VECTOR),
        }

    def _other(self, given: Mapping[str, Any]) -> dict[str, Any]:
        row: dict[str, Any] = {VECTOR: given.get(VECTOR)}
        for field in self.spec.schema:
            value = given.get(field.name)
            if value is None:
                if not field.nullable:
                    raise InvalidRequestError(f"{field.name!r} is missing")
            elif isinstance(field.type, pa.JsonType) or field.name in _JSON_TEXTS:
                value = value if isinstance(value, str) else dumps(value)
                loads(value, field.name)
            elif pa.types.is_timestamp(field.type):
                value = _moment(value)
            elif pa.types.is_large_binary(field.type):
                value = _bytes(value)
            row[field.name] = value
        return row


_CHECKED = (
    *("id", "external_id", "context", "kind", "session_id", "role", "name", "text", "metadata"),
    *("tenant", "user_id", "agent_id", "created_at", "updated_at", "expires_at", "tags"),
    *("lifecycle_status", "content_type", "source_ids", "supersedes_id", "state_metadata"),
)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidRequestError(f"{shown(value)} is not a key")
    return value


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if moment.utcoffset() is None:
        raise InvalidRequestError(f"{shown(value)} has no time zone")
    return moment.astimezone(UTC)


def _bytes(value: Any) -> bytes | None:
    return base64.b64decode(value, validate=True) if isinstance(value, str) else value


def names(columns: Sequence[str]) -> list[str]:
    """Returns the columns, and the vector after them."""
    return [*columns, VECTOR]
