"""Erasure: what is meant by it, in every version of every ref, and what else it concerns.

First everything is deleted wherever it is shown, and only then the files are cleaned, ref by ref.
A crash before that leaves the older versions, in which all of it is found again; a crash after it
leaves refs that have seen a deletion, and these are cleaned whatever is found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lance_context_core._retrying import FEW_ATTEMPTS, Attempts
from lance_context_core.engine import sql
from lance_context_core.engine.database import (
    DOCUMENTS_TABLE,
    RECORDS_TABLE,
    SESSIONS_TABLE,
    Database,
)
from lance_context_core.engine.files import erasing
from lance_context_core.engine.files.erasing import Gone, Removed, TableRef
from lance_context_core.engine.names import collection_of, kv_of
from lance_context_core.engine.refs import refs
from lance_context_core.engine.schema import RECORDS, SESSIONS, TableSpec
from lance_context_core.engine.table.table import Table
from lance_context_core.erasure import references as traces
from lance_context_core.erasure.references import Link, Names, State
from lance_context_core.erasure.target import Target
from lance_context_core.errors import NotFoundError
from lance_context_core.records import Erasure
from lance_context_core.rows.sources import is_chunk_id
from lance_context_core.versioning import branches as branching
from lance_context_core.versioning.places import Whole

_OTHERS_MAKE_REFS = "branches and tags kept being made by others"


async def erase(whole: Whole, target: Target, *, sole_writer: bool, dry_run: bool) -> Erasure:
    """Erase all states of what is meant, in every version, on every branch and under every tag.

    Nobody maintains the tables meanwhile: an index that is being built may still hold it.
    """
    whole.resources.writable()
    if target.is_nothing:
        return Erasure()
    main = whole.main()
    database = main.resources.database
    assert isinstance(database, Database)
    tables = await main.tables()
    await database.settle()
    if not dry_run:
        await branching.finish_deletions(main, tables)
    specs = {table.name: table.spec for table in tables}
    plans = [plan for plan in await _plans(database, specs, target) if plan.due]
    report = _report(plans, may_linger=bool(plans) and not sole_writer)
    if dry_run:
        return report
    written = [ref.table for plan in plans for ref in plan.refs if refs.branch_of(ref.name)]
    async with whole.resources.upkeep.hold(written):
        for plan in plans:
            plan.settle()
        if sum(len(plan.due) for plan in plans) > 1:
            # To clean the only one deletes there, too.
            for plan in plans:
                await plan.hide()
            whole.resources.forget_hot()
        removed = [one for plan in plans for one in await plan.scour(sole_writer=sole_writer)]
        whole.resources.forget_hot()
        # Also what came and went between two folds, which no table has seen.
        is_wiped = await database.wipe_journal()
    return replace(
        report,
        bytes_removed=sum(one.n_bytes for one in removed),
        may_linger=report.may_linger or not is_wiped or not all(one.is_all for one in removed),
    )


@dataclass(slots=True, kw_only=True)
class _Plan:
    """What is to be erased from one table."""

    database: Database
    name: str
    spec: TableSpec
    refs: list[TableRef]
    scope_condition: str
    """What lies outside stays, also of a record that once was inside."""
    matched: set[str]
    """The keys of what is meant."""
    derived: set[str] = field(default_factory=set)
    states: set[State] = field(default_factory=set)
    """What the records of both sorts are or were known by."""
    links: dict[str | None, set[Link]]
    """Who names whom, by ref; of records."""
    names: Names = field(default_factory=Names)
    rewritten: frozenset[str] = frozenset()
    """The keys of what no branch shows any more as it was made of these."""
    mentions: set[str] = field(default_factory=set)
    """The keys of records that stay and name erased ones."""
    in_sources: bool = False
    """Whether that may be as their sources."""
    touched: set[str | None] = field(default_factory=set)
    """The refs that show what is erased, or name it."""
    left_alone: frozenset[str | None] = frozenset()
    """The refs that cannot hold it, once that is settled: later it could not be told any more."""

    @property
    def due(self) -> list[TableRef]:
        """The refs to clean: those that show it, and those whose files may hold what was deleted."""
        return [
            ref
            for ref in self.refs
            if ref.name not in self.left_alone and (ref.name in self.touched or not ref.is_plain)
        ]

    async def look(self) -> None:
        """See which refs show it, of those that have not shown it before."""
        for ref in self.refs:
            if ref.name not in self.touched and await erasing.shows(
                ref.table, self._gone_from(ref)
            ):
                self.touched.add(ref.name)

    def settle(self) -> None:
        """Leave those refs alone from now on that are not to be cleaned as far as is known."""
        due = {ref.name for ref in self.due}
        self.left_alone = frozenset(ref.name for ref in self.refs if ref.name not in due)

    async def hide(self) -> None:
        """Delete it from all refs, also from those that others make meanwhile."""
        done: set[str | None] = set()
        rounds = Attempts(_OTHERS_MAKE_REFS, FEW_ATTEMPTS)
        while True:
            rounds.begin()
            for ref in self.due:
                if ref.name not in done:
                    if not _is_past(ref) and await self._is_there(ref):
                        await erasing.delete(ref.table, self._gone_from(ref))
                        await self._scrub(ref.table)
                    done.add(ref.name)
            await self._look_again()
            if done >= {ref.name for ref in self.due}:
                return

    async def scour(self, *, sole_writer: bool) -> list[Removed]:
        """Clean the files of all refs that may hold it, those that others were made from last."""
        removed: list[Removed] = []
        done: set[str | None] = set()
        rounds = Attempts(_OTHERS_MAKE_REFS, FEW_ATTEMPTS)
        while True:
            rounds.begin()
            for ref in self.due:
                if ref.name in done or not await self._is_there(ref):
                    continue
                if _is_past(ref):
                    await ref.table.access.drop(str(ref.name))
                else:
                    await self._scrub(ref.table)
                    gone = self._gone_from(ref)
                    removed.append(await erasing.scour(ref.table, gone, sole_writer=sole_writer))
                done.add(ref.name)
            await self._look_again()
            new = [ref for ref in self.due if ref.name not in done]
            if not new:
                await self._refresh()
                return removed
            # What others have just made of a ref may hold what that one held.
            done -= {ref.fork.ref for ref in new if ref.fork is not None}

    async def _look_again(self) -> None:
        """See which refs others have made meanwhile; what is known of the others stays so."""
        forks = await erasing.forks(self.database, self.name, self.spec)
        if forks != {ref.name: ref.fork for ref in self.refs}:
            main = self.database.table(self.name, self.spec)
            async with main.access.separately() as handle:
                self.refs = await erasing.table_refs(self.database, self.name, self.spec, handle)
            await self.look()

    async def _is_there(self, ref: TableRef) -> bool:
        """Whether nobody has deleted the ref meanwhile."""
        if ref.name is None:
            return True
        try:
            await ref.table.access.writer()
        except NotFoundError:
            return False
        return True

    def _gone_from(self, ref: TableRef) -> Gone:
        """The rows that are to go from a ref; where nobody writes, also what is otherwise elsewhere."""
        keys = self.matched | self.derived
        return Gone(
            self.scope_condition, keys if refs.branch_of(ref.name) else keys | self.rewritten
        )

    async def _scrub(self, table: Table) -> None:
        """Let nothing that stays name what goes."""
        if self.mentions:
            await traces.scrub(table, self.names, self.scope_condition, sources=self.in_sources)

    async def _refresh(self) -> None:
        """Take this process's handles off the versions that are gone."""
        for ref in self.refs:
            if (branch := refs.branch_of(ref.name)) is not None:
                handle = await self.database.on(branch).table(self.name, self.spec).access.peek()
                if handle is not None:
                    await handle.checkout_latest()


