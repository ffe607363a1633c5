"""Checkpoints and pending writes as key-value items, and back.

All of a thread stands below its id: in `(thread, "state", ns)` each checkpoint under its id, and each
call of `put_writes` under that id, a space, and an id of its own; in `(thread, "values", ns)` each
version of a channel's value. Nothing is ever changed, so that every write is an `append`; only a
value that lost the rows it was made of is written once more, whole.
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
"""The `data_type` of the three sorts of items."""

_USER = "user_id"
"""The key of a config that says whose run it is."""

_MAX_FILTERED = 1_000
"""Longer texts in the metadata are compared here, not in the store."""


class Place(NamedTuple):
    """A thread's checkpoint namespace: the graph itself, or one of its subgraphs."""

    thread: str
    ns: str

    @property
    def state(self) -> tuple[str, str, str]:
        """Where the checkpoints and their writes are."""
        return (self.thread, "state", self.ns)

    @property
    def values(self) -> tuple[str, str, str]:
        """Where the values of the channels are."""
        return (self.thread, "values", self.ns)

    def config(self, checkpoint_id: str, user: str | None = None) -> RunnableConfig:
        """The config of one of the checkpoints; with `user` a run from it is that user's."""
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
        """The item's key: not every channel's name could be one."""
        return json.dumps([self.channel, self.version])

    def order(self) -> tuple[str, str]:
        """What values are ordered by: versions may be of several types."""
        return self.channel, str(self.version)

    @property
    def is_unique(self) -> bool:
        """Whether no other value can ever have had this version: its second half is drawn."""
        return isinstance(self.version, str) and len(self.version.partition(".")[2]) > 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A channel's value, serialised."""

    version: Version
    type: str | None
    """None if the channel is empty in that version."""
    rope: Rope

    @classmethod
    def empty(cls, version: Version) -> "Value":
        """What a channel without a value has; nothing is stored of it."""
        return cls(version=version, type=None, rope=Rope(b"", ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A checkpoint as it is stored, without the values of its channels."""

    place: Place
    id: str
    parent: str | None
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    more_values: tuple[ValueKey, ...]
    """Whose rows the values are put together from, beside those of the versions themselves."""
    user: str | None
    """The user of the run that put it, if its config named one."""
    unvalued: frozenset[str]
    """The channels that came without a value: they may be empty, and of the others none is."""

    @property
    def value_keys(self) -> list[ValueKey]:
        """The versions of its channels."""
        return [ValueKey(*one) for one in self.checkpoint["channel_versions"].items()]

    def tuple(
        self, values: Mapping[str, Any], pending: Iterable[PendingWrite], *, reader: str | None
    ) -> CheckpointTuple:
        """As LangGraph has it, with configs of the user who reads it, else of the one who put it."""
        user = self.user if reader is None else reader
        return CheckpointTuple(
            config=self.place.config(self.id, user),
            checkpoint={**self.checkpoint, "channel_values": dict(values)},
            metadata=self.metadata,
            parent_config=self.place.config(self.parent, user) if self.parent else None,
            pending_writes=list(pending),
        )


def place_of(config: RunnableConfig) -> tuple[Place, str | None]:
    """The thread and namespace that a config names, and the id of the checkpoint, if it does.

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
    """The user that a config names; None if it names none."""
    user = ((config or {}).get("configurable") or {}).get(_USER)
    return user if isinstance(user, str) and user else None


def place_of_checkpoint(config: RunnableConfig) -> tuple[Place, str]:
    """As `place_of`; raises InvalidRequestError for a config without a checkpoint, too."""
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
            # Not of the metadata, in which a tracer's user takes precedence.
            "user": user,
            "parts": [[type_, len(data)] for type_, data in parts],
            "metadata": {key: one for key, one in metadata.items() if _is_filtered(key, one)},
            "more_values": [list(one) for one in sorted(more_values, key=ValueKey.order)],
            "unvalued": sorted(
                checkpoint["channel_versions"].keys() - checkpoint["channel_values"].keys()
            ),
            # What is only put together from the writes of its ancestors.
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
    """The item of a channel's value, of which its row holds `own`."""
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
    """The segments that the value of an item with so many bytes consists of."""
    found = (item.value or {}).get("segments")
    return [Segment(key.version, 0, size)] if found is None else [Segment(*one) for one in found]


def is_intact(item: Item, data: bytes) -> bool:
    """Whether that is the value of an item: a row that it is made of may have been written again."""
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
    """The id of the checkpoint that an item of a state belongs to."""
    return item.key if item.data_type == CHECKPOINT else (item.value or {})["checkpoint"]


def read_writes(
    serde: SerializerProtocol, items: Iterable[Item], *, channels: Collection[str] | None = None
) -> list[PendingWrite]:
    """The writes of a checkpoint's items, which are in the order of the calls.

    Of two writes of a task with one index the first counts, and of LangGraph's own channels, which
    have negative indices, the last. They come in the order in which a run applies them.
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
    # As `writes_sort_key` of LangGraph's newer releases says.
    order = sorted(found, key=lambda key: (found[key][0], *key))
    return [
        (key[0], found[key][1], found[key][2]())
        for key in order
        if channels is None or found[key][1] in channels
    ]


def metadata_filters(filter: Mapping[str, Any] | None) -> list[Filter]:
    """What the store can tell of a condition on the metadata; it may let through too much."""
    return [
        Field("value", "metadata", key).eq(one)
        for key, one in (filter or {}).items()
        if _is_filtered(key, one) and "." not in key  # a path may lead to what is not kept there
    ]


def meets(metadata: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    """Whether the metadata equals a filter in all its keys, of which those with dots may be paths."""
    return all(_at(metadata, key) == value for key, value in (filter or {}).items())


def _at(metadata: Mapping[str, Any], key: Any) -> Any:
    if key in metadata or not isinstance(key, str):
        return metadata.get(key)
    found: Any = metadata
    for name in key.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def of_runs(run_ids: Iterable[str]) -> Filter:
    """The condition that a checkpoint was made by one of these runs."""
    return Field("value", "metadata", "run_id").is_in(list(run_ids))


def is_id(*checkpoint_ids: str) -> Filter:
    """The condition that an item is one of these checkpoints."""
    return Field("key").is_in(checkpoint_ids)


def delta_channels(item: Item) -> list[str]:
    """The delta channels that the graph of a checkpoint has."""
    found: list[str] = (item.value or {})["delta"]
    return found


def is_sort(*sorts: str) -> Filter:
    """The condition that an item is of one of these sorts."""
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
