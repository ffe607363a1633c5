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

    A `put` is one commit, and so is a `put_writes`; in a directory, one transaction of the store's
    journal. A channel's value is stored as its difference to the previous one. The asynchronous
    methods await the store, and block no event loop.

    Returned configs have the `user_id` of the given config, else of the run that put the
    checkpoint.

    Scopes isolate checkpoints: threads with the same id in two scopes are different threads. A
    branch of the store continues from its checkpoints at that time, and an earlier version shows
    them.
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

        - `serde`: serializes values; absent means LangGraph's `JsonPlusSerializer`: objects of any
          type are restored, unless the environment has `LANGGRAPH_STRICT_MSGPACK=true`. Then only
          types that LangGraph lists as safe or the graph's schemas name are restored, and others
          become plain data.
        - `keep_last`: minimum number of checkpoints that stay in each namespace of a thread; up to
          32 more, or half as many again if that is more, exist before the oldest are removed.
        - `keep_for`: how long they stay. The newest one always stays.

        Data that remaining checkpoints need stays, such as the writes of delta channels.
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
        """Opens a saver for a `with` or `async with` block, which closes the store.

        `conn_string` is a path or a URI; `:memory:` is a store that lives as long as the block.
        Raises InvalidRequestError unless it is a text.
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

        Its pending writes are sorted as a run applies them.
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
        """The checkpoints that match all conditions, newest first; read lazily.

        - `config`: a thread, and one of its namespaces if given; None means all threads.
        - `filter`: values of metadata keys, custom ones included; a key with dots that a checkpoint
          lacks is the path to a nested value.
        - `before`: a config; only checkpoints older than its checkpoint are returned.
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
        """Stores a checkpoint in one commit; the config names its parent.

        `new_versions` lists the new values; the others are those of earlier versions. Returns the
        new checkpoint's config.
        """
        return block_on(self._log.put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Stores a task's writes on top of the config's checkpoint, in one commit.

        Existing writes of a task stay unchanged; errors, interrupts and resume values are replaced.
        So it may be repeated.
        """
        block_on(self._log.put_writes(config, writes, task_id=task_id, task_path=task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Deletes a thread's checkpoints and writes; an unknown thread is ignored.

        A running graph of the thread stores nothing more, and ends as usual. A new run begins a new
        thread under the same id.
        """
        block_on(self._log.removal.of_thread(_id(thread_id, "thread_id")))

    def threads(
        self,
        *,
        filter: dict[str, Any] | None = None,
        limit: int | None = None,
        before: datetime | RunnableConfig | None = None,
    ) -> builtins.list[SavedThread]:
        """The threads that match all conditions; the one with the newest checkpoint comes first.

        - `filter`: keys of the newest checkpoint's metadata, as in `list`.
        - `before`: a time with a zone; only threads with an older newest checkpoint are returned.
          Or the config of a thread, such as the last one of a page; only older threads are
          returned.
        - `limit`: maximum number; absent means all.

        Raises InvalidRequestError for a `before` or `limit` of another type. Reads the names of all
        checkpoints, and the newest ones of the returned threads.
        """
        return block_on(self._threads(filter, before, limit).found())

    def delete_threads(
        self, before: datetime, *, filter: dict[str, Any] | None = None
    ) -> builtins.list[str]:
        """Deletes the threads with a newest checkpoint before a time; returns their ids.

        Deletes each as `delete_thread` does; a thread that continues meanwhile stays. `filter` is
        as in `threads`. Raises InvalidRequestError for a time without a zone.
        """
        return block_on(delete_old(self._threads(filter, _moment(before), None)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints of these runs, with their writes, in all threads.

        Delta channels of later checkpoints lose these runs' contributions.
        """
        block_on(self._log.removal.of_runs(_ids(run_ids, "run_ids")))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies all checkpoints, values and writes of a thread to another one, in one commit.

        An unknown source is ignored. Existing checkpoints of the target stay.
        """
        block_on(self._log.copy_thread(*_source_and_target(source_thread_id, target_thread_id)))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Deletes checkpoints of these threads, in one commit for each namespace of each.

        - "keep_latest": all but the newest of each namespace, its writes, and the ancestors of its
          delta channels.
        - "retention": those that exceed `keep_last` and `keep_for`.
        - "delete": all of them.

        Raises InvalidRequestError, before anything is removed, for a value that is not a list of ids.
        """
        block_on(self._log.removal.prune(_ids(thread_ids, "thread_ids"), strategy=strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The ancestors' writes to channels, and the values at their start.

        Reads the ancestors in pages, not one by one.
        """
        return block_on(self._log.history(config, channels))

    def get_next_version(self, current: str | float | None, channel: None) -> str:
        """The version after `current`: incremented, and unique across branches and processes."""
        del channel
        count = 0 if current is None else int(str(current).partition(".")[0])
        # Other savers have them: a thread may have been copied from one.
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
    """An id as stored: numbers and UUIDs are accepted as texts."""
    if isinstance(value, int | UUID) and not isinstance(value, bool):
        return str(value)
    return check_name(value, where)


def _source_and_target(source_thread_id: object, target_thread_id: object) -> tuple[str, str]:
    return _id(source_thread_id, "source_thread_id"), _id(target_thread_id, "target_thread_id")
