"""Conflicts of a merge: shown as values, resolved by a policy, and written again."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields, replace
from datetime import UTC
from typing import Any, Literal

from lance_context_core._embedding import embedded
from lance_context_core._resources import Resources
from lance_context_core._util.calls import called
from lance_context_core._util.checks import dumps, shown
from lance_context_core.codecs import blobs, documents, graph, items, records, sessions, sources
from lance_context_core.errors import InvalidRequestError
from lance_context_core.storage.database import (
    BLOBS_TABLE,
    DOCUMENTS_TABLE,
    GRAPH_TABLE,
    SESSIONS_TABLE,
)
from lance_context_core.storage.lance.schema import KEY, VECTOR
from lance_context_core.storage.names import collection_of, kv_of, new_revision, next_revision
from lance_context_core.storage.table import Table
from lance_context_core.types import (
    Blob,
    Conflict,
    ContextRecord,
    Document,
    DocumentChunk,
    Item,
    Resolution,
    Session,
    SourceDocument,
)
from lance_context_core.types.graph import Entity, Mention, Relation, Statement
from lance_context_core.types.versions import Stored

MergePolicy = (
    Literal["newest", "ours", "theirs"]
    | Callable[[Conflict], Stored | None]
    | Callable[[Conflict], Awaitable[Stored | None]]
)
"""Resolves rows that both branches changed differently.

`ours` is the branch merged into, `theirs` the merged one, and `newest` the one with the later
update: ours at a tie, and a change wins over a deletion, which has no time. A
function receives the `Conflict` and returns the value to store, or None for none; a
blocking one is called in a thread of its own.
"""

_CHOSEN = (Item, SourceDocument, DocumentChunk, Blob, Entity, Relation, Mention, Statement)
"""Tables for which a policy's function picks a side, and creates no new value."""

_SORTS = {SourceDocument: "document", DocumentChunk: "document"}

_POLICIES = ("newest", "ours", "theirs")

_INCIDENTAL = {
    *("revision", "updated_at", "author", "fields", "previous_key", "search_text", "edges"),
    *("acknowledged_at", "_rowid"),
}
"""Columns derived from others, or from the time, order and author of the write."""

Row = Mapping[str, Any]


def check_policy(policy: object) -> None:
    """Raises InvalidRequestError for an invalid policy."""
    if policy not in _POLICIES and not callable(policy):
        raise InvalidRequestError(
            f"policy={shown(policy)}: use 'newest', 'ours' or 'theirs', or pass a function"
        )


def table_shown(table: str) -> str:
    """Returns a table's name in reports."""
    if (collection := collection_of(table)) is not None:
        return f"vectors/{collection}"
    items = kv_of(table)
    return table if items is None else f"key_values/{items}"


def alike(one: Row | None, other: Row | None) -> bool:
    """Whether two rows have the same content, or neither exists."""
    if one is None or other is None:
        return one is other
    names = (one.keys() | other.keys()) - _INCIDENTAL
    return all(one.get(name) == other.get(name) for name in names)


def conflict_of(table: str, base: Row | None, ours: Row | None, theirs: Row | None) -> Conflict:
    """Returns the conflict of three rows of one key, of which at least one exists."""
    row = ours or theirs or {}
    return Conflict(
        table=table_shown(table),
        id=row["id"],
        base=_item(table, base),
        ours=_item(table, ours),
        theirs=_item(table, theirs),
        ours_updated_at=None if ours is None else _utc(ours["updated_at"]),
        theirs_updated_at=None if theirs is None else _utc(theirs["updated_at"]),
    )


async def settled(conflict: Conflict, policy: MergePolicy) -> tuple[Resolution, Stored | None]:
    """Returns a policy's resolution of a conflict, and the resulting row.

    Raises InvalidRequestError if a function returns an invalid value.
    """
    if callable(policy):
        return await _asked(conflict, policy)
    # Blobs that one side pins stay: a row that names them may come with the same merge.
    is_held = conflict.table == BLOBS_TABLE and None in (conflict.ours, conflict.theirs)
    if policy == "newest" or is_held:
        outcome, reason = _newest(conflict)
    else:
        outcome, reason = policy, f"the policy is {policy!r}"
    item = conflict.ours if outcome == "ours" else conflict.theirs
    return Resolution(conflict=conflict, outcome=outcome, reason=reason), item


async def rewritten(
    item: Stored,
    *,
    conflict: Conflict,
    ours: Row | None,
    theirs: Row | None,
    table: Table,
    resources: Resources,
) -> Row:
    """Returns the row of a function's result, in place of `ours`; its vector may have to be embedded.

    Its revision follows `theirs`, so that the same merge, repeated, treats it as done.
    """
    assert not isinstance(item, _CHOSEN), "it is chosen, never made"
    old = ours or theirs or {}
    last = theirs or ours or {}
    row = await _row(item, conflict, old[KEY], table, resources)
    return {
        **old,
        **row,
        "created_at": old["created_at"],
        "updated_at": resources.clock.now(),
        "author": resources.author,
        "revision": next_revision(last["revision"]) if last else new_revision(),
    }


