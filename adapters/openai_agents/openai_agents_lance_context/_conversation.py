"""A session as items: the end is popped or compacted, and no item that others have added."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from agents import TResponseInputItem

from lance_context_core import AsyncHistory, ConflictError, Message, NotFoundError
from lance_context_core.adapting import retried
from openai_agents_lance_context._items import from_canonical, to_canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The last items of a session, as the SDK compacts them."""

    items: list[TResponseInputItem]
    complete: bool
    """Whether these are all items of the session."""
    replace_suffix: Callable[[int, list[TResponseInputItem]], Awaitable[bool]]
    """Replaces the items from a position on; returns False, and changes nothing, if the end of the
    session is not as it was read."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session of the history, read and replaced as items."""

    history: AsyncHistory
    agent_id: str
    session_id: str

    async def messages(self, last: int | None = None) -> list[Message]:
        """Returns its messages, or the last ones."""
        return await self.history.get_messages(self.agent_id, session_id=self.session_id, last=last)

    async def pop(self) -> TResponseInputItem | None:
        """Removes the last item, and returns it. Raises ConflictError if others change the end."""
        found = await self.messages(2)
        if not found:
            return None
        *before, message = found
        *rest, item = from_canonical(message)
        if not rest:
            where = {"agent_id": self.agent_id, "session_id": self.session_id}
            await self.history.pop(**where, expected_id=message.id)
        elif not await self._replaced(before[0] if before else None, [message], to_canonical(rest)):
            raise ConflictError(f"the end of session {self.session_id!r} was changed")
        return item

    async def snapshot(self, limit: int) -> Snapshot:
        """Returns the whole messages at the end with at most `limit` items; one in any case."""
        found = await self.messages(limit + 1)
        groups: list[list[TResponseInputItem]] = []
        n_items = 0
        for message in reversed(found):
            items = from_canonical(message)
            if groups and n_items + len(items) > limit:
                break
            groups.insert(0, items)
            n_items += len(items)
        first = len(found) - len(groups)

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            at, inside = _position(groups, start)
            going = found[first + at :]
            if not going:
                return False
            before = found[first + at - 1] if first + at else None
            new = to_canonical([*groups[at][:inside], *output])
            return await self._replaced(before, going, new)

        return Snapshot(
            items=[item for items in groups for item in items],
            complete=not first,
            replace_suffix=replace_suffix,
        )

    async def replace(self, read: Sequence[str], output: Sequence[TResponseInputItem]) -> None:
        """Replaces the messages of these ids, which follow each other; all others stay.

        Raises ConflictError, and changes nothing, if one of them does not exist any more.
        """

        async def once() -> bool:
            found = await self.messages()
            ids = [message.id for message in found]
            start = ids.index(read[0]) if read and read[0] in ids else 0
            end = start + len(read)
            if ids[start:end] != [*read]:
                return False
            before = found[start - 1] if start else None
            new = [*to_canonical(output), *found[end:]]
            if not await self._replaced(before, found[start:], new):
                raise ConflictError("other writers kept adding items to the session: try again")
            return True

        if not await retried(once, on=ConflictError):
            raise ConflictError(
                f"session {self.session_id!r}: items that were compacted have been removed or replaced "
                "meanwhile, so nothing was written. Compact again"
            )

    async def _replaced(
        self, before: Message | None, going: Sequence[Message], new: Sequence[Message]
    ) -> bool:
        """Replaces the messages behind one, unless there are others by now."""
        try:
            await self.history.replace_tail(
                self.agent_id,
                new,
                session_id=self.session_id,
                after=None if before is None else before.id,
                expected_tail=[str(one.id) for one in going],
            )
        except (ConflictError, NotFoundError):
            return False
        return True


def _position(groups: Sequence[Sequence[object]], start: int) -> tuple[int, int]:
    """Returns the message of an item, and the place of the item in it."""
    for at, items in enumerate(groups):
        if start < len(items):
            return at, start
        start -= len(items)
    return len(groups), 0
