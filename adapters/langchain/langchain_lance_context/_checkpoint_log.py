"""What a saver does, in steps over the items of a store; see `_checkpoints` for where they stand."""

import builtins
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
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

from lance_context_core import InternalError, InvalidRequestError, Item, ItemKey
from langchain_lance_context import _checkpoints as rows
from langchain_lance_context._checkpoints import Place, Stored, Value, ValueKey
from langchain_lance_context._known import Known, Memory
from langchain_lance_context._segments import Rope, joined, spun
from langchain_lance_context._steps import Steps, ask, convert

PAGE = 50
"""How many checkpoints of a list are read at a time."""
_WALKED = 200
"""How many items of a thread's past are read at a time."""
_LATEST = 16
"""Among how many of the last items the newest checkpoint is looked for first."""


class _Found(NamedTuple):
    """A checkpoint, and the items that it was read from."""

    stored: Stored
    items: builtins.list[Item]
    writes: builtins.list[Item]
    """Those of them that are its writes, in the order of the calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Which checkpoints of a thread's namespace stay, beside the newest one; all, by default."""

    keep_last: int | None = None
    keep_for: timedelta | None = None

    @property
    def is_limited(self) -> bool:
        """Whether any go."""
        return self.keep_last is not None or self.keep_for is not None

    @property
    def every(self) -> int:
        """After how many puts it is applied."""
        return max(1, (self.keep_last or 32) // 2)

    def kept(self, items: Sequence[Item]) -> set[str]:
        """The ids of those that stay, of checkpoints that come newest first."""
        oldest = None if self.keep_for is None else datetime.now(UTC) - self.keep_for
        return {
            one.key
            for one in items[: self.keep_last]
            if oldest is None or one is items[0] or (one.created_at or oldest) >= oldest
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLog:
    """The checkpoints of a store."""

    serde: SerializerProtocol
    memory: Memory
    retention: Retention

    # Writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Steps[RunnableConfig]:
        """Store a checkpoint and the values that are new in it, in one commit."""
        place, _ = rows.place_of(config)
        known = yield from self._confirmed(place)
        before = {} if known is None else known.values
        given = checkpoint["channel_values"]
        changed = {name: one for name, one in new_versions.items() if name in given}

        def dump() -> builtins.list[tuple[str, Value, bytes]]:
            return [
                (name, *self._value(given[name], ValueKey(name, version), before.get(name)))
                for name, version in changed.items()
            ]

        size = sum(len(before[name].rope.data) for name in changed if name in before)
        written = yield from convert(dump, n_bytes=size)
        versions = checkpoint["channel_versions"]
        values = {name: one for name, one in before.items() if versions.get(name) == one.version}
        values |= {name: Value.empty(one) for name, one in new_versions.items()}
        values |= {name: value for name, value, _ in written}
        values = {name: one for name, one in values.items() if _is_lasting(name, one)}
        more = [
            ValueKey(name, version)
            for name, one in values.items()
            for version in sorted(one.rope.versions - {one.version}, key=str)
        ]
        item = rows.checkpoint_item(self.serde, config, checkpoint, metadata, more_values=more)
        items = [rows.value_item(place, name, value, own) for name, value, own in written]
        yield from ask("append", items=[item, *items])
        self.memory[place] = Known(checkpoint_id=checkpoint["id"], values=values, items=(item,))
        if self.retention.is_limited and self.memory.is_due(place, self.retention.every):
            yield from self._reduce(place, self.retention.kept)
        return place.config(checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        *,
        task_id: str,
        task_path: str,
    ) -> Steps[None]:
        """Store what a task wrote, in one commit."""
        item = rows.writes_item(self.serde, config, writes, task_id=task_id, task_path=task_path)
        if writes:
            yield from ask("append", items=[item])
            self.memory.add(rows.place_of(config)[0], rows.owner(item), item)

    def delete_thread(self, thread_id: str) -> Steps[None]:
        """Remove all of a thread, in one commit."""
        self.memory.forget_thread(thread_id)
        yield from ask("delete_under", prefix=(thread_id,))

    def delete_for_runs(self, run_ids: Collection[str]) -> Steps[None]:
        """Remove the checkpoints of runs, and what only they need."""
        if not run_ids:
            return
        filter = {"$and": [rows.is_sort(rows.CHECKPOINT), rows.of_runs(map(str, run_ids))]}
        found = yield from ask("keys", namespace=(None, "state", None), filter=filter)
        gone: dict[Place, set[str]] = {}
        for namespace, key in found:
            gone.setdefault(Place(namespace[0], namespace[2]), set()).add(key)
        for place, ids in gone.items():
            yield from self._reduce(place, partial(_without, ids), is_strict=True)

    def copy_thread(self, source: str, target: str) -> Steps[None]:
        """Copy all of a thread, in one commit."""
        items = yield from ask("list", prefix=(source,))
        if items and source != target:
            copies = [replace(one, namespace=(target, *one.namespace[1:])) for one in items]
            self.memory.forget_thread(target)
            yield from ask("put", items=copies)

    def prune(self, thread_ids: Iterable[str], *, strategy: str) -> Steps[None]:
        """Remove checkpoints of threads, a commit for each namespace."""
        kept = {
            "keep_latest": Retention(keep_last=1).kept,
            "retention": self.retention.kept,
            "delete": None,
        }
        if strategy not in kept:
            raise InvalidRequestError(f"strategy={strategy!r}: there are {', '.join(kept)}")
        for thread_id in thread_ids:
            if (choose := kept[strategy]) is None:
                yield from self.delete_thread(thread_id)
                continue
            for namespace in (yield from ask("namespaces", prefix=(thread_id, "state"))):
                yield from self._reduce(Place(namespace[0], namespace[2]), choose)

    # Reading

    def get_tuple(self, config: RunnableConfig) -> Steps[CheckpointTuple | None]:
        """The checkpoint that a config names, or the newest one."""
        place, checkpoint_id = rows.place_of(config)
        found = yield from self._state(place, checkpoint_id)
        if found is None:
            return None
        stored, items, writes = found
        known = self.memory[place]
        values = yield from self._values(place, [stored], {} if known is None else known.values)
        if checkpoint_id is None:
            self.memory[place] = Known(
                checkpoint_id=stored.id,
                values={
                    key.channel: one for key, one in values.items() if _is_lasting(key.channel, one)
                },
                items=tuple(items),
            )
        return (yield from self._tuple(stored, values, writes))

    def find(
        self,
        config: RunnableConfig | None,
        *,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Steps[builtins.list[ItemKey]]:
        """The keys of the checkpoints that a list has, newest first; with a filter some more."""
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
        found = yield from ask(
            "keys",
            namespace=namespace,
            before=bound,
            filter={"$and": conditions},
            reverse=True,
            limit=limit if is_one and not filter else None,
        )
        newest_first = sorted(dict.fromkeys(found), key=lambda key: key[1], reverse=True)
        return newest_first if filter else newest_first[:limit]

    def load(
        self, keys: Sequence[ItemKey], *, filter: Mapping[str, Any] | None
    ) -> Steps[builtins.list[CheckpointTuple]]:
        """The checkpoints under these keys that meet the filter, in their order."""
        found = yield from ask("get", keys=keys)
        stored = [rows.read_checkpoint(self.serde, one) for one in found if one is not None]
        stored = [one for one in stored if _matches(one.metadata, filter)]
        by_place: dict[Place, builtins.list[Stored]] = {}
        for one in stored:
            by_place.setdefault(one.place, []).append(one)
        tuples = {}
        for place, some in by_place.items():
            ids = [one.id for one in some]
            written = yield from ask(
                "list",
                namespace=place.state,
                after=min(ids),
                before=f"{max(ids)}!",
                filter=rows.is_sort(rows.WRITES),
            )
            values = yield from self._values(place, some, {})
            for one in some:
                own = [item for item in written if rows.owner(item) == one.id]
                tuples[place, one.id] = yield from self._tuple(one, values, own)
        return [tuples[one.place, one.id] for one in stored]

    def history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Steps[dict[str, DeltaChannelHistory]]:
        """What the ancestors of a checkpoint wrote to channels, back to a value of each."""
        writes: dict[str, builtins.list[PendingWrite]] = {name: [] for name in channels}
        seeds: dict[str, Any] = {}
        place, checkpoint_id = rows.place_of(config)
        target = (yield from self._state(place, checkpoint_id)) if channels else None
        cursor = None if target is None else target.stored.parent
        while cursor is not None and (remaining := writes.keys() - seeds.keys()):
            path = yield from self._path(place, cursor)
            keys = {key for one, *_ in path for key in one.value_keys if key.channel in remaining}
            there = yield from self._present(place, keys)
            for one, _, items in path:
                for write in reversed(rows.read_writes(self.serde, items, channels=remaining)):
                    writes[write[1]].append(write)
                for key in one.value_keys:
                    if key.channel in remaining and key in there:
                        values = yield from self._values(place, [one], {}, only={key})
                        seeds[key.channel] = self._loads(values[key])
                        remaining.discard(key.channel)
            cursor = path[-1].stored.parent if path else None
        found: dict[str, DeltaChannelHistory] = {}
        for name in channels:
            found[name] = {"writes": writes[name][::-1]}
            if name in seeds:
                found[name]["seed"] = seeds[name]
        return found

    # Helpers

    def _value(self, value: Any, key: ValueKey, before: Value | None) -> tuple[Value, bytes]:
        """A channel's value, and what is to be stored in its own row."""
        type_, data = self.serde.dumps_typed(value)
        data = bytes(data)
        if not key.is_unique:
            return Value(version=key.version, type=type_, rope=Rope.whole(data, key.version)), data
        rope, own = spun(data, key.version, None if before is None else before.rope)
        return Value(version=key.version, type=type_, rope=rope), own

    def _confirmed(self, place: Place) -> Steps[Known | None]:
        """What is known of a place, if the checkpoint is there still, so that one can build on it."""
        known = self.memory[place]
        if known is None or known.is_fresh:
            return known
        key = (place.state, known.checkpoint_id)
        if (yield from ask("get", keys=[key], include_data=False)) == [None]:
            self.memory.forget(place)
            return None
        return replace(known, seen_at=time.monotonic())

    def _state(self, place: Place, checkpoint_id: str | None) -> Steps[_Found | None]:
        """A checkpoint, or the newest one."""
        if checkpoint_id is not None:
            items = yield from ask("list", namespace=place.state, key_prefix=checkpoint_id)
            return self._one(items, checkpoint_id)
        if (known := self.memory[place]) is not None:
            within = {"namespace": place.state, "after": known.checkpoint_id[:-1]}
            keys = yield from ask("keys", **within)
            # What is known is seldom not all that there is: the names alone are read much faster.
            is_known = [key for _, key in keys] == sorted(one.key for one in known.items)
            items = known.items if is_known else (yield from ask("list", **within))
            if found := self._one(items):
                return found
            self.memory.forget(place)
        items = yield from ask("list", namespace=place.state, reverse=True, limit=_LATEST)
        found = self._one(items)
        if found is None and len(items) == _LATEST:
            # Writes alone: of one task with many calls.
            keys = yield from ask(
                "keys",
                namespace=place.state,
                filter=rows.is_sort(rows.CHECKPOINT),
                reverse=True,
                limit=1,
            )
            return (yield from self._state(place, keys[0][1])) if keys else None
        return found

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

    def _path(self, place: Place, cursor: str) -> Steps[builtins.list[_Found]]:
        """A checkpoint and its ancestors, as far as they are read at once, newest first."""
        items = yield from ask(
            "list", namespace=place.state, before=f"{cursor}!", reverse=True, limit=_WALKED
        )
        owned: dict[str, builtins.list[Item]] = {}
        for item in items:
            owned.setdefault(rows.owner(item), []).append(item)
        path = []
        while (found := self._one(owned.get(cursor, ()), cursor)) is not None:
            path.append(found)
            cursor = found.stored.parent or ""
        if not path:
            found = yield from self._state(place, cursor)
            path = [] if found is None else [found]
        return path

    def _present(self, place: Place, keys: Collection[ValueKey]) -> Steps[set[ValueKey]]:
        """Those of the versions that have a value."""
        listed = list(keys)
        found = yield from ask(
            "get", keys=[(place.values, one.key) for one in listed], include_data=False
        )
        return {key for key, item in zip(listed, found, strict=True) if item is not None}

    def _values(
        self,
        place: Place,
        stored: Iterable[Stored],
        known: Mapping[str, Value],
        *,
        only: Collection[ValueKey] | None = None,
    ) -> Steps[dict[ValueKey, Value]]:
        """The values that checkpoints have, by their versions, the empty ones too."""
        found: dict[ValueKey, Value] = {}
        wanted: dict[ValueKey, None] = {}
        more: dict[ValueKey, None] = {}
        for one in stored:
            for key in one.value_keys:
                if only is not None and key not in only:
                    continue
                there = known.get(key.channel)
                if there is not None and key.is_unique and there.version == key.version:
                    found[key] = there
                else:
                    wanted[key] = None
            channels = {key.channel for key in wanted}
            more.update(dict.fromkeys(k for k in one.more_values if k.channel in channels))
        if not wanted:
            return found
        found |= {key: Value.empty(key.version) for key in wanted}
        items = yield from self._items(place, [*wanted, *(k for k in more if k not in wanted)])
        segments = {
            key: rows.read_segments(key, items[key], len(items[key].data or b""))
            for key in wanted
            if key in items
        }
        missing = {
            ValueKey(key.channel, part.version) for key, some in segments.items() for part in some
        } - items.keys()
        if missing:
            items |= yield from self._items(place, list(missing))
        for key, some in segments.items():
            parts = {part.version: items.get(ValueKey(key.channel, part.version)) for part in some}
            if None in parts.values():
                raise InternalError(
                    f"a part of channel {key.channel!r} of thread {place.thread!r} is gone: the "
                    "thread was deleted or pruned while a run of it went on; delete the thread, "
                    "or go back to an earlier checkpoint"
                )
            data = joined(some, {v: one.data or b"" for v, one in parts.items() if one})
            type_ = (items[key].value or {})["type"]
            found[key] = Value(version=key.version, type=type_, rope=Rope(data, tuple(some)))
        return found

    def _items(self, place: Place, keys: Sequence[ValueKey]) -> Steps[dict[ValueKey, Item]]:
        found = yield from ask("get", keys=[(place.values, one.key) for one in keys])
        return {key: one for key, one in zip(keys, found, strict=True) if one is not None}

    def _tuple(
        self, stored: Stored, values: Mapping[ValueKey, Value], writes: Sequence[Item]
    ) -> Steps[CheckpointTuple]:
        own = {key.channel: values[key] for key in stored.value_keys}
        own = {name: one for name, one in own.items() if one.type is not None}
        size = sum(len(one.rope.data) for one in own.values())
        loaded = yield from convert(
            lambda: {name: self._loads(one) for name, one in own.items()}, n_bytes=size
        )
        return stored.tuple(loaded, rows.read_writes(self.serde, writes))

    def _loads(self, value: Value) -> Any:
        assert value.type is not None
        return self.serde.loads_typed((value.type, value.rope.data))

    def _reduce(
        self,
        place: Place,
        choose: Callable[[Sequence[Item]], set[str]],
        *,
        is_strict: bool = False,
    ) -> Steps[None]:
        """Remove all but the chosen checkpoints of a place, in one commit.

        What the chosen ones need of others stays: the values that they share, and unless `is_strict`
        the ancestors that the values of their delta channels are put together from.
        """
        # In this order: what is written meanwhile is either not among the values, or is seen.
        values = yield from ask("list", namespace=place.values, include_data=False)
        state = yield from ask("list", namespace=place.state, include_data=False)
        checkpoints = {one.key: one for one in state if one.data_type == rows.CHECKPOINT}
        newest_first = [checkpoints[key] for key in sorted(checkpoints, reverse=True)]
        kept = choose(newest_first) if newest_first else set()
        if len(kept) == len(checkpoints):
            return
        there = {one.key: one for one in values}
        delta = {name for one in newest_first for name in rows.delta_channels(one)}
        wanted = checkpoints.keys() if delta and not is_strict else kept
        found = yield from ask("get", keys=[(place.state, key) for key in wanted])
        stored = {
            one.key: rows.read_checkpoint(self.serde, one) for one in found if one is not None
        }
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
        self.memory.forget(place)
        yield from ask("delete", keys=gone)


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


def _is_lasting(channel: str, value: Value) -> bool:
    """Whether the version of a value will never be that of another one."""
    return ValueKey(channel, value.version).is_unique


def _without(ids: Collection[str], items: Iterable[Item]) -> set[str]:
    return {one.key for one in items}.difference(ids)


def _age(item: Item) -> tuple[str, datetime]:
    return item.key, item.created_at or datetime.min.replace(tzinfo=UTC)


def _matches(metadata: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    return all(metadata.get(key) == value for key, value in (filter or {}).items())
