"""The jobs that make summaries: a window that lacks one submits a job, and whoever has a summariser does it."""

from dataclasses import replace

from lance_context_core._util.frozen import frozen
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
from lance_context_core.storage import sql
from lance_context_core.stores.history import AsyncHistory
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord
from lance_context_core.window import summary_records
from lance_context_core.window.compaction.summarising import SummaryError, SummaryMaker
from lance_context_core.window.sources import Sources, records_of


async def submitted(sources: Sources, before: ContextRecord | None, producer: str) -> Job:
    """The job of a summary up to the cut; the same one, however many windows lack that summary.

    Raises SummaryError where nothing can be written.
    """
    made = records_of(sources, KNOWLEDGE)
    agent = made.whose("agent_id", sources.agent_id)
    owner = made.scope.narrow(agent_id=agent)
    (end,) = await sources.messages(sources.cut - 1, sources.cut)
    # Not of all that it is about: that is read only where the job is not there yet.
    id = job_id(SUMMARISE, owner, sources.session_id, [str(end.id), str(sources.cut)], producer)
    there = await commits.held(made, sql.equals("kind", KIND), sql.equals("id", id))
    if there:
        return from_record(there[0].record)
    start = summary_records.covered(before)
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
    """Makes the summaries that jobs are about."""

    records: Records
    maker: SummaryMaker

    @property
    def queue(self) -> Queue:
        """The queue of all jobs, of which it does its own kind."""
        return Queue(replace(self.records, context=KNOWLEDGE), {SUMMARISE: self.run})

    async def run(self, job: Job) -> Decide:
        """Ask the summariser for it.

        Raises InvalidRequestError where the session is no longer what the job is about, and
        SummaryError for an answer that is no summary.
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
            offset=summary_records.covered(before),
            limit=len(ids),
        )
        if tuple(one.id for one in messages) != ids:
            raise InvalidRequestError(
                f"session {session_id!r} is no longer what this job is about: the next window that "
                "lacks a summary submits another job"
            )
        parts = self.maker.parts(messages)
        n_characters = sum(map(len, parts)) + len((before.text if before else None) or "")
        tokens = tokens_of(n_characters)
        spend(calls=len(parts), tokens=tokens)
        record = summary_records.record_of(
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
            n_covered = summary_records.covered(record)
            return Outcome(
                added=[] if there else [record],
                result={"summary": record.id, "n_covered": n_covered},
                usage={"calls": len(parts), "characters": n_characters, "tokens": tokens},
            )

        return decide
