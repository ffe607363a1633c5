"""Erasure of rows, in every version of every ref, and of derived rows.

First deletes everything wherever it is visible, and only then cleans the files, ref by ref.
A crash before that leaves the older versions, in which all of it is found again; a crash after it
leaves refs with a deletion, and these are cleaned whatever is found.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from lance_context_core._progress import tell
from lance_context_core.audit import derive_events
from lance_context_core.audit.log import AUDIT_TABLE, Log
from lance_context_core.codecs.blobs import is_whole
from lance_context_core.codecs.sources import is_chunk_id
from lance_context_core.erasure.planner import IMAGES, Plan, due_plans, is_collection, is_items
from lance_context_core.erasure.selector import Target
from lance_context_core.errors import ConflictError, NotFoundError
from lance_context_core.storage import database as db
from lance_context_core.storage.lance import branches
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.types import Erasure, Progress
from lance_context_core.versioning import branches as branching
from lance_context_core.versioning.locations import Whole


async def erase(
    whole: Whole,
    target: Target,
    *,
    sole_writer: bool,
    dry_run: bool,
    progress: Callable[[Progress], object] | None = None,
) -> Erasure:
    """Erases all revisions of the target, in every version, on every branch and under every tag.

    Blocks maintenance of the tables meanwhile: an index that is being built may still hold it.
    Raises ConflictError if others hold the turn, or the rows, for too long.
    """
    if target.is_nothing:
        return Erasure()
    told: list[Erasure] = []

    async def work() -> Erasure:
        return await _erase(
            whole, target, told, sole_writer=sole_writer, dry_run=dry_run, progress=progress
        )

    try:
        return await whole.in_turn(work)
    except NotFoundError as error:
        raise ConflictError(
            f"others kept making and removing branches and tags: call again ({error})"
        ) from error


async def _erase(
    whole: Whole,
    target: Target,
    told: list[Erasure],
    *,
    sole_writer: bool,
    dry_run: bool,
    progress: Callable[[Progress], object] | None,
) -> Erasure:
    """As `erase`, once. The `told` of the first run comes first: a restart finds less."""
    main = whole.main()
    database = main.resources.database
    assert isinstance(database, db.Database)
    await database.settle()
    names = await database.table_names()
    tables, is_noted = main.tables_among(names), AUDIT_TABLE in names
    if not dry_run:
        await branching.finish_deletions(main, tables)
        if is_noted:
            await derive_events.seal(main.resources)
    plans = await due_plans(database, tables, target)
    told.append(_report(plans, may_linger=bool(plans) and not sole_writer))
    report = told[0]
    if dry_run:
        return report
    written = [ref.table for plan in plans for ref in plan.refs if branches.branch_of(ref.name)]
    async with whole.resources.upkeep.hold(written):
        if await database.has(db.COLD_TABLE):  # Rows may have been archived until now.
            await database.settle()
            plans = await due_plans(database, await main.tables(), target)
        if sum([plan.settle() for plan in plans]) > 1:
            # Cleaning the only ref deletes there, too.
            for plan in plans:
                await plan.hide()
            whole.resources.forget_hot()
        removed = []
        for n, plan in enumerate(plans, 1):
            removed += await plan.scour(sole_writer=sole_writer)
            whole.resources.forget_hot()
            now = Progress(n_done=n, n_total=len(plans), what="tables", name=plan.name)
            await tell(progress, now)
        # Also rows that came and went between two flushes, which no table has seen.
        journal = database.connection.journal
        is_wiped = journal is None or await journal.wipe()
    if is_noted:
        await derive_events.forget(
            whole.resources,
            target.scope,
            keys={plan.name: await _gone(database, plan) for plan in plans},
            ids={*target.ids, *(state.id for plan in plans for state in plan.states)},
            is_whole_scope=target.is_whole_scope,
        )
    pending = await _confirmed(main)
    return replace(
        report,
        engines_pending=tuple(pending),
        bytes_removed=sum(one.n_bytes for one in removed),
        may_linger=report.may_linger or not is_wiped or not all(one.is_all for one in removed),
    )


async def _confirmed(main: Whole) -> list[str]:
    """Removes the erased rows from the engines; returns those that did not confirm it.

    Compares all rows, so that a repetition completes what an earlier erasure could not.
    """
    engines = main.resources.engines
    return [] if engines is None else await engines.follow(await main.tables(), are_all=True)


def _report(plans: Sequence[Plan], *, may_linger: bool) -> Erasure:
    of = {plan.name: plan for plan in plans}
    refs_due = [ref for plan in plans for ref in plan.due]
    due = {ref.name for ref in refs_due}
    of_records, of_sessions = of.get(db.RECORDS_TABLE), of.get(db.SESSIONS_TABLE)
    kept = [of[name] for name in (db.RECORDS_TABLE, db.COLD_TABLE) if name in of]
    derived = of_records.derived if of_records else set()
    return Erasure(
        records=len({key for one in kept for key in one.matched} - derived),
        derived=len(of_records.derived) if of_records else 0,
        documents=sum(map(_n_documents, plans)),
        graph=len(of[db.GRAPH_TABLE].matched) if db.GRAPH_TABLE in of else 0,
        items=sum(len(plan.matched) for plan in plans if is_items(plan.name)),
        blobs=sum(is_whole(one.id) for one in of[db.BLOBS_TABLE].states)
        if db.BLOBS_TABLE in of
        else 0,
        sessions=len(of_sessions.matched) if of_sessions else 0,
        mentions=len(of_records.mentions) if of_records else 0,
        versions_removed=sum(len(ref.versions) for ref in refs_due),
        branches=tuple(sorted(one for ref in due if (one := branches.branch_of(ref)) is not None)),
        tags=tuple(sorted(tag for ref in due if ref and (tag := branches.tag_of(ref)) is not None)),
        may_linger=may_linger,
    )


async def _gone(database: db.Database, plan: Plan) -> set[str]:
    """Returns the keys of rows that an erasure has removed from a table."""
    if plan.name != db.GRAPH_TABLE:
        return plan.matched | plan.derived
    # Found ref by ref: noted rows that no longer exist anywhere are gone.
    links = await Log(database).links()
    noted = {row.key for link in links if link.entry.table == plan.name for row in link.entry.rows}
    for ref in plan.refs:
        if branches.branch_of(ref.name):
            noted -= {*(await ref.table.select(None, columns=[KEY]))[KEY].to_pylist()}
    return {key for key in noted if key is not None}


def _n_documents(plan: Plan) -> int:
    """Returns how many documents a plan erases; a file's chunks are counted with it."""
    if plan.name == db.DOCUMENTS_TABLE:
        return sum(not is_chunk_id(state.id) for state in plan.states)
    return len(plan.matched) if is_collection(plan.name) and plan.name != IMAGES else 0
