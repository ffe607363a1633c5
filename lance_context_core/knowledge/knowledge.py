"""The knowledge of a store: six verbs over layers that manage themselves, and the jobs behind them."""

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
from lance_context_core.knowledge import episodes, facts, params, profiles
from lance_context_core.knowledge.adding import Adding, Told, keep, messages_of
from lance_context_core.knowledge.builders import RULES, Builders, Model
from lance_context_core.knowledge.distilling import EXTRACT
from lance_context_core.knowledge.episodes import GAP, Episode
from lance_context_core.knowledge.explaining import Explaining
from lance_context_core.knowledge.fact_history import changes_of
from lance_context_core.knowledge.fold import curated
from lance_context_core.knowledge.lapsing import settle
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

# What people say of a fact: no job says otherwise after.


async def correct_fact(spoken: Records, made: Records, id: str, text: str) -> ContextRecord:
    """The fact as it says something else, and what it said before in its revisions."""
    said = check_text(text, "text")
    if not said.strip():
        raise InvalidRequestError("text is empty: invalidate the fact instead")

    def change(record: ContextRecord) -> ContextRecord:
        facts.refuse_hidden(record)
        before = {"text": record.text, "until": made.now().isoformat()}
        revisions = [*record.metadata.get("revisions", ()), before]
        metadata = {**record.metadata, "curated": True, "revisions": revisions}
        return replace(record, text=said, embedding=None, metadata=metadata)

    return await curated(spoken, made, id, change)


async def invalidate_fact(spoken: Records, made: Records, id: str, reason: str) -> ContextRecord:
    """The fact as it is hidden."""
    why = check_name(reason, "reason")

    def change(record: ContextRecord) -> ContextRecord:
        facts.refuse_hidden(record, by_jobs=True)
        metadata = {**record.metadata, "curated": True}
        out = params.taken_out(replace(record, metadata=metadata), params.BY_PERSON, why)
        return params.shown(out, made.now())

    return await curated(spoken, made, id, change)


async def pin_fact(spoken: Records, made: Records, id: str, *, pinned: bool) -> ContextRecord:
    """The fact as it stays, or as it may change again."""

    def change(record: ContextRecord) -> ContextRecord:
        return replace(record, metadata={**record.metadata, "pinned": bool(pinned)})

    return await curated(spoken, made, id, change)


