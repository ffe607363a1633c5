"""The knowledge of a store: six verbs over layers that jobs maintain."""

import builtins
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any, Literal, Self

from lance_context_core._handle import handle
from lance_context_core._progress import check_progress
from lance_context_core._util.checks import check_name, check_span, check_text, check_time, shown
from lance_context_core.codecs.records import new_id
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.filters import FilterLike
from lance_context_core.jobs.jobs import AsyncJobs
from lance_context_core.jobs.queue import Queue
from lance_context_core.jobs.types import Job
from lance_context_core.knowledge import episodes, facts, profiles
from lance_context_core.knowledge.adding import Adding, Told, keep, messages_of
from lance_context_core.knowledge.builders import RULES, Builders, Model
from lance_context_core.knowledge.cascade import settle
from lance_context_core.knowledge.curation import (
    changes_of,
    correct_fact,
    invalidate_fact,
    pin_fact,
)
from lance_context_core.knowledge.distilling import EXTRACT
from lance_context_core.knowledge.episodes import GAP, Episode
from lance_context_core.knowledge.explaining import Explaining
from lance_context_core.knowledge.facts import by_turns
from lance_context_core.knowledge.profiles import Profile
from lance_context_core.knowledge.prompts import ProfileSchema
from lance_context_core.knowledge.protocols import Consolidator, Extractor, SessionSummariser
from lance_context_core.knowledge.pruning import (
    CandidateWeights,
    ScoredFact,
    candidates,
    checked_policy,
)
from lance_context_core.knowledge.reviewing import STALE_AFTER, Review, review
from lance_context_core.knowledge.search import Question, search
from lance_context_core.knowledge.services import Services
from lance_context_core.knowledge.types import (
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
from lance_context_core.knowledge.undo_log import report_of
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord, Diff, MergeReport, Progress
from lance_context_core.versioning.conflicts import MergePolicy


@handle
class AsyncKnowledge:
    """Facts, chunks and summaries with their evidence, extracted by jobs, with or without a model.

    Turns are the layer L2 and are never rewritten. Jobs extract chunks and facts from them, L1, and
    a summary of each session, L0, into the context `knowledge`; each names the turns and the places
    of its evidence. It sees the records of the handle's scope.
    """

    _records: Records
    _makers: Builders = RULES

    def using(
        self,
        *,
        model: Model | None = None,
        model_name: str = "model",
        extractor: Extractor | None = None,
        consolidator: Consolidator | None = None,
        summariser: SessionSummariser | None = None,
    ) -> Self:
        """Return the same knowledge with other makers than the rules.

        - `model`: a `LanguageModel`, a function of a prompt, a chat model of LangChain or an LLM of
          LlamaIndex, which is the extractor and the consolidator where these are not given. Or a
          function whose parameter is called `sentences`, which is called with the sentences of one
          job and returns one for each: an answer that is empty, far longer, repetitive or JSON is
          rejected, and the sentence itself stored. `model_name` identifies it: another name means
          other jobs.
        - `extractor`, `consolidator`, `summariser`: extract facts, decide on facts without a slot
          among the known ones nearby, and summarise sessions.

        A search never calls any of them.
        """
        made = copy(self)
        makers = self._makers.using(
            extractor=extractor,
            consolidator=consolidator,
            summariser=summariser,
            model=model,
            model_name=model_name,
        )
        object.__setattr__(made, "_makers", makers)
        return made

    @property
    def jobs(self) -> AsyncJobs:
        """The jobs of the knowledge: list, run, cancel and retry."""
        return AsyncJobs(self._parts.queue, self.schedule)

    # The six verbs

    async def add(
        self,
        content: Told,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        infer: Infer | bool = "auto",
        content_type: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | str | float | None = None,
        progress: Callable[[Progress], object] | None = None,
        run_id: str | None = None,
        expiration_date: date | str | None = None,
    ) -> Added:
        """Store turns and extract knowledge from them.

        - `content`: a text, bytes (with a `content_type`), a message, or several messages, in our
          format or in that of the APIs of OpenAI and Anthropic.
        - `user_id`, `agent_id`: the owner; both narrow the scope.
        - `session_id`: the conversation to continue; a new one, if absent. `run_id` is an alias.
        - `infer`: "auto" extracts the knowledge before the call returns, "later" leaves it to
          `jobs.run_due`, "never" stores the turns only. True and False mean "auto" and "never".
        - `expires_at`: the moment from which no read returns the turns: a datetime, seconds since
          1970, or a text in ISO 8601. `expiration_date` is a day; they expire at its end, in UTC.
        - `progress`: called after each job, of at most 200 turns; if it raises, the other jobs are
          left to `jobs.run_due`.

        The turns are stored first, and stay stored if a job fails or its model is unavailable:
        `Added.errors` has the reason, and the job stays scheduled if a retry may succeed. Messages
        with an id or a time are the same turns when they are added again, and their job is the same
        job. Raises InvalidRequestError for invalid content, before anything is written.
        """
        if isinstance(infer, bool):
            infer = "auto" if infer else "never"
        if infer not in ("auto", "later", "never"):
            raise InvalidRequestError(f"infer={shown(infer)}: use 'auto', 'later' or 'never'")
        check_progress(progress)
        given = messages_of(content, content_type=content_type, metadata=metadata)
        session_id = facts.either(session_id=session_id, run_id=run_id)
        session = new_id() if session_id is None else check_name(session_id, "session_id")
        expires = facts.expiry(expires_at=expires_at, expiration_date=expiration_date)
        spoken = self._of(user_id, agent_id).spoken
        if infer != "auto" and all(one.id is None for one in given):
            makers = self._makers if infer == "later" else None
            return await keep(spoken, given, session_id=session, makers=makers, expires_at=expires)
        distiller = Services(spoken, self._makers).distiller
        adding = Adding(distiller, Queue(distiller.made, {EXTRACT: distiller.run}), progress)
        return await adding.add(given, session_id=session, infer=infer, expires_at=expires)

    async def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        search_type: SearchType = "chain",
        user_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        filter: FilterLike | None = None,
        valid_at: datetime | None = None,
        evidence: bool = False,
        include_outdated: bool = False,
        top_k: int | None = None,
        run_id: str | None = None,
        filters: FilterLike | None = None,
    ) -> builtins.list[KnowledgeHit]:
        """Search the knowledge; returns hits, best first, each text once.

        - `limit`: maximum number of hits, 10 if absent. `top_k` is an alias.
        - `search_type`: "facts", followed by matching chunks; "summaries"; "turns"; or "chain":
          facts, chunks and turns in the order of the turns, each turn replaced by the knowledge of
          it; if these are too few, summaries select the sessions to search further.
        - `user_id`, `agent_id`, `session_id`: the owner and the conversation. `run_id` is an alias
          of the last.
        - `filter`: selects records; facts, chunks and summaries also by the metadata of the turns
          that prove them. `filters` is an alias, and may be in mem0's syntax.
        - `valid_at`: returns facts that were true at that moment; absent, facts that are true now.
        - `evidence`: adds to each hit the turns that prove it, and whether they still do.
        - `include_outdated`: includes chunks and turns that mostly state outdated facts, marked by
          `KnowledgeHit.outdated`; else the current facts replace them.

        Calls no model. Raises InvalidRequestError for another `search_type`.
        """
        limit = facts.either(limit=limit, top_k=top_k)
        filter = facts.either(filter=filter, filters=facts.translated(filters))
        question = Question.of(
            check_text(query, "query"),
            top_k=10 if limit is None else limit,
            named="limit" if top_k is None else "top_k",
            session_id=facts.either(session_id=session_id, run_id=run_id),
            filter=filter,
            valid_at=valid_at,
        )
        of = self._of(user_id, agent_id)
        if filter is not None:
            question = replace(question, filter_of_made=await by_turns(of.spoken, filter))
        made = await settle(of.spoken, of.made)
        return await search(
            of.spoken.as_of(made),
            made,
            question,
            search_type=search_type,
            evidence=evidence,
            outdated=include_outdated,
        )

    # Access by id and filter

    async def get(self, id: str) -> ContextRecord | None:
        """Return the fact, chunk, summary or turn with that id; None if absent or hidden.

        A superseded fact is returned, and names its successor.
        """
        await settle(self._records, self._parts.made)
        return await facts.read(self._records, self._parts.made, id)

    async def list(
        self,
        *,
        filter: FilterLike | None = None,
        limit: int | None = None,
        offset: int = 0,
        user_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        top_k: int | None = None,
        run_id: str | None = None,
        filters: FilterLike | None = None,
    ) -> builtins.list[ContextRecord]:
        """Return the current facts, oldest first: all, or `limit` after `offset`.

        `top_k`, `run_id` and `filters` are aliases, as in `search`.
        """
        of = self._of(user_id, agent_id)
        filter = facts.either(filter=filter, filters=facts.translated(filters))
        await settle(of.spoken, of.made)
        return await facts.listed(
            of.made,
            session_id=facts.either(session_id=session_id, run_id=run_id),
            filter=await by_turns(of.spoken, filter),
            limit=facts.either(limit=limit, top_k=top_k),
            offset=offset,
        )

    async def update(self, id: str, text: str) -> ContextRecord:
        """Replace the text of a fact: the same as `correct`."""
        return await self.correct(id, text)

    async def delete(self, id: str) -> ContextRecord:
        """Hide a fact, and chunks that state only it, from every search; returns it.

        No job brings it back. `history` still includes it, and its turn stays in the history: to
        remove both for good, erase the turn. Raises NotFoundError if no such fact exists.
        """
        return await self.invalidate(id, reason="deleted")

    async def delete_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        run_id: str | None = None,
    ) -> int:
        """Delete the turns and knowledge of an owner or session; returns the turn count.

        The turns leave the history, too. Facts that turns of other sessions prove stay. Older
        versions of the store still contain everything: erase it to remove it from those. Raises
        InvalidRequestError, before anything is deleted, if neither the call nor the handle's scope
        names an owner.
        """
        session_id = facts.either(session_id=session_id, run_id=run_id)
        of = self._of(user_id, agent_id)
        scope = of.spoken.scope
        if session_id is None and scope.user_id is None and scope.agent_id is None:
            raise InvalidRequestError(
                "delete_all would delete the memories of all users: give a user_id, an agent_id or a "
                "session_id"
            )
        of.spoken.resources.writable()
        return await facts.forget(of.spoken, of.made, session_id)

    async def profile(
        self,
        schema: ProfileSchema,
        *,
        user_id: str | None = None,
        speaker: str | None = None,
        valid_at: datetime | None = None,
    ) -> Profile:
        """Return the knowledge of a person as the fields of a dataclass or JSON schema.

        - `schema`: a field has the value of the slot of its name, `shoe_size` that of `shoe size`;
          a dataclass names another slot in the field's metadata, a JSON schema in the property, as
          `slot`.
        - `speaker`: the speaker's name, if several speakers have one; else the user.
        - `valid_at`: values that were true at that moment; absent, values that are true now.

        Each field has its evidence and its earlier values. Unknown fields are `missing`, values of
        another type `unfit`; slots without a field in the schema are among the `others`. Calls no
        model. Raises InvalidRequestError for an invalid schema.
        """
        scope = self._records.scope.narrow(user_id=user_id)
        spoken = replace(self._records, scope=scope)
        made = replace(self._parts.made, scope=scope)
        await settle(spoken, made)
        return await profiles.profile(
            spoken,
            made,
            schema,
            speaker=None if speaker is None else check_name(speaker, "speaker"),
            valid_at=None if valid_at is None else check_time(valid_at, "valid_at"),
        )

    async def episodes(
        self,
        *,
        user_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        gap: timedelta = GAP,
        limit: int | None = None,
    ) -> builtins.list[Episode]:
        """Return episodes: groups of sessions close in time, oldest first.

        - `since`, `until`: turns from this moment on, and before this moment.
        - `gap`: time between the sessions of one owner that separates two episodes.
        - `limit`: returns only the last episodes.

        Each has the summaries of its sessions, and their facts. Calls no model.
        """
        check_span(offset=0, limit=limit, last=None)
        scope = self._records.scope.narrow(user_id=user_id)
        spoken = replace(self._records, scope=scope)
        made = replace(self._parts.made, scope=scope)
        return await episodes.episodes(spoken, made, gap=gap, since=since, until=until, limit=limit)

    async def explain(self, id: str, *, depth: int = 2) -> Explanation:
        """Return the graph around a fact, chunk, summary or turn, `depth` links far.

        It contains the turns that prove it, the facts that it superseded, that superseded it or
        contradict it, and the jobs. Raises NotFoundError for an unknown id.
        """
        return await Explaining(self._records, self._parts.made).explain(id, depth=depth)

    async def trace(self, session_id: str) -> builtins.list[TraceEvent]:
        """Return the events of a session by time: turns, tool calls, facts and jobs.

        Hidden ones are included. Raises NotFoundError for an unknown session.
        """
        return await Explaining(self._records, self._parts.made).trace(session_id)

    async def prune(
        self, policy: Prune | Mapping[str, Any] | None = None, *, dry_run: bool = False
    ) -> Job:
        """Hide facts of little value; returns the job, whose `result` has their ids.

        Nothing is deleted: `undo` of the job shows them again. With `dry_run` nothing is written,
        and the job is not stored. Raises InvalidRequestError for an invalid policy, and
        ConflictError while another process does the same.
        """
        tidying = self._parts.tidying
        job = await tidying.pruning(checked_policy(policy))
        if dry_run:
            return replace(job, result=(await tidying.prune(job)).result)
        return await self._parts.run(job)

    async def archive(self, session_id: str) -> Job:
        """Hide a session with all its knowledge: only `trace` shows it.

        Its rows move to the table `cold`, which no search reads. Returns the job; the first call's,
        if it is archived already. Raises NotFoundError for a session without turns, and
        ConflictError while another process archives it.
        """
        tidying = self._parts.tidying
        job = await tidying.archiving(check_name(session_id, "session_id"))
        job = job if job.state == "succeeded" else await self._parts.run(job)
        await tidying.put_away(job)
        return job

    async def unarchive(self, session_id: str) -> Undone:
        """Show an archived session again, unchanged. Raises NotFoundError if it is not archived."""
        done = await self._parts.tidying.archived(check_name(session_id, "session_id"))
        if done and done[-1].undone_by is None:
            return await self.undo(done[-1].id)
        raise NotFoundError(
            f"session {session_id!r} is not archived: pass the id of an archived session"
        )

    async def candidates(
        self, *, weights: CandidateWeights | None = None
    ) -> builtins.list[ScoredFact]:
        """Score each current fact, highest first: to promote, retain or prune."""
        return await candidates(self._parts.made, self._parts.tidying, weights)

    async def review(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        stale_after: timedelta = STALE_AFTER,
    ) -> Review:
        """Find duplicates, loops, contradictions, stale entries and junk among facts and memories.

        - `user_id`, `agent_id`: the owner; both narrow the scope.
        - `stale_after`: a fact last stated longer ago is stale.

        Removes nothing and calls no model: `REVIEW_RULES` are the rules. Each finding has the
        command that removes it, and each job that brought findings in has the command that undoes
        it. Raises InvalidRequestError if `stale_after` is no positive timedelta.
        """
        of = self._of(user_id, agent_id)
        return await review(of.spoken, of.made, stale_after)

    # Distillation

    async def distill(
        self,
        *,
        session_id: str | None = None,
        apply: Literal["propose", "merge"] = "propose",
        progress: Callable[[Progress], object] | None = None,
    ) -> Proposal:
        """Extract knowledge from all turns without a job, on a branch; returns the proposal.

        Read it, then merge or discard it; `apply="merge"` merges it at once. It is a job from its
        first step on: called again after an interruption, it resumes. `progress` is called after
        each of its jobs, at most 200 turns of a session; if it raises, or the call is cancelled,
        finished work stays on the branch. Raises InvalidRequestError in a scope, which has no
        branches of its own, and if it failed; ConflictError while another process distils the same
        turns; if the model is unavailable it raises too, and stays scheduled.
        """
        if apply not in ("propose", "merge"):
            raise InvalidRequestError(f"apply={shown(apply)}: use 'propose' or 'merge'")
        check_progress(progress)
        planned = await self._parts.proposing.job(session_id=session_id)
        if not planned.input_ids:
            return _nothing()
        job = await replace(self._parts, progress=progress).proposed(planned)
        proposing = self._parts.proposing
        return await (proposing.merged(job) if apply == "merge" else proposing.proposal(job))

    async def schedule(self, *, session_id: str | None = None) -> builtins.list[Job]:
        """Create jobs for all turns without a job.

        Each has at most 200 turns of a session. They wait for `jobs.run_due`, in any process, task
        or machine: each job is done once. Returns the new jobs. `distill` proposes the same on a
        branch instead.
        """
        self._records.resources.writable()
        planned = await self._parts.distiller.plan(session_id=session_id)
        return await self._parts.queue.submit(planned)

    async def replay(self, job_id: str) -> Proposal:
        """Run this extractor and model on a job's turns, on a branch; returns the proposal.

        Set them with `using`: `memory.using(model=other, model_name="other").replay(job_id)`. The
        `diff` has the differences; it is merged or discarded like a distillation. If the same
        extractor and model did the job, the proposal is empty, and no model is called. Raises
        InvalidRequestError for a job that extracted nothing from turns, or was undone.
        """
        target = await self._parts.queue.get(job_id)
        planned = await self._parts.proposing.replaying(target)
        if target.producer == planned.producer:
            return _nothing()
        return await self._parts.proposing.proposal(await self._parts.proposed(planned))

    async def proposal(self, job_id: str) -> Proposal:
        """Return a proposal. Raises NotFoundError if the job or its branch does not exist."""
        return await self._parts.proposing.proposal(await self._parts.queue.get(job_id))

    async def merge(self, job_id: str, *, policy: MergePolicy | None = None) -> MergeReport:
        """Merge a proposal into the store; a second call does nothing.

        Records written meanwhile stay. Where both sides changed the same record, a person's
        correction, pin or removal wins, else the later change; or as `policy` decides: see
        `AsyncContextStore.merge`.
        """
        return await self._parts.proposing.merge(await self._parts.queue.get(job_id), policy)

    async def discard(self, job_id: str) -> Job:
        """Delete a proposal with its branch: the store contained nothing of it."""
        return await self._parts.proposing.discard(await self._parts.queue.get(job_id))

    async def undo(self, job_id: str, *, dry_run: bool = False) -> Undone:
        """Undo a job, but nothing that came after; returns the changes.

        Facts that other turns support stay, with that evidence; facts that the job had superseded
        are current again. A person's later change is a conflict, and stays. Undoing twice equals
        undoing once; undoing the undo restores everything. Raises InvalidRequestError for a job
        that did nothing yet, and ConflictError while another process undoes it.
        """
        undoing = self._parts.undoing
        job = await undoing.job(job_id)
        if job.state == "succeeded":
            return report_of(job, job.result)
        if dry_run:
            return report_of(job, (await undoing.decide(job)).result, is_dry_run=True)
        done = await self._parts.run(job)
        return report_of(done, done.result)

    # Curation

    async def correct(self, id: str, text: str, *, value: str | None = None) -> ContextRecord:
        """Replace the text of a fact; no job changes it afterwards.

        - `value`: the new value of the fact's slot. Absent, it is the part of `text` that replaces
          the old value, the old value if `text` still contains it, or all of `text`.

        The fact keeps the old text. Raises NotFoundError if no such fact exists, and
        InvalidRequestError for an empty text, a hidden fact, or a `value` of a fact without a slot.
        """
        return await correct_fact(self._records, self._parts.made, id, text, value)

    async def invalidate(self, id: str, *, reason: str) -> ContextRecord:
        """Hide a wrong fact: no job brings it back."""
        return await invalidate_fact(self._records, self._parts.made, id, reason)

    async def pin(self, id: str, *, pinned: bool = True) -> ContextRecord:
        """Pin a fact: no job changes or hides it, until it is unpinned."""
        return await pin_fact(self._records, self._parts.made, id, pinned=pinned)

    async def history(self, id: str) -> builtins.list[FactChange]:
        """Return the changes of a fact, in order.

        They are additions, repetitions, successors, undos, corrections and so on. Hidden facts have
        a history too. Raises NotFoundError if no such fact exists.
        """
        return await changes_of(self._parts.made, id)

    def _of(self, user_id: str | None, agent_id: str | None) -> Services:
        """The services of a user or an agent."""
        scope = self._records.scope.narrow(user_id=user_id, agent_id=agent_id)
        return Services(replace(self._records, scope=scope), self._makers)

    @property
    def _parts(self) -> Services:
        return Services(self._records, self._makers)


def _nothing() -> Proposal:
    nothing = Diff(added=[], changed=[], removed=[])
    return Proposal(job_id="", branch="", diff=nothing, report={"turns": 0})