async def _plans(database: Database, specs: Mapping[str, TableSpec], target: Target) -> list[_Plan]:
    """What is to be done, the records last: they tell what else there is to do."""
    wanted = dict(target.documents)
    if target.is_whole_scope:
        mine = [
            name
            for name in specs
            if _is_collection(name) or _is_items(name) or name == DOCUMENTS_TABLE
        ]
        wanted = dict.fromkeys(mine, target.scope_condition)
    plans = [
        await _plan(database, name, specs[name], where, target)
        for name, where in wanted.items()
        if name in specs
    ]
    if target.records is None or RECORDS_TABLE not in specs:
        return plans
    of_records = await _plan_records(database, target)
    if SESSIONS_TABLE in specs:
        if target.is_whole_scope:
            plans.append(
                await _plan(database, SESSIONS_TABLE, SESSIONS, target.scope_condition, target)
            )
        elif target.derived and (left := await _left_empty(of_records)):
            where = sql.all_of([target.scope_condition, sql.in_list("id", sorted(left))])
            plan = await _plan(database, SESSIONS_TABLE, SESSIONS, where, target, of=left)
            plans.extend([plan] if plan.matched else [])
    return [*plans, of_records]


async def _plan(
    database: Database,
    name: str,
    spec: TableSpec,
    where: str,
    target: Target,
    *,
    of: Mapping[str, list[State]] | None = None,
) -> _Plan:
    """What matches in any version; of sessions only those that belong to erased records."""
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


