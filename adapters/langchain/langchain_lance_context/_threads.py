"""Lists the threads of a saver, with their ages."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata

from lance_context_core import InvalidRequestError
from lance_context_core.arguments import ItemKey
from langchain_lance_context import _checkpoints as rows
from langchain_lance_context._checkpoint_log import CheckpointLog

_PAGE = 50
"""Number of threads in a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedThread:
    """A thread that has checkpoints."""

    thread_id: str
    config: RunnableConfig
    """Names the newest checkpoint of the graph itself, or of a subgraph if it has none."""
    metadata: CheckpointMetadata
    """The metadata of the newest checkpoint."""
    n_checkpoints: int
    """Number of checkpoints, subgraphs included."""
    created_at: datetime
    """Time of the oldest put."""
    updated_at: datetime
    """Time of the newest put."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadList:
    """The threads that match the conditions; see `LanceContextSaver.threads`."""

    log: CheckpointLog
    filter: Mapping[str, Any] | None
    before: datetime | RunnableConfig | None
    limit: int | None

    async def found(self) -> list[SavedThread]:
        """Those threads, the one with the newest checkpoint first."""
        bound, moment = self._bounds()
        if self.limit is not None and (type(self.limit) is not int or self.limit < 0):
            raise InvalidRequestError(f"limit={self.limit!r:.80}: give a whole number, 0 or more")
        found: list[SavedThread] = []
        async for page in self._pages(bound):
            for one in page:
                if self.limit is not None and len(found) >= self.limit:
                    return found
                if rows.meets(one.metadata, self.filter) and (
                    moment is None or one.updated_at < moment
                ):
                    found.append(one)
        return found

    def _bounds(self) -> tuple[str | None, datetime | None]:
        if self.before is None:
            return None, None
        if isinstance(self.before, datetime):
            if self.before.utcoffset() is None:
                raise InvalidRequestError(
                    f"before={self.before!r}: give a time with a time zone, such as "
                    "datetime.now(UTC)"
                )
            return None, self.before
        if not isinstance(self.before, Mapping):
            raise InvalidRequestError(
                f"before={self.before!r:.80}: give a datetime, or the config of a thread"
            )
        return rows.place_of_checkpoint(self.before)[1], None

    async def _pages(self, bound: str | None) -> AsyncIterator[list[SavedThread]]:
        keys: dict[str, list[ItemKey]] = {}
        filter = rows.is_sort(rows.CHECKPOINT)
        for key in await self.log.items.keys(namespace=(None, "state", None), filter=filter):
            keys.setdefault(key[0][0], []).append(key)
        newest = {thread: max(some, key=_age) for thread, some in keys.items()}
        order = sorted(newest, key=lambda thread: newest[thread][1], reverse=True)
        order = [one for one in order if bound is None or newest[one][1] < bound]
        for start in range(0, len(order), _PAGE):
            yield await self._read({one: keys[one] for one in order[start : start + _PAGE]})

    async def _read(self, keys: Mapping[str, Sequence[ItemKey]]) -> list[SavedThread]:
        named = [
            (min(some, key=_age), max(some, key=_age), max(some, key=_rank))
            for some in keys.values()
        ]
        get = self.log.items.get
        first = await get(keys=[one for one, _, _ in named], include_data=False)
        last = await get(keys=[one for _, one, _ in named], include_data=False)
        shown = await get(keys=[one for _, _, one in named])
        found = []
        for thread, oldest, newest, item in zip(keys, first, last, shown, strict=True):
            if item is None:  # deleted since
                continue
            stored = rows.read_checkpoint(self.log.serde, item)
            times = [_time(one or item) for one in (oldest, newest)]
            found.append(
                SavedThread(
                    thread_id=thread,
                    config=stored.place.config(stored.id, stored.user),
                    metadata=stored.metadata,
                    n_checkpoints=len(keys[thread]),
                    created_at=times[0],
                    updated_at=times[1],
                )
            )
        return found


async def delete_old(found: ThreadList) -> list[str]:
    """Deletes these threads; returns their ids. A thread that continues meanwhile stays."""
    deleted, filter = [], rows.is_sort(rows.CHECKPOINT)
    for one in await found.found():
        state = (one.thread_id, "state", None)
        if await found.log.items.count(namespace=state, filter=filter) == one.n_checkpoints:
            await found.log.removal.of_thread(one.thread_id)
            deleted.append(one.thread_id)
    return deleted


def _age(key: ItemKey) -> str:
    return key[1]


def _rank(key: ItemKey) -> tuple[bool, str]:
    """The newest of the graph itself comes last."""
    return not key[0][2], key[1]


def _time(item: Any) -> datetime:
    moment: datetime = item.created_at or datetime.min.replace(tzinfo=UTC)
    return moment
