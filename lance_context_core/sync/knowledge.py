"""Knowledge and its jobs, from synchronous code."""

from lance_context_core.jobs.jobs import AsyncJobs
from lance_context_core.knowledge.knowledge import AsyncKnowledge
from lance_context_core.sync._blocking import Blocking, blocking, handing


class Jobs(Blocking[AsyncJobs]):
    """The jobs of a store; `AsyncJobs` is the asynchronous one."""

    list = blocking(AsyncJobs.list)
    get = blocking(AsyncJobs.get)
    run_due = blocking(AsyncJobs.run_due)
    cancel = blocking(AsyncJobs.cancel)
    retry = blocking(AsyncJobs.retry)


class Knowledge(Blocking[AsyncKnowledge]):
    """What is known, and why; `AsyncKnowledge` is the asynchronous one."""

    using = handing(AsyncKnowledge.using)

    @property
    def jobs(self) -> Jobs:
        """The jobs of the knowledge."""
        return Jobs(self._aio.jobs)

    add = blocking(AsyncKnowledge.add)
    search = blocking(AsyncKnowledge.search)
    profile = blocking(AsyncKnowledge.profile)
    episodes = blocking(AsyncKnowledge.episodes)
    explain = blocking(AsyncKnowledge.explain)
    trace = blocking(AsyncKnowledge.trace)
    prune = blocking(AsyncKnowledge.prune)
    archive = blocking(AsyncKnowledge.archive)
    unarchive = blocking(AsyncKnowledge.unarchive)
    distill = blocking(AsyncKnowledge.distill)
    proposal = blocking(AsyncKnowledge.proposal)
    merge = blocking(AsyncKnowledge.merge)
    discard = blocking(AsyncKnowledge.discard)
    undo = blocking(AsyncKnowledge.undo)
    correct = blocking(AsyncKnowledge.correct)
    invalidate = blocking(AsyncKnowledge.invalidate)
    pin = blocking(AsyncKnowledge.pin)
    history = blocking(AsyncKnowledge.history)
