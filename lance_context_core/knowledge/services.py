"""The parts behind the verbs of the knowledge, and the queue of their jobs."""

from collections.abc import Callable, Mapping
from typing import Any

from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError
from lance_context_core.jobs.queue import Queue
from lance_context_core.jobs.types import Job, Stopped, refuse_running
from lance_context_core.knowledge import params
from lance_context_core.knowledge.builders import Builders
from lance_context_core.knowledge.distilling import EXTRACT, Distiller
from lance_context_core.knowledge.proposals import DISTILL, REPLAY, Proposing
from lance_context_core.knowledge.pruning import Tidying
from lance_context_core.knowledge.undo_log import ARCHIVE, PRUNE, UNDO, UndoLog
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import Progress


@frozen
class Services:
    """The services over the records of one handle."""

    spoken: Records
    makers: Builders
    progress: Callable[[Progress], object] | None = None
    """Called with the progress of a distillation."""

    @property
    def made(self) -> Records:
        """The records of the knowledge."""
        return Records(self.spoken.resources, self.spoken.scope, params.CONTEXT)

    @property
    def distiller(self) -> Distiller:
        """Extracts facts, chunks and summaries from turns."""
        return Distiller(self.spoken, self.made, self.makers)

    @property
    def proposing(self) -> Proposing:
        """Does so on a branch."""
        return Proposing(self.distiller, self._jobs({}), self.progress)

    @property
    def undoing(self) -> UndoLog:
        """Undoes jobs."""
        return UndoLog(self.distiller, self._jobs({}))

    @property
    def tidying(self) -> Tidying:
        """Hides facts of little value, and archives sessions."""
        return Tidying(self.spoken, self.made, self._jobs({}))

    @property
    def queue(self) -> Queue:
        """The queue of all kinds of jobs."""
        return self._jobs(
            {
                EXTRACT: self.distiller.run,
                DISTILL: self.proposing.run,
                REPLAY: self.proposing.run_replay,
                UNDO: self.undoing.run,
                PRUNE: self.tidying.run_prune,
                ARCHIVE: self.tidying.run_archive,
            }
        )

    async def proposed(self, planned: Job) -> Job:
        """Run a job that makes a proposal, unless it has run, and return it."""
        (job,) = await self.queue.submit([planned])
        if job.state == "cancelled":
            job = await self.queue.retry(job.id)
        try:
            return await self.queue.run(job.id) or await self.queue.get(job.id)
        except Stopped as stopped:
            raise stopped.__cause__ or stopped from None

    async def run(self, job: Job) -> Job:
        """Submit a job, run it and return it.

        Raises the error of a failed job, and ConflictError while another worker runs it.
        """
        await self.queue.submit([job])
        done = await self.queue.run(job.id) or await self.queue.get(job.id)
        refuse_running(done)
        if done.state != "succeeded":
            raise InvalidRequestError(f"job {done.id!r} is {done.state}: {done.error}")
        return done

    def _jobs(self, handlers: Mapping[str, Any]) -> Queue:
        return Queue(self.made, handlers)