def _newest(conflict: Conflict) -> tuple[Literal["ours", "theirs"], str]:
    ours, theirs = conflict.ours_updated_at, conflict.theirs_updated_at
    if ours is None or theirs is None:
        return ("theirs" if ours is None else "ours"), "a change goes before a deletion"
    if theirs > ours:
        return "theirs", f"updated later: {theirs.isoformat()}, ours {ours.isoformat()}"
    if ours > theirs:
        return "ours", f"updated later: {ours.isoformat()}, theirs {theirs.isoformat()}"
    return "ours", f"both were updated at {ours.isoformat()}"


async def _asked(
    conflict: Conflict, policy: Callable[[Conflict], Any]
) -> tuple[Resolution, Stored | None]:
    chosen = await called(policy, conflict)
    _check(chosen, conflict)
    outcome: Literal["ours", "theirs", "merged", "deleted"] = "merged"
    if chosen == conflict.ours:
        outcome = "ours"
    elif chosen == conflict.theirs:
        outcome = "theirs"
    elif chosen is None:
        outcome = "deleted"
    return Resolution(
        conflict=conflict, outcome=outcome, reason="the policy's function chose"
    ), chosen


def _check(chosen: Any, conflict: Conflict) -> None:
    """Raises InvalidRequestError unless the policy's function may return this."""
    if chosen is None:
        return
    sides: list[Any] = [one for one in (conflict.ours, conflict.theirs) if one is not None]
    wanted = type(sides[0])
    where = f"what the policy's function returned for {shown(conflict.id)} of {conflict.table}"
    if not isinstance(chosen, wanted):
        raise InvalidRequestError(
            f"{where} is a {type(chosen).__name__}: return a {wanted.__name__}, or None"
        )
    if isinstance(chosen, _CHOSEN):
        if chosen not in sides:
            what = _SORTS.get(type(chosen), type(chosen).__name__.lower())
            raise InvalidRequestError(f"{where} is another {what}: return ours, theirs, or None")
        return
    if chosen.id not in {one.id for one in sides}:
        raise InvalidRequestError(f"{where} has the id {shown(chosen.id)}: ids stay as they are")
    _plain(chosen, where)


def _plain(
    item: ContextRecord | Session | Document, where: str
) -> ContextRecord | Session | Document:
    """Returns an item with its values checked, as for a write."""
    if isinstance(item, Document):
        plain = documents.checked(item, where)
        return Document(
            id=plain.id, text=plain.text, embedding=plain.embedding, metadata=plain.metadata
        )
    if isinstance(item, Session):
        values = {name: getattr(item, name) for name in sessions.DESCRIBING}
        return replace(item, **sessions.checked(values, f"{where}: "))
    values = {one.name: getattr(item, one.name) for one in fields(item)}
    return replace(item, **records.checked(values, f"{where}: "))


async def _row(
    item: ContextRecord | Session | Document,
    conflict: Conflict,
    key: str,
    table: Table,
    resources: Resources,
) -> dict[str, Any]:
    """Returns the columns of the item's row."""
    item = _plain(item, "it")
    if isinstance(item, Session):
        row = sessions.to_row(item, key=key)
        return {name: row[name] for name in sessions.DESCRIBING}
    composer = resources.composer
    if isinstance(item, ContextRecord):
        side = conflict.ours or conflict.theirs
        assert isinstance(side, ContextRecord)
        item = replace(
            item,
            context=side.context,
            created_at=side.created_at,
            updated_at=resources.clock.now(),
            author=resources.author,
        )
    shown = _shown(item, resources)
    vector = await _vector(item, conflict, composer.embed_text(shown), table, resources)
    words = composer.index_text(shown)
    if isinstance(item, ContextRecord):
        return records.to_row(replace(item, embedding=vector), key=key, search_text=words)
    metadata = dumps(item.metadata)
    return {"text": item.text, "metadata": metadata, "search_text": words, VECTOR: vector}


async def _vector(
    item: ContextRecord | Document,
    conflict: Conflict,
    text: str | None,
    table: Table,
    resources: Resources,
) -> Any:
    """Returns the item's vector: its own, unless it is from a side with another text."""
    given = item.embedding
    for side in (conflict.ours, conflict.theirs):
        if isinstance(side, ContextRecord | Document) and side.embedding == given is not None:
            before = resources.composer.embed_text(_shown(side, resources))
            given = given if before == text else None
            break
    (vector,) = await embedded(table, resources, given=[given], texts=[text])
    return vector


def _shown(item: ContextRecord | Document, resources: Resources) -> ContextRecord:
    """Returns the item as a composer receives it."""
    if isinstance(item, ContextRecord):
        return item
    now = resources.clock.now()
    return documents.as_record(item, created_at=now)


def _item(table: str, row: Row | None) -> Stored | None:
    if row is None:
        return None
    if collection_of(table) is not None:
        document = documents.from_row(row)
        vector = document.embedding
        return document if vector is None else replace(document, embedding=tuple(vector))
    if kv_of(table) is not None:
        return items.from_row(row)
    if table == DOCUMENTS_TABLE:
        is_whole = row["kind"] == sources.DOCUMENT
        return sources.from_row(row) if is_whole else sources.from_chunk_row(row)
    if table == BLOBS_TABLE:
        return blobs.from_row(row)
    if table == GRAPH_TABLE:
        return graph.from_row(row)
    return sessions.from_row(row) if table == SESSIONS_TABLE else records.from_row(row)


def _utc(moment: Any) -> Any:
    # Arrow has its own UTC.
    return moment.replace(tzinfo=UTC)