@handle
class AsyncKnowledge:
    """What is known, and why: made of conversations by jobs, without a model or with one.

    Turns are the layer L2, and are never rewritten. Of them jobs make chunks and facts, L1, and a
    summary of each session, L0, in the context `knowledge`: each names the turns and the places that
    it was made of. It sees what the handle's scope sees.
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
        """The same knowledge, made by others than the rules.

        - `model`: a `LanguageModel`, a function of a prompt, a chat model of LangChain or an LLM of
          LlamaIndex, which is the extractor and the consolidator, where these are not given. Or a
          function whose parameter is called `sentences`, which is called with those of one job, and
          returns one for each: what is empty, far longer, repeats itself or is JSON is refused, and
          the sentence itself kept. `model_name` says which one it is: another one's jobs are others.
        - `extractor`, `consolidator`, `summariser`: who finds the facts, who says what becomes of
          those without a slot beside the known ones, and who summarises sessions.

        None of them is ever called by a search.
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
        """The jobs of the knowledge: to be listed, run, cancelled and retried."""
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
        """Keep what was said, and have knowledge made of it.

        - `content`: a text, bytes (of a `content_type`), a message, or several messages, in our form or
          in that of the APIs of OpenAI and Anthropic.
        - `user_id`, `agent_id`: who it is of; both narrow the scope.
        - `session_id`: the conversation that it goes on with; a new one, if absent. `run_id` is another
          name of it.
        - `infer`: "auto" makes the knowledge before the call returns, "later" leaves it to
          `jobs.run_due`, "never" keeps the turns alone. True and False mean "auto" and "never".
        - `expires_at`: from then on no read shows the turns: a time, a number of seconds since 1970, or a
          text of ISO 8601. `expiration_date` is a day at whose end, in UTC, they expire.
        - `progress`: reports each job, of at most 200 turns, that is run; what it raises leaves the
          others to `jobs.run_due`.

        The turns are kept first, and whatever becomes of the rest: if a job fails, or its model is
        away, `Added.errors` says why, and where another try may mend it the job stays scheduled. Messages with an id, or with a time, are the same turns
        when they are added again, and their job is the same job. Raises InvalidRequestError, before
        anything is written, for what cannot be kept.
        """
        if isinstance(infer, bool):
            infer = "auto" if infer else "never"
        if infer not in ("auto", "later", "never"):
            raise InvalidRequestError(
                f"infer={shown(infer)}: there are 'auto', 'later' and 'never'"
            )
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
        """What is known about `query`, best first; each text once.

        - `limit`: at most so many hits, 10 if absent. `top_k` is another name of it.
        - `search_type`: "facts", which come before the chunks that answer, too; "summaries"; "turns"; or
          the "chain": facts, chunks and turns in the order of the turns, of which each is shown as what
          is known of it; where these are too few, summaries say in which sessions to look closer.
        - `user_id`, `agent_id`, `session_id`: of whom, and from which conversation. `run_id` is another
          name of the last.
        - `filter`: which records; `filters` is another name of it, and may be in mem0's words.
        - `valid_at`: what was true at that moment, by the facts; else what is true now.
        - `evidence`: each hit brings the turns that say so, and whether they still do.
        - `include_outdated`: chunks and turns that mostly state what no longer holds are among the hits,
          marked by `KnowledgeHit.outdated`; else the facts that hold instead are in their places.

        No model is called. Raises InvalidRequestError for another `search_type`.
        """
        limit = facts.either(limit=limit, top_k=top_k)
        filter = facts.either(filter=filter, filters=facts.translated(filters))
        question = Question.of(
            check_text(query, "query"),
            top_k=10 if limit is None else limit,
            session_id=facts.either(session_id=session_id, run_id=run_id),
            filter=filter,
            valid_at=valid_at,
        )
        of = self._of(user_id, agent_id)
        await settle(of.spoken, of.made)
        return await search(
            of.spoken,
            of.made,
            question,
            search_type=search_type,
            evidence=evidence,
            outdated=include_outdated,
        )

    # By ids and filters

    async def get(self, id: str) -> ContextRecord | None:
        """The fact, chunk, summary or turn with that id; None if there is none, or it is hidden.

        A fact that another one has superseded is returned, and says so.
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
        """The facts that hold now, the first that was found first: all, or `limit` after `offset`.

        `top_k`, `run_id` and `filters` are other names, as in `search`.
        """
        of = self._of(user_id, agent_id)
        await settle(of.spoken, of.made)
        return await facts.listed(
            of.made,
            session_id=facts.either(session_id=session_id, run_id=run_id),
            filter=facts.either(filter=filter, filters=facts.translated(filters)),
            limit=facts.either(limit=limit, top_k=top_k),
            offset=offset,
        )

    async def update(self, id: str, text: str) -> ContextRecord:
        """Let a fact say something else: the same as `correct`."""
        return await self.correct(id, text)

    async def delete(self, id: str) -> ContextRecord:
        """Hide a fact, and whatever states only it, from every search; returns it as it is then.

        No job brings it back. `history` still knows it, and the turn that it is from stays in the
        history: to remove both for good, erase the turn. Raises NotFoundError if there is no such fact.
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
        """Forget a user, an agent or a session: what was said and what is known; returns how many turns.

        The turns leave the history, too. What turns of other sessions prove stays. Older versions of the
        store still have all of it: to remove it from those, erase it. Raises InvalidRequestError, before
        anything is deleted, if neither the call nor the handle's scope says whose it is.
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
        """What is known of a person, by the fields of a dataclass or of a JSON schema.

        - `schema`: a field is what the slot of its name says, `shoe_size` that of `shoe size`; a
          dataclass may name another one in the field's metadata, a JSON schema in the property, as
          `slot`.
        - `speaker`: of whom, by name, where several have one; else of the user.
        - `valid_at`: what was true at that moment; else what is true now.

        Each field has the turns that say so, and what it was before. What is not known is `missing`,
        what is not of its type `unfit`; what the schema has no field for is among the `others`. No
        model is called. Raises InvalidRequestError for a schema that is none.
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
        """What happened, one stretch of time after the other, the first first.

        - `since`, `until`: of what was said from then on, and before then.
        - `gap`: sessions of one owner belong together unless so much time lies between them.
        - `limit`: the last so many.

        Each has the summaries of its sessions, and the facts that are known by it. No model is called.
        """
        check_span(offset=0, limit=limit, last=None)
        scope = self._records.scope.narrow(user_id=user_id)
        spoken = replace(self._records, scope=scope)
        made = replace(self._parts.made, scope=scope)
        return await episodes.episodes(spoken, made, gap=gap, since=since, until=until, limit=limit)

    async def explain(self, id: str, *, depth: int = 2) -> Explanation:
        """Why something is known: the graph around a fact, chunk, summary or turn, `depth` links far.

        With the turns that prove it, what superseded it or it did, what contradicts it, and the jobs.
        Raises NotFoundError if there is no such thing.
        """
        return await Explaining(self._records, self._parts.made).explain(id, depth=depth)

    async def trace(self, session_id: str) -> builtins.list[TraceEvent]:
        """What happened in a session, by its time: turns, calls of tools, facts, jobs; hidden ones too.

        Raises NotFoundError for a session of which nothing is known.
        """
        return await Explaining(self._records, self._parts.made).trace(session_id)

    async def prune(
        self, policy: Prune | Mapping[str, Any] | None = None, *, dry_run: bool = False
    ) -> Job:
        """Hide the facts that are not worth showing; returns the job, whose `result` has their ids.

        They are not deleted: `undo` of the job shows them again. With `dry_run` nothing is written,
        and the job is not kept. Raises InvalidRequestError for a policy that cannot be.
        """
        tidying = self._parts.tidying
        job = await tidying.pruning(checked_policy(policy))
        if dry_run:
            return replace(job, result=(await tidying.prune(job)).result)
        return await self._parts.run(job)

    async def archive(self, session_id: str) -> Job:
        """Hide a session, with all that was made of it: only `trace` shows it.

        Its rows go to the table `cold`, where no search goes. Returns the job; the first call's, if it
        is archived already. Raises NotFoundError for a session without turns.
        """
        tidying = self._parts.tidying
        job = await tidying.archiving(check_name(session_id, "session_id"))
        job = job if job.state == "succeeded" else await self._parts.run(job)
        await tidying.put_away(job)
        return job

    async def unarchive(self, session_id: str) -> Undone:
        """Show an archived session again, as it was. Raises NotFoundError if it is not archived."""
        done = await self._parts.tidying.archived(check_name(session_id, "session_id"))
        if done and done[-1].undone_by is None:
            return await self.undo(done[-1].id)
        raise NotFoundError(f"session {session_id!r} is not archived")

    async def candidates(
        self, *, weights: CandidateWeights | None = None
    ) -> builtins.list[ScoredFact]:
        """What each current fact is worth, the highest score first: to promote, retain or prune."""
        return await candidates(self._parts.made, self._parts.tidying, weights)

    async def review(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        stale_after: timedelta = STALE_AFTER,
    ) -> Review:
        """What is wrong with the facts and memories: duplicates, loops, contradictions, stale ones, junk.

        - `user_id`, `agent_id`: of whom; both narrow the scope.
        - `stale_after`: what was said last so long ago is stale.

        Nothing is removed, and no model is called: `REVIEW_RULES` are the rules. Each finding has the
        command that removes it, and each job that brought findings in the one that undoes it. Raises
        InvalidRequestError for a `stale_after` that is no positive timedelta.
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
        """Make knowledge of all turns that no job is about yet, on a branch; returns the proposal.

        It is to be read, and then to be merged or discarded; with `apply="merge"` it is merged at
        once. It is a job from its first step on: called again after it was interrupted, it goes on
        where it was. `progress` reports each of its jobs, at most 200 turns of a session; where it
        raises, or the call is cancelled, what is done is kept on the branch. Raises
        InvalidRequestError in a scope, which has no branches of its own, and if it failed; ConflictError
        while another process distils the same turns; while the model is away it raises too, and stays
        scheduled.
        """
        if apply not in ("propose", "merge"):
            raise InvalidRequestError(f"apply={shown(apply)}: there are 'propose' and 'merge'")
        check_progress(progress)
        planned = await self._parts.proposing.job(session_id=session_id)
        if not planned.input_ids:
            return _nothing()
        job = await replace(self._parts, progress=progress).proposed(planned)
        proposing = self._parts.proposing
        return await (proposing.merged(job) if apply == "merge" else proposing.proposal(job))

    async def schedule(self, *, session_id: str | None = None) -> builtins.list[Job]:
        """Have a job for all turns that none is about yet, at most 200 turns of a session each.

        They wait for `jobs.run_due`, in whatever processes, tasks and machines that is called: each job
        is done once. Returns the new ones. A `distill` proposes the same on a branch instead.
        """
        self._records.resources.writable()
        planned = await self._parts.distiller.plan(session_id=session_id)
        return await self._parts.queue.submit(planned)

    async def replay(self, job_id: str) -> Proposal:
        """What this extractor and model make of the turns of a job, on a branch; returns the proposal.

        Say who by `using`: `memory.using(model=other, model_name="other").replay(job_id)`. The `diff`
        says what would be otherwise; it is merged or discarded as a distillation is. Where it was
        they who did the job, the proposal is empty, and no model is called. Raises
        InvalidRequestError for a job that has made nothing of turns, or was undone.
        """
        target = await self._parts.queue.get(job_id)
        planned = await self._parts.proposing.replaying(target)
        if target.producer == planned.producer:
            return _nothing()
        return await self._parts.proposing.proposal(await self._parts.proposed(planned))

    async def proposal(self, job_id: str) -> Proposal:
        """A proposal again. Raises NotFoundError if there is no such job, or its branch is gone."""
        return await self._parts.proposing.proposal(await self._parts.queue.get(job_id))

    async def merge(self, job_id: str, *, policy: MergePolicy | None = None) -> MergeReport:
        """Bring a proposal into the store; twice is as good as once.

        What was written meanwhile stays. Where both sides changed the same, what a person has
        corrected, pinned or removed stays, else the later change counts; or as `policy` says: see
        `AsyncContextStore.merge`.
        """
        return await self._parts.proposing.merge(await self._parts.queue.get(job_id), policy)

    async def discard(self, job_id: str) -> Job:
        """Drop a proposal with its branch: nothing of it was in the store."""
        return await self._parts.proposing.discard(await self._parts.queue.get(job_id))

    async def undo(self, job_id: str, *, dry_run: bool = False) -> Undone:
        """Take back what a job did, and nothing of what came after; returns what that was.

        What other turns support stays, by these; what the job had superseded is current again. What
        a person has changed since is a conflict, and stays. Undoing twice is undoing once; undoing
        the undo brings all of it back. Raises InvalidRequestError for a job that did nothing yet.
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

    async def correct(self, id: str, text: str) -> ContextRecord:
        """Let a fact say something else: no job changes it from then on. What it said is kept in it."""
        return await correct_fact(self._records, self._parts.made, id, text)

    async def invalidate(self, id: str, *, reason: str) -> ContextRecord:
        """Hide a fact that is wrong: no job brings it back."""
        return await invalidate_fact(self._records, self._parts.made, id, reason)

    async def pin(self, id: str, *, pinned: bool = True) -> ContextRecord:
        """Keep a fact as it is: no job changes or hides it, until it is unpinned."""
        return await pin_fact(self._records, self._parts.made, id, pinned=pinned)

    async def history(self, id: str) -> builtins.list[FactChange]:
        """What became of a fact, in order: added, said again, superseded, undone, corrected and so on.

        Hidden facts have one too. Raises NotFoundError if there is no such fact.
        """
        return await changes_of(self._parts.made, id)

    def _of(self, user_id: str | None, agent_id: str | None) -> Services:
        """The parts over what a user or an agent has."""
        scope = self._records.scope.narrow(user_id=user_id, agent_id=agent_id)
        return Services(replace(self._records, scope=scope), self._makers)

    @property
    def _parts(self) -> Services:
        return Services(self._records, self._makers)


def _nothing() -> Proposal:
    nothing = Diff(added=[], changed=[], removed=[])
    return Proposal(job_id="", branch="", diff=nothing, report={"turns": 0})
