"""CrewAI's memory in the store: `Memory(storage=LanceMemoryStorage("memory"))`."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Self

from crewai.memory.types import MemoryRecord, ScopeInfo

from crewai_lance_context import _paths as paths
from crewai_lance_context import _records as translated
from crewai_lance_context._common import memory_errors, of_user
from crewai_lance_context._stored import StoredRecords
from lance_context_core import Document, InvalidRequestError
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, block_on, listed


class LanceMemoryStorage(HandleOwner):
    """A `StorageBackend` of CrewAI's `Memory`, shared by processes, threads and event loops.

    A save is stored when it returns, all of it or nothing, on a place with a write-ahead log. Its
    texts are memories of the same ids in `store.memory`, where other frameworks find them, except
    private ones; a memory that they change or delete is changed or deleted here.

    Scopes are paths, and a prefix is whole names: `/team` contains `/team/a`, and not `/teams`.
    Conditions are met before a limit counts. Raises EmbeddingDimensionMismatchError for a vector of
    another length than the stored ones. The methods of one name with an `a` are awaited.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        scope: str = "/",
        user_id: str | None = None,
        embedder: Any = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `scope`: the path below which the records are, such as `/team/research`. The paths of
          arguments and results are inside of it.
        - `user_id`: whose memory. The records of other users, and those without a user, do not
          exist for it.
        - `embedder`: for a URI, what makes the vectors by which other frameworks find memories;
          CrewAI brings its own ones.
        """
        self._handle = Handle(store, embedder=embedder)
        self._root = paths.normal(scope)
        self._user_id = user_id
        self._opened: StoredRecords | None = self._records_of(self._handle)

    # Writing

    def save(self, records: list[MemoryRecord]) -> None:
        """Store records, replacing those of the same ids, all or none."""
        return block_on(self.asave(records))

    async def asave(self, records: list[MemoryRecord]) -> None:
        """As `save`."""
        with memory_errors():
            if given := listed(records, "records"):
                await self._stored.write(given)

    def update(self, record: MemoryRecord) -> None:
        """Replace the record of the same id, or store it; without an embedding the old one stays."""
        return block_on(self._update(record))

    async def _update(self, record: MemoryRecord) -> None:
        with memory_errors():
            translated.check_all([record])
            if not record.embedding and (known := await self._stored.get([record.id])):
                record = record.model_copy(update={"embedding": known[0].embedding})
            await self._stored.write([record])

    def touch_records(self, record_ids: list[str]) -> None:
        """Set `last_accessed` of these records to now."""
        with memory_errors():
            block_on(self._stored.touch(listed(record_ids, "record_ids")))

    # Searching

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """The nearest records that meet all conditions, best first, with their scores.

        Returns `limit` of them if there are so many. The score is CrewAI's, 1 / (1 + d²), for
        vectors of length 1: 1 is the same direction, 1/3 an orthogonal one. Records have one of
        `categories`, and each value of `metadata_filter`.
        """
        return block_on(
            self.asearch(
                query_embedding, scope_prefix, categories, metadata_filter, limit, min_score
            )
        )

    async def asearch(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """As `search`."""
        with memory_errors():
            where, rest = self._condition(
                scope_prefix, categories=categories, metadata=metadata_filter
            )
            if isinstance(query_embedding, str) or len(query_embedding) == 0:
                raise InvalidRequestError(
                    f"query_embedding={query_embedding!r:.80}: give the vector of a text"
                )
            if _whole(limit, "limit") <= 0:
                return []
            found = await self._stored.search(query_embedding, rest, where, limit=limit)
        return [(record, score) for record, score in found if score >= min_score]

    # Reading

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """The record with that id and its embedding; None if there is none."""
        found = self.get_records([record_id])
        return found[0] if found else None

    def get_records(self, record_ids: list[str]) -> list[MemoryRecord]:
        """The records with these ids and their embeddings, in that order; absent ones are skipped."""
        with memory_errors():
            return block_on(self._stored.get(listed(record_ids, "record_ids")))

    def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        """Records without embeddings, newest first by `created_at`: `limit` after `offset`."""
        if _whole(limit, "limit") <= 0 or _whole(offset, "offset") < 0:
            return []
        found = sorted(self._all(scope_prefix), key=lambda one: str(one[0].metadata["at"]))
        with memory_errors():
            return block_on(self._stored.records(found[::-1][offset : offset + limit]))

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """How many records a scope has, with those below it; categories, times and children."""
        path, found = paths.normal(scope), [one.metadata for one, _ in self._all(scope)]
        times = sorted(found, key=lambda about: str(about["at"]))
        created = [datetime.fromisoformat(str(about["created_at"])) for about in times]
        return ScopeInfo(
            path=path,
            record_count=len(found),
            categories=sorted({name for about in found for name in about["categories"]}),
            oldest_record=created[0] if created else None,
            newest_record=created[-1] if created else None,
            child_scopes=self._children(path, found),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """The paths directly below `parent`, sorted."""
        return self._children(paths.normal(parent), [one.metadata for one, _ in self._all(parent)])

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """How many records have each category."""
        found = self._all(scope_prefix)
        return dict(Counter(name for one, _ in found for name in one.metadata["categories"]))

    def count(self, scope_prefix: str | None = None) -> int:
        """The number of records in a scope and below it; of all by default."""
        return len(self._all(scope_prefix))

    # Removing

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Delete the records that meet all of the given conditions; returns their number.

        Without conditions, all. An empty list of `record_ids` names none. Texts stay in older
        versions of the store, which `erase` of the store removes.
        """
        return block_on(
            self.adelete(scope_prefix, categories, record_ids, older_than, metadata_filter)
        )

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """As `delete`."""
        with memory_errors():
            ids = None if record_ids is None else listed(record_ids, "record_ids")
            where, rest = self._condition(
                scope_prefix, categories=categories, metadata=metadata_filter, older_than=older_than
            )
            return await self._stored.remove(ids, rest, where)

    def reset(self, scope_prefix: str | None = None) -> None:
        """Delete all records in a scope and below it, or all."""
        self.delete(scope_prefix)

    def close(self) -> None:
        """Close the store if it was given by its URI; a passed store stays open.

        A later call opens it again: CrewAI closes a memory, and may save in it afterwards.
        """
        self._handle.close()
        self._opened = None

    async def aclose(self) -> None:
        """As `close`."""
        await self._handle.aclose()
        self._opened = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """The same storage: copies of a memory or a crew share it."""
        return self

    # Helpers

    @property
    def _stored(self) -> StoredRecords:
        if self._opened is None:
            self._handle = self._handle.reopened()
            self._opened = self._records_of(self._handle)
        return self._opened

    def _records_of(self, handle: Handle) -> StoredRecords:
        return StoredRecords(of_user(handle, self._user_id), root=self._root)

    def _condition(self, prefix: str | None, **conditions: Any) -> Any:
        path = paths.below(self._root, paths.normal("/" if prefix is None else prefix))
        return translated.condition(owner=self._stored.owner, path=path, **conditions)

    def _all(self, prefix: str | None) -> list[tuple[Document, str]]:
        with memory_errors():
            where, rest = self._condition(prefix)
            return block_on(self._stored.all(rest, where))

    def _children(self, parent: str, found: Iterable[Any]) -> list[str]:
        seen = (paths.normal(paths.without(self._root, about["scopes"][-1])) for about in found)
        return sorted({child for one in seen if (child := paths.child_of(parent, one))})


def _whole(number: object, name: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidRequestError(f"{name}={number!r:.80}: give a whole number")
    return number
