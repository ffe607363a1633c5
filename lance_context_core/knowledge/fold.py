"""Facts as the fold of observations: stored facts are computed from nothing else.

Each row of the kind `fact` is an observation, which never changes: one statement of one turn at one
place. The observations of one identity (the slot of a subject; else one statement) that still
count, ordered by date, make its facts: consecutive ones that say the same are one fact, with the
evidence of all, and the first of them represents it. The others are hidden. This determines the
current fact and the interval of each one. An undo, an erasure or a person only adds or removes
observations, and the identities concerned are folded again.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from lance_context_core._util.checks import check_name
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.records import SUPERSEDED, key_of
from lance_context_core.errors import NotFoundError
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Basis, Held
from lance_context_core.knowledge import params, turns
from lance_context_core.knowledge.evidence_text import place_of, said
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records import archive
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord

CONTRADICTED = "contradicted"
FACT = sql.equals("kind", params.FACT)
_MADE = sql.in_list("kind", [params.FACT, params.CHUNK, params.SUMMARY])

_Identity = tuple[Scope, str, str | None, str]
"""The owner, the subject, and the slot; without a slot, the words."""


@dataclass(eq=False, slots=True)
class Run:
    """Consecutive observations that say the same: one fact."""

    says: str
    rows: list[ContextRecord]
    is_end: bool = False
    """Whether it only ends a value."""
    by: "Run | None" = None
    """The run that replaced it."""
    against: "Run | None" = None
    """The run that it contradicts, in unknown order or by a person's decision."""

    @property
    def lead(self) -> ContextRecord:
        """The observation that represents the fact: a curated one, else the first.

        If they expire, it is the last to do so: no read shows the words of a turn for longer.
        """
        return next(filter(params.is_protected, self.rows), None) or max(self.rows, key=_until)

    @property
    def since(self) -> str:
        """The moment since which it holds."""
        return str(params.observed(self.rows[0])["valid_from"])

    @property
    def is_held(self) -> bool:
        """Whether a person keeps it current regardless of later statements."""
        return any(params.is_protected(one) and not one.metadata.get("past") for one in self.rows)


def runs_of(live: Iterable[ContextRecord]) -> list[Run]:
    """Return the facts of one identity, from the observations that count."""
    rows = sorted(live, key=_order)
    by_id = {one.id: one for one in rows}
    found: list[Run] = []
    current: Run | None = None
    aside: list[Run] = []
    for one in rows:
        says = _says(one, by_id)
        new = Run(says, [one], is_end=params.is_end(one))
        if current is None:
            current = new
        elif current.says == says:
            if not _is_open(current, new):
                for run in aside:
                    run.by = current
                aside = []
            current.rows.append(one)
            continue
        elif new.is_end and not _is_ended_by(current, one):
            new.by = current
        elif _is_open(current, new):
            if (same := next((run for run in aside if run.says == says), None)) is not None:
                same.rows.append(one)
                continue
            new.against = current
            aside.append(new)
        else:
            for run in (current, *aside):
                run.by = new
            current, aside = new, []
        found.append(new)
    return found


def folded(rows: Collection[ContextRecord], now: datetime) -> dict[str, ContextRecord]:
    """Return all observations of one identity by id: leads as facts, the others hidden."""
    done = {one.id: _alone(one, now) for one in rows}
    for run in runs_of(one for one in rows if not _is_out(one, now)):
        for one in run.rows:
            if one is not run.lead:
                done[one.id] = _hidden(one, params.MERGED, now)
        done[run.lead.id] = _fact(run)
    return done


