"""Which checkpoints stay, and how the others go without what those need."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from langgraph.checkpoint.serde.base import SerializerProtocol

from lance_context_core import AsyncKeyValues, InvalidRequestError, Item
from langchain_lance_context import _checkpoints as rows
from langchain_lance_context._checkpoints import Place, Stored, ValueKey
from langchain_lance_context._deleted_threads import DeletedThreads
from langchain_lance_context._known import Memory

_BATCH = 32
"""How many checkpoints are removed at a time, at least: it costs as much as some puts."""
_ROUNDS = 16
"""How often a thread is looked at until nothing is left that a run put while it was being deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Which checkpoints of a thread's namespace stay, beside the newest one; all, by default."""

    keep_last: int | None = None
    keep_for: timedelta | None = None

    @property
    def every(self) -> int:
        """After how many puts it is applied."""
        return max(_BATCH, (self.keep_last or 0) // 2)

    def kept(self, items: Sequence[Item]) -> set[str]:
        """The ids of those that stay, of checkpoints that come newest first."""
        oldest = None if self.keep_for is None else datetime.now(UTC) - self.keep_for
        return {
            one.key
            for one in items[: self.keep_last]
            if oldest is None or one is items[0] or (one.created_at or oldest) >= oldest
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Removes checkpoints from among the items of a saver."""

    serde: SerializerProtocol
    memory: Memory
    retention: Retention | None
    """None if all stay."""
    items: AsyncKeyValues

    async def of_thread(self, thread: str) -> None:
        """Remove all of a thread, and what a run of it still puts."""
        deleted = DeletedThreads(memory=self.memory, items=self.items)
        for _ in range(_ROUNDS):
            # What is put meanwhile is not among these: no checkpoint goes before its mark is there.
            if not (keys := await self.items.keys(prefix=(thread,))):
                return
            await deleted.note(thread, keys)
            self.memory.forget_thread(thread)
            await self.items.delete(keys=keys)

    async def of_runs(self, run_ids: Collection[str]) -> None:
        """Remove the checkpoints of runs, and what only they need."""
        if not run_ids:
            return
        filter = {"$and": [rows.is_sort(rows.CHECKPOINT), rows.of_runs(run_ids)]}
        found = await self.items.keys(namespace=(None, "state", None), filter=filter)
        gone: dict[Place, set[str]] = {}
        for namespace, key in found:
            gone.setdefault(Place(namespace[0], namespace[2]), set()).add(key)
        for place, ids in gone.items():
            await self.reduce(place, partial(_without, ids), is_strict=True)

    async def prune(self, thread_ids: Iterable[str], *, strategy: str) -> None:
        """Remove checkpoints of threads, a commit for each namespace."""
        kept = {
            "keep_latest": Retention(keep_last=1).kept,
            "retention": (self.retention or Retention()).kept,
            "delete": None,
        }
        if strategy not in kept:
            raise InvalidRequestError(f"strategy={strategy!r}: there are {', '.join(kept)}")
        for thread_id in thread_ids:
            if (choose := kept[strategy]) is None:
                await self.of_thread(thread_id)
                continue
            for namespace in await self.items.namespaces(prefix=(thread_id, "state")):
                await self.reduce(Place(namespace[0], namespace[2]), choose)

    async def reduce(
        self,
        place: Place,
        choose: Callable[[Sequence[Item]], set[str]],
        *,
        is_strict: bool = False,
    ) -> None:
        """Remove all but the chosen checkpoints of a place, in one commit.

        What the chosen ones need of others stays: the values that they share, and unless `is_strict`
        the ancestors that the values of their delta channels are put together from.
        """
        # In one read: what is written meanwhile is in neither of them.
        found = await self.items.list(namespace=(place.thread, None, place.ns), include_data=False)
        values = [one for one in found if one.namespace == place.values]
        state = [one for one in found if one.namespace == place.state]
        checkpoints = {one.key: one for one in state if one.data_type == rows.CHECKPOINT}
        newest_first = [checkpoints[key] for key in sorted(checkpoints, reverse=True)]
        kept = choose(newest_first) if newest_first else set()
        if len(kept) == len(checkpoints):
            return
        there = {one.key: one for one in values}
        delta = {name for one in newest_first for name in rows.delta_channels(one)}
        wanted = checkpoints.keys() if delta and not is_strict else kept
        read = await self.items.get(keys=[(place.state, key) for key in wanted])
        stored = {one.key: rows.read_checkpoint(self.serde, one) for one in read if one is not None}
        if not is_strict:
            kept = kept.union(*(_ancestry(one, stored, delta, there) for one in kept))
        needed: set[str] = set()
        for one in (stored[key] for key in kept if key in stored):
            for value in (*one.value_keys, *one.more_values):
                needed.add(value.key)
                if (item := there.get(value.key)) is not None:
                    parts = rows.read_segments(value, item, 0)
                    needed |= {ValueKey(value.channel, part.version).key for part in parts}
        gone = [
            (one.namespace, one.key)
            for one in state
            if rows.owner(one) in checkpoints and rows.owner(one) not in kept
        ]
        gone += [(place.values, key) for key in there if key not in needed]
        self.memory.without(place, checkpoints.keys() - kept)
        await self.items.delete(keys=gone)


def _ancestry(
    checkpoint_id: str,
    stored: Mapping[str, Stored],
    delta: set[str],
    there: Collection[str],
) -> set[str]:
    """The ancestors from which the delta channels of a checkpoint are put together."""
    needed: set[str] = set()
    one = stored.get(checkpoint_id)
    remaining = set() if one is None else delta & one.checkpoint["channel_versions"].keys()
    while one is not None:
        remaining -= {key.channel for key in one.value_keys if key.key in there}
        one = stored.get(one.parent or "") if remaining else None
        if one is not None:
            needed.add(one.id)
    return needed


def _without(ids: Collection[str], items: Iterable[Item]) -> set[str]:
    return {one.key for one in items}.difference(ids)
