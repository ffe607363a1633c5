"""The records of one owner in a store: written, found and removed."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from crewai.memory.types import MemoryRecord

from crewai_lance_context import _records as translated
from crewai_lance_context._common import NAME
from lance_context_core import (
    AsyncContextStore,
    ConflictError,
    Document,
    Item,
)
from lance_context_core.adapting import Handle, check_names, retried, transaction_or_store
from lance_context_core.errors import DimensionMismatchError
from lance_context_core.filters import Field, Filter

_ACCESSED = ("accessed",)
"""The namespace of the times of access."""

_ROW_BYTES = 1024
_REMOVED_AT_ONCE = 128
"""Records that one commit removes: three rows of each fit into a transaction."""

_FOUND = tuple[Document, str]
"""A document, and the text of its record."""


class StoredRecords:
    """What `LanceMemoryStorage` does, in terms of documents, memories and items.

    A document whose text is no memory any more was deleted by another framework: no read shows it.
    """

    def __init__(self, store: AsyncContextStore, *, root: str) -> None:
        """Those that were written in exactly the scope of `store`, below the path `root`."""
        self._store = store
        self._root = root
        parts = Handle(store).scope.parts()
        self.owner = "&".join(f"{name}={value}" for name, value in parts.items())
        self._prefix = f"{self.owner}/" if parts else ""
        self._is_whole = not parts

    # Writing

    async def write(self, records: Sequence[MemoryRecord]) -> None:
        """Store records, replacing those of the same ids, in one commit."""
        translated.check_all(records)
        ids = check_names([one.id for one in records], "record ids")
        made = [
            translated.document(one, id=self._named(id), root=self._root, owner=self.owner)
            for one, id in zip(records, ids, strict=True)
        ]
        told = [translated.memory(*pair) for pair in zip(records, made, strict=True)]
        n_bytes = sum(2 * len(one.content) + 8 * len(one.embedding or ()) for one in records)
        n_bytes += _ROW_BYTES * len(records)
        try:
            await self._write(ids, made, told, n_bytes=n_bytes)
        except DimensionMismatchError:
            # Nothing is left of the embedder before this one: its column goes, too.
            vectors = self._store.vectors(NAME)
            if not self._is_whole or await vectors.count():
                raise
            await vectors.delete_collection()
            await self._write(ids, made, told, n_bytes=n_bytes)

    async def _write(
        self, ids: list[str], made: list[Document], told: list[Any], *, n_bytes: int
    ) -> None:
        n_rows = 2 * len(ids)
        async with transaction_or_store(self._store, n_rows=n_rows, n_bytes=n_bytes) as at:
            # Where each write is a commit: a document without its memory is not shown.
            await at.vectors(NAME).upsert(made)
            there = {one.id for one in await at.memory.get_many(ids)}
            if new := [one for one in told if one is not None and one.id not in there]:
                await at.memory.add(new, duplicates="keep")
            for id, one in zip(ids, told, strict=True):
                if id in there and one is not None:
                    await at.memory.upsert(id, one.text, metadata=one.metadata)
            if hidden := [
                id for id, one in zip(ids, told, strict=True) if one is None and id in there
            ]:
                await at.memory.delete(ids=hidden, session_id="")

    async def touch(self, ids: Iterable[str]) -> None:
        """Note that these records were read now."""
        now = datetime.now(UTC).replace(tzinfo=None).isoformat()
        await self._store.kv(NAME).put(
            [Item(namespace=_ACCESSED, key=one, value={"at": now}) for one in dict.fromkeys(ids)]
        )

    # Reading

    async def get(self, ids: Sequence[str]) -> list[MemoryRecord]:
        """The records with these ids, with their vectors."""
        named = [self._named(one) for one in check_names(ids, "record_ids")]
        found = await self._store.vectors(NAME).get(named, include_embedding=True)
        own = [
            one
            for one in found
            if one.metadata["owner"] == self.owner and self._root in one.metadata["scopes"]
        ]
        return await self.records(await self._present(own))

    async def all(self, rest: dict[str, Any], where: Filter) -> list[_FOUND]:
        """Those that meet the condition, in the order of addition, without vectors."""
        found = await self._store.vectors(NAME).list(filter=where)
        return await self._present([one for one in found if translated.matches(one, rest)])

    async def search(
        self, query: Sequence[float], rest: dict[str, Any], where: Filter, *, limit: int
    ) -> list[tuple[MemoryRecord, float]]:
        """The `limit` nearest of those that meet the condition, with their scores, best first."""
        vectors = self._store.vectors(NAME)
        if rest:
            where &= Field("id").is_in([one.id for one, _ in await self.all(rest, where)])
        gone: list[str] = []
        while True:
            hits = await vectors.search(
                query,
                filter=where & Field("id").not_in(gone) if gone else where,
                limit=limit,
                include_embedding=True,
            )
            there = await self._present([hit.record for hit in hits])
            if len(there) == len(hits):
                break
            # Others have deleted some: look for as many more.
            shown = {document.id for document, _ in there}
            gone += [str(hit.record.id) for hit in hits if hit.record.id not in shown]
        scores = [translated.score_of(float(hit.channels["vector"].raw or 0)) for hit in hits]
        return list(zip(await self.records(there), scores, strict=True))

    async def records(self, found: Sequence[_FOUND]) -> list[MemoryRecord]:
        """The records of documents and their texts."""
        keys = [(_ACCESSED, self._id(document)) for document, _ in found]
        touched = await self._store.kv(NAME).get(keys) if keys else []
        return [
            translated.record(
                document,
                content,
                id=self._id(document),
                root=self._root,
                touched=None if item is None else datetime.fromisoformat((item.value or {})["at"]),
            )
            for (document, content), item in zip(found, touched, strict=True)
        ]

    async def _present(self, found: Sequence[Document]) -> list[_FOUND]:
        """Those that exist, with their texts."""
        shared = [self._id(one) for one in found if translated.is_in_memory(one)]
        there = await self._store.memory.get_many(shared) if shared else []
        texts = {one.id: one.text or "" for one in there}
        pairs = [
            (one, texts.get(self._id(one)))
            if translated.is_in_memory(one)
            else (one, translated.content_of(one))
            for one in found
        ]
        return [(one, text) for one, text in pairs if text is not None]

    # Removing

    async def remove(self, ids: Sequence[str] | None, rest: dict[str, Any], where: Filter) -> int:
        """Delete those that meet the condition, of `ids` or of all; returns their number.

        A commit removes a record with its memory. If another writer changes one meanwhile so that
        it does not meet the condition any more, it stays.
        """
        if ids is not None:
            where &= Field("id").is_in([self._named(one) for one in check_names(ids, "record_ids")])
        n = 0
        while True:
            removed = await retried(lambda: self._remove_some(rest, where), on=ConflictError)
            if removed is None:
                return n
            n += removed

    async def _remove_some(self, rest: dict[str, Any], where: Filter) -> int | None:
        vectors = self._store.vectors(NAME)
        found = await vectors.list(filter=where, limit=None if rest else _REMOVED_AT_ONCE)
        found = [one for one in found if translated.matches(one, rest)][:_REMOVED_AT_ONCE]
        if not found:
            return None
        n_there = len(await self._present(found))
        ids = [self._id(one) for one in found]
        n_rows = 3 * len(ids)
        async with transaction_or_store(self._store, n_rows=n_rows, n_bytes=0) as at:
            # Where each write is a commit: the memory first, since what lacks it is not shown.
            await at.memory.delete(ids=ids, session_id="")
            await at.kv(NAME).delete([(_ACCESSED, one) for one in ids])
            named = [str(one.id) for one in found]
            if await at.vectors(NAME).delete(named, filter=where) != len(ids):
                raise ConflictError("another writer has changed or deleted some of the records")
        return n_there

    # Ids

    def _named(self, id: str) -> str:
        """The id of the document of a record."""
        return self._prefix + id

    def _id(self, document: Document) -> str:
        """The id of the record of a document."""
        return str(document.id).removeprefix(self._prefix)
