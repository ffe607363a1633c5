"""Entities that turn out to be one: merged, with the reason, and taken apart again."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lance_context_core._util.checks import check_name, check_names, check_text, loads, shown
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs import graph as rows
from lance_context_core.codecs.graph import ENTITY, MERGED, scope_of
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.graph.scoped import Row, ScopedGraph, entity_of
from lance_context_core.graph.writing import leading, moved, succeeding, with_end
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.types.graph import Entity, Merger

_PROBLEM = "the same entities kept being changed by others"


async def merge(
    graph: ScopedGraph, entity_id: str, into: str, *, reason: str, source_ids: Sequence[str]
) -> Merger:
    """As `AsyncGraph.merge`."""
    evidence = check_names(source_ids, "source_ids")
    told = {"reason": check_text(reason, "reason"), "source_ids": evidence}
    graph.resources.writable()
    attempts = Attempts(_PROBLEM)
    while True:
        attempts.begin()
        gone, kept = await _one(graph, entity_id, "entity_id"), await _one(graph, into, "into")
        if gone[KEY] == kept[KEY]:
            raise InvalidRequestError(
                f"into={shown(into)} is the same entity as entity_id={shown(entity_id)}"
            )
        if scope_of(entity_of(gone)) != scope_of(entity_of(kept)):
            raise InvalidRequestError(
                f"into={shown(into)} belongs to another scope than entity_id={shown(entity_id)}"
            )
        id, at = f"merger-{uuid.uuid4().hex}", graph.now()
        about = {"id": id, "into": kept["id"], "at": at.isoformat(), **told}
        led = await leading(graph, {gone["node"]}, columns=_columns(graph))
        changed = [_led_to(row, gone["id"], kept["id"], by=id) for row in led]
        hidden = rows.with_content(gone, merged=about) | {"kind": MERGED, "node": None}
        seen = {row[KEY]: row["revision"] for row in (*led, gone, kept)}
        new = [succeeding(row) for row in (*changed, hidden)]
        if await graph.table.write_if(new, removed=(), seen=seen):
            return _merger(hidden)


async def unmerge(graph: ScopedGraph, merger_id: str) -> Entity:
    """As `AsyncGraph.unmerge`."""
    check_name(merger_id, "merger_id")
    graph.resources.writable()
    attempts = Attempts(_PROBLEM)
    while True:
        attempts.begin()
        hidden = next((row for row in await _hidden(graph) if _about(row)["id"] == merger_id), None)
        if hidden is None:
            raise NotFoundError(f"merger_id={shown(merger_id)}: there is no such merger")
        try:
            nodes = await graph.starts(hidden["id"], "entity_id")
        except NotFoundError:  # what it was merged into was deleted
            nodes = []
        led = await leading(graph, set(nodes), columns=_columns(graph))
        changed = [row for one in led if (row := _back(one, merger_id)) is not None]
        before = {row[KEY]: row for row in led}
        shown_ = rows.with_content(hidden, merged=None)
        shown_ |= {"kind": ENTITY, "node": rows.node_of(hidden[KEY])}
        seen = {row[KEY]: before[row[KEY]]["revision"] for row in changed}
        seen[hidden[KEY]] = hidden["revision"]
        new = [succeeding(row) for row in (*changed, shown_)]
        if await graph.table.write_if(new, removed=(), seen=seen):
            return entity_of(shown_)


async def mergers(graph: ScopedGraph) -> list[Merger]:
    """As `AsyncGraph.mergers`."""
    return sorted(map(_merger, await _hidden(graph)), key=lambda one: (one.at, one.id))


async def _one(graph: ScopedGraph, entity_id: str, where: str) -> Row:
    """The row of an entity. Raises InvalidRequestError if several are called so."""
    nodes = await graph.starts(entity_id, where)
    if len(nodes) > 1:
        raise InvalidRequestError(
            f"{where}={shown(entity_id)} is an entity in {len(nodes)} scopes: use scope(...) of one"
        )
    (row,) = await graph.among("node", nodes, columns=_columns(graph))
    return row


async def _hidden(graph: ScopedGraph) -> list[Row]:
    return await graph.read(sql.equals("kind", MERGED), columns=_columns(graph))


def _led_to(row: Row, gone: str, kept: str, *, by: str) -> Row:
    """The row of a thing that leads to one entity, leading to the other."""
    values = loads(row["content"], "content")
    for end in ("source_id", "target_id", "entity_id", "subject_id", "object_id"):
        if end == "source_id" and "entity_id" in values:
            continue  # of a mention: the record, not an entity
        if values.get(end) == gone:
            row = moved(row, end, kept, by=by)
    return row


def _back(row: Row, merger_id: str) -> Row | None:
    """The row as it leads without that merger; None if that changes nothing."""
    values: dict[str, Any] = loads(row["content"], "content")
    moves = values.get("moves", [])
    undone = {end: old for by, end, old in reversed(moves) if by == merger_id}
    if not undone:
        return None
    left: list[list[str]] = []
    passed: set[str] = set()
    for by, end, old in moves:
        if by == merger_id:
            passed.add(end)
        elif end not in passed:  # what came after it led on from where it had led to
            left.append([by, end, old])
    for end, old in undone.items():
        row = with_end(row, end, old)
    return rows.with_content(row, moves=left or None)


def _columns(graph: ScopedGraph) -> list[str]:
    return [*graph.table.spec.schema.names]


def _about(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = loads(row["content"], "content")["merged"]
    return found


def _merger(row: Row) -> Merger:
    about, entity = _about(row), entity_of(row)
    return Merger(
        id=about["id"],
        entity=entity,
        into=about["into"],
        reason=about["reason"],
        source_ids=tuple(about["source_ids"]),
        at=datetime.fromisoformat(about["at"]),
    )
