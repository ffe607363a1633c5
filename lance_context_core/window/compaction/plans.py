"""A plan: what shall become of each group of a conversation. The conversation itself stays as it is."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, Protocol, runtime_checkable

from lance_context_core._util.checks import check_names, listed, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import Message
from lance_context_core.window.counting import Measure, as_token_counter
from lance_context_core.window.groups import Group, groups_of

Action = Literal["kept", "stubbed", "summarised", "dropped"]
"""What becomes of a group."""


@frozen_by_name
class Entry:
    """A group, and what becomes of it."""

    group: Group
    """As it is in the conversation."""
    action: Action = "kept"
    reason: str = ""
    """Why, if it is not kept: the name of the strategy."""
    shown: Group | None = None
    """What is shown in its place, if that is another; a summary stands in the place of its first."""
    is_protected: bool = False
    """Whether it stays whatever a strategy says: pinned, an instruction, the newest turn, an open call."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """What is shown of it."""
        if self.shown is not None:
            return self.shown.messages
        return self.group.messages if self.action in ("kept", "stubbed") else ()


@frozen_by_name
class Plan:
    """What becomes of each group; every group of the conversation is in it, in order."""

    entries: tuple[Entry, ...]
    measure: Measure
    rejected: tuple[tuple[Message, str], ...] = ()
    """Messages that fit into no group, with the reason."""
    notes: tuple[str, ...] = ()
    """What went wrong on the way and did no harm."""

    @classmethod
    def of(
        cls, messages: Iterable[Message], *, pinned: Sequence[str] = (), counter: object = None
    ) -> "Plan":
        """The plan to keep all of a conversation; groups with an id of `pinned` stay in every plan."""
        grouped = groups_of(listed(messages, "messages"))
        ids = set(check_names(pinned, "pinned"))
        groups = grouped.groups
        # Where no user says anything, the end is what is answered.
        newest = max(
            (i for i, one in enumerate(groups) if one.is_user_turn), default=len(groups) - 1
        )
        entries = [
            Entry(
                group=one,
                is_protected=one.kind == "system"
                or one.is_open
                or index == newest
                or bool(ids & set(one.ids)),
            )
            for index, one in enumerate(groups)
        ]
        return cls(
            entries=tuple(entries),
            measure=Measure(as_token_counter(counter)),
            rejected=grouped.rejected,
        )

    @property
    def messages(self) -> list[Message]:
        """What is shown, in order: results are right behind their calls."""
        return [message for entry in self.entries for message in entry.messages]

    @property
    def tokens(self) -> int:
        """Of what is shown."""
        return self.measure.messages(self.messages)

    def there(self) -> list[int]:
        """The indexes of the entries of which something of their own is shown."""
        return [i for i, one in enumerate(self.entries) if one.action in ("kept", "stubbed")]

    def dropping(self, indexes: Iterable[int], reason: str) -> "Plan":
        """The plan without these, but for those that are protected, or not there any more."""
        there = set(self.there())
        drops = {i for i in indexes if i in there and not self.entries[i].is_protected}
        return self.with_entries(
            {
                i: replace(self.entries[i], action="dropped", reason=reason, shown=None)
                for i in drops
            }
        )

    def with_entries(self, entries: dict[int, Entry]) -> "Plan":
        """The plan with other entries at these places."""
        if not entries:
            return self
        return replace(
            self, entries=tuple(entries.get(i, one) for i, one in enumerate(self.entries))
        )

    def noting(self, note: str) -> "Plan":
        """The plan with one more note."""
        return replace(self, notes=(*self.notes, note))


@runtime_checkable
class CompactionStrategy(Protocol):
    """Makes a conversation shorter, by plans."""

    async def plan(self, plan: Plan) -> Plan:
        """The plan as it shall be; the same one if there is nothing to do."""


class Strategy:
    """What all strategies share."""

    async def plan(self, plan: Plan) -> Plan:
        """The plan as it shall be; the same one if there is nothing to do."""
        return plan

    async def compact(
        self, messages: Sequence[Message], *, pinned: Sequence[str] = (), counter: object = None
    ) -> list[Message]:
        """What is shown of a conversation; `messages` are not changed."""
        return (await self.plan(Plan.of(messages, pinned=pinned, counter=counter))).messages


def whole(value: object, name: str, *, least: int = 0) -> int:
    """A whole number that is not less; else InvalidRequestError names the argument."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidRequestError(f"{name}={shown(value)}: give a whole number, {least} or more")
    return value
