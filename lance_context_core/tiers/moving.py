"""Entries that go from one tier to another: the entry and what stands in for it, in one commit."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from lance_context_core._util.calls import called
from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Held
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records.scoped import Records
from lance_context_core.tiers import entries
from lance_context_core.tiers.values import Tier
from lance_context_core.types import ContextRecord

Summarise = Callable[[str], str | Awaitable[str]]
"""Says a text shorter; plain, which is run in a thread, or to be awaited."""

IS_ENTRY = sql.equals("kind", entries.ENTRY)
STANDS_IN = sql.in_list("kind", list(entries.STAND_INS.values()))


@frozen
class Wording:
    """Who says what stands in for an entry."""

    summarise: Summarise | None = None
    state: Summarise | None = None

    async def of(self, text: str, tier: Tier) -> str:
        """What stands in for a text in a tier. Raises what the model raises, and for no text."""
        summary = await _said(self.summarise, text, "summarise")
        if tier is Tier.WARM:
            return summary
        return summary if self.state is None else await _said(self.state, summary, "state")


@frozen
class Move:
    """An entry that goes to another tier."""

    before: Held
    to: Tier
    text: str | None = None
    """What stands in for it there; None where nothing does, or what did so before."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further metadata of what stands in for it."""


async def found(records: Records, ids: Sequence[str]) -> dict[str, Held]:
    """The entries with these ids, by id, ended ones left out.

    Raises NotFoundError if there is not each of them, and InvalidRequestError where several users'
    entries are called alike.
    """
    ended = sql.absent_or_after("expires_at", records.now())
    there: dict[str, Held] = {}
    for one in await commits.held(records, IS_ENTRY, sql.in_list("id", list(ids)), ended):
        if one.record.id in there:
            raise InvalidRequestError(
                f"several users have an entry {one.record.id!r}: say whose by a scope of the store"
            )
        there[one.record.id] = one
    if missing := [id for id in ids if id not in there]:
        raise NotFoundError(f"there is no entry {missing[0]!r} in the tiers")
    return there


async def move(records: Records, moves: Sequence[Move]) -> bool:
    """Do all of it in one commit; or nothing, where somebody has changed one of them meanwhile."""
    now = records.now()
    beside = await _standing_in(records, moves)
    added: list[ContextRecord] = []
    changed: list[tuple[Held, ContextRecord]] = []
    for one in moves:
        entry = one.before.record
        changed.append((one.before, replace(entry, layer=str(one.to))))
        for tier in entries.STAND_INS:
            there = beside.get((*_owner(entry), entries.stand_in_id(entry, tier)))
            if tier is not one.to:
                if there is not None and there.record.retired_at is None:
                    hidden = replace(there.record, retired_at=now, retired_reason=entries.MOVED)
                    changed.append((there, hidden))
                continue
            text = one.text
            if text is None and there is not None:
                text = there.record.text
            new = entries.stand_in(entry, tier, text or "", now, one.more)
            if there is None:
                added.append(new)
            else:
                changed.append((there, new))
    return await commits.write(records, added, changed)


async def remove(records: Records, gone: Sequence[Held]) -> bool:
    """Remove entries, and what stands in for them, in one commit; as `move`."""
    beside = await _standing_in(records, [Move(one, Tier.HOT) for one in gone])
    return await commits.write(records, [], [], removed=[*gone, *beside.values()])


async def _standing_in(
    records: Records, moves: Sequence[Move]
) -> dict[tuple[str | None, ...], Held]:
    """What stands in for them, hidden or not, by its owner and id."""
    ids = [
        entries.stand_in_id(one.before.record, tier) for one in moves for tier in entries.STAND_INS
    ]
    owners = {_owner(one.before.record) for one in moves}
    there = await commits.held(records, STANDS_IN, sql.in_list("id", ids))
    return {
        (*_owner(one.record), one.record.id): one for one in there if _owner(one.record) in owners
    }


def _owner(record: ContextRecord) -> tuple[str | None, ...]:
    return tuple(getattr(record, part) for part in SCOPE_PARTS)


async def _said(function: Summarise | None, text: str, where: str) -> str:
    if function is None:
        return entries.shortened(text)
    said = await called(function, text)
    if not isinstance(said, str) or not said.strip():
        raise InvalidRequestError(f"{where} returned {said!r:.80}: it has to return a text")
    return said.strip()


def keys(held: Sequence[Held]) -> list[str]:
    """The primary keys of what was read."""
    return [one.row[KEY] for one in held]
