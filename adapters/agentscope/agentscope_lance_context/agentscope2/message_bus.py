"""The store as the message bus of agentscope's app: queues, logs, channels, locks and registries."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from logging import getLogger
from typing import Any, TypeVar
from uuid import uuid4

from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context._places import BUS
from agentscope_lance_context.agentscope2._app_framework import MessageBus
from agentscope_lance_context.agentscope2._app_records import Change, changed
from agentscope_lance_context.agentscope2._bus_channels import Channels
from agentscope_lance_context.agentscope2._bus_entries import Entries
from lance_context_core import AsyncKeyValues, InvalidRequestError, Item
from lance_context_core.adapting import Handle, StoreLike, one_at_a_time
from lance_context_core.arguments import ItemKey
from lance_context_core.results import AsyncLocks

T = TypeVar("T")
_log = getLogger(__name__)

_CHANNEL_LIFETIME = timedelta(minutes=1)
"""A subscriber that does not read for this long misses earlier broadcasts."""
_CHANNEL_ENTRIES = 1000
"""A subscriber misses broadcasts older than the last of this many."""
_LONGEST_LEASE, _SHORTEST_LEASE = timedelta(days=1), timedelta(milliseconds=100)
_PAUSE_SECONDS = 0.1


class LanceContextMessageBus(StoreOwner, MessageBus):
    """The message bus of an app whose processes open one store.

    Behaves as `RedisMessageBus` does, without a server: queues, logs and registries survive a
    restart. A subscriber in another process gets a broadcast within some 50 ms. A lock of a process
    that has ended is free at once.
    """

    def __init__(self, store: StoreLike, *, embedder: Any = None, name: str = BUS.name) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `aclose` closes again.

        - `embedder`: for a store at a URI and for other users of it: a bus embeds nothing.
        - `name`: the items of the bus are those of `store.kv(name)`.
        """
        self._handle = Handle(store, embedder=embedder)
        self._name = name
        self._queues = Entries(handle=self._handle, name=name, kind="queues")
        self._logs = Entries(handle=self._handle, name=name, kind="logs")
        broadcast = Entries(
            handle=self._handle, name=name, kind="channels", lifetime=_CHANNEL_LIFETIME
        )
        self._channels = Channels(broadcast, most=_CHANNEL_ENTRIES)

    async def aclose(self) -> None:
        """End all subscriptions, and close the store if it was given by its URI."""
        self._channels.end()
        await self.close()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # Queues

    async def queue_push(
        self, key: str, payload: Mapping[str, Any], *, ttl_secs: int | None = None
    ) -> str:
        """Append to a queue, and return the id of the entry.

        With `ttl_secs` the whole queue expires so many seconds after the last such call.
        """
        return _id(await self._queues.add(key, payload, ttl=_seconds(ttl_secs)))

    async def queue_drain(self, key: str, max_count: int = 100) -> list[tuple[str, Any]]:
        """Takes the oldest entries, at most `max_count`; no other caller gets them."""
        return [(_id(n), payload) for n, payload in await self._queues.take(key, max_count)]

    async def queue_delete(self, key: str) -> None:
        """Deletes a queue with its entries; a missing one is ignored."""
        await self._queues.drop(key)

    # Logs

    async def log_append(
        self,
        key: str,
        payload: Mapping[str, Any],
        *,
        ttl_secs: int | None = None,
        max_len: int | None = None,
    ) -> str:
        """Append to a log, and return the id of the entry, which is a cursor of `log_read`.

        With `ttl_secs` the whole log expires so many seconds after the last such call; `max_len` is
        the number of entries that stay.
        """
        ttl = _seconds(ttl_secs)
        return _id(await self._logs.add(key, payload, ttl=ttl, most=max_len))

    async def log_read(
        self, key: str, since: str | None = None, max_count: int = 100
    ) -> list[tuple[str, Any]]:
        """The oldest entries after the id `since`, at most `max_count`, in order; they stay."""
        after = None if since is None else _number(since, "since")
        found = await self._logs.read(key, after=after, n=max_count)
        return [(_id(n), payload) for n, payload in found]

    async def log_trim(self, key: str, before_id: str | None = None) -> None:
        """Remove the entries that are older than the id, or the whole log."""
        before = None if before_id is None else _number(before_id, "before_id")
        await self._logs.drop(key, before)

    # Channels

    async def publish(self, key: str, payload: Mapping[str, Any]) -> None:
        """Send to all current subscribers of the channel, in any process."""
        await self._channels.publish(key, payload)

    async def subscribe(
        self, key: str, *, on_ready: Callable[[], None] | None = None
    ) -> AsyncGenerator[Any, None]:
        """Yield the broadcasts from now on, in order, until the generator or the bus is closed.

        `on_ready` is called once, when the subscription is active.
        """
        async with self._channels.listening(key) as received:
            if on_ready is not None:
                on_ready()
            async for payload in received:
                yield payload

    # Locks

    @asynccontextmanager
    async def acquire_lock(self, key: str, *, ttl_secs: int = 600) -> AsyncIterator[None]:
        """Wait for the lock, and hold it until the block ends.

        It is renewed while the process lives. If the process is stopped or cannot be checked, as on
        another machine, the lock is free after `ttl_secs`.
        """
        lock = await self._locks.acquire(
            _resource(key), lease=_lease(ttl_secs), owner=f"agentscope {uuid4().hex}"
        )
        try:
            while await self._claim(key) is not None:  # noqa: ASYNC110 - others are other processes
                await asyncio.sleep(_PAUSE_SECONDS)
            yield
        finally:
            if not await lock.release():
                _log.warning("the lock %r was lost before its block ended", key)

    async def is_locked(self, key: str) -> bool:
        """Whether the lock is held now."""
        if await self._claim(key) is not None:
            return True
        found = await self._locks.list(_resource(key))
        return any(one.token is not None and not one.is_stale for one in found)

    async def try_lock(self, key: str, *, ttl_secs: int = 600) -> bool:
        """Take the lock for `ttl_secs`, or until `unlock`, if it is free; returns whether it was."""
        lock = await self._locks.try_acquire(_resource(key), owner=f"agentscope {uuid4().hex}")
        if lock is None:
            return False
        try:
            namespace, place = _claim_of(key)
            until = self._handle.now() + timedelta(seconds=ttl_secs)
            claim = Item(namespace=namespace, key=place, expires_at=until)
            (is_free,) = await self._items.add([claim])
            return is_free
        finally:
            await lock.release()

    async def unlock(self, key: str) -> None:
        """Releases a lock of `try_lock`; a free one is ignored."""
        await self._items.delete([_claim_of(key)])

    # Registries

    async def registry_set(
        self, namespace: str, field: str, value: str, *, ttl_secs: int | None = None
    ) -> None:
        """Set a field; with `ttl_secs` the whole registry expires so many seconds from now."""
        ttl = _seconds(ttl_secs)
        await self._registry(namespace, lambda fields: (None, {**fields, field: value}), ttl)

    async def registry_set_if(
        self,
        namespace: str,
        field: str,
        value: str,
        *,
        expected: str,
        ttl_secs: int | None = None,
    ) -> bool:
        """Sets a field if it has the value `expected`; returns whether it did."""

        def decide(fields: dict[str, str]) -> tuple[bool, dict[str, str]]:
            is_so = fields.get(field) == expected
            return is_so, {**fields, field: value} if is_so else fields

        return await self._registry(namespace, decide, _seconds(ttl_secs))

    async def registry_pop(self, namespace: str, field: str) -> str | None:
        """Remove a field, and return its value; of several callers one gets it, the others None."""
        return await self._registry(
            namespace, lambda fields: (fields.get(field), _without(fields, field))
        )

    async def registry_del(self, namespace: str, field: str) -> None:
        """Deletes a field; a missing one is ignored."""
        await self.registry_pop(namespace, field)

    async def registry_exists(self, namespace: str, field: str) -> bool:
        """Whether the registry has the field."""
        return field in await self.registry_getall(namespace)

    async def registry_getall(self, namespace: str) -> dict[str, str]:
        """All fields with their values; empty for a missing registry."""
        return _fields((await self._items.get([_registry_key(namespace)]))[0])

    async def registry_get(self, namespace: str, field: str) -> str | None:
        """The value of a field; None if it does not exist."""
        return (await self.registry_getall(namespace)).get(field)

    async def registry_drop(self, namespace: str) -> None:
        """Deletes a registry with its fields; a missing one is ignored."""
        await self._items.delete([_registry_key(namespace)])

    # Helpers

    @property
    def _items(self) -> AsyncKeyValues:
        return self._handle.aio.kv(self._name)

    @property
    def _locks(self) -> AsyncLocks:
        return self._handle.aio.locks

    async def _claim(self, key: str) -> Item | None:
        """The item that `try_lock` has written for a lock."""
        return (await self._items.get([_claim_of(key)]))[0]

    async def _registry(
        self,
        namespace: str,
        change: Callable[[dict[str, str]], tuple[T, dict[str, str]]],
        ttl: timedelta | None = None,
    ) -> T:
        """Changes a registry. `change` returns the result and the new fields."""
        key = _registry_key(namespace)

        def decide(found: Mapping[ItemKey, Item | None]) -> Change[T]:
            known = found[key]
            before = _fields(known)
            outcome, fields = change(before)
            if fields is before:
                return Change(outcome=outcome)
            if not fields:
                return Change(outcome=outcome, deletes=[key])
            until = None if known is None else known.expires_at
            item = Item(
                namespace=key[0],
                key=key[1],
                data=json.dumps(fields).encode(),
                data_type="application/json",
                expires_at=until if ttl is None else self._handle.now() + ttl,
            )
            return Change(outcome=outcome, puts=[item])

        async with one_at_a_time("agentscope bus", self._handle.aio.uri, self._name, namespace):
            return await changed(self._items, [key], decide)


def _id(number: int) -> str:
    """The id of an entry, in the format of Redis streams."""
    return f"{number}-0"


def _number(id: str, argument: str) -> int:
    try:
        return int(id.partition("-")[0])
    except ValueError:
        raise InvalidRequestError(
            f"{argument}={id!r:.80} is not an id of an entry: give one that log_append or log_read returned"
        ) from None


def _seconds(given: int | None) -> timedelta | None:
    return None if given is None else timedelta(seconds=given)


def _lease(ttl_secs: int) -> timedelta:
    return min(max(timedelta(seconds=ttl_secs), _SHORTEST_LEASE), _LONGEST_LEASE)


def _resource(key: str) -> str:
    return f"agentscope bus/{key}"


def _claim_of(key: str) -> ItemKey:
    return BUS.key(key, "claims")


def _registry_key(namespace: str) -> ItemKey:
    return BUS.key(namespace, "registries")


def _fields(item: Item | None) -> dict[str, str]:
    return {} if item is None or item.data is None else json.loads(item.data)


def _without(fields: dict[str, str], field: str) -> dict[str, str]:
    return (
        {name: one for name, one in fields.items() if name != field} if field in fields else fields
    )