@dataclass(slots=True)
class Facts:
    """Observations before and after a change; always whole identities."""

    now: datetime
    held: dict[str, Held]
    """The rows before the change, by key."""
    rows: dict[str, ContextRecord]
    """The rows after the change, by key."""
    leads: dict[str, str] = field(default_factory=dict)
    """The id of each counting observation's lead, by key, for folded identities."""
    _folded: set[str] = field(default_factory=set)

    @classmethod
    async def of(cls, spoken: Records, made: Records, found: Iterable[Held]) -> "Facts":
        """Create it from rows; splits an older release's rows of several observations."""
        held = {one.row[KEY]: one for one in found}
        rows = {key: one.record for key, one in held.items()}
        old = [one for one in rows.values() if params.is_of_several(one)]
        there = await said(spoken, old, include_expired=True) if old else {}
        for one in old:
            *whose, _, _ = place_of(one)
            for proof in params.evidence(one)[1:]:
                turn = there.get((*whose, proof.session_id, proof.source_id))
                apart = params.observed_apart(one, proof, turn)
                rows.setdefault(commits.key(apart), apart)
        return cls(made.now(), held, rows)

    def put(self, *records: ContextRecord) -> set[str]:
        """Add or replace these records; returns their keys."""
        self.rows |= {commits.key(one): one for one in records}
        return {commits.key(one) for one in records}

    def drop(self, keys: Iterable[str]) -> None:
        """Remove these, and fold their identities."""
        gone = {*keys}
        dropped = [self.rows[key] for key in gone if key in self.rows]
        links = {one.id: params.observed(one).get("link") for one in dropped}
        whole = dict(self.rows)
        for key in gone:
            self.rows.pop(key, None)
        for key, one in self.rows.items():
            self.rows[key] = _linked_past(one, links)
        self._fold(whole, gone)

    def fold(self, keys: Collection[str] | None = None) -> None:
        """Fold the identities of these keys, or all."""
        self._fold(self.rows, self.rows.keys() if keys is None else keys)

    def _fold(self, whole: Mapping[str, ContextRecord], touched: Collection[str]) -> None:
        for group in identities(whole):
            if not group & {*touched}:
                continue
            here = [self.rows[key] for key in group if key in self.rows]
            before = {one.id: commits.key(one) for one in here}
            self._folded |= group
            for run in runs_of(one for one in here if not _is_out(one, self.now)):
                self.leads |= dict.fromkeys((before[one.id] for one in run.rows), run.lead.id)
            for one in folded(here, self.now).values():
                self.rows[before[one.id]] = one

    def changes(self) -> tuple[list[ContextRecord], list[tuple[Held, ContextRecord]]]:
        """Return the records to add, and those to change."""
        after = {key: one for key, one in self.rows.items() if key in self._folded}
        added = [one for key, one in after.items() if key not in self.held]
        changed = [
            (self.held[key], one)
            for key, one in after.items()
            if key in self.held and _is_other(one, self.held[key].record)
        ]
        return added, changed

    def basis(self, decided: Collection[str] = ()) -> Basis:
        """Return all observations of the identities that change, and of the keys `decided`.

        Others may say something of the same identity at the same time, and change none of the same
        rows: the fold of one of them would lack what the other one said.
        """
        added, changed = self.changes()
        touched = {*decided, *self.held.keys() - self.rows.keys()}
        touched |= {commits.key(one) for one in added}
        touched |= {before.row[KEY] for before, _ in changed}
        whole = {key: one.record for key, one in self.held.items()} | self.rows
        names: dict[Scope, set[str]] = {}
        for group in identities(whole):
            if group & touched:
                for one in map(whole.__getitem__, group):
                    names.setdefault(turns.owner_of(one), set()).update(_names(one))
        if not names:
            return Basis()
        of_each = [
            sql.all_of([sql.in_list("external_id", sorted(some)), turns.owned_by(owner)])
            for owner, some in names.items()
        ]
        held = [
            one
            for one in self.held.values()
            if one.row["external_id"] in names.get(turns.owner_of(one.record), ())
        ]
        where = sql.all_of([sql.any_of(of_each), FACT])
        return Basis(held, where, [one.row[KEY] for one in held])


def identities(facts: Mapping[str, ContextRecord]) -> list[set[str]]:
    """Return the keys of the observations, grouped by identity."""
    by_id: dict[tuple[Scope, str], _Identity] = {}
    members: dict[_Identity, set[str]] = {}
    for key, one in facts.items():
        identity = _identity(one)
        members.setdefault(identity, set()).add(key)
        by_id[identity[0], one.id] = identity
    of: dict[_Identity, set[str]] = dict(members)
    for one in facts.values():
        link = params.observed(one).get("link")
        mine = _identity(one)
        other = by_id.get((mine[0], link["to"])) if link else None
        if other is not None and of[mine] is not of[other] and other[2] is mine[2] is None:
            joined = of[mine] | of[other]
            for identity in [name for name, group in of.items() if group <= joined]:
                of[identity] = joined
    return [*{id(group): group for group in of.values()}.values()]


async def around(
    spoken: Records, made: Records, owner: Scope, facts: Sequence[ContextRecord]
) -> Facts:
    """Read all observations of one owner that share an identity with one of these."""
    if not facts:
        return Facts(made.now(), {}, {})
    await _name_all(made)
    found: dict[str, Held] = {}
    asked: tuple[set[str], set[str]] | None = None
    while True:
        known = [*facts, *(one.record for one in found.values())]
        # Statements that a consolidator has joined are found step by step.
        links = {link["to"] for one in known if (link := params.observed(one).get("link"))}
        step = {name for one in known for name in _names(one)}, {one.id for one in facts} | links
        if step == asked:
            return await Facts.of(spoken, made, found.values())
        asked = names, ids = step
        keys = [key_of(owner, params.CONTEXT, "id", id) for id in sorted(ids)]
        # A cache knows without a lookup that most of these are absent.
        for named in (sql.in_list(KEY, keys), sql.in_list("external_id", sorted(names))):
            for one in await commits.held(made, FACT, turns.owned_by(owner), named):
                found[one.row[KEY]] = one


