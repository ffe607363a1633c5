"""Numbered payloads by key, which hold the queues, logs and channels of agentscope's message bus."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from agentscope_lance_context._places import BUS
from agentscope_lance_context.agentscope2._app_records import Change, changed
from lance_context_core import ConflictError, InvalidRequestError, Item
from lance_context_core.adapting import Attempts, Handle, one_at_a_time
from lance_context_core.arguments import ItemKey

T = TypeVar("T")

_DELETED_TOGETHER = 64
"""The number of removed entries that stay in the store until one commit deletes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The entries of a key: the numbers from `first` up to, not including, `end`."""

    first: int
    end: int
    kept: int
    """The first number still in the store; entries before `first` are due for deletion."""
    expires_at: str | None = None
    """When the whole key expires, as ISO 8601."""

    def is_over(self, now: datetime) -> bool:
        """Whether the whole key has expired."""
        return self.expires_at is not None and datetime.fromisoformat(self.expires_at) <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Payloads of one kind, by key, in the order in which they were added by any process.

    A number is larger than all earlier ones of the key, as long as the clock is not set back; those
    of one key have no gaps.
    """

    handle: Handle
    name: str
    kind: str
    lifetime: timedelta | None = None
    """The longest life of an entry; a key without a new entry for as long is empty."""

    async def add(
        self,
        key: str,
        payload: Mapping[str, Any],
        *,
        ttl: timedelta | None = None,
        most: int | None = None,
    ) -> int:
        """Append a payload, and return its number.

        - `ttl`: the whole key expires that long after now; absent leaves its expiry unchanged.
        - `most`: number of the last entries that stay.

        Raises InvalidRequestError for a payload that is not JSON.
        """
        data = _encoded(key, payload)

        def decide(found: Mapping[ItemKey, Item | None]) -> Change[int]:
            now = self.handle.now()
            head, stale = self._current(found[self._head(key)], now)
            number = head.end
            first = head.first if most is None else max(head.first, number + 1 - most)
            kept = first if first - head.kept >= _DELETED_TOGETHER else head.kept
            stale = [*stale, *range(head.kept, kept)]
            expires_at = head.expires_at if ttl is None else (now + ttl).isoformat()
            head = Head(first=first, end=number + 1, kept=kept, expires_at=expires_at)
            puts = [self._item(key, head, now), self._entry(key, number, data, now)]
            return Change(outcome=number, puts=puts, deletes=self._keys(key, stale))

        return await self._changed(key, decide)

    async def take(self, key: str, n: int) -> list[tuple[int, Any]]:
        """Remove the first `n` entries, and return them with their numbers; no other caller gets them."""
        items, attempts = self.handle.aio.kv(self.name), Attempts("others kept taking the same")
        async with self._turn(key):
            while True:
                attempts.begin()
                (item,) = await items.get([self._head(key)])
                now = self.handle.now()
                head, _ = self._current(item, now)
                first = min(head.first + max(n, 0), head.end)
                if item is None or first == head.first:
                    return []
                taken = await self._read(key, range(head.first, first))
                puts = [self._item(key, replace(head, first=first, kept=first), now)]
                deletes = self._keys(key, range(head.kept, first))
                if first == head.end:
                    puts, deletes = [], [self._head(key), *deletes]
                with suppress(ConflictError):
                    expected = {self._head(key): item.revision}
                    await items.write(puts=puts, deletes=deletes, expected=expected)
                    return taken

    async def read(self, key: str, *, after: int | None, n: int) -> list[tuple[int, Any]]:
        """The first `n` entries after the number `after`, with numbers; None starts at the first."""
        items = self.handle.aio.kv(self.name)
        head, _ = self._current((await items.get([self._head(key)]))[0], self.handle.now())
        first = head.first if after is None else max(head.first, after + 1)
        return await self._read(key, range(first, min(first + max(n, 0), head.end)))

    async def drop(self, key: str, before: int | None = None) -> None:
        """Remove the entries with numbers below `before`, or all; missing entries are no error."""

        def decide(found: Mapping[ItemKey, Item | None]) -> Change[None]:
            now = self.handle.now()
            head, stale = self._current(found[self._head(key)], now)
            first = head.end if before is None else min(max(head.first, before), head.end)
            deletes = self._keys(key, [*stale, *range(head.kept, first)])
            if first == head.end and found[self._head(key)] is not None:
                return Change(outcome=None, deletes=[self._head(key), *deletes])
            if first == head.first:
                return Change(outcome=None)
            left = self._item(key, replace(head, first=first, kept=first), now)
            return Change(outcome=None, puts=[left], deletes=deletes)

        await self._changed(key, decide)

    async def ends(self, keys: Sequence[str]) -> list[int | None]:
        """The number of the next entry of each key; None for a key without entries."""
        found = await self.handle.aio.kv(self.name).get([self._head(key) for key in keys])
        return [None if one is None else Head(**(one.value or {})).end for one in found]

    # Helpers

    async def _changed(
        self, key: str, decide: Callable[[Mapping[ItemKey, Item | None]], Change[T]]
    ) -> T:
        async with self._turn(key):
            return await changed(self.handle.aio.kv(self.name), [self._head(key)], decide)

    def _turn(self, key: str) -> AbstractAsyncContextManager[None]:
        """Calls of this process take turns: concurrent ones would only make each other retry."""
        return one_at_a_time("agentscope bus", self.handle.aio.uri, self.name, self.kind, key)

    async def _read(self, key: str, numbers: Sequence[int]) -> list[tuple[int, Any]]:
        if not numbers:
            return []
        found = await self.handle.aio.kv(self.name).get(self._keys(key, numbers))
        pairs = zip(numbers, found, strict=True)
        return [(number, json.loads(one.data)) for number, one in pairs if one and one.data]

    def _current(self, item: Item | None, now: datetime) -> tuple[Head, Sequence[int]]:
        """The current entries of a key, and the numbers of the expired ones."""
        known = None if item is None else Head(**(item.value or {}))
        if known is not None and not known.is_over(now):
            return known, ()
        fresh = max(int(now.timestamp() * 1_000_000), 0 if known is None else known.end)
        stale = () if known is None else range(known.kept, known.end)
        return Head(first=fresh, end=fresh, kept=fresh), stale

    def _head(self, key: str) -> ItemKey:
        return BUS.key(key, self.kind)

    def _keys(self, key: str, numbers: Sequence[int]) -> list[ItemKey]:
        return [BUS.key(f"{number:020}", self.kind, key) for number in numbers]

    def _item(self, key: str, head: Head, now: datetime) -> Item:
        namespace, place = self._head(key)
        return Item(
            namespace=namespace, key=place, value=asdict(head), expires_at=self._end_of(now)
        )

    def _entry(self, key: str, number: int, data: bytes, now: datetime) -> Item:
        ((namespace, place),) = self._keys(key, [number])
        return Item(
            namespace=namespace,
            key=place,
            data=data,
            data_type="application/json",
            expires_at=self._end_of(now),
        )

    def _end_of(self, now: datetime) -> datetime | None:
        return None if self.lifetime is None else now + self.lifetime


def _encoded(key: str, payload: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(payload).encode()
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"payload={payload!r:.80} for {key!r:.80} is not JSON ({error}): give a dict of texts, "
            "numbers, lists and dicts"
        ) from error
