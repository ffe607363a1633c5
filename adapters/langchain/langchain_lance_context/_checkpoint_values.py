"""Channel values: serialized, stored as differences, and reassembled."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from lance_context_core import AsyncKeyValues, Item, NotFoundError
from langchain_lance_context import _checkpoints as rows
from langchain_lance_context._checkpoints import Place, Stored, Value, ValueKey
from langchain_lance_context._known import Memory
from langchain_lance_context._segments import Rope, joined, spun


class ValueLostError(NotFoundError):
    """A checkpoint cannot be read, because a row of one of its values is missing."""

    def __init__(self, stored: Stored, channel: str) -> None:
        """Names the checkpoint and the channel."""
        self.checkpoint_id = stored.id
        place = stored.place
        where = f"thread {place.thread!r}" + (f", namespace {place.ns!r}" if place.ns else "")
        super().__init__(
            f"checkpoint {stored.id!r} of {where} has lost the value of channel {channel!r}: it was "
            "deleted or pruned while a run of the thread went on; delete the thread, or go on from "
            "an earlier checkpoint, which list(…, before=…) and get_state_history(…, before=…) find"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelValues:
    """The values in a saver's items."""

    serde: SerializerProtocol
    memory: Memory
    items: AsyncKeyValues

    def dumped(self, value: Any, key: ValueKey, before: Value | None) -> tuple[Value, bytes]:
        """A channel's value, and the bytes to store in its own row."""
        type_, data = self.serde.dumps_typed(value)
        data = bytes(data)
        if not key.is_unique:
            return Value(version=key.version, type=type_, rope=Rope.whole(data, key.version)), data
        rope, own = spun(data, key.version, None if before is None else before.rope)
        return Value(version=key.version, type=type_, rope=rope), own

    def loaded(self, value: Value) -> Any:
        """The object of a value that is not empty."""
        assert value.type is not None
        return self.serde.loads_typed((value.type, value.rope.data))

    async def present(self, place: Place, keys: Collection[ValueKey]) -> set[ValueKey]:
        """The versions that have a value."""
        listed = list(keys)
        return set(await self._rows(place, listed, include_data=False))

    async def lost(
        self, place: Place, keys: Collection[ValueKey], bases: Collection[ValueKey]
    ) -> set[ValueKey]:
        """The versions with values that cannot be reassembled; reads no value.

        `bases` are rows that they are known to use, which are looked up at once.
        """
        there = await self._rows(place, [*{*keys, *bases}], include_data=False)
        made_of = {
            key: {ValueKey(key.channel, part.version) for part in rows.read_segments(key, item, 0)}
            for key, item in there.items()
        }
        looked = {*keys, *bases}
        if more := {one for key in keys for one in made_of.get(key, ())} - looked:
            there |= await self._rows(place, [*more], include_data=False)
        return {key for key in keys if key not in there or made_of[key] - there.keys()}

    async def read(
        self,
        place: Place,
        stored: Iterable[Stored],
        known: Mapping[str, Value],
        *,
        only: Collection[ValueKey] | None = None,
    ) -> dict[ValueKey, Value]:
        """The values of checkpoints by version, empty ones included.

        Raises ValueLostError if a value is missing.
        """
        found: dict[ValueKey, Value] = {}
        wanted: dict[ValueKey, Stored] = {}
        more: dict[ValueKey, None] = {}
        for one in stored:
            for key in one.value_keys:
                if only is not None and key not in only:
                    continue
                there = known.get(key.channel)
                if there is not None and key.is_unique and there.version == key.version:
                    found[key] = there
                elif key not in wanted or key.channel not in one.unvalued:
                    # The error names the checkpoint that refers to the value.
                    wanted[key] = one
            channels = {key.channel for key in wanted}
            more.update(dict.fromkeys(k for k in one.more_values if k.channel in channels))
        if not wanted:
            return found
        items = await self._rows(place, [*wanted, *(k for k in more if k not in wanted)])
        segments = {}
        for key, one in wanted.items():
            if key in items:
                segments[key] = rows.read_segments(key, items[key], len(items[key].data or b""))
            elif key.channel in one.unvalued:
                found[key] = Value.empty(key.version)
                self.memory.rows.note(place, {key: None})
            else:
                raise ValueLostError(one, key.channel)
        missing = {
            ValueKey(key.channel, part.version) for key, some in segments.items() for part in some
        } - items.keys()
        if missing:
            items |= await self._rows(place, list(missing))
        for key, some in segments.items():
            parts = {part.version: items.get(ValueKey(key.channel, part.version)) for part in some}
            if None in parts.values():
                raise ValueLostError(wanted[key], key.channel)
            data = joined(some, {v: one.data or b"" for v, one in parts.items() if one})
            if not rows.is_intact(items[key], data):
                raise ValueLostError(wanted[key], key.channel)
            type_ = (items[key].value or {})["type"]
            found[key] = Value(version=key.version, type=type_, rope=Rope(data, tuple(some)))
        return found

    async def _rows(
        self, place: Place, keys: Sequence[ValueKey], *, include_data: bool = True
    ) -> dict[ValueKey, Item]:
        known = self.memory.rows.get(place, keys) if include_data else {}
        found = {key: item for key, item in known.items() if item is not None}
        unknown = [one for one in keys if one not in known]
        if unknown:
            read = await self.items.get(
                keys=[(place.values, one.key) for one in unknown], include_data=include_data
            )
            there = {key: one for key, one in zip(unknown, read, strict=True) if one is not None}
            found |= there
            if include_data:
                self.memory.rows.note(place, there)
        return found


def is_lasting(channel: str, value: Value) -> bool:
    """Whether the version is unique for ever."""
    return ValueKey(channel, value.version).is_unique
