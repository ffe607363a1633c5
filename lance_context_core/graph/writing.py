"""Writes a graph: adds, replaces and deletes rows, in one commit each time."""

import asyncio
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._progress import tell
from lance_context_core._util import cooperative as steps
from lance_context_core._util.checks import (
    check_name,
    check_names,
    check_text,
    listed,
    loads,
    shown,
)
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs import graph as rows
from lance_context_core.codecs import graph_columns
from lance_context_core.codecs.graph import (
    ENTITY,
    KINDS,
    LEADING,
    MERGED,
    REPLACED,
    Thing,
    scope_of,
)
from lance_context_core.codecs.graph_columns import Columns
from lance_context_core.codecs.records import key_of
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.graph.scoped import Row, ScopedGraph, chunked, entity_of
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance.arrow import to_table, written_as
from lance_context_core.storage.lance.schema import GRAPH, KEY
from lance_context_core.storage.names import next_revision
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.types import Progress
from lance_context_core.types.graph import Entity, Mention, Merger, Relation, Statement

T = TypeVar("T", Entity, Relation, Mention, Statement)

_ENDS: Mapping[type, tuple[str, ...]] = {
    Entity: (),
    Relation: ("source_id", "target_id"),
    Mention: ("entity_id",),
    Statement: ("subject_id", "object_id"),
}
"""The columns by which each kind names entities."""

_KEYS_AT_ONCE = 50_000
"""The most keys in one query."""

_MANY_KEYS = 5_000
"""Up to this many keys are looked up; for more, reading all keys of a table is cheaper, unless it
is far larger."""

_ROWS_PER_KEY = 50
"""How much larger: the rows read in the time of one lookup."""

_ROWS_AT_ONCE = 100_000
"""The most rows read at once."""

_TOLD_THINGS = 10_000

_MANY = 1_000
"""From this many entities or relations on they are checked, and converted to rows, as columns."""

_AS_ONE = 5
"""How many are checked, or converted to rows, in the time of one record."""

_PROBLEM = "the same part of the graph kept being changed by others"


