"""The section that summarises the messages before the shown part of the history."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.codecs.records import KNOWLEDGE, SUMMARIES
from lance_context_core.errors import InvalidRequestError, ReadOnlyError
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Outcome
from lance_context_core.jobs.queue import Decide, Queue
from lance_context_core.jobs.types import (
    KIND,
    SUMMARISE,
    Job,
    from_record,
    job_id,
    owner_of,
    scheduled,
    spend,
    tokens_of,
)
from lance_context_core.messages import Message
from lance_context_core.storage import sql
from lance_context_core.stores.history import AsyncHistory
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord
from lance_context_core.window.compaction.plans import (
    MAX_INPUT_TOKENS,
    Summariser,
    SummaryError,
    SummaryMaker,
    summary_message,
)
from lance_context_core.window.sections import Offer, Placement, Section
from lance_context_core.window.sources import Sources, records_of

# Summaries as records: their range, the last one of a session, and how they are stored.
#
# A summary covers the messages up to a cut of the history. It is stored in the context `SUMMARIES`,
# in the layer L0, and its `source_ids` name the summary before it and the messages since: so it is
# erased with any of them. A summary of removed messages is not shown.

_N_LAST = 100
"""Number of a session's summaries to check; each covers one step more."""


def covered_by(record: ContextRecord | None) -> int:
    """Number of messages that it covers from the first one on; 0 without it."""
    n_covered = None if record is None else record.metadata.get("n_covered")
    return n_covered if isinstance(n_covered, int) else 0


async def last_summary(sources: Sources) -> ContextRecord | None:
    """Return the summary that covers the most, and only existing messages before the cut."""
    records = records_of(sources, SUMMARIES)
    where = records.where(
        sql.equals("session_id", sources.session_id),
        sql.equals("agent_id", records.whose("agent_id", sources.agent_id)),
    )
    found = await records.read(where, columns=WITHOUT_BLOB, last=_N_LAST)
    fitting = [one for one in found if 0 < covered_by(one) <= sources.cut]
    for one in sorted(fitting, key=covered_by, reverse=True):
        end = await sources.messages(covered_by(one) - 1, covered_by(one))
        if end and one.source_ids and end[0].id == one.source_ids[-1]:
            return one
    return None


def record_of(
    records: Records,
    text: str,
    *,
    agent_id: str | None,
    session_id: str,
    before: ContextRecord | None,
    messages: Sequence[Message],
    producer: str,
) -> ContextRecord:
    """Return the record of a summary of `before` and the `messages` since."""
    ids = [*([before.id] if before else ()), *(str(one.id) for one in messages)]
    named = "\0".join([agent_id or "", session_id, *ids])
    now = records.now()
    record = ContextRecord(
        id=f"summary-{hashlib.blake2b(named.encode(), digest_size=12).hexdigest()}",
        kind="summary",
        content_type="text/plain",
        created_at=now,
        updated_at=now,
        context=SUMMARIES,
        layer="L0",
        source_ids=tuple(ids),
        agent_id=agent_id,
        session_id=session_id,
        role="summary",
        text=text,
        metadata={
            "n_covered": covered_by(before) + len(messages),
            "first_id": before.metadata.get("first_id") if before else ids[0],
            "last_id": ids[-1],
            "producer": producer,
        },
    )
    return records.stamped(record)


async def kept(records: Records, record: ContextRecord) -> ContextRecord:
    """Store a summary and return it; of two concurrent ones, the first."""
    try:
        await commits.write(records, [record], [])
    except ReadOnlyError as error:
        raise SummaryError("an earlier version of the store keeps no new summary") from error
    found = await records.visible(sql.equals("id", record.id))
    if found is None:
        raise SummaryError("the summary was removed as soon as it was kept")
    return found


# The jobs that make summaries: a window without one submits a job, and a process with a summariser
# runs it.


async def submitted(sources: Sources, before: ContextRecord | None, producer: str) -> Job:
    """Submit the job of a summary up to the cut, shared by all windows.

    Raises SummaryError if the store is read-only.
    """
    made = records_of(sources, KNOWLEDGE)
    agent = made.whose("agent_id", sources.agent_id)
    owner = made.scope.narrow(agent_id=agent)
    (end,) = await sources.messages(sources.cut - 1, sources.cut)
    # Not from all inputs: these are read only if the job does not exist yet.
    id = job_id(SUMMARISE, owner, sources.session_id, [str(end.id), str(sources.cut)], producer)
    there = await commits.held(made, sql.equals("kind", KIND), sql.equals("id", id))
    if there:
        return from_record(there[0].record)
    start = covered_by(before)
    planned = scheduled(
        SUMMARISE,
        id,
        owner=owner,
        now=made.now(),
        input_ids=(*([before.id] if before else ()), *await sources.ids(start, sources.cut)),
        session_id=sources.session_id,
        producer=producer,
    )
    try:
        (job,) = await Queue(made).submit([planned])
    except ReadOnlyError as error:
        raise SummaryError("an earlier version of the store keeps no new job") from error
    return job


