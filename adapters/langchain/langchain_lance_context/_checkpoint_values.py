"""The values of channels: serialised, stored as what is new in them, and put together again."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from lance_context_core import AsyncKeyValues, InternalError, Item
from langchain_lance_context import _checkpoints as rows
from langchain_lance_context._checkpoints import Place, Stored, Value, ValueKey
from langchain_lance_context._segments import Rope, joined, spun


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelValues:
    """The values among the items of a saver."""

    serde: SerializerProtocol
    items: AsyncKeyValues

    def dumped(self, value: Any, key: ValueKey, before: Value | None) -> tuple[Value, bytes]:
        """A channel's value, and what is to be stored in its own row."""
        type_, data = self.serde.dumps_typed(value)
        data = bytes(data)
        if not key.is_unique:
            return Value(version=key.version, type=type_, rope=Rope.whole(data, key.version)), data
        rope, own = spun(data, key.version, None if before is None else before.rope)
        return Value(version=key.version, type=type_, rope=rope), own

    def loaded(self, value: Value) -> Any:
        """The object that a value was made of, which is not empty."""
        assert value.type is not None
        return self.serde.loads_typed((value.type, value.rope.data))

    async def present(self, place: Place, keys: Collection[ValueKey]) -> set[ValueKey]:
        """Those of the versions that have a value."""
        listed = list(keys)
        found = await self.items.get(
            keys=[(place.values, one.key) for one in listed], include_data=False
        )
        return {key for key, item in zip(listed, found, strict=True) if item is not None}

    async def read(
        self,
        place: Place,
        stored: Iterable[Stored],
        known: Mapping[str, Value],
        *,
        only: Collection[ValueKey] | None = None,
    ) -> dict[ValueKey, Value]:
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
        items = await self._rows(place, [*wanted, *(k for k in more if k not in wanted)])
        segments = {
            key: rows.read_segments(key, items[key], len(items[key].data or b""))
            for key in wanted
            if key in items
        }
        missing = {
            ValueKey(key.channel, part.version) for key, some in segments.items() for part in some
        } - items.keys()
        if missing:
            items |= await self._rows(place, list(missing))
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

    async def _rows(self, place: Place, keys: Sequence[ValueKey]) -> dict[ValueKey, Item]:
        found = await self.items.get(keys=[(place.values, one.key) for one in keys])
        return {key: one for key, one in zip(keys, found, strict=True) if one is not None}


def is_lasting(channel: str, value: Value) -> bool:
    """Whether the version of a value will never be that of another one."""
    return ValueKey(channel, value.version).is_unique
