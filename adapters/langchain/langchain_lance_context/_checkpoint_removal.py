"""Selects the checkpoints that stay, and removes the others without their shared values."""

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
"""Minimum number of checkpoints in one removal, which costs as much as some puts."""
_ROUNDS = 16
"""Attempts to delete a thread while a run still writes to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Retention of the checkpoints of a thread and namespace; all by default, the newest always."""

    keep_last: int | None = None
    keep_for: timedelta | None = None

    @property
    def every(self) -> int:
        """Number of puts between two removals."""
        return max(_BATCH, (self.keep_last or 0) // 2)

    def kept(self, items: Sequence[Item]) -> set[str]:
        """The ids of checkpoints that stay, of checkpoints that are sorted newest first."""
        oldest = None if self.keep_for is None else datetime.now(UTC) - self.keep_for
        return {
            one.key
            for one in items[: self.keep_last]
            if oldest is None or one is items[0] or (one.created_at or oldest) >= oldest
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Removes a saver's checkpoints."""

    serde: SerializerProtocol
    memory: Memory
    retention: Retention | None
    """None keeps all checkpoints."""
    items: AsyncKeyValues

    async def of_thread(self, thread: str) -> None:
        """Removes a whole thread, and later writes of a run of it."""
        deleted = DeletedThreads(memory=self.memory, items=self.items)
        for _ in range(_ROUNDS):
            # Concurrent writes are not among these: a checkpoint is removed only after its mark is
            # stored.
            if not (keys := await self.items.keys(prefix=(thread,))):
                return
            await deleted.note(thread, keys)
            self.memory.forget_thread(thread)
            await self.items.delete(keys=keys)

    async def of_runs(self, run_ids: Collection[str]) -> None:
        """Removes the checkpoints of runs with the values that only they use."""
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
        """Removes checkpoints of threads, in one commit for each namespace."""
        kept = {
            "keep_latest": Retention(keep_last=1).kept,
            "retention": (self.retention or Retention()).kept,
            "delete": None,
        }
        if strategy not in kept:
            raise InvalidRequestError(f"strategy={strategy!r}: use one of {', '.join(kept)}")
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
        """Removes all but the chosen checkpoints of a place, in one commit.

        Values that the chosen ones share stay and, unless `is_strict`, the ancestors that their
        delta channels need.
        """
        # In one read: neither contains a concurrent write.
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
    """The ancestors that hold the delta channels of a checkpoint."""
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
