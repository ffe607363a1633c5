"""Knowledge and its jobs, from synchronous code."""

from typing import Self

from lance_context_core._loop import block_on
from lance_context_core.jobs.jobs import AsyncJobs, AsyncJobWorker
from lance_context_core.knowledge.knowledge import AsyncKnowledge
from lance_context_core.sync._blocking import Blocking, blocking, giving, handing, showing


class JobWorker(Blocking[AsyncJobWorker]):
    """Runs the jobs that are due, in a thread of its own; `AsyncJobWorker` is the asynchronous one."""

    @property
    def error(self) -> Exception | None:
        """Why it could not look for jobs when it did so last; None if it could."""
        return self._aio.error

    def __enter__(self) -> Self:
        block_on(self._aio.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        block_on(self._aio.__aexit__())


class Jobs(Blocking[AsyncJobs]):
    """The jobs of a store; `AsyncJobs` is the asynchronous one."""

    list = blocking(AsyncJobs.list)
    get = blocking(AsyncJobs.get)
    run_due = blocking(AsyncJobs.run_due)
    worker = giving(AsyncJobs.worker, JobWorker)
    cancel = blocking(AsyncJobs.cancel)
    retry = blocking(AsyncJobs.retry)


class Knowledge(Blocking[AsyncKnowledge]):
    """What is known, and why; `AsyncKnowledge` is the asynchronous one."""

    using = handing(AsyncKnowledge.using)

    add = blocking(AsyncKnowledge.add)
    search = blocking(AsyncKnowledge.search)
    profile = blocking(AsyncKnowledge.profile)
    episodes = blocking(AsyncKnowledge.episodes)
    explain = blocking(AsyncKnowledge.explain)
    trace = blocking(AsyncKnowledge.trace)
    candidates = blocking(AsyncKnowledge.candidates)
    prune = blocking(AsyncKnowledge.prune)
    archive = blocking(AsyncKnowledge.archive)
    unarchive = blocking(AsyncKnowledge.unarchive)
    distill = blocking(AsyncKnowledge.distill)
    schedule = blocking(AsyncKnowledge.schedule)
    replay = blocking(AsyncKnowledge.replay)
    proposal = blocking(AsyncKnowledge.proposal)
    merge = blocking(AsyncKnowledge.merge)
    discard = blocking(AsyncKnowledge.discard)
    undo = blocking(AsyncKnowledge.undo)
    correct = blocking(AsyncKnowledge.correct)
    invalidate = blocking(AsyncKnowledge.invalidate)
    pin = blocking(AsyncKnowledge.pin)
    history = blocking(AsyncKnowledge.history)

    jobs = showing(AsyncKnowledge.jobs, Jobs)