async def _plan_records(database: Database, target: Target) -> _Plan:
    assert target.records is not None
    plan = await _matching(
        database,
        RECORDS_TABLE,
        RECORDS,
        target.records,
        target,
        linked_within=target.scope_condition,
    )
    for state in plan.states:
        plan.names.add(state.id, state.scope_values)
    for id in target.ids:
        scope = target.scope
        plan.names.add(id, (None, scope.tenant, scope.user_id, scope.agent_id))
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
    for name, found in plan.links.items():
        for link in found:
            named = link.mentions | link.sources if plan.in_sources else link.mentions
            if link.state.key in plan.matched | plan.derived or not link.is_present:
                continue
            if plan.names.mean(named, link.state.scope_values):
                plan.mentions.add(link.state.key)
                plan.touched.add(name)
    await plan.look()
    return plan


async def _matching(
    database: Database,
    name: str,
    spec: TableSpec,
    where: str,
    target: Target,
    *,
    linked_within: str | None = None,
) -> _Plan:
    """What matches in any version, and who within that scope names whom."""
    async with database.table(name, spec).access.separately() as main:
        table_refs = await erasing.table_refs(database, name, spec, main)
        found = {
            ref.name: await traces.found(ref, where, linked_within, main) for ref in table_refs
        }
    states = {state for one in found.values() for state in one.states}
    return _Plan(
        database=database,
        name=name,
        spec=spec,
        refs=table_refs,
        scope_condition=target.scope_condition,
        matched={state.key for state in states},
        states=states,
        links={ref: one.links for ref, one in found.items()},
        touched={ref for ref, one in found.items() if one.is_shown},
    )


async def _left_empty(plan: _Plan) -> dict[str, list[State]]:
    """The sessions that no ref has a record of any more, with the erased records that they had."""
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


def _report(plans: Sequence[_Plan], *, may_linger: bool) -> Erasure:
    of = {plan.name: plan for plan in plans}
    due = {ref.name for plan in plans for ref in plan.due}
    of_records, of_sessions = of.get(RECORDS_TABLE), of.get(SESSIONS_TABLE)
    return Erasure(
        records=len(of_records.matched) if of_records else 0,
        derived=len(of_records.derived) if of_records else 0,
        documents=sum(map(_n_documents, plans)),
        items=sum(len(plan.matched) for plan in plans if _is_items(plan.name)),
        sessions=len(of_sessions.matched) if of_sessions else 0,
        mentions=len(of_records.mentions) if of_records else 0,
        versions_removed=sum(len(ref.versions) for plan in plans for ref in plan.due),
        branches=tuple(sorted(one for ref in due if (one := refs.branch_of(ref)) is not None)),
        tags=tuple(sorted(tag for ref in due if ref and (tag := refs.tag_of(ref)) is not None)),
        may_linger=may_linger,
    )


def _n_documents(plan: _Plan) -> int:
    """How many documents a plan concerns; the chunks of a file are counted with it."""
    if plan.name == DOCUMENTS_TABLE:
        return sum(not is_chunk_id(state.id) for state in plan.states)
    return len(plan.matched) if _is_collection(plan.name) else 0


def _is_past(ref: TableRef) -> bool:
    """Whether it only keeps an older version, as erasing does not: it would be one more copy."""
    return refs.is_kept(ref.name)


def _is_collection(table: str) -> bool:
    """Whether the table holds documents."""
    return collection_of(table) is not None


def _is_items(table: str) -> bool:
    """Whether the table holds key-value items."""
    return kv_of(table) is not None
