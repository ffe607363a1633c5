"""Plans an erasure: matching rows, rows derived from them, and blobs that only they name."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lance_context_core._util.retry import FEW_ATTEMPTS
from lance_context_core.codecs import blobs
from lance_context_core.codecs.records import is_media
from lance_context_core.erasure import cascade
from lance_context_core.erasure import cascade as traces
from lance_context_core.erasure.cascade import Link, Names, State
from lance_context_core.erasure.selector import Target
from lance_context_core.errors import ConflictError, NotFoundError
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage import database as db
from lance_context_core.storage import sql
from lance_context_core.storage.database import COLD_TABLE, DOCUMENTS_TABLE, RECORDS_TABLE, Database
from lance_context_core.storage.lance import branches, purge
from lance_context_core.storage.lance.errors import asked
from lance_context_core.storage.lance.purge import Gone, Removed, TableRef
from lance_context_core.storage.lance.schema import (
    BLOBS,
    GRAPH,
    IMAGES_COLLECTION,
    KEY,
    RECORDS,
    SESSIONS,
    TableSpec,
)
from lance_context_core.storage.names import collection_of, kv_of, table_of
from lance_context_core.storage.table import Table
from lance_context_core.types.media import SCHEME, uri_of

# Blobs that only erased rows name: they go with the last one.

_NAMES = "payload_uri"
_HOLDERS = (RECORDS_TABLE, COLD_TABLE, DOCUMENTS_TABLE)
"""The tables whose rows name blobs."""


class Named(NamedTuple):
    """A reference to a blob, with its owner."""

    uri: str
    scope: tuple[str | None, ...]

    @property
    def hash(self) -> str:
        """The hash in the URI."""
        return self.uri.removeprefix(SCHEME)

    def is_of(self, state: State) -> bool:
        """Whether it refers to that blob: its scope is within the blob's scope."""
        whose = state.tenant, state.user_id, state.agent_id
        within = all(a is None or a == b for a, b in zip(whose, self.scope, strict=True))
        return within and self.uri == uri_of(blobs.hash_of(state.id))


async def once_named(
    database: Database, name: str, refs: Sequence[TableRef], gone: Collection[str], scope: str
) -> set[Named]:
    """Returns the blobs that the rows with these keys name, now or in any version, on any ref."""
    if name not in _HOLDERS:
        return set()
    where = sql.all_of([sql.starts_with(_NAMES, SCHEME), scope])
    found: set[Named] = set()
    access = database.table(name, refs[0].table.spec).access
    async with access.separately(is_settled=True) as main:
        for ref in refs:
            async for _, (rows,) in purge.past(ref, [(where, [KEY, _NAMES, *SCOPE_PARTS])], main):
                found |= _named(row for row in rows.to_pylist() if row[KEY] in gone)
    return found


async def unheld(
    database: Database,
    specs: Mapping[str, TableSpec],
    states: Collection[State],
    named: Collection[Named],
    gone: Mapping[str, Collection[str]],
) -> set[State]:
    """Returns those of the blobs that were `named`, and that no remaining row names on any ref.

    `gone` are the keys of erased rows, by table.
    """
    meant = {one for one in states if any(name.is_of(one) for name in named)}
    if not meant:
        return set()
    uris = sorted({name.uri for name in named})
    staying: set[Named] = set()
    for name in _HOLDERS:
        if name not in specs:
            continue
        async with database.table(name, specs[name]).access.separately() as main:
            refs = await purge.table_refs(database, name, specs[name], main)
        for ref in refs:
            rows = await _present(ref, sql.in_list(_NAMES, uris))
            staying |= _named(row for row in rows if row[KEY] not in gone.get(name, ()))
    return {one for one in meant if not any(name.is_of(one) for name in staying)}


async def pinned(refs: Sequence[TableRef], states: Collection[State]) -> set[str]:
    """Returns the keys of those blobs that are pinned on some ref, with those of their pieces."""
    where = sql.all_of(
        [sql.equals("kind", blobs.BLOB), sql.in_list(KEY, sorted({one.key for one in states}))]
    )
    found = set()
    for ref in refs:
        rows = await purge.present(ref.table, where, ["id", "is_pinned", *SCOPE_PARTS])
        found |= {_whose(row) for row in rows.to_pylist() if row["is_pinned"]}
    return {one.key for one in states if _whose(one._asdict()) in found}


