"""Converts checkpoints and pending writes to key-value items, and back.

All items of a thread are below its id: `(thread, "state", ns)` has each checkpoint under its id,
and each call of `put_writes` under that id, a space, and its own id; `(thread, "values", ns)` has
each version of a channel's value. Items never change, so every write is an `append`; only a value
that lost its base rows is written again in full.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from zlib import crc32

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
)
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.base import SerializerProtocol

from lance_context_core import Field, Filter, InvalidRequestError, Item
from langchain_lance_context._segments import Rope, Segment, Version

CHECKPOINT, WRITES, VALUE = "checkpoint", "writes", "value"
"""The `data_type` of the three kinds of items."""

_USER = "user_id"
"""The config key of the run's user."""

_MAX_FILTERED = 1_000
"""Longer texts in the metadata are compared in Python, not in the store."""


class Place(NamedTuple):
    """A thread's checkpoint namespace: the graph itself, or a subgraph."""

    thread: str
    ns: str

    @property
    def state(self) -> tuple[str, str, str]:
        """The namespace of checkpoints and their writes."""
        return (self.thread, "state", self.ns)

    @property
    def values(self) -> tuple[str, str, str]:
        """The namespace of channel values."""
        return (self.thread, "values", self.ns)

    def config(self, checkpoint_id: str, user: str | None = None) -> RunnableConfig:
        """The config of a checkpoint; with `user`, a run from it belongs to that user."""
        named = {
            "thread_id": self.thread,
            "checkpoint_ns": self.ns,
            "checkpoint_id": checkpoint_id,
        }
        return {"configurable": named if user is None else {**named, _USER: user}}


