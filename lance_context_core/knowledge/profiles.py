"""Profiles: the fields of a person, each with evidence and earlier values."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.codecs.records import COLUMNS, SUPERSEDED, VISIBLE_STATUSES
from lance_context_core.knowledge import params
from lance_context_core.knowledge.evidence_text import Place, quotes, said
from lance_context_core.knowledge.prompts import ProfileSchema, instance, wanted
from lance_context_core.knowledge.types import Quote
from lance_context_core.storage import sql
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord


@frozen_by_name
class FieldValue:
    """The value of a field from one moment on."""

    text: str
    """The value in the words of the fact."""
    valid_from: datetime
    valid_to: datetime | None
    """The moment when another value replaced it; None if current."""
    fact_id: str


@frozen_by_name
class ProfileField:
    """One field of a profile."""

    value: Any
    """Of the type in the schema."""
    fact: ContextRecord
    """The fact that states it."""
    valid_from: datetime
    evidence: tuple[Quote, ...]
    """The turns that state it, and whether they still do."""
    history: tuple[FieldValue, ...]
    """All values, oldest first, including this one."""
    conflicts: tuple[str, ...] = ()
    """Facts that contradict it, such as those against a person's correction."""


@frozen_by_name
class Profile:
    """The knowledge of a person by a schema; each call computes it again."""

    values: Mapping[str, Any]
    """Known values by field name."""
    fields: Mapping[str, ProfileField]
    """The same fields, with evidence and history."""
    missing: tuple[str, ...] = ()
    """Fields without a known value."""
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Fields whose value has another type, with the reason."""
    others: Mapping[str, ProfileField] = field(default_factory=dict)
    """Known slots without a field in the schema, such as a former field."""
    instance: Any = None
    """The dataclass instance, for such a schema; None if a required value is missing."""

    def __bool__(self) -> bool:
        """Whether any field is known."""
        return bool(self.fields)


async def profile(
    spoken: Records,
    made: Records,
    schema: ProfileSchema,
    *,
    speaker: str | None,
    valid_at: datetime | None,
) -> Profile:
    """Return the profile of the speaker with that name, else of the user."""
    fields = wanted(schema)
    of_slots = await _values(made, speaker)
    now = {
        slot: fact
        for slot, all_ in of_slots.items()
        if (fact := _at(all_, valid_at)) is not None and not params.is_end(fact)
    }
    there = await said(spoken, now.values())
    values: dict[str, Any] = {}
    known: dict[str, ProfileField] = {}
    unfit: dict[str, str] = {}
    for one in fields:
        if one.slot not in now:
            continue
        current = now[one.slot]
        try:
            values[one.name] = one.read(params.about(current)["value"])
        except ValueError as error:
            unfit[one.name] = str(error)
            continue
        known[one.name] = _field(values[one.name], current, of_slots[one.slot], there)
    asked = {one.slot for one in fields}
    return Profile(
        values=values,
        fields=known,
        missing=tuple(one.name for one in fields if one.slot not in now),
        unfit=unfit,
        others={
            slot: _field(params.about(fact)["value"], fact, of_slots[slot], there)
            for slot, fact in sorted(now.items(), key=lambda pair: pair[0])
            if slot not in asked
        },
        instance=instance(schema, values),
    )


async def _values(made: Records, speaker: str | None) -> dict[str, list[ContextRecord]]:
    """All values of each slot, oldest first, without retired ones."""
    fact = sql.equals("kind", params.FACT)
    where = made.where(fact, sql.is_absent("retired_at"), include_retired=True)
    facts = await made.read(where, columns=COLUMNS)
    found: dict[str, list[ContextRecord]] = {}
    for one in sorted(facts, key=lambda fact: params.about(fact)["valid_from"]):
        slot = params.about(one)["slot"]
        if slot is not None and _is_of(one, speaker):
            found.setdefault(slot, []).append(one)
    return found


def _was_so(one: ContextRecord) -> bool:
    is_past = one.lifecycle_status == SUPERSEDED and not one.metadata.get("conflicts")
    return is_past and not params.is_end(one)


def _is_of(fact: ContextRecord, speaker: str | None) -> bool:
    if speaker is None:
        return fact.role == "user"
    return bool(params.about(fact)["subject"] == speaker.casefold())


def _at(values: list[ContextRecord], moment: datetime | None) -> ContextRecord | None:
    """The value of a slot now, or at a moment."""
    if moment is None:
        current = [one for one in values if one.lifecycle_status in VISIBLE_STATUSES]
        current = [one for one in current if one.superseded_by_id is None] or []
        agreed = [one for one in current if not one.metadata.get("conflicts")]
        best = agreed or current
        return best[-1] if best else None
    text = moment.isoformat()
    then = [
        one
        for one in values
        if params.about(one)["valid_from"] <= text
        and (params.about(one)["valid_to"] is None or text < params.about(one)["valid_to"])
    ]
    best = [one for one in then if not one.metadata.get("conflicts")] or then
    return best[-1] if best else None


def _field(
    value: Any,
    fact: ContextRecord,
    values: Iterable[ContextRecord],
    there: dict[Place, ContextRecord],
) -> ProfileField:
    history = [
        FieldValue(
            text=params.about(one)["value"],
            valid_from=datetime.fromisoformat(params.about(one)["valid_from"]),
            valid_to=_moment(params.about(one)["valid_to"]),
            fact_id=one.id,
        )
        for one in values
        if one.id == fact.id or _was_so(one)
    ]
    conflicts = [
        one.id
        for one in values
        if one.id != fact.id and fact.id in one.metadata.get("conflicts", ())
    ]
    return ProfileField(
        value=value,
        fact=fact,
        valid_from=datetime.fromisoformat(params.about(fact)["valid_from"]),
        evidence=quotes(fact, there),
        history=tuple(history),
        conflicts=tuple(conflicts),
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