async def _present(ref: TableRef, where: str) -> list[dict[str, Any]]:
    async with ref.table.access.separately() as handle:
        if _NAMES not in (await handle.schema()).names:
            return []
    return list((await purge.present(ref.table, where, [KEY, _NAMES, *SCOPE_PARTS])).to_pylist())


def _named(rows: Any) -> set[Named]:
    return {Named(row[_NAMES], tuple(row[part] for part in SCOPE_PARTS)) for row in rows}


def _whose(row: Mapping[str, Any]) -> tuple[str | None, ...]:
    return (blobs.hash_of(row["id"]), *(row[part] for part in SCOPE_PARTS))


# The rows to erase from one table: on which refs they are, hidden there and cleaned from the files.

_OTHERS_MAKE_REFS = "branches and tags kept being made by others: try again"


@dataclass(slots=True, kw_only=True)
class Plan:
    """The rows to erase from one table."""

    database: Database
    name: str
    spec: TableSpec
    refs: list[TableRef]
    scope_condition: str
    """Rows outside stay, also of a record that once was inside."""
    matched: set[str]
    """The keys of the matching rows."""
    derived: set[str] = field(default_factory=set)
    states: set[State] = field(default_factory=set)
    """The records of both sorts, now or earlier."""
    links: dict[str | None, set[Link]]
    """The references, by ref; of records."""
    names: Names = field(default_factory=Names)
    rewritten: frozenset[str] = frozenset()
    """The keys of rows derived from these that no branch shows any more."""
    mentions: set[str] = field(default_factory=set)
    """The keys of remaining records that name erased ones."""
    in_sources: bool = False
    """Whether they may name them as their sources."""
    is_linked: bool = False
    """Whether remaining records name erased ones as their predecessors."""
    touched: set[str | None] = field(default_factory=set)
    """The refs that show erased rows, or references to them."""
    left_alone: frozenset[str | None] = frozenset()
    """The refs that cannot hold them, once settled: later it could not be determined any more."""

    @property
    def due(self) -> list[TableRef]:
        """Returns the refs to clean: those that show them, and those whose files may hold deleted rows."""
        return [
            ref
            for ref in self.refs
            if ref.name not in self.left_alone and (ref.name in self.touched or not ref.is_plain)
        ]

    async def look(self) -> None:
        """Finds the refs that show them, among those that have not before."""
        for ref in self.refs:
            if ref.name not in self.touched and await self._is_shown(ref):
                self.touched.add(ref.name)

    def settle(self) -> int:
        """Excludes refs that need no cleaning from now on; returns how many need it."""
        due = {ref.name for ref in self.due}
        self.left_alone = frozenset(ref.name for ref in self.refs if ref.name not in due)
        return len(due)

    async def hide(self) -> None:
        """Deletes them from all refs, also from refs that others create meanwhile."""
        done: set[str | None] = set()
        for _ in range(FEW_ATTEMPTS):
            for ref in self.due:
                if ref.name not in done:
                    if not branches.is_kept(ref.name) and (
                        ref.name is None or await _is_there(ref)
                    ):
                        await purge.delete(ref.table, await self._gone_from(ref))
                        await self._scrub(ref.table)
                    done.add(ref.name)
            await self._look_again()
            if done >= {ref.name for ref in self.due}:
                return
        raise ConflictError(_OTHERS_MAKE_REFS)

    async def scour(self, *, sole_writer: bool) -> list[Removed]:
        """Cleans the files of all refs that may hold them, parents last."""
        removed: list[Removed] = []
        done: set[str | None] = set()
        for _ in range(FEW_ATTEMPTS):
            for ref in self.due:
                if ref.name in done or not (ref.name is None or await _is_there(ref)):
                    continue
                # A ref that only keeps an older version would be one more copy.
                if branches.is_kept(ref.name):
                    await ref.table.access.drop(str(ref.name))
                else:
                    await self._scrub(ref.table)
                    gone = await self._gone_from(ref)
                    removed.append(await purge.scour(ref.table, gone, sole_writer=sole_writer))
                done.add(ref.name)
            await self._look_again()
            new = [ref for ref in self.due if ref.name not in done]
            if not new:
                await self._refresh()
                return removed
            # New copies of a ref may hold its rows.
            done -= {ref.fork.ref for ref in new if ref.fork is not None}
        raise ConflictError(_OTHERS_MAKE_REFS)

    async def _look_again(self) -> None:
        """Finds refs that others created meanwhile; the state of the known ones stays."""
        forks = await purge.forks(self.database, self.name, self.spec)
        if forks != {ref.name: ref.fork for ref in self.refs}:
            main = self.database.table(self.name, self.spec)
            async with main.access.separately() as handle:
                self.refs = await purge.table_refs(self.database, self.name, self.spec, handle)
            await self.look()

    async def _is_shown(self, ref: TableRef) -> bool:
        """Whether the newest version of a ref shows rows to erase."""
        return await purge.shows(ref.table, await self._gone_from(ref))

    async def _gone_from(self, ref: TableRef) -> Gone:
        """Returns the rows to erase from a ref; without other writers, also rows that exist elsewhere."""
        keys = self.matched | self.derived
        return Gone(
            self.scope_condition, keys if branches.branch_of(ref.name) else keys | self.rewritten
        )

    async def _scrub(self, table: Table) -> None:
        """Removes references of remaining rows to erased ones."""
        if self.mentions or self.is_linked:
            keys = self.matched | self.derived
            await traces.scrub(
                table, self.names, keys, self.scope_condition, sources=self.in_sources
            )

    async def _refresh(self) -> None:
        """Moves this process's handles off the removed versions."""
        for ref in self.refs:
            if (branch := branches.branch_of(ref.name)) is not None:
                on = self.database if ref.name is None else self.database.on(branch)
                access = on.table(self.name, self.spec).access
                if access.handle is not None:
                    await asked(f"read {access.label}", access.handle.checkout_latest())