@dataclass(slots=True)
class Batch:
    """Checked rows to write in one commit."""

    graph: ScopedGraph
    entities: list[Entity] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    columns: list[Columns] = field(default_factory=list)
    """Entities and relations in large numbers."""
    keeps: bool = False
    """Whether existing rows keep their fields, and only the sources are joined."""
    progress: Callable[[Progress], object] | None = None
    """Called as rows are prepared."""

    async def take(self, things: Iterable[T], sort: type[T], where: str) -> list[T]:
        """Checks objects of one sort, and adds them; returns them with their ids and their scope."""
        given = listed(things, where)
        if (columns := await self._columns(given, sort)) is not None:
            return await asyncio.to_thread(columns.things)
        return await self._take(given, sort, where)

    async def load(self, given: Sequence[T] | pa.Table, sort: type[T], where: str) -> None:
        """As `take`, also of a table with a column for each field; returns nothing."""
        if not isinstance(given, pa.Table):
            given = listed(given, where)
        if await self._columns(given, sort) is None:
            if isinstance(given, pa.Table):
                given = await asyncio.to_thread(graph_columns.things_of, given, sort)
            await self._take(given, sort, where)

    async def _columns(self, given: Sequence[T] | pa.Table, sort: type[T]) -> Columns | None:
        """Adds things in large numbers as columns; returns None if each is taken for itself."""
        if len(given) < _MANY or sort not in (Entity, Relation) or self.keeps:
            return None
        scope = self.graph.scope
        columns = await asyncio.to_thread(graph_columns.columns_of, given, sort, scope)
        if columns is not None:
            self.columns.append(columns.distinct())
        return columns

    async def _take(self, given: Sequence[T], sort: type[T], where: str) -> list[T]:
        def check(numbered: tuple[int, T]) -> T:
            index, thing = numbered
            made: T = self.graph.scope.stamp(rows.checked(thing, sort, f"{where}[{index}]"))
            return made

        made = await steps.each(check, list(enumerate(given)), n_as_one=_AS_ONE)
        own: dict[type, list[Any]] = {
            Entity: self.entities,
            Relation: self.relations,
            Mention: self.mentions,
            Statement: self.statements,
        }
        own[sort] += made
        return made

    async def add(self, things: Iterable[T], sort: type[T], where: str) -> list[T]:
        """As `take`, and writes everything taken."""
        made = await self.take(things, sort, where)
        await self.write()
        return made

    @property
    def things(self) -> list[Thing]:
        """Those that are not in columns, entities first."""
        return [*self.entities, *self.relations, *self.mentions, *self.statements]

    def __len__(self) -> int:
        """The number of things taken."""
        return len(self.things) + sum(map(len, self.columns))

    async def write(self, *, instead_of: Collection[str] = ()) -> None:
        """Adds them, or replaces rows with their ids, in one commit; the sources of both stay.

        Earlier extractions of the sources `instead_of` that are not among these lose that source,
        and are deleted without another one. Raises NotFoundError, before anything is written, if a
        named entity does not exist.
        """
        graph = self.graph
        table = graph.resources.writable().table(graph.table.name, graph.table.spec)
        attempts = Attempts(_PROBLEM)
        while True:
            attempts.begin()
            new, many, seen = await self._rows()
            gone: list[str] = []
            if instead_of:
                changed, gone = await unsupported(graph, instead_of, but=set(new))
                seen |= {row[KEY]: row["revision"] for row in changed.values()}
                kept = {key: succeeding(row) for key, row in changed.items() if key not in gone}
                new |= kept
            if not new and not many and not gone:
                return
            batch = WriteBatch([*new.values()], Mode.UPSERT, deletes=gone, expect=seen)
            if many:
                batch = replace(batch, rows=(), bulk=_joined(many, [*new.values()]))
            if (await table.write(batch)).is_done:
                return

    async def _rows(self) -> tuple[dict[str, Row], list[pa.Table], dict[str, int | None]]:
        """Returns the rows to write by key, new ones also as tables; and the expected revisions.

        These are of all rows that the written ones depend on.
        """
        columns, again = await self._new_columns()
        things = {key_of(rows.scope_of(one), KINDS[type(one)], one.id or ""): one for one in again}
        old = await self._held(things)
        ends = await self._ends(things.values())
        now, author = self.graph.now(), self.graph.resources.author
        n_total = len(things) + sum(len(one) for one, _ in columns)

        def made(pair: tuple[str, Thing]) -> tuple[str, Row]:
            key, thing = pair
            before = old.get(key)
            whole, told = joined(thing, before, keeps=self.keeps)
            row = rows.to_row(whole, now=now, author=author, old=before, told=told)
            return key, ends.redirected(row, thing)

        many: list[pa.Table] = []
        n_done = 0
        for one, nodes in columns:
            for part in one.parts(_TOLD_THINGS):
                table = await asyncio.to_thread(part.table, nodes, now=now, author=author)
                many.append(table)
                n_done += len(part)
                await tell(self.progress, Progress(n_done=n_done, n_total=n_total, what="things"))
        new: dict[str, Row] = {}
        for some in chunked(things, _TOLD_THINGS):
            new |= await steps.each(made, [(key, things[key]) for key in some], n_as_one=_AS_ONE)
            n_told = n_done + len(new)
            await tell(self.progress, Progress(n_done=n_told, n_total=n_total, what="things"))
        seen: dict[str, int | None] = dict.fromkeys(new)
        for one, _ in columns:
            seen |= dict.fromkeys(one.keys)
        seen |= ends.seen
        seen |= {key: row["revision"] for key, row in old.items()}
        return new, many, seen

    async def _new_columns(self) -> tuple[list[tuple[Columns, Mapping[str, int]]], list[Thing]]:
        """Returns the columns with new rows alone, each with the nodes of its ends; and the others.

        A thing whose row exists is taken for itself, and so is each of them if an end was merged.
        """
        things = self.things
        if not self.columns:
            return [], things
        fields_of = [one.named() for one in self.columns]
        keys = [
            graph_columns.entity_keys(one.scope, ids)
            for one, ids in zip(self.columns, fields_of, strict=True)
        ]
        own = self._own_entities()
        ends = set().union(*keys) - own
        held = await self._kinds(ends.union(*(one.keys for one in self.columns)))
        if missing := ends.difference(held):
            _refuse(missing, zip(keys, fields_of, strict=True))
        is_merged = MERGED in held.values()
        found = []
        for one, ids, of in zip(self.columns, fields_of, keys, strict=True):
            nodes = dict(zip(ids, graph_columns.nodes_of(of).tolist(), strict=True))
            again = []
            if is_merged or not held.keys().isdisjoint(one.keys):
                again = [n for n, key in enumerate(one.keys) if is_merged or key in held]
            if again:
                things += one.at(again).things()
                kept = set(again)
                found.append((one.at([n for n in range(len(one)) if n not in kept]), nodes))
            else:
                found.append((one, nodes))
        return [pair for pair in found if len(pair[0])], things

    def _own_entities(self) -> set[str]:
        """Returns the keys of the entities that this batch writes."""
        own = {key_of(rows.scope_of(one), ENTITY, one.id or "") for one in self.entities}
        return own.union(*(one.keys for one in self.columns if one.sort is Entity))

    async def _held(self, keys: Collection[str]) -> dict[str, Row]:
        """Returns the existing rows of these keys."""
        if len(keys) > _MANY_KEYS:
            keys = await self._kinds(keys)
        return await self._select(keys, REPLACED)

    async def _kinds(self, keys: Collection[str]) -> dict[str, str]:
        """Returns the existing ones of these keys, with their kinds."""
        table = self.graph.table
        if len(keys) <= _MANY_KEYS or await table.count() > _ROWS_PER_KEY * len(keys):
            there = await self._select(keys, [KEY, "kind"])
            return {key: row["kind"] for key, row in there.items()}
        wanted, found = pa.array(keys, pa.string()), dict[str, str]()
        columns = [KEY, "kind"]
        everything = table.batches(sql.EVERYTHING, columns=columns, batch_rows=_ROWS_AT_ONCE)
        async for batch in everything:
            some = batch.filter(pc.is_in(batch[KEY], value_set=wanted))
            found |= dict(zip(some[KEY].to_pylist(), some["kind"].to_pylist(), strict=True))
        return found

    async def _select(self, keys: Collection[str], columns: Sequence[str]) -> dict[str, Row]:
        found: dict[str, Row] = {}
        # Each query may read the keys of the whole table, so there are few queries.
        for some in chunked(keys, _KEYS_AT_ONCE):
            there = await self.graph.table.select(sql.in_list(KEY, some), columns=columns)
            found |= {row[KEY]: row for row in there.to_pylist()}
        return found

    async def _ends(self, things: Collection[Thing]) -> "_Ends":
        """Returns the entities that the rows name, each new or existing."""
        ends_of: dict[tuple[Scope, str], str] = {}
        for thing in things:
            scope = rows.scope_of(thing)
            for end in _ENDS[type(thing)]:
                if (id := getattr(thing, end)) is not None:
                    ends_of.setdefault((scope, id), f"{type(thing).__name__}.{end}")
        # Many lead to the same few: a key is computed once.
        named = {key_of(scope, ENTITY, id): (where, id) for (scope, id), where in ends_of.items()}
        held = await self._kinds(named)
        own = self._own_entities()
        if missing := named.keys() - own - held.keys():
            raise _missing(*next(told for key, told in named.items() if key in missing))
        looked_up = await self._held([key for key, kind in held.items() if kind == MERGED])
        merged = {key: row for key, row in looked_up.items() if row["kind"] == MERGED}
        return _Ends(
            seen={key: row["revision"] for key, row in merged.items()},
            merged={key: loads(row["content"], "content")["merged"] for key, row in merged.items()},
        )