async def around_all(spoken: Records, made: Records, facts: Sequence[ContextRecord]) -> Facts:
    """As `around`, for facts of any owners."""
    found = Facts(made.now(), {}, {})
    for owner in dict.fromkeys(map(turns.owner_of, facts)):
        mine = [one for one in facts if turns.owner_of(one) == owner]
        some = await around(spoken, made, owner, mine)
        found.held |= some.held
        found.rows |= some.rows
    return found


def observe(known: Facts, new: Sequence[ContextRecord]) -> dict[str, Any]:
    """Add observations; returns the decisions on new and known facts."""
    report: dict[str, Any] = {
        "facts": [],
        "merged": [],
        "superseded": [],
        "conflicts": [],
        "decisions": Counter[str](),
    }
    decisions = report["decisions"]
    before = dict(known.rows)
    taken: list[str] = []
    for one in new:
        key = commits.key(one)
        there = before.get(key)
        if there is None or {*params.outs(there)} == {params.UNDONE}:
            # An observation whose former job was undone counts as new.
            taken += known.put(one)
        else:
            decisions["noop"] += 1
    known.fold([*taken])
    for key in taken:
        now, lead = known.rows[key], known.leads.get(key)
        if lead is not None and lead != now.id:
            report["merged"].append(lead)
            decisions["merge"] += 1
            continue
        report["facts"].append(now.id)
        is_late = now.superseded_by_id is not None
        decisions["supersede" if is_late else "add"] += 1
        if now.lifecycle_status == CONTRADICTED:
            against = now.metadata["conflicts"]
            report["conflicts"] += [[id, now.id] for id in against]
            decisions["conflict"] += 1
    for key, one in before.items():
        now = known.rows[key]
        by = now.superseded_by_id
        if key not in taken and by is not None and by != one.superseded_by_id:
            report["superseded"].append([now.id, by])
            decisions["supersede"] += one.superseded_by_id is None
    return report


Change = Callable[[ContextRecord, ContextRecord], ContextRecord]
"""A person's change: of an observation, and the fact that it belongs to."""


async def curated(spoken: Records, made: Records, id: str, change: Change) -> ContextRecord:
    """Apply a person's change to a fact's observations, or to a chunk or summary.

    Raises NotFoundError if it does not exist.
    """
    named = sql.all_of([_MADE, sql.equals("id", check_name(id, "id"))])
    attempts = Attempts(f"record {id!r} kept being changed by others")
    while True:
        attempts.begin()
        found = await commits.held(made, named)
        if not found and await archive.are_any(made) and await archive.bring_back(made, named):
            continue
        if not found:
            raise NotFoundError(f"{id!r} is not a fact, chunk or summary of this store")
        record = found[0].record
        if record.kind != params.FACT:
            after = made.changed(record, lambda one: change(one, one))
            if await commits.write(made, [], [(found[0], after)]):
                return after
            continue
        facts = await around(spoken, made, turns.owner_of(record), [record])
        key = found[0].row[KEY]
        facts.fold([key])
        lead = facts.leads.get(key)
        keys = [one for one, its in facts.leads.items() if its == lead is not None] or [key]
        # A person who curates an outdated fact does not make it current again.
        is_past = any(facts.rows[one].superseded_by_id is not None for one in keys)
        fact = next((facts.rows[one] for one in keys if facts.rows[one].id == lead), record)
        for one in keys:
            before = facts.rows[one]
            facts.rows[one] = _taken_up(before, change(before, fact), is_past=is_past)
        facts.fold([key])
        if await commits.write(made, *facts.changes(), basis=facts.basis([key])):
            return facts.rows[key]


def _taken_up(one: ContextRecord, new: ContextRecord, *, is_past: bool) -> ContextRecord:
    metadata = {name: each for name, each in new.metadata.items() if name != "past"}
    was_past = params.is_protected(one) and bool(one.metadata.get("past"))
    if params.is_protected(new) and (was_past or (is_past and not params.is_protected(one))):
        metadata["past"] = True
    return replace(new, metadata=metadata)


# Helpers

_UNNAMED = sql.all_of([FACT, sql.is_absent("external_id")])
_AT_ONCE = 1_000


async def _name_all(made: Records) -> None:
    """Add the lookup names to facts that an older release has written."""
    attempts = Attempts("facts kept being changed by others")
    while unnamed := await made.remembered(_UNNAMED, columns=(KEY,)):
        attempts.begin()
        keys = [row[KEY] for row in unnamed[:_AT_ONCE]]
        found = await commits.held(made, FACT, sql.in_list(KEY, keys))
        named = [
            (one, replace(one.record, external_id=params.identity(one.record))) for one in found
        ]
        if await commits.write(made, [], named):
            attempts = Attempts("facts kept being changed by others")


