"""The review: finds problems of facts and memories by rules, with commands against them."""

import asyncio
import re
import shlex
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lance_context_core._util.checks import check_time, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import RECORD_FIELDS
from lance_context_core.jobs.types import KIND as JOB
from lance_context_core.jobs.types import Job, from_record
from lance_context_core.knowledge import mem0, params, turns
from lance_context_core.knowledge.cascade import settle
from lance_context_core.knowledge.evidence_text import Place, quotes, said
from lance_context_core.knowledge.review_rules import (
    RULES,
    FindingKind,
    gist,
    junk_in,
    masked,
    matches,
)
from lance_context_core.storage import sql
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord

STALE_AFTER = timedelta(days=365)
"""The default age from which a fact is stale, since it was last stated."""
_PASSED_AFTER = timedelta(days=7)
"""Time after which statements about tomorrow or next week have passed."""
_DATE = re.compile(r"\b(\d{4}-\d\d-\d\d)\b")
_FACTS = sql.equals("kind", params.FACT)
_MEMORIES = sql.equals("kind", "memory")
NOT_KNOWN = {"unused": "the store does not count how often a fact or a memory is read"}


@frozen_by_name
class ReviewFinding:
    """A problem of a fact or memory."""

    kind: FindingKind
    rule: str
    """The name of the rule that found it: see `REVIEW_RULES`."""
    why: str
    """The finding of the rule, and the other records it concerns."""
    ids: tuple[str, ...]
    """The records: first the one that the command removes, then those compared with it."""
    texts: tuple[str, ...]
    """Their texts, in the same order; secrets are masked."""
    user_id: str | None = None
    """The owner."""
    job_id: str | None = None
    """The job of the first record; None for a memory, which has none."""
    command: str
    """The `lance-ctx` command that removes only the first record; empty for an export."""
    call: str
    """The same as a Python call."""


@frozen_by_name
class ReviewJob:
    """A job that brought in findings, and the command that undoes it."""

    job_id: str
    at: datetime
    """The time of its submission."""
    n_findings: int
    n_made: int
    """Number of reviewed facts that it made."""
    command: str


@frozen_by_name
class Review:
    """The result of a review."""

    findings: tuple[ReviewFinding, ...]
    """By kind, then in the order in which the records were stored."""
    jobs: tuple[ReviewJob, ...]
    """The jobs that brought in most findings come first."""
    n_facts: int
    """Number of reviewed facts."""
    n_memories: int
    not_known: Mapping[str, str]
    """Checks that were skipped, with the reason."""

    @property
    def counts(self) -> dict[str, int]:
        """Number of findings by rule; rules without findings are left out."""
        return dict(Counter(one.rule for one in self.findings))

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return bool(self.findings)


async def review(spoken: Records, made: Records, stale_after: timedelta) -> Review:
    """Review the facts and memories of a view."""
    check_stale_after(stale_after)
    await settle(spoken, made)
    facts = await made.read(made.where(_FACTS), columns=WITHOUT_BLOB)
    memories = await spoken.read(spoken.where(_MEMORIES), columns=WITHOUT_BLOB)
    there = {
        place: one
        for place, one in (await said(spoken, facts)).items()
        if one.retired_at is None or one.retired_reason == turns.ARCHIVED
    }
    jobs = await _jobs(made)
    reviewer = _Reviewer(made.now(), stale_after, there, jobs)
    return await asyncio.to_thread(reviewer.reviewed, facts, memories)


def review_export(
    source: str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    now: datetime | None = None,
    stale_after: timedelta = STALE_AFTER,
) -> Review:
    """Review the memories that mem0 has exported; stores nothing.

    - `source`: the input of `ManagedMemory.import_mem0`: the path of a JSON file, such as a
      `memory.json`, or the result of mem0's `get_all`.
    - `now`: the moment by which records are stale; aware. Absent, the present.

    `ReviewFinding.call` is a call of mem0. Raises the errors of `import_mem0`.
    """
    check_stale_after(stale_after)
    moment = datetime.now(UTC) if now is None else check_time(now, "now")
    memories = [
        ContextRecord(
            id=one.id or "",
            kind="memory",
            content_type="text/plain",
            text=one.text,
            role="user",
            created_at=one.created_at or moment,
            updated_at=one.created_at or moment,
            session_id=run,
            metadata=dict(one.metadata),
            user_id=user,
            agent_id=agent,
        )
        for (user, agent, run), some in mem0.turns(mem0.read(source)).items()
        for one in some
    ]
    return _Reviewer(moment, stale_after, {}, {}, is_export=True).reviewed([], memories)