@frozen
class Summarising:
    """Makes the summaries of jobs."""

    records: Records
    maker: SummaryMaker

    @property
    def queue(self) -> Queue:
        """The queue of all jobs, of which it runs its own kind."""
        return Queue(replace(self.records, context=KNOWLEDGE), {SUMMARISE: self.run})

    async def run(self, job: Job) -> Decide:
        """Call the summariser for it.

        Raises InvalidRequestError if the session no longer has the messages of the job, and
        SummaryError for an invalid answer.
        """
        owner = owner_of(job)
        spoken = replace(self.records, scope=owner)
        summaries = replace(spoken, context=SUMMARIES)
        first = await summaries.visible(sql.equals("id", job.input_ids[0]))
        before = first if first is not None and first.session_id == job.session_id else None
        ids = job.input_ids if before is None else job.input_ids[1:]
        session_id = job.session_id or ""
        messages = await AsyncHistory(spoken).get_messages(
            job.agent_id or "",
            session_id=session_id,
            offset=covered_by(before),
            limit=len(ids),
        )
        if tuple(one.id for one in messages) != ids:
            raise InvalidRequestError(
                f"session {session_id!r} changed since this job was submitted: the next window without "
                "a summary submits another job"
            )
        parts = self.maker.parts(messages)
        n_characters = sum(map(len, parts)) + len((before.text if before else None) or "")
        tokens = tokens_of(n_characters)
        spend(calls=len(parts), tokens=tokens)
        record = record_of(
            summaries,
            await self.maker.make(parts, before.text if before else None),
            agent_id=job.agent_id,
            session_id=session_id,
            before=before,
            messages=messages,
            producer=job.producer,
        )

        async def decide() -> Outcome:
            there = await commits.held(summaries, sql.equals("id", record.id))
            n_covered = covered_by(record)
            return Outcome(
                added=[] if there else [record],
                result={"summary": record.id, "n_covered": n_covered},
                usage={"calls": len(parts), "characters": n_characters, "tokens": tokens},
            )

        return decide


@frozen_by_name
class SummarySection(Section):
    """A summary of the messages before the shown part of the history.

    It shows the last summary that exists. After a new cut of the history, a `summariser` makes the
    next one at once, and it is stored: from the last summary and the messages since. With `later` a
    job is submitted instead, which `store.windows.jobs` runs, outside the conversation. If either
    fails, the last summary is shown, and the report has the reason. With neither, it makes none.
    """

    summariser: Summariser | None = None
    later: bool = False
    """Whether a job makes them."""
    producer: str = "summariser"
    """The name of the maker, stored with each."""
    timeout_seconds: float = 60.0
    """Timeout of one call, in seconds."""
    max_input_tokens: int = MAX_INPUT_TOKENS
    """Maximum tokens of the conversation per call: a longer one is split into several calls."""
    max_tokens: int | None = 600
    share: float | None = 0.15
    placement: Placement = "prefix"
    priority: int = 65
    follows_history: bool = True

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        # Without a summariser nothing is checked.
        self._maker(self.summariser or str)
        if self.later and self.summariser is not None:
            raise InvalidRequestError(
                "later=True with a summariser: give it to store.windows.jobs, or leave later out"
            )

    async def offer(self, sources: Sources) -> Offer:
        """Return the message that quotes the summary, if one exists."""
        if not sources.cut:
            return Offer()
        last = await last_summary(sources)
        notes: tuple[str, ...] = ()
        if covered_by(last) < sources.cut:
            try:
                if self.summariser is not None:
                    last = await self._made(self.summariser, sources, last)
                elif self.later:
                    job = await submitted(sources, last, self.producer)
                    why = f": {job.error}" if job.error else ""
                    notes = (f"job {job.id}, which makes the next one, is {job.state}{why}",)
            except SummaryError as error:
                notes = (str(error),)
        if last is None:
            return Offer(notes=notes)
        sources.covered = covered_by(last)
        message = replace(summary_message(last.text or ""), id=last.id)
        return Offer(messages=[message], notes=notes)

    async def _made(
        self, summariser: Summariser, sources: Sources, last: ContextRecord | None
    ) -> ContextRecord:
        """Make and store a summary of all messages up to the cut."""
        messages = await sources.messages(covered_by(last), sources.cut)
        maker = self._maker(summariser)
        records = records_of(sources, SUMMARIES)
        made = record_of(
            records,
            await maker.make(maker.parts(messages), last.text if last else None),
            agent_id=records.whose("agent_id", sources.agent_id),
            session_id=sources.session_id,
            before=last,
            messages=messages,
            producer=self.producer,
        )
        return await kept(records, made)

    def _maker(self, summariser: Summariser) -> SummaryMaker:
        return SummaryMaker(summariser, self.timeout_seconds, self.max_input_tokens)
