"""What an erasure leaves of the knowledge: as if what is erased had never been said.

What only erased turns support is left as it is, and goes with them. The rest is written anew, without
them, before they go: killed in between, the erasure is called again, and finds that done.
"""

from collections.abc import Collection
from dataclasses import replace

from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.records import COLUMNS
from lance_context_core.erasure.selector import Target
from lance_context_core.jobs import commits
from lance_context_core.jobs.queue import Queue
from lance_context_core.jobs.types import KIND as JOB
from lance_context_core.knowledge import kept, turns
from lance_context_core.knowledge.distilling import Distiller
from lance_context_core.knowledge.makers import Makers
from lance_context_core.knowledge.proposals import PROPOSALS
from lance_context_core.knowledge.remaining import Erased, Remaining
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance import branches as refs
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord
from lance_context_core.versioning import branches
from lance_context_core.versioning.locations import Whole

_KNOWLEDGE = sql.in_list("kind", [kept.FACT, kept.CHUNK, kept.SUMMARY, JOB])


async def forget(spoken: Records, target: Target, *, dry_run: bool) -> frozenset[str]:
    """Write anew what has other sources than what is erased, on every branch.

    Proposals that saw it are discarded. Returns the keys of what stays, in a dry run too.
    """
    whole = Whole(spoken.resources, Scope())
    staying: set[str] = set()
    main = _on(spoken, refs.MAIN)
    meant = await _meant(main, target)
    if not dry_run:
        await _discard(whole, main, meant)

    async def step(name: str) -> None:
        view = _on(spoken, name)
        staying.update(await _forget(view, await _meant(view, target), dry_run=dry_run))

    await branches.on_each(whole.main(), step)
    return frozenset(staying)


def _on(records: Records, branch: str) -> Records:
    resources = records.resources
    return replace(records, resources=resources.on(resources.writable().on(branch)))


async def _meant(spoken: Records, target: Target) -> Erased:
    """The turns that are erased, hidden ones too."""
    assert target.records is not None
    where = spoken.own(turns.MESSAGES, target.records)
    rows = await spoken.table.select(where, columns=["id", "session_id", *SCOPE_PARTS])
    found = {(turns.conversation_of(row), row["id"]) for row in rows.to_pylist()}
    return Erased(frozenset(found), frozenset(target.ids))


async def _forget(spoken: Records, erased: Erased, *, dry_run: bool) -> set[str]:
    made = replace(spoken, context=kept.CONTEXT)
    attempts = Attempts("the knowledge of what is erased kept being changed by others")
    while True:
        attempts.begin()
        held = await commits.held(made, _KNOWLEDGE)
        remaining = Remaining(erased, {one.row[KEY]: one for one in held}, made.now())
        await _work(remaining, spoken, made)
        changed = remaining.changes()
        keys = {before.row[KEY] for before, _ in changed}
        if dry_run:
            return keys
        if await commits.write(made, remaining.added, changed):
            return keys


async def _work(remaining: Remaining, spoken: Records, made: Records) -> None:
    """Decide what becomes of everything, by what the turns that stay say."""
    sources = remaining.sources_that_stay()
    said: list[ContextRecord] = []
    if sources:
        named = sql.in_list("id", sorted(sources))
        where = spoken.own(turns.MESSAGES, named)
        said = await spoken.read(where, columns=COLUMNS)
    remaining.rebuild(said)
    distiller = Distiller(spoken, made, Makers())
    for held, only in remaining.summaries():
        record = held.record
        conversation = turns.Conversation(turns.owner_of(record), record.session_id or "")
        by = str(record.metadata.get("job_id", ""))
        new = await distiller.summarised(conversation, by, only=only)
        if new is not None:
            remaining.replace(held, new)


async def _discard(whole: Whole, spoken: Records, erased: Erased) -> None:
    """Drop the proposals that saw it, with their branches."""
    queue = Queue(replace(spoken, context=kept.CONTEXT))
    for job in await queue.list():
        if job.kind in PROPOSALS and job.state != "succeeded" and _saw(job.input_ids, erased):
            await queue.change(job.id, state="cancelled", lease_until=None, fence=job.fence + 1)
            await branches.delete(whole, job.branch or "")


def _saw(ids: Collection[str], erased: Erased) -> bool:
    return bool({*ids} & erased.all_ids)