@dataclass(slots=True)
class _Ends:
    """The target entities of the rows, and those merged into others."""

    seen: dict[str, int | None]
    """Their expected revisions: others may not change them meanwhile."""
    merged: Mapping[str, Mapping[str, Any]]
    """By key, the merger of each."""

    def redirected(self, row: Row, thing: Thing) -> Row:
        """Returns the row with merged ends replaced by their targets."""
        if not self.merged:
            return row
        scope = rows.scope_of(thing)
        for end in _ENDS[type(thing)]:
            if by := self.merged.get(key_of(scope, ENTITY, getattr(thing, end) or "")):
                row = moved(row, end, by["into"], by=by["id"])
        return row


def _refuse(
    missing: Collection[str], named: Iterable[tuple[Sequence[str], Mapping[str, str]]]
) -> None:
    """Raises for the first missing entity; `named` are keys, and the ids with their fields."""
    for keys, ids in named:
        for key, (id, where) in zip(keys, ids.items(), strict=True):
            if key in missing:
                raise _missing(where, id)


def _missing(where: str, id: str) -> NotFoundError:
    return NotFoundError(
        f"{where}={shown(id)}: no such entity in this scope: add it before, or in the same call"
    )


def _joined(many: Sequence[pa.Table], new: Sequence[Row]) -> pa.Table:
    """Returns all rows as one table."""
    others = [to_table(new, written_as(GRAPH.schema))] if new else []
    return pa.concat_tables([*many, *others], promote_options="default")


