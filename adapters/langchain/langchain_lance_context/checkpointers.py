"""A store as LangGraph's checkpointer."""

import builtins
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Self
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from lance_context_core import InvalidRequestError
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, block_on, check_name, listed
from langchain_lance_context._both_ways import Nothing
from langchain_lance_context._checkpoint_list import CheckpointList
from langchain_lance_context._checkpoint_log import CheckpointLog
from langchain_lance_context._checkpoint_removal import Retention
from langchain_lance_context._connecting import place_at
from langchain_lance_context._known import Memory
from langchain_lance_context._threads import SavedThread, ThreadList, delete_old

_NAME = "checkpoints"


class LanceContextSaver(HandleOwner, BaseCheckpointSaver[str]):
    """The checkpoints of all threads, for synchronous and for asynchronous graphs.

    A `put` is one commit, and so is a `put_writes`: in a directory it is one transaction of the
    store's journal. Of a channel's value only what the value before it has not is stored. The
    asynchronous methods await the store, and block no event loop.

    The configs that it returns name the user, as `user_id`: the one whom the given config names, else
    the one whose run put the checkpoint.

    A scope of a store isolates checkpoints too: a thread of the same id in another one is
    another thread. A branch of the store goes on from the checkpoints of then, and an earlier
    version shows them.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        serde: SerializerProtocol | None = None,
        keep_last: int | None = None,
        keep_for: timedelta | None = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `serde`: how values become bytes; absent means what LangGraph's own savers have, its
          `JsonPlusSerializer`: objects of any type come back as such, unless the environment says
          `LANGGRAPH_STRICT_MSGPACK=true`. Then those alone do whose types LangGraph lists as safe
          or the graph's schemas name, and others come back as plain data.
        - `keep_last`: how many checkpoints of a thread, in each of its namespaces, stay at least;
          at most 32 more, or half as many again if that is more, are there before the oldest go.
        - `keep_for`: how long they stay. The newest one stays in any case.

        What is kept needs of others stays as well, such as the writes of delta channels.
        """
        if keep_last is not None and (isinstance(keep_last, bool) or keep_last < 1):
            raise InvalidRequestError(f"keep_last={keep_last!r}: give a number, 1 or more")
        if keep_for is not None and keep_for <= timedelta(0):
            raise InvalidRequestError(f"keep_for={keep_for!r}: give a duration above 0")
        super().__init__(serde=serde)
        self._handle = Handle(store)
        self._items = self._handle.aio.kv(_NAME)
        is_limited = keep_last is not None or keep_for is not None
        self._retention = Retention(keep_last=keep_last, keep_for=keep_for) if is_limited else None
        self._memory = Memory()
        self._made: CheckpointLog | None = None

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        serde: SerializerProtocol | None = None,
        keep_last: int | None = None,
        keep_for: timedelta | None = None,
    ) -> Self:
        """As the constructor, for a `with` or `async with` block, which closes the store.

        `conn_string` is a path or a URI; `:memory:` is a store that lives as long as the block.
        Raises InvalidRequestError for any other type than a text.
        """
        place = place_at(conn_string)
        return cls(place, serde=serde, keep_last=keep_last, keep_for=keep_for)

    def setup(self) -> Nothing:
        """Does nothing, and may be called or awaited: the first write creates the table."""
        return Nothing()

    # Asynchronous

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names by its id, or the thread's newest one; None if none."""
        return await self._log.get_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As `list`."""
        found = CheckpointList(
            log=self._log, config=config, filter=filter, before=before, limit=limit
        )
        n_taken = 0
        for keys in await found.pages():
            page = await found.load(keys)
            for one in page.tuples[: None if limit is None else limit - n_taken]:
                n_taken += 1
                yield one
            if n_taken == limit:
                return
            if page.lost is not None:
                raise page.lost

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `put`."""
        return await self._log.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """As `put_writes`."""
        await self._log.put_writes(config, writes, task_id=task_id, task_path=task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        await self._log.removal.of_thread(_id(thread_id, "thread_id"))

    async def athreads(
        self,
        *,
        filter: dict[str, Any] | None = None,
        limit: int | None = None,
        before: datetime | RunnableConfig | None = None,
    ) -> builtins.list[SavedThread]:
        """As `threads`."""
        return await self._threads(filter, before, limit).found()

    async def adelete_threads(
        self, before: datetime, *, filter: dict[str, Any] | None = None
    ) -> builtins.list[str]:
        """As `delete_threads`."""
        return await delete_old(self._threads(filter, _moment(before), None))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As `delete_for_runs`."""
        await self._log.removal.of_runs(_ids(run_ids, "run_ids"))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As `copy_thread`."""
        await self._log.copy_thread(*_source_and_target(source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As `prune`."""
        await self._log.removal.prune(_ids(thread_ids, "thread_ids"), strategy=strategy)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As `get_delta_channel_history`."""
        return await self._log.history(config, channels)

    # Synchronous

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names by its id, or the thread's newest one; None if none.

        Its pending writes are in the order in which a run applies them.
        """
        return block_on(self._log.get_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints that meet all conditions, newest first; they are read as they are taken.

        - `config`: a thread, and one of its namespaces if it names one; None means all threads.
        - `filter`: keys of the metadata, the custom ones too, and what they are equal to; a key with
          dots that a checkpoint has not is the path to a nested value.
        - `before`: names the checkpoint that all of them are older than.
        """
        found = CheckpointList(
            log=self._log, config=config, filter=filter, before=before, limit=limit
        )

        def taken() -> Iterator[CheckpointTuple]:
            for keys in block_on(found.pages()):
                page = block_on(found.load(keys))
                yield from page.tuples
                if page.lost is not None:
                    raise page.lost

        yield from islice(taken(), limit)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, whose parent is the one that `config` names, in one commit.

        `new_versions` tells which values are new; the others are those of the versions before.
        Returns the config that names it.
        """
        return block_on(self._log.put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote on top of the checkpoint that `config` names, in one commit.

        What a task has written stays as it is; errors, interrupts and what they were resumed with
        are replaced. Hence it may be repeated.
        """
        block_on(self._log.put_writes(config, writes, task_id=task_id, task_path=task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread's checkpoints and writes; no error if there are none.

        A run of the thread that goes on stores nothing more, and ends as usual. A new run begins a
        new thread under the same id.
        """
        block_on(self._log.removal.of_thread(_id(thread_id, "thread_id")))

    def threads(
        self,
        *,
        filter: dict[str, Any] | None = None,
        limit: int | None = None,
        before: datetime | RunnableConfig | None = None,
    ) -> builtins.list[SavedThread]:
        """The threads that meet all conditions; the one with the newest checkpoint comes first.

        - `filter`: keys of the newest checkpoint's metadata, as in `list`.
        - `before`: a time, with its zone, that the newest checkpoint was put before; or the config of
          a thread, such as the last one of a page, which all others are older than.
        - `limit`: how many at most; absent means all.

        Raises InvalidRequestError for a `before` or `limit` of another type. The names of all
        checkpoints are read, and the newest ones of as many threads as are needed.
        """
        return block_on(self._threads(filter, before, limit).found())

    def delete_threads(
        self, before: datetime, *, filter: dict[str, Any] | None = None
    ) -> builtins.list[str]:
        """Delete the threads whose newest checkpoint was put before a time; returns their ids.

        Each is deleted as `delete_thread` does; one that goes on meanwhile stays. `filter` is as in
        `threads`. Raises InvalidRequestError for a time without a zone.
        """
        return block_on(delete_old(self._threads(filter, _moment(before), None)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that these runs made, with their writes, in all threads.

        Delta channels of later checkpoints lose what these contributed.
        """
        block_on(self._log.removal.of_runs(_ids(run_ids, "run_ids")))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Give a thread all checkpoints, values and writes of another one, in one commit.

        No error if there are none. What the target has of its own stays.
        """
        block_on(self._log.copy_thread(*_source_and_target(source_thread_id, target_thread_id)))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove checkpoints of these threads, a commit for each namespace of each.

        - "keep_latest": all but the newest of each namespace, its writes, and the ancestors that its
          delta channels are put together from.
        - "retention": those that `keep_last` and `keep_for` do not keep.
        - "delete": all of them.

        Raises InvalidRequestError, before anything is removed, for a value that is not a list of ids.
        """
        block_on(self._log.removal.prune(_ids(thread_ids, "thread_ids"), strategy=strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What the ancestors of a checkpoint wrote to channels, and the values that this began with.

        The ancestors are read in pages, not one by one.
        """
        return block_on(self._log.history(config, channels))

    def get_next_version(self, current: str | float | None, channel: None) -> str:
        """The version after `current`: counted on, and unlike that of any other branch or process."""
        del channel
        count = 0 if current is None else int(str(current).partition(".")[0])
        # As other savers have them: a thread may have come from one.
        return f"{count + 1:032}.{random.random():018.16f}"  # noqa: S311 - nobody is to be kept from guessing

    # Helpers

    def _threads(
        self,
        filter: dict[str, Any] | None,
        before: datetime | RunnableConfig | None,
        limit: int | None,
    ) -> ThreadList:
        return ThreadList(log=self._log, filter=filter, before=before, limit=limit)

    @property
    def _log(self) -> CheckpointLog:
        # `with_allowlist` makes a copy of this with another serializer.
        if self._made is None or self._made.serde is not self.serde:
            self._made = CheckpointLog(
                serde=self.serde,
                memory=self._memory,
                retention=self._retention,
                items=self._items,
            )
        return self._made


def _moment(value: object) -> datetime:
    if not isinstance(value, datetime):
        raise InvalidRequestError(f"before={value!r:.80}: give a datetime with a time zone")
    return value


def _ids(values: Sequence[str], where: str) -> builtins.list[str]:
    return [_id(one, f"{where}[{number}]") for number, one in enumerate(listed(values, where))]


def _id(value: object, where: str) -> str:
    """An id as it is stored: numbers and UUIDs are as good as texts."""
    if isinstance(value, int | UUID) and not isinstance(value, bool):
        return str(value)
    return check_name(value, where)


def _source_and_target(source_thread_id: object, target_thread_id: object) -> tuple[str, str]:
    return _id(source_thread_id, "source_thread_id"), _id(target_thread_id, "target_thread_id")