@dataclass(slots=True, kw_only=True)
class GraphPlan(Plan):
    """The rows to erase from the graph: those with only erased sources.

    Searched on each ref: on one of them there may be another source.
    """

    removes: bool = True
    """Otherwise only the names of the sources are removed."""

    async def _is_shown(self, ref: TableRef) -> bool:
        return await cascade.is_named(ref.table, self.names, self.scope_condition)

    async def _gone_from(self, ref: TableRef) -> Gone:
        return Gone(self.scope_condition, await self.unsupported(ref))

    async def unsupported(self, ref: TableRef) -> set[str]:
        """Returns the keys of the rows to erase from a ref."""
        if not self.removes:
            return set()
        return await cascade.unsupported(ref.table, self.names, self.scope_condition)

    async def _scrub(self, table: Table) -> None:
        await cascade.scrub_graph(
            table, self.names, self.scope_condition, all_of_them=not self.removes
        )


async def _is_there(ref: TableRef) -> bool:
    """Whether a ref other than main still exists."""
    try:
        await ref.table.access.writer()
    except NotFoundError:
        return False
    return True


IMAGES = table_of(IMAGES_COLLECTION)
"""The table of image vectors: rows go with their image."""

_WHOLLY = (db.DOCUMENTS_TABLE, db.BLOBS_TABLE, db.GRAPH_TABLE)
"""The tables whose rows are erased with a whole scope."""


async def due_plans(database: db.Database, tables: Iterable[Table], target: Target) -> list[Plan]:
    """Returns the plans of all tables with something to clean, blobs first.

    Ignores the write-ahead log: it has just been flushed.
    """
    specs = {table.name: table.spec for table in tables}
    found = await _plans(database, specs, target)
    return [
        plan for plan in [*await _plan_blobs(database, specs, found, target), *found] if plan.due
    ]