def _names(one: ContextRecord) -> Iterator[str]:
    """The names of all facts that may share its identity."""
    yield params.identity(one)
    fact = params.about(one)
    if fact["slot"] is None:
        yield params.statement(fact["subject"], fact["words"])
        yield params.statement(fact["subject"], None)


def _identity(one: ContextRecord) -> _Identity:
    fact = params.about(one)
    words = fact["words"] if fact["slot"] is None else ""
    return turns.owner_of(one), fact["subject"], fact["slot"], words


def _order(one: ContextRecord) -> tuple[Any, ...]:
    """The sort key of observations: start of validity, time of the turn, and place in it."""
    own = params.observed(one)
    place = params.about(one)["place"], own["evidence"]["start"]
    return own["valid_from"], one.created_at, one.session_id or "", place, one.id


def _until(one: ContextRecord) -> tuple[bool, str]:
    """The moment of the turn's expiry; no expiry sorts last."""
    until = params.observed(one).get("expires_at")
    return until is None, until or ""


def _says(one: ContextRecord, by_id: Mapping[str, ContextRecord]) -> str:
    """The key by which two observations of one identity are one fact."""
    fact, link = params.about(one), params.observed(one).get("link")
    if params.is_end(one):
        return f"-{fact['words']}"
    if fact["slot"] is not None:
        return params.normalised(fact["value"] or "")
    seen = {one.id}
    while link and link["op"] == "merge" and link["to"] in by_id and link["to"] not in seen:
        seen.add(link["to"])
        fact = params.about(by_id[link["to"]])
        link = params.observed(by_id[link["to"]]).get("link")
    return str(fact["words"])


def _is_ended_by(current: Run, one: ContextRecord) -> bool:
    value = params.about(one)["value"]
    return current.is_end or not value or params.normalised(value) == current.says


def _is_open(current: Run, new: Run) -> bool:
    """Whether the order of the new run and the current one is unknown."""
    if current.says != new.says and (current.is_held or new.is_held):
        return current.is_held
    last, one = current.rows[-1], new.rows[0]
    return _order(last)[:2] == _order(one)[:2] and last.session_id != one.session_id


def _is_out(one: ContextRecord, now: datetime) -> bool:
    until = params.observed(one).get("expires_at")
    return bool(params.outs(one)) or (until is not None and datetime.fromisoformat(until) <= now)


def _alone(one: ContextRecord, now: datetime) -> ContextRecord:
    """An observation without the effects of others."""
    outs = params.outs(one)
    return _hidden(one, params.reason_of(outs), now) if outs else params.alone(one)


def _hidden(one: ContextRecord, reason: str, now: datetime) -> ContextRecord:
    is_already = one.retired_at is not None and one.retired_reason == reason
    moment = one.retired_at if is_already else now
    return replace(params.alone(one), retired_at=moment, retired_reason=reason)


_COMPARED = (
    *("text", "metadata", "source_ids", "lifecycle_status", "superseded_by_id"),
    *("retired_at", "retired_reason", "expires_at", "created_at", "external_id"),
)


def _is_other(one: ContextRecord, before: ContextRecord) -> bool:
    return any(getattr(one, name) != getattr(before, name) for name in _COMPARED)


def _fact(run: Run) -> ContextRecord:
    """The fact of a run, in the record of its lead."""
    rows = [run.lead, *(one for one in run.rows if one is not run.lead)]
    proofs = list(dict.fromkeys(params.own_evidence(one) for one in rows))
    ends = [params.observed(one).get("expires_at") for one in rows]
    last = max(one.created_at for one in rows)
    fact = params.with_fact(
        params.with_evidence(params.alone(run.lead), proofs),
        valid_from=run.since,
        valid_to=None if run.by is None else max(run.by.since, run.since),
        last_said=last.isoformat(),
    )
    moments = [datetime.fromisoformat(one) for one in ends if one is not None]
    fact = replace(fact, expires_at=max(moments) if len(moments) == len(ends) else None)
    if run.against is not None:
        against = [run.against.lead.id]
        fact = replace(fact, metadata={**fact.metadata, "conflicts": against})
    if run.by is not None:
        return replace(fact, lifecycle_status=SUPERSEDED, superseded_by_id=run.by.lead.id)
    return replace(fact, lifecycle_status="active" if run.against is None else CONTRADICTED)


def _linked_past(
    one: ContextRecord, links: Mapping[str, Mapping[str, str] | None]
) -> ContextRecord:
    """The observation linked past removed ones to their targets."""
    link = before = params.observed(one).get("link")
    while link and link["to"] in links:
        further = links[link["to"]]
        link = further and {"op": "after", "to": further["to"]}
    return one if link == before else params.with_observed(one, link=link)
