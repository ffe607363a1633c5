"""What is there already, and what tells a write that is repeated from another one under the same id."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from lance_context_core.errors import AlreadyExistsError
from lance_context_core.messages import TextPart, parts_to_json
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records.scoped import Records

Identity = tuple[Literal["id", "external_id"], str]

CONTENT = (
    "session_id", "role", "name", "content_type", "text", "parts", "blob", "payload_uri",
)  # fmt: skip
"""What is read of a row to tell what it says. Its data, such as metadata, may change meanwhile."""


async def existing_of(
    records: Records,
    identities: Collection[Identity],
    keys: Sequence[str] | None = None,
    *,
    columns: Sequence[str] = (KEY, "id", "external_id", "expires_at", *CONTENT),
) -> tuple[dict[Any, dict[str, Any]], list[str]]:
    """The rows that are there already, by identity; and the keys of expired ones.

    An expired record makes way: it is to be cleared away before one of its identity is written.
    With `keys` it is by these that they are looked up.
    """
    if not identities:
        return {}, []
    if keys is not None:
        # Not what narrower handles call so: that is something else, with a key of its own.
        named = sql.in_list(KEY, keys)
    else:
        by_column: dict[str, list[str]] = {}
        for column, value in identities:
            by_column.setdefault(column, []).append(value)
        named = sql.any_of([sql.in_list(column, some) for column, some in by_column.items()])
    rows = (await records.table.select(records.own(named), columns=columns)).to_pylist()
    now = records.now()
    expired = [row[KEY] for row in rows if row["expires_at"] and row["expires_at"] <= now]
    wanted, gone = set(identities), set(expired)
    existing = {
        (column, row[column]): row
        for row in rows
        if row[KEY] not in gone
        for column in ("id", "external_id")
        if (column, row[column]) in wanted
    }
    return existing, expired


async def clear_away(records: Records, expired: Sequence[str]) -> None:
    """Remove the records with these keys, as far as they are still expired."""
    gone = sql.at_or_before("expires_at", records.now())
    await records.table.delete(sql.all_of([sql.in_list(KEY, expired), gone]))


def refuse_other_content(
    new: Mapping[str, Any], there: Mapping[str, Any], identity: tuple[str, str] | None
) -> None:
    """Raise AlreadyExistsError unless the row that is there, under one identity, says the same."""
    if identity and _content(new) != _content(there):
        column, value = identity
        raise AlreadyExistsError(
            f"{column}={value!r} is taken by a {new['kind']} with another content: choose another "
            "one, or replace what is there, as upsert() of the record API does"
        )


def _content(row: Mapping[str, Any]) -> list[Any]:
    values = {name: row[name] for name in CONTENT}
    if values["parts"] is None and values["text"] is not None:
        # One message, whether it came in by its text or by its parts.
        values["parts"] = parts_to_json([TextPart(text=values["text"])])
    return list(values.values())