def moved(row: Mapping[str, Any], end: str, into: str, *, by: str) -> Row:
    """Returns the row with an `end` moved to another entity by a merger; the old one is recorded."""
    values = loads(row["content"], "content")
    moves = [*values.get("moves", ()), [by, end, values[end]]]
    return with_end(rows.with_content(row, moves=moves), end, into)


def with_end(row: Mapping[str, Any], end: str, entity_id: str) -> Row:
    """Returns the row with that entity as its `end`."""
    changed = rows.with_content(row, **{end: entity_id})
    column = {
        "source_id": "source_node",
        "target_id": "target_node",
        "entity_id": "about_node",
        "subject_id": "about_node",
    }.get(end)
    if column is not None:
        changed[column] = rows.node(rows.scope_of(rows.from_row(row)), entity_id)
    return changed


def joined(
    thing: Thing, old: Mapping[str, Any] | None, *, keeps: bool
) -> tuple[Thing, rows.Shares | None]:
    """Returns it merged with its predecessor, as `rows.merged_with`: no write loses evidence."""
    if old is None or isinstance(thing, Mention):
        return thing, None
    if keeps:
        held = rows.from_row(old)
        assert not isinstance(held, Mention)
        thing = replace(held, source_ids=thing.source_ids)
    return rows.merged_with(thing, old, keeps=keeps)


def succeeding(row: Mapping[str, Any]) -> Row:
    """Returns the row as its own successor."""
    return {**row, "revision": next_revision(row["revision"])}


async def unsupported(
    graph: ScopedGraph, source_ids: Collection[str], *, but: Collection[str] = ()
) -> tuple[dict[str, Row], list[str]]:
    """Returns rows without these sources; and the keys of rows without another source.

    An entity's relations, mentions and statements go with it. Skips rows with keys among `but`.
    """
    columns = [*graph.table.spec.schema.names]
    wanted, found = set(source_ids), dict[str, Row]()
    for some in chunked(wanted):
        named = sql.has_any("source_ids", some)
        found |= {row[KEY]: row for row in await graph.read(named, columns=columns)}
    changed = {
        key: rows.without_sources(row, wanted.__contains__)
        for key, row in found.items()
        if key not in but
    }
    gone = {key for key, row in changed.items() if not row["source_ids"]}
    nodes = {row["node"] for key in gone if (row := changed[key])["node"] is not None}
    for row in await leading(graph, nodes, columns=columns):
        if row[KEY] not in but:
            changed.setdefault(row[KEY], row)
            gone.add(row[KEY])
    return changed, sorted(gone)


async def leading(
    graph: ScopedGraph, nodes: Collection[int], *, columns: Sequence[str]
) -> list[Row]:
    """Returns all rows that refer to one of these nodes: relations, mentions, statements."""
    found: dict[str, Row] = {}
    for column in LEADING:
        found |= {row[KEY]: row for row in await graph.among(column, nodes, columns=columns)}
    return list(found.values())


