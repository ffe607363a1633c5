"""Knowledge and its jobs, from synchronous code."""

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from lance_context_core._loop import block_on
from lance_context_core.filters import FilterLike
from lance_context_core.jobs.jobs import AsyncJobs
from lance_context_core.jobs.values import Job, JobState
from lance_context_core.knowledge.adding import Told
from lance_context_core.knowledge.knowledge import AsyncKnowledge
from lance_context_core.knowledge.protocols import AsyncParaphraser, Extractor, Paraphraser
from lance_context_core.knowledge.values import (
    Added,
    Explanation,
    FactChange,
    Infer,
    KnowledgeHit,
    Proposal,
    Prune,
    SearchType,
    TraceEvent,
    Undone,
)
from lance_context_core.records import ContextRecord, MergeReport
from lance_context_core.versioning.conflicts import MergePolicy


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of a store; `AsyncJobs` is the asynchronous one."""

    _aio: AsyncJobs

    def list(
        self,
        *,
        state: JobState | None = None,
        kind: str | None = None,
        limit: int | None = None,
    ) -> builtins.list[Job]:
        """Jobs in the order in which they were submitted. See `AsyncJobs.list`."""
        return block_on(self._aio.list(state=state, kind=kind, limit=limit))

    def get(self, job_id: str) -> Job:
        """The job with that id. See `AsyncJobs.get`."""
        return block_on(self._aio.get(job_id))

    def run_due(
        self, now: datetime | None = None, *, limit: int | None = None
    ) -> builtins.list[Job]:
        """Run the jobs that are due; returns what became of them. See `AsyncJobs.run_due`."""
        return block_on(self._aio.run_due(now, limit=limit))

    def cancel(self, job_id: str) -> Job:
        """Let a job that is not finished never run. See `AsyncJobs.cancel`."""
        return block_on(self._aio.cancel(job_id))

    def retry(self, job_id: str) -> Job:
        """Let a job that failed be due at once. See `AsyncJobs.retry`."""
        return block_on(self._aio.retry(job_id))


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known, and why; `AsyncKnowledge` is the asynchronous one."""

    _aio: AsyncKnowledge

    def using(
        self,
        *,
        extractor: Extractor | None = None,
        model: Paraphraser | AsyncParaphraser | None = None,
        model_name: str = "model",
    ) -> "Knowledge":
        """The same, by another extractor or in a model's words. See `AsyncKnowledge.using`."""
        return Knowledge(self._aio.using(extractor=extractor, model=model, model_name=model_name))

    @property
    def jobs(self) -> Jobs:
        """The jobs of the knowledge."""
        return Jobs(self._aio.jobs)

    def add(
        self,
        content: Told,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        content_type: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        infer: Infer = "auto",
    ) -> Added:
        """Keep what was said, and have knowledge made of it. See `AsyncKnowledge.add`."""
        return block_on(
            self._aio.add(
                content,
                session_id=session_id,
                user_id=user_id,
                content_type=content_type,
                metadata=metadata,
                infer=infer,
            )
        )

    def search(
        self,
        query: str,
        *,
        top_k: int = 10,
        search_type: SearchType = "chain",
        user_id: str | None = None,
        session_id: str | None = None,
        filter: FilterLike | None = None,
        valid_at: datetime | None = None,
        evidence: bool = False,
    ) -> builtins.list[KnowledgeHit]:
        """What is known about `query`, best first. See `AsyncKnowledge.search`."""
        return block_on(
            self._aio.search(
                query,
                top_k=top_k,
                search_type=search_type,
                user_id=user_id,
                session_id=session_id,
                filter=filter,
                valid_at=valid_at,
                evidence=evidence,
            )
        )

    def explain(self, id: str, *, depth: int = 2) -> Explanation:
        """Why something is known, as a graph. See `AsyncKnowledge.explain`."""
        return block_on(self._aio.explain(id, depth=depth))

    def trace(self, session_id: str) -> builtins.list[TraceEvent]:
        """What happened in a session, by its time. See `AsyncKnowledge.trace`."""
        return block_on(self._aio.trace(session_id))

    def prune(
        self, policy: Prune | Mapping[str, Any] | None = None, *, dry_run: bool = False
    ) -> Job:
        """Hide the facts that are not worth showing. See `AsyncKnowledge.prune`."""
        return block_on(self._aio.prune(policy, dry_run=dry_run))

    def archive(self, session_id: str) -> Job:
        """Hide a session with all that was made of it. See `AsyncKnowledge.archive`."""
        return block_on(self._aio.archive(session_id))

    def unarchive(self, session_id: str) -> Undone:
        """Show an archived session again. See `AsyncKnowledge.unarchive`."""
        return block_on(self._aio.unarchive(session_id))

    def distill(
        self, *, session_id: str | None = None, apply: Literal["propose", "merge"] = "propose"
    ) -> Proposal:
        """Make knowledge of all new turns, on a branch. See `AsyncKnowledge.distill`."""
        return block_on(self._aio.distill(session_id=session_id, apply=apply))

    def proposal(self, job_id: str) -> Proposal:
        """A proposal again. See `AsyncKnowledge.proposal`."""
        return block_on(self._aio.proposal(job_id))

    def merge(self, job_id: str, *, policy: MergePolicy | None = None) -> MergeReport:
        """Bring a proposal into the store. See `AsyncKnowledge.merge`."""
        return block_on(self._aio.merge(job_id, policy=policy))

    def discard(self, job_id: str) -> Job:
        """Drop a proposal with its branch. See `AsyncKnowledge.discard`."""
        return block_on(self._aio.discard(job_id))

    def undo(self, job_id: str, *, dry_run: bool = False) -> Undone:
        """Take back what a job did, and nothing else. See `AsyncKnowledge.undo`."""
        return block_on(self._aio.undo(job_id, dry_run=dry_run))

    def correct(self, id: str, text: str) -> ContextRecord:
        """Let a fact say something else. See `AsyncKnowledge.correct`."""
        return block_on(self._aio.correct(id, text))

    def invalidate(self, id: str, *, reason: str) -> ContextRecord:
        """Hide a fact that is wrong. See `AsyncKnowledge.invalidate`."""
        return block_on(self._aio.invalidate(id, reason=reason))

    def pin(self, id: str, *, pinned: bool = True) -> ContextRecord:
        """Keep a fact as it is. See `AsyncKnowledge.pin`."""
        return block_on(self._aio.pin(id, pinned=pinned))

    def history(self, id: str) -> builtins.list[FactChange]:
        """What became of a fact, in order. See `AsyncKnowledge.history`."""
        return block_on(self._aio.history(id))
