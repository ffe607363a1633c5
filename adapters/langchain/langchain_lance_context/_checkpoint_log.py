"""What a saver reads and writes among the items of a store; see `_checkpoints` for where they stand."""

import builtins
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from lance_context_core import AsyncKeyValues, Item, ItemKey
from lance_context_core.adapting import Convert, check_names
from langchain_lance_context import _checkpoints as rows
from langchain_lance_context._checkpoint_removal import Removal, Retention
from langchain_lance_context._checkpoint_values import ChannelValues, ValueLostError, is_lasting
from langchain_lance_context._checkpoints import Place, Stored, Value, ValueKey
from langchain_lance_context._known import Known, Memory
from langchain_lance_context._pairs import pairs

_PAGE = 50
"""How many checkpoints of a list are read at a time."""
_WALKED = 200
"""How many items of a thread's past are read at a time."""
_N_LOOKS = 3
"""How often a checkpoint is looked for whose values are being deleted."""
_LATEST = 16
"""Among how many of the last items the newest checkpoint is looked for first."""


class _Found(NamedTuple):
    """A checkpoint, and the items that it was read from."""

    stored: Stored
    items: builtins.list[Item]
    writes: builtins.list[Item]
    """Those of them that are its writes, in the order of the calls."""


class Page(NamedTuple):
    """Checkpoints of a list."""

    tuples: builtins.list[CheckpointTuple]
    lost: ValueLostError | None = None
    """Why the next one cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLog:
    """The checkpoints of a store."""

    serde: SerializerProtocol
    memory: Memory
    retention: Retention
    items: AsyncKeyValues
    convert: Convert

    @property
    def removal(self) -> Removal:
        """Of checkpoints."""
        return Removal(
            serde=self.serde, memory=self.memory, retention=self.retention, items=self.items
        )

    # Writing

    async def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint and the values that are new in it, in one commit."""
        place, _ = rows.place_of(config)
        known = self.memory[place]
        before = {} if known is None else known.values
        given = checkpoint["channel_values"]
        changed = {name: one for name, one in new_versions.items() if name in given}

        def dump() -> builtins.list[tuple[str, Value, bytes]]:
            return [
                (name, *self._values.dumped(given[name], ValueKey(name, version), before.get(name)))
                for name, version in changed.items()
            ]

        size = sum(len(before[name].rope.data) for name in changed if name in before)
        written = await self.convert(dump, n_bytes=size)
        versions = checkpoint["channel_versions"]
        values = {name: one for name, one in before.items() if versions.get(name) == one.version}
        values |= {name: Value.empty(one) for name, one in new_versions.items()}
        values |= {name: value for name, value, _ in written}
        values = {name: one for name, one in values.items() if is_lasting(name, one)}
        more = {
            ValueKey(name, version)
            for name, one in values.items()
            for version in one.rope.versions - {one.version}
        }
        item = rows.checkpoint_item(
            self.serde, config, checkpoint, metadata, more_values=sorted(more, key=str)
        )
        items = [rows.value_item(place, name, value, own) for name, value, own in written]
        done = await self.items.append([item, *items])
        whole = {ValueKey(name, versions[name]) for name in given if name in versions}
        trusted = frozenset() if known is None else known.trusted(done)
        if (
            not whole - {ValueKey(*one) for one in changed.items()} <= trusted
            or not more <= trusted
        ):
            values |= await self._mended(place, whole, given, more)
        stored = Known(
            checkpoint_id=checkpoint["id"],
            values=values,
            items=(item,),
            whole=frozenset(whole),
            whole_at=done.version,
        )
        self.memory.put(place, stored, done, n_items=1 + len(items))
        if self.retention.is_limited and self.memory.is_due(place, self.retention.every):
            await self.removal.reduce(place, self.retention.kept)
        return place.config(checkpoint["id"])

    async def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        *,
        task_id: str,
        task_path: str,
    ) -> None:
        """Store what a task wrote, in one commit."""
        writes = pairs(writes, "writes")
        item = rows.writes_item(self.serde, config, writes, task_id=task_id, task_path=task_path)
        if writes:
            done = await self.items.append([item])
            self.memory.add(rows.place_of(config)[0], item, done)

    async def copy_thread(self, source: str, target: str) -> None:
        """Copy all of a thread, in one commit."""
        items = await self.items.list(prefix=(source,))
        if items and source != target:
            copies = [replace(one, namespace=(target, *one.namespace[1:])) for one in items]
            self.memory.forget_thread(target)
            await self.items.put(copies)

    # Reading

    async def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config names, or the newest one."""
        place, checkpoint_id = rows.place_of(config)
        for _ in range(_N_LOOKS - 1):
            with suppress(ValueLostError):
                return await self._looked_up(place, checkpoint_id)
            # It may have been deleted just now, between its row and those of its values.
            self.memory.forget(place)
        return await self._looked_up(place, checkpoint_id)

    async def _looked_up(self, place: Place, checkpoint_id: str | None) -> CheckpointTuple | None:
        # In this order: what is written after the version was asked for is not taken for known.
        n_dropped, known = self.memory.n_dropped, self.memory[place]
        version = await self.items.version()
        is_all = known is not None and self.memory.is_all(known, version=version)
        if known is not None and is_all and checkpoint_id in {None, known.checkpoint_id}:
            return await self._tuple_of(place, self._one(known.items), known)
        if checkpoint_id is not None:
            return await self._tuple_of(place, await self._named(place, checkpoint_id), known)
        found, later = await self._newest(place)
        values = await self._values_of(place, found, known)
        read = Known(
            checkpoint_id="" if found is None else found.stored.id,
            values={
                key.channel: one for key, one in values.items() if is_lasting(key.channel, one)
            },
            items=() if found is None else tuple(found.items),
            early=tuple(later or ()),
            version=None if later is None else version,
            whole=frozenset(key for key, one in values.items() if one.type is not None),
            whole_at=version if known is None else known.whole_at,
        )
        self.memory.read(place, read, instead_of=known, n_dropped=n_dropped)
        return found and await self._tuple(found.stored, values, found.writes)

    async def find(
        self,
        config: RunnableConfig | None,
        *,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> builtins.list[Sequence[ItemKey]]:
        """The keys of the checkpoints that a list has, newest first; with a filter some more.

        They come in pages of what is to be loaded at a time.
        """
        namespace: tuple[str | None, ...] = (None, "state", None)
        conditions = [rows.is_sort(rows.CHECKPOINT), *rows.metadata_filters(filter)]
        is_one = False
        if config is not None:
            place, checkpoint_id = rows.place_of(config)
            is_one = config["configurable"].get("checkpoint_ns") is not None
            namespace = (place.thread, "state", place.ns if is_one else None)
            if checkpoint_id is not None:
                conditions.append(rows.is_id(checkpoint_id))
        bound = None if before is None else before["configurable"].get("checkpoint_id")
        found = await self.items.keys(
            namespace=namespace,
            before=bound,
            filter={"$and": conditions},
            reverse=True,
            limit=limit if is_one and not filter else None,
        )
        newest_first = sorted(dict.fromkeys(found), key=lambda key: key[1], reverse=True)
        chosen = newest_first if filter else newest_first[:limit]
        return [chosen[start : start + _PAGE] for start in range(0, len(chosen), _PAGE)]

    async def load(self, keys: Sequence[ItemKey], *, filter: Mapping[str, Any] | None) -> Page:
        """The checkpoints under these keys that meet the filter, in their order."""
        for _ in range(_N_LOOKS - 1):
            with suppress(ValueLostError):
                return Page(await self._loaded(keys, filter=filter))
        try:
            return Page(await self._loaded(keys, filter=filter))
        except ValueLostError as error:
            lost = error
        newer = [*takewhile(lambda key: key[1] != lost.checkpoint_id, keys)]
        page = await self.load(newer, filter=filter) if newer else Page([])
        return page if page.lost else Page(page.tuples, lost)

    async def _loaded(
        self, keys: Sequence[ItemKey], *, filter: Mapping[str, Any] | None
    ) -> builtins.list[CheckpointTuple]:
        found = await self.items.get(keys=keys)
        stored = [rows.read_checkpoint(self.serde, one) for one in found if one is not None]
        stored = [one for one in stored if _matches(one.metadata, filter)]
        by_place: dict[Place, builtins.list[Stored]] = {}
        for one in stored:
            by_place.setdefault(one.place, []).append(one)
        tuples = {}
        for place, some in by_place.items():
            ids = [one.id for one in some]
            written = await self.items.list(
                namespace=place.state,
                after=min(ids),
                before=f"{max(ids)}!",
                filter=rows.is_sort(rows.WRITES),
            )
            values = await self._values.read(place, some, {})
            for one in some:
                own = [item for item in written if rows.owner(item) == one.id]
                tuples[place, one.id] = await self._tuple(one, values, own)
        return [tuples[one.place, one.id] for one in stored]

    async def history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """What the ancestors of a checkpoint wrote to channels, back to a value of each."""
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
            there = await self._values.present(place, keys)
            for one, _, items in path:
                for write in reversed(rows.read_writes(self.serde, items, channels=remaining)):
                    writes[write[1]].append(write)
                for key in one.value_keys:
                    if key.channel in remaining and (
                        key in there or key.channel not in one.unvalued
                    ):
                        values = await self._values.read(place, [one], {}, only={key})
                        seeds[key.channel] = self._values.loaded(values[key])
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
    def _values(self) -> ChannelValues:
        return ChannelValues(serde=self.serde, items=self.items)

    async def _mended(
        self,
        place: Place,
        keys: Collection[ValueKey],
        given: Mapping[str, Any],
        bases: Collection[ValueKey],
    ) -> dict[str, Value]:
        """Store those of the values whole that were deleted since they were stored; returns them."""
        lost = await self._values.lost(place, keys, bases)
        values = {key.channel: self._values.dumped(given[key.channel], key, None) for key in lost}
        if lost:
            await self.items.put(
                [rows.value_item(place, name, *value) for name, value in values.items()]
            )
        return {name: value for name, (value, _) in values.items() if is_lasting(name, value)}

    async def _named(self, place: Place, checkpoint_id: str) -> _Found | None:
        """The checkpoint of that id."""
        items = await self.items.list(namespace=place.state, key_prefix=checkpoint_id)
        return self._one(items, checkpoint_id)

    async def _newest(self, place: Place) -> tuple[_Found | None, builtins.list[Item] | None]:
        """The newest checkpoint, and the writes of later ones; None if these were not looked for."""
        if (known := self.memory[place]) is not None and known.items:
            items, after = [*known.items, *known.early], known.checkpoint_id[:-1]
            keys = await self.items.keys(namespace=place.state, after=after)
            # What is known is seldom not all that there is: the names alone are read much faster.
            if {key for _, key in keys} != {one.key for one in items}:
                items = await self.items.list(namespace=place.state, after=after)
            if found := self._one(items):
                return found, _later(items, found.stored.id)
            self.memory.forget(place)
        items = await self.items.list(namespace=place.state, reverse=True, limit=_LATEST)
        found = self._one(items)
        if found is None and len(items) == _LATEST:
            # Writes alone: of one task with many calls.
            keys = await self.items.keys(
                namespace=place.state,
                filter=rows.is_sort(rows.CHECKPOINT),
                reverse=True,
                limit=1,
            )
            return (await self._named(place, keys[0][1])) if keys else None, None
        return found, _later(items, "" if found is None else found.stored.id)

    def _one(self, items: Iterable[Item], checkpoint_id: str | None = None) -> _Found | None:
        """The checkpoint of that id among the items, or the newest one."""
        items = list(items)
        ids = {one.key for one in items if one.data_type == rows.CHECKPOINT}
        wanted = max(ids, default=None) if checkpoint_id is None else checkpoint_id
        if wanted is None or wanted not in ids:
            return None
        own = sorted((one for one in items if rows.owner(one) == wanted), key=_age)
        checkpoint = [one for one in own if one.data_type == rows.CHECKPOINT][-1]
        writes = [one for one in own if one.data_type == rows.WRITES]
        return _Found(rows.read_checkpoint(self.serde, checkpoint), own, writes)

    async def _path(self, place: Place, cursor: str) -> builtins.list[_Found]:
        """A checkpoint and its ancestors, as far as they are read at once, newest first."""
        items = await self.items.list(
            namespace=place.state, before=f"{cursor}!", reverse=True, limit=_WALKED
        )
        owned: dict[str, builtins.list[Item]] = {}
        for item in items:
            owned.setdefault(rows.owner(item), []).append(item)
        path = []
        while (found := self._one(owned.get(cursor, ()), cursor)) is not None:
            path.append(found)
            cursor = found.stored.parent or ""
        if not path:
            found = await self._named(place, cursor)
            path = [] if found is None else [found]
        return path

    async def _values_of(
        self, place: Place, found: _Found | None, known: Known | None
    ) -> dict[ValueKey, Value]:
        if found is None:
            return {}
        return await self._values.read(place, [found.stored], {} if known is None else known.values)

    async def _tuple_of(
        self, place: Place, found: _Found | None, known: Known | None
    ) -> CheckpointTuple | None:
        values = await self._values_of(place, found, known)
        return found and await self._tuple(found.stored, values, found.writes)

    async def _tuple(
        self, stored: Stored, values: Mapping[ValueKey, Value], writes: Sequence[Item]
    ) -> CheckpointTuple:
        own = {key.channel: values[key] for key in stored.value_keys}
        own = {name: one for name, one in own.items() if one.type is not None}
        size = sum(len(one.rope.data) for one in own.values())
        loaded = await self.convert(
            lambda: {name: self._values.loaded(one) for name, one in own.items()}, n_bytes=size
        )
        return stored.tuple(loaded, rows.read_writes(self.serde, writes))


def _later(items: Iterable[Item], checkpoint_id: str) -> builtins.list[Item]:
    """The writes of checkpoints that come after one."""
    return [one for one in items if rows.owner(one) > checkpoint_id]


def _age(item: Item) -> tuple[str, datetime]:
    return item.key, item.created_at or datetime.min.replace(tzinfo=UTC)


def _matches(metadata: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    return all(metadata.get(key) == value for key, value in (filter or {}).items())
