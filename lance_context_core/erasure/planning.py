"""Finding what an erasure concerns: what matches, what was made of it, and what only that names."""

from collections.abc import Iterable, Mapping, Sequence

from lance_context_core.codecs.records import is_media
from lance_context_core.erasure import holding, of_graph
from lance_context_core.erasure import references as traces
from lance_context_core.erasure.plan import GraphPlan, Plan
from lance_context_core.erasure.references import Names, State
from lance_context_core.erasure.target import Target
from lance_context_core.storage import database as db
from lance_context_core.storage import sql
from lance_context_core.storage.lance import purge
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

IMAGES = table_of(IMAGES_COLLECTION)
"""Where pictures are among pictures: it goes with them."""

_WHOLLY = (db.DOCUMENTS_TABLE, db.BLOBS_TABLE, db.GRAPH_TABLE)
"""The tables of which a scope's part goes with all that the scope has."""


async def due_plans(database: db.Database, tables: Iterable[Table], target: Target) -> list[Plan]:
    """What is to be done, of each of the tables that has anything to clean, the bytes of blobs first.

    What the journal holds is not looked at: it has just been folded.
    """
    specs = {table.name: table.spec for table in tables}
    found = await _plans(database, specs, target)
    return [
        plan for plan in [*await _plan_blobs(database, specs, found, target), *found] if plan.due
    ]


async def _plans(
    database: db.Database, specs: Mapping[str, TableSpec], target: Target
) -> list[Plan]:
    """What is to be done, the records last: they tell what else there is to do."""
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
    """The plans, with what is known in the graph from what they erase."""
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
            if await of_graph.was_named(ref, names, target.scope_condition, main)
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
    """What is or was put away of the same records: a row has the same key wherever it is."""
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
    """The bytes that only what goes had named; none of them, where all of a scope goes anyway."""
    if db.BLOBS_TABLE not in specs or target.is_whole_scope:
        return []
    named: set[holding.Named] = set()
    for one in plans:
        gone = one.matched | one.derived
        scope = one.scope_condition
        named |= await holding.once_named(database, one.name, one.refs, gone, scope)
    if not named:
        return []
    hashes = sorted({name.hash for name in named})
    where = sql.all_of([target.scope_condition, sql.in_list("hash", hashes)])
    plan = await _matching(database, db.BLOBS_TABLE, BLOBS, where, target)
    going = {one.name: one.matched | one.derived for one in plans}
    plan.states = await holding.unheld(database, specs, plan.states, named, going)
    kept = await holding.pinned(plan.refs, plan.states) if plan.states else set()
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
    """What matches in any version; if such rows name each other, also who in the scope names whom."""
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


def is_collection(table: str) -> bool:
    """Whether the table holds documents."""
    return collection_of(table) is not None


def is_items(table: str) -> bool:
    """Whether the table holds key-value items."""
    return kv_of(table) is not None
