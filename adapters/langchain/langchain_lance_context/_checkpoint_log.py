"""Reads and writes a saver's items in a store; `_checkpoints` describes their layout."""

import builtins
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from lance_context_core import AsyncKeyValues, Item
from lance_context_core.adapting import beside_the_loop, check_names, retried
from langchain_lance_context import _checkpoints as rows
from langchain_lance_context._checkpoint_removal import Removal, Retention
from langchain_lance_context._checkpoint_values import ChannelValues, ValueLostError, is_lasting
from langchain_lance_context._checkpoints import Place, Stored, Value, ValueKey
from langchain_lance_context._deleted_threads import Ancestor, DeletedThreads
from langchain_lance_context._known import NOTHING, Known, Memory, Window
from langchain_lance_context._pairs import pairs

_WALKED = 200
"""Number of past items of a thread that one read returns."""
N_LOOKS = 3
"""Attempts to find a checkpoint while its values are being deleted."""
_LATEST = 16
"""Number of the last items that are searched first for the newest checkpoint."""


class Found(NamedTuple):
    """A checkpoint with the items that it was read from."""

    stored: Stored
    items: builtins.list[Item]
    writes: builtins.list[Item]
    """Its pending writes, in the order of the calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLog:
    """The checkpoints of a store."""

    serde: SerializerProtocol
    memory: Memory
    retention: Retention | None
    """None keeps all checkpoints."""
    items: AsyncKeyValues

    @property
    def removal(self) -> Removal:
        """Of checkpoints."""
        return Removal(
            serde=self.serde, memory=self.memory, retention=self.retention, items=self.items
        )

    @property
    def deleted(self) -> DeletedThreads:
        """The deleted threads."""
        return DeletedThreads(memory=self.memory, items=self.items)

    # Writing

    async def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Stores a checkpoint and its new values in one commit.

        Stores nothing if the thread was deleted since the parent was put.
        """
        place, parent = rows.place_of(config)
        known = self.memory[place]
        before = {} if known is None else known.values
        given = checkpoint["channel_values"]
        changed = {name: one for name, one in new_versions.items() if name in given}

        def dump() -> builtins.list[tuple[str, Value, bytes]]:
            dumped = self.values.dumped
            return [
                (name, *dumped(given[name], ValueKey(name, version), before.get(name)))
                for name, version in changed.items()
            ]

        size = sum(len(before[name].rope.data) for name in changed if name in before)
        written = await beside_the_loop(dump, n_bytes=size)
        versions = checkpoint["channel_versions"]
        new = {name: Value.empty(one) for name, one in new_versions.items() if name not in changed}
        new |= {name: value for name, value, _ in written}
        values = {name: one for name, one in before.items() if versions.get(name) == one.version}
        values |= {name: one for name, one in new.items() if is_lasting(name, one)}
        more = {
            ValueKey(name, version)
            for name, one in values.items()
            for version in one.rope.versions
            if version != one.version
        }
        full = get_checkpoint_metadata(config, metadata)
        user = rows.user_of(config)
        item = rows.checkpoint_item(
            self.serde, place, parent, checkpoint, full, more_values=more, user=user
        )
        items = [rows.value_item(place, name, value, own) for name, value, own in written]
        done = await self.items.append([item, *items])
        if await self.deleted.has_lost(_ancestors(place, parent, metadata), done):
            written_keys = [(one.namespace, one.key) for one in (item, *items)]
            await self.deleted.take_back(place, checkpoint["id"], written_keys)
            return place.config(checkpoint["id"], user)
        stored = {ValueKey(*one): item for one, item in zip(changed.items(), items, strict=True)}
        self.memory.rows.note(place, stored)
        whole = frozenset(ValueKey(name, versions[name]) for name in given if name in versions)
        others = (whole - stored.keys()) | more
        if others and (known is None or not known.has_rows(others, done)):
            values |= await self._mended(place, whole, given, more)
        self.memory.put(place, item, done, n_items=1 + len(items), values=values, whole=whole)
        if (retention := self.retention) and self.memory.is_due(place, retention.every):
            await self.removal.reduce(place, retention.kept)
        return place.config(checkpoint["id"], user)

    async def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        *,
        task_id: str,
        task_path: str,
    ) -> None:
        """Stores a task's writes in one commit; nothing if the checkpoint's thread was deleted."""
        writes = pairs(writes, "writes")
        place, checkpoint_id = rows.place_of_checkpoint(config)
        item = rows.writes_item(
            self.serde, place, checkpoint_id, writes, task_id=task_id, task_path=task_path
        )
        if writes:
            done = await self.items.append([item])
            if await self.deleted.has_lost([Ancestor(place, checkpoint_id)], done):
                await self.items.delete(keys=[(item.namespace, item.key)])
            else:
                self.memory.add(place, item, done)

    async def copy_thread(self, source: str, target: str) -> None:
        """Copies a whole thread in one commit."""
        items = await self.items.list(prefix=(source,))
        if items and source != target:
            copies = [replace(one, namespace=(target, *one.namespace[1:])) for one in items]
            self.memory.forget_thread(target)
            await self.items.put(copies)

    # Reading

    async def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config names, or the newest one."""
        place, checkpoint_id = rows.place_of(config)
        reader = rows.user_of(config)

        async def between(_: Exception) -> None:
            # It may have been deleted between the reads of its row and of its values.
            self.memory.forget(place)

        return await retried(
            lambda: self._looked_up(place, checkpoint_id, reader),
            on=ValueLostError,
            attempts=N_LOOKS,
            between=between,
        )

    async def _looked_up(
        self, place: Place, checkpoint_id: str | None, reader: str | None
    ) -> CheckpointTuple | None:
        n_dropped, known = self.memory.n_dropped, await self.known(place)
        if known is None:
            if checkpoint_id is None:
                return await self.read_newest(place, reader)
            # Most reads are of the newest checkpoint; older ones are cached separately.
            with suppress(ValueLostError):
                await self.read_newest(place, reader)
            n_dropped, known = self.memory.n_dropped, await self.known(place)
        if known is None:
            found = await self._named(place, str(checkpoint_id))
            return await self._found_tuple(place, found, known, reader)
        wanted = known.checkpoint_id if checkpoint_id is None else checkpoint_id
        if (items := known.items_of(wanted)) is not None:
            return await self._found_tuple(place, self.one(items, wanted), known, reader)
        if (found := await self._named(place, wanted)) is not None:
            read = {wanted: tuple(found.items)}
            self.memory.read_older(place, read, known=known, n_dropped=n_dropped)
        return await self._found_tuple(place, found, known, reader)

    async def read_newest(self, place: Place, reader: str | None) -> CheckpointTuple | None:
        """The newest checkpoint of a thread and namespace, from memory if known."""
        n_dropped, known = self.memory.n_dropped, self.memory[place]
        # In this order: writes after the version was read are not taken for known.
        version = await self.items.version()
        found, later = await self._newest(place)
        values = await self._values_of(place, found, known)
        read = Known(
            checkpoint_id="" if found is None else found.stored.id,
            values={
                key.channel: one for key, one in values.items() if is_lasting(key.channel, one)
            },
            window=Window.of(by_owner([*(() if found is None else found.items), *(later or ())])),
            since="" if found is None else found.stored.id,
            version=None if later is None else version,
            whole=frozenset(key for key, one in values.items() if one.type is not None),
            whole_at=version if known is None else known.whole_at,
        )
        self.memory.read(place, read, instead_of=known, n_dropped=n_dropped)
        return found and await self.tuple_of(found.stored, values, found.writes, reader)

    async def known(self, place: Place) -> Known | None:
        """The cached window of a place, if it holds everything that exists."""
        n_dropped, known = self.memory.n_dropped, self.memory[place]
        if known is None:
            return None
        version = await self.items.version()
        if self.memory.is_all(known, version=version):
            return known
        if not known.checkpoint_id:
            return None
        # This is rare: reading only the names is much faster.
        keys = await self.items.keys(namespace=place.state, after=known.since[:-1])
        there = {key for _, key in keys if key >= known.since}
        if there != {one.key for some in known.window.by_owner.values() for one in some}:
            return None
        confirmed = replace(known, older=NOTHING, version=version)
        self.memory.read(place, confirmed, instead_of=known, n_dropped=n_dropped)
        return confirmed

    async def history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """The ancestors' writes to channels, back to a full value of each."""
        channels = check_names(channels, "channels")
        writes: dict[str, builtins.list[PendingWrite]] = {name: [] for name in channels}
        seeds: dict[str, Any] = {}
        place, checkpoint_id = rows.place_of(config)
        target = None
        if channels and checkpoint_id is not None:
            target = await self._named(place, checkpoint_id)
        elif channels:
            target, _ = await self._newest(place)
        cursor = None if target is None else target.stored.parent
        while cursor is not None and (remaining := writes.keys() - seeds.keys()):
            path = await self._path(place, cursor)
            keys = {key for one, *_ in path for key in one.value_keys if key.channel in remaining}
            there = await self.values.present(place, keys)
            for one, _, items in path:
                for write in reversed(rows.read_writes(self.serde, items, channels=remaining)):
                    writes[write[1]].append(write)
                for key in one.value_keys:
                    if key.channel in remaining and (
                        key in there or key.channel not in one.unvalued
                    ):
                        values = await self.values.read(place, [one], {}, only={key})
                        seeds[key.channel] = self.values.loaded(values[key])
                        remaining.discard(key.channel)
            cursor = path[-1].stored.parent if path else None
        found: dict[str, DeltaChannelHistory] = {}
        for name in channels:
            found[name] = {"writes": writes[name][::-1]}
            if name in seeds:
                found[name]["seed"] = seeds[name]
        return found

    # Helpers

    @property
    def values(self) -> ChannelValues:
        return ChannelValues(serde=self.serde, memory=self.memory, items=self.items)

    async def _mended(
        self,
        place: Place,
        keys: Collection[ValueKey],
        given: Mapping[str, Any],
        bases: Collection[ValueKey],
    ) -> dict[str, Value]:
        """Stores deleted values again, in full; returns them."""
        lost = await self.values.lost(place, keys, bases)
        values = {key.channel: self.values.dumped(given[key.channel], key, None) for key in lost}
        if lost:
            self.memory.rows.forget(place)
            await self.items.put(
                [rows.value_item(place, name, *value) for name, value in values.items()]
            )
        return {name: value for name, (value, _) in values.items() if is_lasting(name, value)}

    async def _named(self, place: Place, checkpoint_id: str) -> Found | None:
        """The checkpoint with that id."""
        items = await self.items.list(namespace=place.state, key_prefix=checkpoint_id)
        return self.one(items, checkpoint_id)

    async def _newest(self, place: Place) -> tuple[Found | None, builtins.list[Item] | None]:
        """The newest checkpoint, and the writes of later ones.

        None for writes that were not read.
        """
        if (known := self.memory[place]) is not None and known.checkpoint_id:
            after = known.checkpoint_id[:-1]
            items = await self.items.list(namespace=place.state, after=after)
            if found := self.one(items):
                return found, _later(items, found.stored.id)
            self.memory.forget(place)
        items = await self.items.list(namespace=place.state, reverse=True, limit=_LATEST)
        found = self.one(items)
        if found is None and len(items) == _LATEST:
            # Writes only: of one task with many calls.
            keys = await self.items.keys(
                namespace=place.state,
                filter=rows.is_sort(rows.CHECKPOINT),
                reverse=True,
                limit=1,
            )
            return (await self._named(place, keys[0][1])) if keys else None, None
        return found, _later(items, "" if found is None else found.stored.id)

    def one(self, items: Iterable[Item], checkpoint_id: str | None = None) -> Found | None:
        """The checkpoint with that id among the items, or the newest one."""
        items = list(items)
        ids = {one.key for one in items if one.data_type == rows.CHECKPOINT}
        wanted = max(ids, default=None) if checkpoint_id is None else checkpoint_id
        if wanted is None or wanted not in ids:
            return None
        own = sorted((one for one in items if rows.owner(one) == wanted), key=_age)
        checkpoint = [one for one in own if one.data_type == rows.CHECKPOINT][-1]
        writes = [one for one in own if one.data_type == rows.WRITES]
        return Found(rows.read_checkpoint(self.serde, checkpoint), own, writes)

    async def _path(self, place: Place, cursor: str) -> builtins.list[Found]:
        """A checkpoint and its ancestors, newest first, as many as one read returns."""
        items = await self.items.list(
            namespace=place.state, before=f"{cursor}!", reverse=True, limit=_WALKED
        )
        owned = by_owner(items)
        path = []
        while (found := self.one(owned.get(cursor, ()), cursor)) is not None:
            path.append(found)
            cursor = found.stored.parent or ""
        if not path:
            found = await self._named(place, cursor)
            path = [] if found is None else [found]
        return path

    async def _values_of(
        self, place: Place, found: Found | None, known: Known | None
    ) -> dict[ValueKey, Value]:
        if found is None:
            return {}
        return await self.values.read(place, [found.stored], {} if known is None else known.values)

    async def _found_tuple(
        self, place: Place, found: Found | None, known: Known | None, reader: str | None
    ) -> CheckpointTuple | None:
        values = await self._values_of(place, found, known)
        return found and await self.tuple_of(found.stored, values, found.writes, reader)

    async def tuple_of(
        self,
        stored: Stored,
        values: Mapping[ValueKey, Value],
        writes: Sequence[Item],
        reader: str | None,
    ) -> CheckpointTuple:
        own = {key.channel: values[key] for key in stored.value_keys}
        own = {name: one for name, one in own.items() if one.type is not None}
        size = sum(len(one.rope.data) for one in own.values())
        loaded = await beside_the_loop(
            lambda: {name: self.values.loaded(one) for name, one in own.items()}, n_bytes=size
        )
        return stored.tuple(loaded, rows.read_writes(self.serde, writes), reader=reader)


def _ancestors(
    place: Place, parent: str | None, metadata: CheckpointMetadata
) -> builtins.list[Ancestor]:
    """The checkpoint before one, and those of its parent graphs."""
    outer = metadata.get("parents") or {}
    found = [Ancestor(Place(place.thread, ns), id) for ns, id in outer.items() if id]
    return found if parent is None else [Ancestor(place, parent), *found]


def _later(items: Iterable[Item], checkpoint_id: str) -> builtins.list[Item]:
    """The writes of checkpoints after this one."""
    return [one for one in items if rows.owner(one) > checkpoint_id]


def by_owner(items: Iterable[Item]) -> dict[str, tuple[Item, ...]]:
    found: dict[str, tuple[Item, ...]] = {}
    for one in items:
        found[rows.owner(one)] = (*found.get(rows.owner(one), ()), one)
    return found


def _age(item: Item) -> tuple[str, datetime]:
    return item.key, item.created_at or datetime.min.replace(tzinfo=UTC)
