"""The store's key-value items as the record manager of LangChain's indexing API."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from langchain_core.indexing import RecordManager

from lance_context_core import AsyncKeyValues, ConflictError, InvalidRequestError, Item
from lance_context_core.adapting import Attempts, Handle, HandleOwner, StoreLike, block_on, listed
from lance_context_core.arguments import ItemKey

_TICK_SECONDS = 1e-6
_ATTEMPTS = 100
"""Retries of a tick when other writers take it."""


class LanceContextRecordManager(HandleOwner, RecordManager):
    """Records of indexing, by which `index()` skips and deletes documents.

    Its clock is in the store: no two answers of `get_time` and no two updates of a namespace have
    the same time, in any process or thread, and later ones have later times, even while a machine's
    clock is set back. So `index()` never deletes documents that were written after it began.

    The asynchronous methods await the store, and block no event loop.
    """

    def __init__(
        self, namespace: str, store: StoreLike, *, name: str = "langchain_records"
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `namespace`: of the records; usually the name of the indexed vector store.
        - `name`: of the store's items, which are `store.kv(name)`.
        """
        super().__init__(namespace)
        self._handle = Handle(store)
        self._records = _Records(namespace, self._handle.aio.kv(name), self._handle)

    def create_schema(self) -> None:
        """Does nothing: the first write creates the table."""

    async def acreate_schema(self) -> None:
        """As `create_schema`."""

    def get_time(self) -> float:
        """The time in seconds since 1970, later than all earlier writes."""
        return block_on(self._records.tick())

    async def aget_time(self) -> float:
        """As `get_time`."""
        return await self._records.tick()

    def update(
        self,
        keys: Sequence[str],
        *,
        group_ids: Sequence[str | None] | None = None,
        time_at_least: float | None = None,
    ) -> None:
        """Records that these keys were indexed now, all at one time and in one commit.

        Raises InvalidRequestError, a ValueError, before anything is written, for lists of different
        lengths and for a `time_at_least` in the future.
        """
        records = self._records.checked(keys, group_ids)
        if records:
            block_on(self._records.tick(records, time_at_least=time_at_least))

    async def aupdate(
        self,
        keys: Sequence[str],
        *,
        group_ids: Sequence[str | None] | None = None,
        time_at_least: float | None = None,
    ) -> None:
        """As `update`."""
        records = self._records.checked(keys, group_ids)
        if records:
            await self._records.tick(records, time_at_least=time_at_least)

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Whether each of the keys was indexed."""
        return block_on(self._records.exists(keys))

    async def aexists(self, keys: Sequence[str]) -> list[bool]:
        """As `exists`."""
        return await self._records.exists(keys)

    def list_keys(
        self,
        *,
        before: float | None = None,
        after: float | None = None,
        group_ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """The keys indexed after and before these times, and in one of the groups.

        None sets no bound; an empty list of groups matches none. Sorted alphabetically.
        """
        where = _filter(before, after, group_ids)
        return block_on(self._records.list_keys(where, limit=limit))

    async def alist_keys(
        self,
        *,
        before: float | None = None,
        after: float | None = None,
        group_ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """As `list_keys`."""
        where = _filter(before, after, group_ids)
        return await self._records.list_keys(where, limit=limit)

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Deletes keys, in one commit; unknown ones are ignored."""
        block_on(self._records.delete(keys))

    async def adelete_keys(self, keys: Sequence[str]) -> None:
        """As `delete_keys`."""
        await self._records.delete(keys)


class _Records:
    """The records of a namespace and their clock, an item with the last time given out."""

    def __init__(self, namespace: str, kv: AsyncKeyValues, handle: Handle) -> None:
        self._kv = kv
        self._handle = handle
        self._namespace = (namespace, "records")
        self._clock: ItemKey = (namespace, "clock"), "now"

    async def tick(
        self, records: Sequence[tuple[str, str | None]] = (), *, time_at_least: float | None = None
    ) -> float:
        """The next time, and its records, in one commit."""
        attempts = Attempts(f"the clock of {self._namespace[0]!r} is taken by others", _ATTEMPTS)
        while True:
            attempts.begin()
            (last,) = await self._kv.get([self._clock])
            time = 0.0 if last is None else float((last.value or {})["time"])
            now = max(self._handle.now().timestamp(), time + _TICK_SECONDS)
            if time_at_least is not None and time_at_least > now:
                raise InvalidRequestError(
                    f"time_at_least={time_at_least!r} lies ahead of the store's clock, {now!r}: take "
                    "it from get_time()"
                )
            namespace, key = self._clock
            moment = Item(namespace=namespace, key=key, value={"time": now})
            with suppress(ConflictError):
                await self._kv.write(
                    puts=[moment, *(self._record(key, group, now) for key, group in records)],
                    expected={self._clock: None if last is None else last.revision},
                )
                return now

    async def exists(self, keys: Sequence[str]) -> list[bool]:
        found = await self._kv.get(self._keys(keys), include_data=False)
        return [one is not None for one in found]

    async def list_keys(self, where: dict[str, Any], *, limit: int | None) -> list[str]:
        found = await self._kv.keys(namespace=self._namespace, filter=where, limit=limit)
        return [key for _, key in found]

    async def delete(self, keys: Sequence[str]) -> None:
        await self._kv.delete(self._keys(keys))

    def checked(
        self, keys: Sequence[str], group_ids: Sequence[str | None] | None
    ) -> list[tuple[str, str | None]]:
        """Each key with its group; the last of two with the same key counts."""
        keys = listed(keys, "keys")
        groups = [None] * len(keys) if group_ids is None else _groups(group_ids)
        if len(groups) != len(keys):
            raise InvalidRequestError(
                f"{len(groups)} group_ids for {len(keys)} keys: give one for each, or None"
            )
        return list(zip(keys, groups, strict=True))

    def _record(self, key: str, group: str | None, time: float) -> Item:
        value = {"group_id": group, "updated_at": time}
        return Item(namespace=self._namespace, key=key, value=value)

    def _keys(self, keys: Sequence[str]) -> list[ItemKey]:
        return [(self._namespace, key) for key in listed(keys, "keys")]


def _filter(
    before: float | None, after: float | None, group_ids: Sequence[str] | None
) -> dict[str, Any]:
    bounds = {"$lt": before, "$gt": after}
    given = {operator: bound for operator, bound in bounds.items() if bound is not None}
    where: dict[str, Any] = {"value.updated_at": given} if given else {}
    if group_ids is not None:
        where["group_id"] = {"$in": _groups(group_ids)}
    return where


def _groups(group_ids: Sequence[str | None]) -> list[str | None]:
    groups = listed(group_ids, "group_ids")
    for number, one in enumerate(groups):
        if not isinstance(one, str | None):
            raise InvalidRequestError(f"group_ids[{number}]={one!r:.80}: give a text, or None")
    return groups