def check_stale_after(value: object) -> None:
    """Raise InvalidRequestError unless it is a positive timedelta."""
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise InvalidRequestError(f"stale_after={shown(value)}: give a timedelta above 0")


async def _jobs(made: Records) -> dict[str, Job]:
    done = sql.filtered({"job.state": "succeeded"}, columns=RECORD_FIELDS)
    found = await made.read(made.own(sql.equals("kind", JOB), done), columns=WITHOUT_BLOB)
    return {one.id: one for one in map(from_record, found)}


_KINDS: Sequence[FindingKind] = ("contradiction", "unproven", "loop", "duplicate", "stale", "junk")
"""In the order of the report."""


@dataclass(slots=True)
class _Reviewer:
    """Reviews records without access to a store."""

    now: datetime
    stale_after: timedelta
    there: dict[Place, ContextRecord]
    """The existing turns among the evidence of the facts."""
    jobs: Mapping[str, Job]
    is_export: bool = False
    found: list[ReviewFinding] = field(default_factory=list)

    def reviewed(self, facts: Sequence[ContextRecord], memories: Sequence[ContextRecord]) -> Review:
        """Return all findings, at most one of each kind per record."""
        for one in facts:
            self._unproven(one)
        ordered = sorted([*facts, *memories], key=lambda one: (one.created_at, one.id))
        for one in ordered:
            self._alone(one)
        self._compare(ordered)
        self.found.sort(key=lambda one: _KINDS.index(one.kind))
        return Review(
            findings=tuple(self.found),
            jobs=tuple(self._made_by(facts)),
            n_facts=len(facts),
            n_memories=len(memories),
            not_known=NOT_KNOWN,
        )

    # Single records

    def _unproven(self, fact: ContextRecord) -> None:
        found = quotes(fact, self.there)
        if not found:
            self._add("no_evidence", [fact])
        elif not any(one.is_verified for one in found):
            is_gone = all(one.text is None for one in found)
            self._add("turn_gone" if is_gone else "turn_says_otherwise", [fact])

    def _alone(self, one: ContextRecord) -> None:
        text = one.text or ""
        if self._is_echo(one):
            self._add("recalled_and_said_again", [one])
        elif matches("injected_block", text):
            self._add("injected_block", [one])
        if (rule := junk_in(text, is_value=params.about(one).get("slot") is not None)) is not None:
            self._add(rule, [one])
        if (rule := self._staleness(one, text)) is not None:
            self._add(rule, [one])

    def _is_echo(self, one: ContextRecord) -> bool:
        if one.kind != params.FACT:
            return turns.is_echo(one.metadata)
        said_by = [self.there.get(place) for place in _places(one)]
        return bool(said_by) and all(turn and turns.is_echo(turn.metadata) for turn in said_by)

    def _staleness(self, one: ContextRecord, text: str) -> str | None:
        until = params.about(one).get("valid_to")
        if until is not None and datetime.fromisoformat(until) <= self.now:
            return "validity_over"
        last = params.last_said(one) if one.kind == params.FACT else one.updated_at
        if matches("day_has_passed", text) and self.now - last >= _PASSED_AFTER:
            return "day_has_passed"
        today = self.now.date().isoformat()
        dates: list[str] = _DATE.findall(text)
        if dates and max(dates) < today and matches("planned_date_has_passed", text):
            return "planned_date_has_passed"
        return "not_said_for_long" if self.now - last >= self.stale_after else None

    # Several records

    def _compare(self, ordered: Sequence[ContextRecord]) -> None:
        gists = [gist(one.text or "") for one in ordered]
        by_words = _grouped((_whose(one), params.normalised(one.text or "")) for one in ordered)
        doubled: set[int] = set()
        for places in by_words:
            first, *others = _of_turns([ordered[n] for n in places])
            doubled |= {*places[1:]}
            for other in others:
                self._repeated("same_words", other, first)
        enough = [n for n, one in enumerate(gists) if one.is_enough and n not in doubled]
        for places in _grouped((_whose(ordered[n]), gists[n].words) for n in enough):
            group = [enough[place] for place in places]
            self._near([ordered[n] for n in group], [gists[n].is_denied for n in group])
        self._two_values(ordered)

    def _near(self, group: Sequence[ContextRecord], denied: Sequence[bool]) -> None:
        """Report records whose gists share their words, the earliest first."""
        for is_denied in (False, True):
            same = [one for one, is_so in zip(group, denied, strict=True) if is_so is is_denied]
            for one in _of_turns(same)[1:]:
                self._repeated("nearly_same_words", one, same[0])
        if len({*denied}) == 2:
            later = max(range(len(group)), key=lambda n: group[n].created_at)
            other = next(n for n in range(len(group)) if denied[n] is not denied[later])
            self._add("says_the_opposite", [group[other], group[later]])

    def _repeated(self, rule: str, one: ContextRecord, first: ContextRecord) -> None:
        is_loop = one.role in ("assistant", "tool")
        self._add("agent_repeats_memory" if is_loop else rule, [one, first])

    def _two_values(self, ordered: Sequence[ContextRecord]) -> None:
        of_slots = [one for one in ordered if params.about(one).get("slot") is not None]
        of_slots = [one for one in of_slots if not params.is_end(one)]
        named = (
            (*_whose(one), params.about(one)["subject"], params.about(one)["slot"])
            for one in of_slots
        )
        for places in _grouped(named):
            values = [of_slots[n] for n in places]
            if len({params.normalised(params.about(one)["value"] or "") for one in values}) > 1:
                self._add("two_values", values)

    # Results

    def _add(self, rule: str, records: Sequence[ContextRecord]) -> None:
        first = records[0]
        command, call = self._removing(first)
        finding = ReviewFinding(
            kind=RULES[rule].kind,
            rule=rule,
            why=RULES[rule].finds,
            ids=tuple(one.id for one in records),
            texts=tuple(masked(one.text or "") for one in records),
            user_id=first.user_id,
            job_id=self._job_of(first),
            command=command,
            call=call,
        )
        self.found.append(finding)

    def _removing(self, one: ContextRecord) -> tuple[str, str]:
        if self.is_export:
            return "", f"memory.delete(memory_id={one.id!r})"
        whose = {"tenant": one.tenant, "user": one.user_id, "agent": one.agent_id}
        options = [f"--{name} {shlex.quote(value)}" for name, value in whose.items() if value]
        command = " ".join(["lance-ctx", *options, "forget", shlex.quote(one.id)])
        if one.kind == params.FACT:
            return command, f"store.knowledge.delete({one.id!r})"
        user = f", user_id={one.user_id!r}" if one.user_id else ""
        return command, f"store.memory.delete(ids=[{one.id!r}]{user})"

    def _job_of(self, one: ContextRecord) -> str | None:
        """The job of a fact, or the distillation that it was part of."""
        job = self.jobs.get(str(one.metadata.get("job_id")))
        if job is None:
            return None
        return job.parent_id if job.parent_id in self.jobs else job.id

    def _made_by(self, facts: Sequence[ContextRecord]) -> Iterator[ReviewJob]:
        n_made = Counter(self._job_of(one) for one in facts)
        n_found = Counter(one.job_id for one in self.found)
        for id, n in n_found.most_common():
            if id is not None:
                yield ReviewJob(
                    job_id=id,
                    at=self.jobs[id].created_at,
                    n_findings=n,
                    n_made=n_made[id],
                    command=f"lance-ctx undo {shlex.quote(id)}",
                )


# Helpers


def _whose(one: ContextRecord) -> tuple[str | None, ...]:
    return one.tenant, one.user_id, one.agent_id


def _places(fact: ContextRecord) -> list[Place]:
    return [(*_whose(fact), one.session_id, one.source_id) for one in params.evidence(fact)]


def _of_turns(group: Sequence[ContextRecord]) -> list[ContextRecord]:
    """Keep one record per turn: one sentence about two slots is no duplicate."""
    seen: dict[Hashable, ContextRecord] = {}
    for one in group:
        seen.setdefault(tuple(_places(one)) or one.id, one)
    return list(seen.values())


def _grouped(keys: Iterable[Hashable]) -> list[list[int]]:
    """Return the positions of equal keys that occur more than once."""
    groups: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    return [one for one in groups.values() if len(one) > 1]