async def _plans(
    database: db.Database, specs: Mapping[str, TableSpec], target: Target
) -> list[Plan]:
    """Returns the plans, the records last: they determine the others."""
    wanted = dict(target.documents)
    if target.is_whole_scope:
        mine = [name for name in specs if is_collection(name) or is_items(name) or name in _WHOLLY]
        wanted = dict.fromkeys(mine, target.scope_condition)
    plans = [
        await _plan(database, name, specs[name], where, target)
        for name, where in wanted.items()
        if name in specs
    ]
    if target.records is None or db.RECORDS_TABLE not in specs:
        return await _with_graph(plans, database, specs, target)
    of_records = await _plan_records(database, target)
    if db.COLD_TABLE in specs:
        plans.append(await _plan_cold(database, specs[db.COLD_TABLE], of_records, target))
    if IMAGES in specs and not target.is_whole_scope:
        ids = sorted({state.id for state in of_records.states if is_media(state.id)})
        where = sql.all_of([target.scope_condition, sql.in_list("id", ids)])
        seen = await _plan(database, IMAGES, specs[IMAGES], where, target)
        plans.extend([seen] if seen.matched else [])
    if db.SESSIONS_TABLE in specs:
        if target.is_whole_scope:
            plans.append(
                await _plan(database, db.SESSIONS_TABLE, SESSIONS, target.scope_condition, target)
            )
        elif target.derived and (left := await _left_empty(of_records)):
            where = sql.all_of([target.scope_condition, sql.in_list("id", sorted(left))])
            plan = await _plan(database, db.SESSIONS_TABLE, SESSIONS, where, target, of=left)
            plans.extend([plan] if plan.matched else [])
    return await _with_graph([*plans, of_records], database, specs, target)


async def _with_graph(
    plans: list[Plan], database: db.Database, specs: Mapping[str, TableSpec], target: Target
) -> list[Plan]:
    """Adds the plan of the graph's rows with erased sources."""
    if db.GRAPH_TABLE not in specs or target.is_whole_scope:
        return plans
    names = Names()
    for plan in plans:
        if plan.name == db.RECORDS_TABLE:
            names.update(plan.names)
        elif plan.name == db.DOCUMENTS_TABLE or is_collection(plan.name):
            for state in plan.states:
                names.add(state.id, state.means_within)
    if not names.ids:
        return plans
    async with database.table(db.GRAPH_TABLE, GRAPH).access.separately(is_settled=True) as main:
        table_refs = await purge.table_refs(database, db.GRAPH_TABLE, GRAPH, main)
        touched = {
            ref.name
            for ref in table_refs
            if await cascade.was_named(ref, names, target.scope_condition, main)
        }
    if not touched:
        return plans
    made = GraphPlan(
        database=database,
        name=db.GRAPH_TABLE,
        spec=GRAPH,
        refs=table_refs,
        scope_condition=target.scope_condition,
        matched=set(),
        links={},
        names=names,
        touched=touched,
        removes=target.derived,
    )
    for ref in table_refs:
        made.matched |= await made.unsupported(ref)
    return [made, *plans]


async def _plan(
    database: db.Database,
    name: str,
    spec: TableSpec,
    where: str,
    target: Target,
    *,
    of: Mapping[str, list[State]] | None = None,
) -> Plan:
    """Returns the matches in any version; of sessions only those of erased records."""
    plan = await _matching(database, name, spec, where, target)
    if of is not None:
        plan.states = {
            state
            for state in plan.states
            if any(traces.compatible(state.scope_values, one.scope_values) for one in of[state.id])
        }
        plan.matched = {state.key for state in plan.states}
        plan.touched = set()
    await plan.look()
    return plan


async def _plan_records(database: db.Database, target: Target) -> Plan:
    assert target.records is not None
    plan = await _matching(
        database,
        db.RECORDS_TABLE,
        RECORDS,
        target.records,
        target,
        is_linked=True,
    )
    for state in plan.states:
        plan.names.add(state.id, state.means_within)
    for id in target.ids:
        scope = target.scope
        plan.names.add(id, (None, scope.tenant, scope.user_id, scope.agent_id, None))
    if target.derived:
        links = {
            link
            for found in plan.links.values()
            for link in found
            if target.derives(link.state.key, is_present=link.is_present)
        }
        further = traces.derived(links, plan.names, plan.matched)
        plan.derived = {state.key for state in further}
        plan.states |= further
    plan.rewritten = target.staying or frozenset()
    plan.in_sources = not target.derived
    gone = plan.matched | plan.derived
    for name, found in plan.links.items():
        for link in found:
            named = link.mentions | link.sources if plan.in_sources else link.mentions
            if link.state.key in gone or not link.is_present:
                continue
            if link.before in gone:
                plan.is_linked = True
                plan.touched.add(name)
            if plan.names.mean(named, link.state.named_within):
                plan.mentions.add(link.state.key)
                plan.touched.add(name)
    await plan.look()
    return plan


