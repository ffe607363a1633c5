"""Explanations of records as graphs, and traces of sessions in order."""

import builtins
from typing import Literal

from lance_context_core._util.checks import check_name, shown
from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.jobs.commits import implied
from lance_context_core.jobs.types import KIND as JOB
from lance_context_core.jobs.types import Job, from_record
from lance_context_core.knowledge import params, turns
from lance_context_core.knowledge.evidence_text import quotes, said
from lance_context_core.knowledge.types import Explanation, Link, TraceEvent
from lance_context_core.messages import ToolCallPart, ToolResultPart
from lance_context_core.storage import sql
from lance_context_core.stores.records import archive
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord

_MADE = sql.in_list("kind", [params.FACT, params.CHUNK, params.SUMMARY])
_MOST_CHARACTERS = 200
"""Maximum length of the text of an event."""

Kind = Literal["turn", "tool_call", "tool_result", "chunk", "fact", "summary", "job"]


@frozen
class Explaining:
    """Explains records and traces sessions; includes hidden ones."""

    spoken: Records
    made: Records

    async def explain(self, id: str, *, depth: int) -> Explanation:
        """Return the graph around a fact, a chunk, a summary or a turn."""
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
            raise InvalidRequestError(f"depth={shown(depth)}: count from 1")
        first = await self._one(check_name(id, "id"))
        records = {first.id: first}
        links: dict[Link, None] = {}
        frontier = [first]
        for _ in range(depth):
            found = [pair for one in frontier for pair in await self._around(one)]
            links |= dict.fromkeys(link for link, _ in found)
            frontier = [
                other for _, other in found if other is not None and other.id not in records
            ]
            records |= {one.id: one for one in frontier}
            if not frontier:
                break
        there = await said(self.spoken, [first])
        return Explanation(
            id=first.id, records=records, links=tuple(links), quotes=quotes(first, there)
        )

    async def trace(self, session_id: str) -> builtins.list[TraceEvent]:
        """Return the events of a session, by time."""
        session_id = check_name(session_id, "session_id")
        spoken = await turns.session_records(self.spoken, session_id, hidden=True)
        here = sql.equals("session_id", session_id)
        made = await self._all(self.made, here)
        if not spoken and not made:
            raise NotFoundError(
                f"session {session_id!r} has no turns and no facts: pass another session_id"
            )
        events = [event for one in spoken for event in _of_turn(one)]
        events += [_of_made(one) for one in made]
        owed = [one for one in await implied(self.made) if one.session_id == session_id]
        events += [_of_job(one) for one in owed]
        return sorted(events, key=lambda one: one.at)

    async def _one(self, id: str) -> ContextRecord:
        named = sql.equals("id", id)
        found = await self._all(self.made, _MADE, named)
        found = found or await self._all(self.spoken, turns.MESSAGES, named)
        if not found:
            raise NotFoundError(f"{id!r} is not a fact, chunk, summary or turn of this store")
        if len(found) > 1:
            raise InvalidRequestError(
                f"id={shown(id)} is a turn in {len(found)} sessions or users: use "
                "a scope, or explain a fact made of it"
            )
        return found[0]

    async def _around(self, one: ContextRecord) -> builtins.list[tuple[Link, ContextRecord | None]]:
        if one.kind == "message":
            derived = sql.all_of([_MADE, sql.has_element("source_ids", one.id)])
            found = await self._made(derived)
            return [
                (Link(source_id=other.id, target_id=one.id, relation="evidence"), other)
                for other in found
                if turns.owner_of(other) == turns.owner_of(one)
            ]
        pairs: builtins.list[tuple[Link, ContextRecord | None]] = []
        for turn in (await said(self.spoken, [one])).values():
            if turns.owner_of(turn) == turns.owner_of(one):
                link = Link(source_id=one.id, target_id=turn.id, relation="evidence")
                pairs.append((link, turn))
        jobs = dict.fromkeys(
            [one.metadata.get("job_id"), *(e.job_id for e in params.evidence(one))]
        )
        pairs += [
            (Link(source_id=one.id, target_id=job, relation="made_by"), None) for job in jobs if job
        ]
        if one.superseded_by_id is not None:
            for other in await self._made(sql.equals("id", one.superseded_by_id)):
                pairs.append(
                    (Link(source_id=other.id, target_id=one.id, relation="supersedes"), other)
                )
        for other in await self._made(sql.equals("superseded_by_id", one.id)):
            pairs.append((Link(source_id=one.id, target_id=other.id, relation="supersedes"), other))
        if against := one.metadata.get("conflicts"):
            for other in await self._made(sql.in_list("id", against)):
                pairs.append(
                    (Link(source_id=one.id, target_id=other.id, relation="conflicts"), other)
                )
        return pairs

    async def _made(self, condition: sql.Clause) -> builtins.list[ContextRecord]:
        return await self._all(self.made, condition)

    async def _all(self, records: Records, *conditions: sql.Clause) -> builtins.list[ContextRecord]:
        """Return the matching records, including those of archived sessions."""
        found = await records.read(records.own(*conditions), columns=WITHOUT_BLOB)
        return found + await archive.read(records, *conditions, columns=WITHOUT_BLOB)


def _of_turn(turn: ContextRecord) -> builtins.list[TraceEvent]:
    def event(kind: Kind, text: str) -> TraceEvent:
        return TraceEvent(
            at=turn.created_at, kind=kind, id=turn.id, text=text[:_MOST_CHARACTERS], record=turn
        )

    events = []
    if turn.text or not turn.parts:
        events.append(event("turn", f"{turn.name or turn.role}: {turn.text or ''}"))
    for part in turn.parts:
        if isinstance(part, ToolCallPart):
            events.append(event("tool_call", str(part.name)))
        elif isinstance(part, ToolResultPart):
            events.append(event("tool_result", str(part.name or part.call_id)))
    return events


def _of_made(one: ContextRecord) -> TraceEvent:
    if one.kind == JOB:
        return _of_job(from_record(one))
    kinds: dict[str, Kind] = {params.CHUNK: "chunk", params.FACT: "fact", params.SUMMARY: "summary"}
    return TraceEvent(
        at=one.updated_at,
        kind=kinds[one.kind],
        id=one.id,
        text=(one.text or "")[:_MOST_CHARACTERS],
        record=one,
    )


def _of_job(job: Job) -> TraceEvent:
    return TraceEvent(at=job.updated_at, kind="job", id=job.id, text=f"{job.kind}: {job.state}")
