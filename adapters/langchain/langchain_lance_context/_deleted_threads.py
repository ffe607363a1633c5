"""Records deleted threads, so that a running graph does not restore them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from lance_context_core import AsyncKeyValues, Item
from lance_context_core.arguments import ItemKey
from lance_context_core.results import ItemsAppended
from langchain_lance_context._checkpoints import Place
from langchain_lance_context._known import Known, Memory

_NAMESPACE = ("", "deleted threads")
"""No thread has an empty id."""

_KEPT_FOR = timedelta(days=7)
"""Time after a thread's deletion for which a run of it stores nothing."""


class Ancestor(NamedTuple):
    """A checkpoint that another checkpoint, or writes, depend on."""

    place: Place
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedThreads:
    """A saver's knowledge of its deleted threads."""

    memory: Memory
    items: AsyncKeyValues

    async def note(self, thread: str, keys: Collection[ItemKey]) -> None:
        """Marks the thread's checkpoints among these items as about to be deleted."""
        ids = [key.partition(" ")[0] for namespace, key in keys if namespace[1] == "state"]
        if ids:
            mark = Item(
                namespace=_NAMESPACE,
                key=thread,
                value={"last": max(ids)},
                expires_at=datetime.now(UTC) + _KEPT_FOR,
            )
            await self.items.put([mark])

    async def has_lost(self, ancestors: Collection[Ancestor], done: ItemsAppended) -> bool:
        """Whether one of the ancestors was deleted with its thread before that commit.

        A deletion stores its mark before it removes anything, so remaining writes see the mark.
        """
        if any(map(self.memory.has_lost, ancestors)):
            return True
        unsure = [one for one in ancestors if not _is_there(one, done, self.memory[one.place])]
        if not unsure:
            return False
        threads = {one.place.thread: None for one in unsure}
        marks = await self.items.get(keys=[(_NAMESPACE, thread) for thread in threads])
        last = {one.key: str((one.value or {})["last"]) for one in marks if one is not None}
        asked = [one for one in unsure if one.id <= last.get(one.place.thread, "")]
        if not asked:
            return False
        keys: list[ItemKey] = [(one.place.state, one.id) for one in asked]
        return None in await self.items.get(keys=keys, include_data=False)

    async def take_back(self, place: Place, checkpoint_id: str, keys: Iterable[ItemKey]) -> None:
        """Deletes a checkpoint that was just put, with these rows and the writes on top of it."""
        self.memory.lose(Ancestor(place, checkpoint_id))
        writes = await self.items.keys(namespace=place.state, key_prefix=checkpoint_id)
        await self.items.delete(keys=list(dict.fromkeys([*keys, *writes])))


def _is_there(one: Ancestor, done: ItemsAppended, known: Known | None) -> bool:
    """Whether it existed at a version since which nothing was deleted."""
    return (
        known is not None
        and known.whole_at is not None
        and known.whole_at >= done.grows_since
        and one.id in known.window.by_owner
    )