class ValueKey(NamedTuple):
    """A version of a channel."""

    channel: str
    version: Version

    @property
    def key(self) -> str:
        """The item's key, which is safe for any channel name."""
        return json.dumps([self.channel, self.version])

    def order(self) -> tuple[str, str]:
        """The sort key: versions may have several types."""
        return self.channel, str(self.version)

    @property
    def is_unique(self) -> bool:
        """Whether no other value can have this version: its second half is random."""
        return isinstance(self.version, str) and len(self.version.partition(".")[2]) > 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A channel's value, serialized."""

    version: Version
    type: str | None
    """None if the channel is empty in that version."""
    rope: Rope

    @classmethod
    def empty(cls, version: Version) -> "Value":
        """The value of an empty channel, which is not stored."""
        return cls(version=version, type=None, rope=Rope(b"", ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A checkpoint as stored, without channel values."""

    place: Place
    id: str
    parent: str | None
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    more_values: tuple[ValueKey, ...]
    """The checkpoints with rows that the values use, in addition to the versions' own."""
    user: str | None
    """The user of the run that put it; None if its config had none."""
    unvalued: frozenset[str]
    """The channels without a value in the put: only these may be empty."""

    @property
    def value_keys(self) -> list[ValueKey]:
        """The versions of its channels."""
        return [ValueKey(*one) for one in self.checkpoint["channel_versions"].items()]

    def tuple(
        self, values: Mapping[str, Any], pending: Iterable[PendingWrite], *, reader: str | None
    ) -> CheckpointTuple:
        """The checkpoint as LangGraph returns it; configs name the reading user, else the writing."""
        user = self.user if reader is None else reader
        return CheckpointTuple(
            config=self.place.config(self.id, user),
            checkpoint={**self.checkpoint, "channel_values": dict(values)},
            metadata=self.metadata,
            parent_config=self.place.config(self.parent, user) if self.parent else None,
            pending_writes=list(pending),
        )


def place_of(config: RunnableConfig) -> tuple[Place, str | None]:
    """The thread, namespace and checkpoint id of a config; the id is None if absent.

    Raises InvalidRequestError for a config without a thread.
    """
    named = config.get("configurable") or {}
    thread, checkpoint_id = named.get("thread_id"), named.get("checkpoint_id") or None
    if thread in (None, ""):
        raise InvalidRequestError(
            'a config without a thread: pass {"configurable": {"thread_id": …}}'
        )
    place = Place(str(thread), named.get("checkpoint_ns") or "")
    return place, checkpoint_id and str(checkpoint_id)


def user_of(config: RunnableConfig | None) -> str | None:
    """The user of a config; None if absent."""
    user = ((config or {}).get("configurable") or {}).get(_USER)
    return user if isinstance(user, str) and user else None


def place_of_checkpoint(config: RunnableConfig) -> tuple[Place, str]:
    """Like `place_of`; also raises InvalidRequestError for a config without a checkpoint."""
    place, checkpoint_id = place_of(config)
    if checkpoint_id is None:
        raise InvalidRequestError('a config without a checkpoint: its "checkpoint_id" is missing')
    return place, checkpoint_id


def checkpoint_item(
    serde: SerializerProtocol,
    place: Place,
    parent: str | None,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    *,
    more_values: Iterable[ValueKey],
    user: str | None,
) -> Item:
    """The item of a checkpoint."""
    bare = {key: value for key, value in checkpoint.items() if key != "channel_values"}
    parts = [serde.dumps_typed(bare), serde.dumps_typed(metadata)]
    return Item(
        namespace=place.state,
        key=checkpoint["id"],
        data=b"".join(data for _, data in parts),
        data_type=CHECKPOINT,
        value={
            "parent": parent,
            # Not from the metadata, where a tracer's user takes precedence.
            "user": user,
            "parts": [[type_, len(data)] for type_, data in parts],
            "metadata": {key: one for key, one in metadata.items() if _is_filtered(key, one)},
            "more_values": [list(one) for one in sorted(more_values, key=ValueKey.order)],
            "unvalued": sorted(
                checkpoint["channel_versions"].keys() - checkpoint["channel_values"].keys()
            ),
            # Delta channels, which are reassembled from the writes of ancestors.
            "delta": sorted(metadata.get("counters_since_delta_snapshot") or ()),
        },
    )


def read_checkpoint(serde: SerializerProtocol, item: Item) -> Stored:
    """The checkpoint of an item."""
    value = item.value or {}
    checkpoint, metadata = _loaded(serde, item.data or b"", value["parts"])
    return Stored(
        place=Place(item.namespace[0], item.namespace[2]),
        id=item.key,
        parent=value["parent"],
        checkpoint=checkpoint,
        metadata=metadata,
        user=value.get("user"),
        more_values=tuple(ValueKey(*one) for one in value["more_values"]),
        unvalued=frozenset(value["unvalued"]),
    )


def value_item(place: Place, channel: str, value: Value, own: bytes) -> Item:
    """The item of a channel's value; its row holds `own`."""
    stored: dict[str, Any] = {"type": value.type}
    if len(own) != len(value.rope.data):
        stored["segments"] = [list(one) for one in value.rope.segments]
        stored["crc32"] = crc32(value.rope.data)
    return Item(
        namespace=place.values,
        key=ValueKey(channel, value.version).key,
        value=stored,
        data=own,
        data_type=VALUE,
    )


def read_segments(key: ValueKey, item: Item, size: int) -> list[Segment]:
    """The segments of an item's value of that many bytes."""
    found = (item.value or {}).get("segments")
    return [Segment(key.version, 0, size)] if found is None else [Segment(*one) for one in found]


def is_intact(item: Item, data: bytes) -> bool:
    """Whether the item holds that value: a base row may have been written again."""
    value = item.value or {}
    return "segments" not in value or value["crc32"] == crc32(data)


def writes_item(
    serde: SerializerProtocol,
    place: Place,
    checkpoint_id: str,
    writes: Sequence[tuple[str, Any]],
    *,
    task_id: str,
    task_path: str,
) -> Item:
    """The item of one call of `put_writes`."""
    parts = [(channel, *serde.dumps_typed(value)) for channel, value in writes]
    return Item(
        namespace=place.state,
        # In the order of the calls.
        key=f"{checkpoint_id} {uuid6()}",
        data=b"".join(data for _, _, data in parts),
        data_type=WRITES,
        value={
            "checkpoint": checkpoint_id,
            "task": task_id,
            "path": task_path,
            "channels": [channel for channel, _, _ in parts],
            "parts": [[type_, len(data)] for _, type_, data in parts],
        },
    )


def owner(item: Item) -> str:
    """The checkpoint id of an item in a state namespace."""
    return item.key if item.data_type == CHECKPOINT else (item.value or {})["checkpoint"]


def read_writes(
    serde: SerializerProtocol, items: Iterable[Item], *, channels: Collection[str] | None = None
) -> list[PendingWrite]:
    """The writes of a checkpoint's items, sorted by call.

    Of two writes of a task with the same index the first counts; of LangGraph's own channels, with
    negative indices, the last. They are returned in the order in which a run applies them.
    """
    found: dict[tuple[str, int], tuple[str, str, Callable[[], Any]]] = {}
    for item in items:
        value, data, start = item.value or {}, item.data or b"", 0
        named = zip(value["channels"], value["parts"], strict=True)
        for place, (channel, (type_, length)) in enumerate(named):
            key = (value["task"], WRITES_IDX_MAP.get(channel, place))
            if key[1] < 0 or key not in found:
                part = (type_, data[start : start + length])
                found[key] = (value["path"], channel, partial(serde.loads_typed, part))
            start += length
    # As in `writes_sort_key` of newer LangGraph releases.
    order = sorted(found, key=lambda key: (found[key][0], *key))
    return [
        (key[0], found[key][1], found[key][2]())
        for key in order
        if channels is None or found[key][1] in channels
    ]


def metadata_filters(filter: Mapping[str, Any] | None) -> list[Filter]:
    """The store filter for a metadata condition; it may match too much."""
    return [
        Field("value", "metadata", key).eq(one)
        for key, one in (filter or {}).items()
        if _is_filtered(key, one) and "." not in key  # a path may lead to what is not kept there
    ]


def meets(metadata: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    """Whether the metadata matches a filter in all its keys; a key with dots may be a path."""
    return all(_at(metadata, key) == value for key, value in (filter or {}).items())


def _at(metadata: Mapping[str, Any], key: Any) -> Any:
    if key in metadata or not isinstance(key, str):
        return metadata.get(key)
    found: Any = metadata
    for name in key.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def of_runs(run_ids: Iterable[str]) -> Filter:
    """The filter for checkpoints of these runs."""
    return Field("value", "metadata", "run_id").is_in(list(run_ids))


def is_id(*checkpoint_ids: str) -> Filter:
    """The filter for items of these checkpoints."""
    return Field("key").is_in(checkpoint_ids)


def delta_channels(item: Item) -> list[str]:
    """The delta channels of a checkpoint's graph."""
    found: list[str] = (item.value or {})["delta"]
    return found


def is_sort(*sorts: str) -> Filter:
    """The filter for items of these kinds."""
    return Field("data_type").is_in(sorts)


def _is_filtered(key: Any, value: Any) -> bool:
    """Whether the store compares such values as Python does."""
    if isinstance(value, bool) or not isinstance(key, str):
        return False
    if isinstance(value, str):
        texts = [key, value]
        return len(value) <= _MAX_FILTERED and all(one.isprintable() for one in texts)
    return isinstance(value, int | float) and abs(value) < 1 << 53 and key.isprintable()


def _loaded(serde: SerializerProtocol, data: bytes, parts: Sequence[Any]) -> list[Any]:
    found, start = [], 0
    for type_, length in parts:
        found.append(serde.loads_typed((type_, data[start : start + length])))
        start += length
    return found