async def delete(graph: ScopedGraph, id: str, kind: str, where: str) -> bool:
    """Deletes a row, and all rows that refer to it; returns whether it existed."""
    named = sql.equals("id", check_name(id, where))
    attempts = Attempts(_PROBLEM)
    graph.resources.writable()
    while True:
        attempts.begin()
        found = await graph.read(named, sql.equals("kind", kind), columns=[KEY, "revision", "node"])
        if not found:
            return False
        nodes = [row["node"] for row in found if row["node"] is not None]
        ends = [sql.in_list(column, nodes) for column in LEADING] if nodes else []
        # By condition, since there may be a million of them.
        all_of_it = graph.where(sql.any_of([sql.in_list(KEY, [row[KEY] for row in found]), *ends]))
        if (await graph.table.write(WriteBatch(where=all_of_it))).n_removed:
            return True


async def forget(graph: ScopedGraph, source_ids: Sequence[str]) -> int:
    """As `AsyncGraph.forget`."""
    wanted = check_names(source_ids, "source_ids")
    graph.resources.writable()
    attempts = Attempts(_PROBLEM)
    while True:
        attempts.begin()
        changed, gone = await unsupported(graph, wanted)
        if not changed:
            return 0
        kept = [succeeding(row) for key, row in changed.items() if key not in gone]
        seen = {key: row["revision"] for key, row in changed.items()}
        batch = WriteBatch(kept, Mode.UPSERT, deletes=gone, expect=seen)
        if (await graph.table.write(batch)).is_done:
            return len(gone)


# Merging entities, with a reason, and reverting it.

_MERGE_PROBLEM = "the same entities kept being changed by others"


async def merge(
    graph: ScopedGraph, entity_id: str, into: str, *, reason: str, source_ids: Sequence[str]
) -> Merger:
    """As `AsyncGraph.merge`."""
    evidence = check_names(source_ids, "source_ids")
    told = {"reason": check_text(reason, "reason"), "source_ids": evidence}
    graph.resources.writable()
    attempts = Attempts(_MERGE_PROBLEM)
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
        if (await graph.table.write(WriteBatch(new, Mode.UPSERT, expect=seen))).is_done:
            return _merger(hidden)


async def unmerge(graph: ScopedGraph, merger_id: str) -> Entity:
    """As `AsyncGraph.unmerge`."""
    check_name(merger_id, "merger_id")
    graph.resources.writable()
    attempts = Attempts(_MERGE_PROBLEM)
    while True:
        attempts.begin()
        hidden = next((row for row in await _hidden(graph) if _about(row)["id"] == merger_id), None)
        if hidden is None:
            raise NotFoundError(f"merger_id={shown(merger_id)}: no such merger")
        try:
            nodes = await graph.starts(hidden["id"], "entity_id")
        except NotFoundError:  # its target was deleted
            nodes = []
        led = await leading(graph, set(nodes), columns=_columns(graph))
        changed = [row for one in led if (row := _back(one, merger_id)) is not None]
        before = {row[KEY]: row for row in led}
        shown_ = rows.with_content(hidden, merged=None)
        shown_ |= {"kind": ENTITY, "node": rows.node_of(hidden[KEY])}
        seen = {row[KEY]: before[row[KEY]]["revision"] for row in changed}
        seen[hidden[KEY]] = hidden["revision"]
        new = [succeeding(row) for row in (*changed, shown_)]
        if (await graph.table.write(WriteBatch(new, Mode.UPSERT, expect=seen))).is_done:
            return entity_of(shown_)


async def mergers(graph: ScopedGraph) -> list[Merger]:
    """As `AsyncGraph.mergers`."""
    return sorted(map(_merger, await _hidden(graph)), key=lambda one: (one.at, one.id))


async def _one(graph: ScopedGraph, entity_id: str, where: str) -> Row:
    """Returns the row of an entity. Raises InvalidRequestError if several have the id."""
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
    """Returns a row that refers to one entity, now referring to the other."""
    values = loads(row["content"], "content")
    for end in ("source_id", "target_id", "entity_id", "subject_id", "object_id"):
        if end == "source_id" and "entity_id" in values:
            continue  # of a mention: the record, not an entity
        if values.get(end) == gone:
            row = moved(row, end, kept, by=by)
    return row


def _back(row: Row, merger_id: str) -> Row | None:
    """Returns the row without that merger; None if that changes nothing."""
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
        elif end not in passed:  # later mergers continued from its target
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
