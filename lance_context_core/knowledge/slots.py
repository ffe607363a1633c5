"""The values of slots, put in order: of each slot one is current, whatever was merged or is gone."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lance_context_core._util.retry import Attempts
from lance_context_core.filters import RECORD_FIELDS
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Held
from lance_context_core.knowledge import kept, states, turns
from lance_context_core.knowledge.consolidating import CONTRADICTED, Known
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord

Slot = tuple[Scope, str, str]
"""Whose it is, of which subject, and its name."""


def slots_of(facts: Iterable[ContextRecord]) -> set[Slot]:
    """The slots of which these are values."""
    return {
        (turns.owner_of(one), kept.about(one)["subject"], kept.about(one)["slot"])
        for one in facts
        if one.kind == kept.FACT and kept.about(one)["slot"] is not None
    }


async def put_in_order(made: Records, slots: Iterable[Slot]) -> None:
    """Let one value of each of these slots be current, in one commit; none if they are in order."""
    attempts = Attempts("the values of the same slots kept being changed by others")
    slots = sorted(slots, key=str)
    while True:
        attempts.begin()
        changed = [
            change for slot in slots for change in in_order(await _values(made, slot), made.now)
        ]
        if await commits.write(made, [], changed):
            return


def in_order(held: Sequence[Held], now: Callable[[], datetime]) -> list[tuple[Held, ContextRecord]]:
    """What is to be changed of the values of one slot.

    What is superseded by something that is gone counts as current again. Of several that are, the
    same is one, with the evidence of all; else the later ones take the place of the earlier ones, as
    if they had been read one after the other.
    """
    live = {one.record.id: one for one in held if one.record.retired_at is None}
    known = Known.of(live.values())
    for id, one in live.items():
        by = one.record.superseded_by_id
        if by is not None and by not in live and not kept.is_protected(one.record):
            known.facts[id] = kept.revived(one.record)
    for same in known.settle():
        known.facts[same.id] = states.retired(same, kept.MERGED, now())
    return known.changes()[1]


def without(facts: Mapping[str, ContextRecord], gone: Collection[str]) -> dict[str, ContextRecord]:
    """What becomes of facts, by key, once those of the ids `gone` are as if they had never been.

    What a gone one had superseded is current, or superseded by what had superseded that one; what
    contradicted nothing else is no conflict any more. Only those that change are returned.
    """
    by_id = {one.id: one for one in facts.values()}
    changed: dict[str, ContextRecord] = {}
    for key, one in facts.items():
        if one.id in gone:
            continue
        by = one.superseded_by_id
        while by is not None and by in gone:
            by = by_id[by].superseded_by_id
        if by != one.superseded_by_id:
            changed[key] = (
                kept.revived(one)
                if by is None
                else kept.superseded(one, by, kept.about(by_id[by])["valid_from"])
            )
        conflicts = one.metadata.get("conflicts", ())
        left = [id for id in conflicts if id not in gone]
        if len(left) < len(conflicts):
            new = changed.get(key, one)
            is_settled = not left and new.lifecycle_status == CONTRADICTED
            changed[key] = replace(
                new,
                metadata={**new.metadata, "conflicts": left},
                lifecycle_status="active" if is_settled else new.lifecycle_status,
            )
    return changed


async def _values(made: Records, slot: Slot) -> list[Held]:
    owner, subject, name = slot
    of_slot = sql.filtered({"fact.subject": subject, "fact.slot": name}, columns=RECORD_FIELDS)
    fact = sql.equals("kind", kept.FACT)
    return await commits.held(made, fact, turns.owned_by(owner), of_slot)