async def _plan_cold(
    database: db.Database, spec: TableSpec, of_records: Plan, target: Target
) -> Plan:
    """Returns the archived rows of the same records: a row has the same key everywhere."""
    assert target.records is not None
    gone = of_records.matched | of_records.derived
    where = sql.any_of([target.records, *([sql.in_list(KEY, sorted(gone))] if gone else [])])
    plan = await _plan(database, db.COLD_TABLE, spec, where, target)
    plan.rewritten = of_records.rewritten
    await plan.look()
    return plan


async def _plan_blobs(
    database: db.Database, specs: Mapping[str, TableSpec], plans: Sequence[Plan], target: Target
) -> list[Plan]:
    """Returns the blobs that only erased rows named; none if a whole scope goes anyway."""
    if db.BLOBS_TABLE not in specs or target.is_whole_scope:
        return []
    named: set[Named] = set()
    for one in plans:
        gone = one.matched | one.derived
        scope = one.scope_condition
        named |= await once_named(database, one.name, one.refs, gone, scope)
    if not named:
        return []
    hashes = sorted({name.hash for name in named})
    where = sql.all_of([target.scope_condition, sql.in_list("hash", hashes)])
    plan = await _matching(database, db.BLOBS_TABLE, BLOBS, where, target)
    going = {one.name: one.matched | one.derived for one in plans}
    plan.states = await unheld(database, specs, plan.states, named, going)
    kept = await pinned(plan.refs, plan.states) if plan.states else set()
    plan.states = {state for state in plan.states if state.key not in kept}
    plan.matched, plan.touched = {state.key for state in plan.states}, set()
    await plan.look()
    return [plan] if plan.matched else []


async def _matching(
    database: db.Database,
    name: str,
    spec: TableSpec,
    where: str,
    target: Target,
    *,
    is_linked: bool = False,
) -> Plan:
    """Returns the matches in any version; if such rows have references, also those of the scope."""
    scope_condition = target.scope_condition
    linked_within = scope_condition if is_linked else None
    async with database.table(name, spec).access.separately(is_settled=True) as main:
        table_refs = await purge.table_refs(database, name, spec, main)
        found = {
            ref.name: await traces.found(ref, where, linked_within, main) for ref in table_refs
        }
    states = {state for one in found.values() for state in one.states}
    return Plan(
        database=database,
        name=name,
        spec=spec,
        refs=table_refs,
        scope_condition=scope_condition,
        matched={state.key for state in states},
        states=states,
        links={ref: one.links for ref, one in found.items()},
        touched={ref for ref, one in found.items() if one.is_shown},
    )


async def _left_empty(plan: Plan) -> dict[str, list[State]]:
    """Returns the sessions without records on any ref, with the erased records that they had."""
    erased: dict[str, list[State]] = {}
    for state in plan.states:
        if state.session_id is not None:
            erased.setdefault(state.session_id, []).append(state)
    if not erased:
        return {}
    where = sql.all_of([plan.scope_condition, sql.in_list("session_id", sorted(erased))])
    gone = plan.matched | plan.derived
    for ref in plan.refs:
        for state in await traces.shown(ref, where):
            if state.key not in gone and state.session_id is not None:
                erased[state.session_id] = [
                    one
                    for one in erased[state.session_id]
                    if not traces.compatible(one.scope_values[1:], state.scope_values[1:])
                ]
    return {session: states for session, states in erased.items() if states}


def is_collection(table: str) -> bool:
    """Whether the table holds documents."""
    return collection_of(table) is not None


def is_items(table: str) -> bool:
    """Whether the table holds key-value items."""
    return kv_of(table) is not None
