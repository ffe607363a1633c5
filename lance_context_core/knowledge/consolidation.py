"""What becomes of a fact beside those that are known: added, merged, or in the place of another.

Dates decide, not the order in which things were read: what was said later is current. Facts of the
same moment in different sessions contradict each other, and both stay. What a person has corrected
or pinned stays as it is, and what contradicts it is kept beside it and reported.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from lance_context_core.codecs.records import SUPERSEDED, VISIBLE_STATUSES
from lance_context_core.jobs.commits import Held
from lance_context_core.knowledge import params
from lance_context_core.knowledge.types import Evidence
from lance_context_core.types import ContextRecord

CONTRADICTED = "contradicted"


@dataclass(slots=True)
class Known:
    """The facts around those of one job, as they become."""

    held: dict[str, Held] = field(default_factory=dict)
    """As they were read, by id."""
    facts: dict[str, ContextRecord] = field(default_factory=dict)
    """As they are now, new ones among them."""
    decisions: Counter[str] = field(default_factory=Counter)
    added: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    superseded: list[list[str]] = field(default_factory=list)
    """Pairs: what was there, and what took its place."""
    conflicts: list[list[str]] = field(default_factory=list)

    @classmethod
    def of(cls, held: Iterable[Held]) -> "Known":
        """What is known before the job."""
        by_id = {one.record.id: one for one in held}
        return cls(held=by_id, facts={id: one.record for id, one in by_id.items()})

    def consider(self, new: ContextRecord) -> None:
        """Take in a fact."""
        if new.id in self.facts:
            before = self.facts[new.id]
            if before.retired_reason == params.UNDONE and not params.is_protected(before):
                self._again(new)
            elif not _has_all(self.facts[new.id], params.evidence(new)):
                self._merge(self.facts[new.id], new)
            else:
                self.decisions["noop"] += 1
            return
        if (same := self._same(new)) is not None:
            self._merge(same, new)
        elif params.about(new)["slot"] is None:
            self._add(new)
        else:
            self._place(new)

    def merge_into(self, id: str, new: ContextRecord) -> None:
        """Let a fact be more evidence of a current one; where that cannot be, take it in."""
        one = self.facts.get(id)
        if one is None or not _is_current(one):
            self.consider(new)
        else:
            self._merge(one, new)

    def put_in_place_of(self, id: str, new: ContextRecord) -> None:
        """Let a fact take the place of a current one without a slot, or that one its: dates decide.

        What a person has corrected or pinned stays, and the new one contradicts it; what is not
        current any more leaves the new one to itself.
        """
        one = self.facts.get(id)
        if one is None or not _is_current(one) or one.retired_at is not None:
            self.consider(new)
        elif params.is_protected(one):
            self._contradict(new, [one])
        elif _when(one) > _when(new):
            self._add(params.superseded(new, one.id, params.about(one)["valid_from"]))
            self.decisions["add"] -= 1
            self.decisions["supersede"] += 1
        else:
            self._add(new)
            self.facts[one.id] = params.superseded(one, new.id, params.about(new)["valid_from"])
            self.superseded.append([one.id, new.id])
            self.decisions["supersede"] += 1

    def _again(self, new: ContextRecord) -> None:
        """Take in a fact whose former job was undone: as if it were found for the first time."""
        del self.facts[new.id]
        self.consider(new)
        self.facts.setdefault(new.id, self.held[new.id].record)

    def settle(self) -> list[ContextRecord]:
        """Let one of several current values of one slot be current: the last.

        Returns those that say the same as another one, which has their evidence now.
        """
        current = sorted(
            (one for one in self.facts.values() if _is_current(one) and not _is_aside(one)),
            key=_when,
        )
        same: list[ContextRecord] = []
        while len(current) > 1:
            one, new = current[0], current.pop(1)
            if _says(one) == _says(new) and not params.is_protected(new):
                self._merge(one, new)
                same.append(new)
                current[0] = self.facts[one.id]
            elif params.is_protected(one) or _is_undecided(one, new):
                if not params.is_protected(new):
                    self.facts[new.id] = _against(new, [one.id])
                    self.conflicts.append([one.id, new.id])
            else:
                self.facts[one.id] = params.superseded(one, new.id, params.about(new)["valid_from"])
                self.superseded.append([one.id, new.id])
                current[0] = new
        return same

    def changes(self) -> tuple[list[ContextRecord], list[tuple[Held, ContextRecord]]]:
        """What is to be added, and what is to be changed."""
        new = [one for id, one in self.facts.items() if id not in self.held]
        changed = [
            (one, self.facts[id])
            for id, one in self.held.items()
            if self.facts[id] is not one.record
        ]
        return new, changed

    # Helpers

    def _same(self, new: ContextRecord) -> ContextRecord | None:
        """The current fact that says the same of the same."""
        wanted = _says(new)
        for one in self._of_subject(new):
            if _says(one) == wanted:
                return one
        return None

    def _merge(self, one: ContextRecord, new: ContextRecord) -> None:
        """Have the evidence of both; what is said again is no other fact."""
        both = [*params.evidence(one), *params.evidence(new)]
        changed = params.with_evidence(one, list(dict.fromkeys(both)))
        earliest = min(params.about(one)["valid_from"], params.about(new)["valid_from"])
        self.facts[one.id] = params.with_fact(changed, valid_from=earliest)
        self.merged.append(one.id)
        self.decisions["merge"] += 1

    def _add(self, new: ContextRecord) -> None:
        self.facts[new.id] = new
        self.added.append(new.id)
        self.decisions["add"] += 1

    def _place(self, new: ContextRecord) -> None:
        """Put the value of a slot where it belongs in time."""
        current = self._of_subject(new)
        against = [one for one in current if params.is_protected(one) or _is_undecided(one, new)]
        if against:
            self._contradict(new, against)
            return
        later = [one for one in self._of_slot(new) if _when(one) > _when(new)]
        if later:
            by = min(later, key=_when)
            self._add(params.superseded(new, by.id, params.about(by)["valid_from"]))
            self.decisions["add"] -= 1
            self.decisions["supersede"] += 1
            self._cut(new)
            return
        self._add(new)
        for one in current:
            self.facts[one.id] = params.superseded(one, new.id, params.about(new)["valid_from"])
            self.superseded.append([one.id, new.id])
            self.decisions["supersede"] += 1

    def _cut(self, new: ContextRecord) -> None:
        """Let what came before an earlier fact that is read late end where that one begins."""
        before = [
            one
            for one in self._of_slot(new)
            if one.id != new.id and one.lifecycle_status == SUPERSEDED and _when(one) < _when(new)
        ]
        if not before:
            return
        last = max(before, key=_when)
        if not params.is_protected(last):
            self.facts[last.id] = params.superseded(last, new.id, params.about(new)["valid_from"])
            self.superseded.append([last.id, new.id])

    def _contradict(self, new: ContextRecord, against: list[ContextRecord]) -> None:
        """Keep both, and say so."""
        ids = [one.id for one in against]
        self._add(_against(new, ids))
        self.decisions["conflict"] += 1
        self.conflicts += [[id, new.id] for id in ids]

    def _of_slot(self, new: ContextRecord) -> list[ContextRecord]:
        """What was ever the value of the slot of this subject."""
        wanted = params.about(new)["subject"], params.about(new)["slot"]
        return [
            one
            for one in self.facts.values()
            if (params.about(one)["subject"], params.about(one)["slot"]) == wanted
            and one.retired_at is None
        ]

    def _of_subject(self, new: ContextRecord) -> list[ContextRecord]:
        """What is current of the slot of this subject, or what has none."""
        return [one for one in self._of_slot(new) if _is_current(one)]


def _against(new: ContextRecord, ids: list[str]) -> ContextRecord:
    """The fact, which contradicts those, and is kept beside them."""
    metadata = {**new.metadata, "conflicts": ids}
    return replace(new, lifecycle_status=CONTRADICTED, metadata=metadata)


def _is_aside(one: ContextRecord) -> bool:
    """Whether it is known already that it contradicts another one."""
    return one.lifecycle_status == CONTRADICTED


def _is_current(one: ContextRecord) -> bool:
    return one.lifecycle_status in VISIBLE_STATUSES and one.superseded_by_id is None


def _says(one: ContextRecord) -> tuple[str, str]:
    fact = params.about(one)
    if fact["slot"] is None:
        return "", fact["words"]
    return fact["slot"], params.normalised(fact["value"] or "")


def _when(one: ContextRecord) -> tuple[str, str, int]:
    """By what the values of a slot are in order; of one session by their places too."""
    fact = params.about(one)
    return fact["valid_from"], one.session_id or "", fact["place"]


def _is_undecided(one: ContextRecord, new: ContextRecord) -> bool:
    """Whether nothing tells which of two came later."""
    same_moment = params.about(one)["valid_from"] == params.about(new)["valid_from"]
    return same_moment and one.session_id != new.session_id


def _has_all(one: ContextRecord, found: Iterable[Evidence]) -> bool:
    there = {(each.source_id, each.start, each.end) for each in params.evidence(one)}
    return all((each.source_id, each.start, each.end) in there for each in found)
