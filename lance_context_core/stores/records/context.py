"""The record API: all records of an agent as plain mappings."""

import builtins
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Unpack

from lance_context_core._progress import check_progress, tell_written
from lance_context_core._util import cooperative as steps
from lance_context_core._util.calls import takes
from lance_context_core._util.checks import check_name, listed
from lance_context_core.codecs.records import COLUMNS, edge, from_rows
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import FilterLike
from lance_context_core.protocols import SearchMode
from lance_context_core.search.fusion import DEFAULT_FUSION, Fusion, ReciprocalRank
from lance_context_core.search.options import ALONE, SearchOptions
from lance_context_core.storage import sql
from lance_context_core.storage.database import PinnedDatabase
from lance_context_core.storage.lance import reads
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.lance.schema import VECTOR
from lance_context_core.storage.write_batch import WriteBatch
from lance_context_core.stores.records import changes as changing
from lance_context_core.stores.records import writes
from lance_context_core.stores.records.embedding_backlog import embed_records
from lance_context_core.stores.records.handle import ContextHandle
from lance_context_core.stores.records.lookup import DEFAULTS, HitArguments, columns_of, found
from lance_context_core.stores.records.mappings import (
    RecordChanges,
    RecordDict,
    RecordFields,
    draft_of,
    patch_of,
    patched,
    record_dict,
)
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.stores.records.writes import Draft, Upserted
from lance_context_core.types import ContextRecord, Progress, WriteResult

# Reads of any number of records of one version without holding all of them.


def check_batch_size(batch_size: object) -> int:
    """Return `batch_size` if it is valid; else raises InvalidRequestError."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise InvalidRequestError(f"batch_size={batch_size!r}: give a whole number, 1 or more")
    return batch_size


async def scan(
    records: Records, where: sql.Clause, *, batch_size: int
) -> AsyncIterator[RecordDict]:
    """Yield the matching records in order, as of the first request.

    Besides `batch_size` records, memory holds eight bytes for each match.
    """
    label = f"read {records.table.label}"
    async with _snapshot(records) as handle:
        if handle is None:
            return
        with translated(label):
            row_ids = (await reads.scan(handle, where, []))["_rowid"].to_numpy()
        for start in range(0, len(row_ids), batch_size):
            batch = row_ids[start : start + batch_size]
            with translated(label):
                rows = await reads.take(handle, batch, [*COLUMNS, VECTOR])
            for record in from_rows(rows):
                yield record_dict(record)


@asynccontextmanager
async def _snapshot(records: Records) -> AsyncIterator[Any | None]:
    """Return a handle of a fixed version; None if the table is absent."""
    access = (await records.table.here()).access
    handle = await access.complete_reader()
    is_pinned = isinstance(records.resources.database, PinnedDatabase)
    if handle is None or is_pinned or access.connection.is_read_only:
        yield handle
    else:
        async with access.separately() as own:
            yield own


class AsyncContext(ContextHandle):
    """The records of a store under one name, in the format of the record API.

    Each method with `id` and `external_id` requires exactly one of them. Reads leave out expired
    and retired records by default. Records are mappings in the order of writing; `record_dict`
    lists their keys.
    """

    # Writing

    async def add(
        self,
        role: str,
        content: Any,
        content_type: str | None = None,
        data_type: str | None = None,
        embedding: Sequence[float] | None = None,
        **fields: Unpack[RecordFields],
    ) -> WriteResult:
        """Add a record; returns its id and the version that contains it.

        `content` is a text, bytes, an image of Pillow, an Arrow table, JSON, or a `Message`;
        `content_type` (or `data_type`) declares its media type if it cannot be detected. Without an
        `embedding` the store's embedder computes one from a text.

        A `tenant` and `tags` in `metadata` are used if the record's own are absent. A record of a
        chat role in a session is a message of that session's history. The id of a `Message` is the
        record's, unless you pass another `id` or an `external_id`.

        Adding the same content under the same `external_id` or `id` again changes nothing. Raises
        AlreadyExistsError if other content has it, and InvalidRequestError, before anything is
        written, for content that cannot be stored faithfully.
        """
        given = {"content_type": content_type, "data_type": data_type, "embedding": embedding}
        record = {"role": role, "content": content, **given, **fields}
        return await writes.insert(self._writable(), self._draft_alone, [record])

    async def add_many(
        self,
        records: Iterable[Mapping[str, Any]],
        *,
        progress: Callable[[Progress], object] | None = None,
    ) -> WriteResult:
        """Add records in one commit, all or none; each maps the parameters of `add`.

        `progress` is called as texts are embedded, up to 1,000 at a time, and once all is written;
        if it raises before that, for example to cancel, the call ends, and nothing is written.
        """
        check_progress(progress)
        given = listed(records, "records")
        result = await writes.insert(self._writable(), self._draft, given, progress=progress)
        await tell_written(progress, len(given))
        return result

    async def upsert(
        self,
        role: str,
        content: Any,
        content_type: str | None = None,
        data_type: str | None = None,
        embedding: Sequence[float] | None = None,
        *,
        key: Literal["external_id", "id"] = "external_id",
        **fields: Unpack[RecordFields],
    ) -> dict[str, Any]:
        """Add a record, or replace the one with its `external_id`.

        A replaced record keeps its id, its `created_at` and its place. Returns `inserted`,
        `replaced_id`, `version` and the `record` as it is now.
        """
        given = {"content_type": content_type, "data_type": data_type, "embedding": embedding}
        record = {"role": role, "content": content, **given, **fields}
        (result,) = await self._upsert([self._draft_alone(0, record)], key, [""])
        return result

    async def upsert_many(
        self,
        records: Iterable[Mapping[str, Any]],
        *,
        key: Literal["external_id", "id"] = "external_id",
        progress: Callable[[Progress], object] | None = None,
    ) -> builtins.list[dict[str, Any]]:
        """Add or replace records in one commit; returns a result for each, as `upsert`.

        `progress` as in `add_many`.
        """
        check_progress(progress)
        drafts = await steps.each(
            lambda one: self._draft(*one), enumerate(listed(records, "records"))
        )
        places = [f"records[{i}]" for i in range(len(drafts))]
        done = await self._upsert(drafts, key, places, progress)
        await tell_written(progress, len(drafts))
        return done

    async def update(
        self,
        *,
        id: str | None = None,
        external_id: str | None = None,
        embedding: Sequence[float] | None = None,
        clear: Iterable[str] = (),
        include_expired: bool = False,
        include_retired: bool = False,
        **changes: Unpack[RecordChanges],
    ) -> dict[str, Any]:
        """Change fields of one record; omitted fields, and None, leave it unchanged.

        `clear` names the fields to remove. A hidden record is changed only if it is included: so it
        may be shown again, as with `include_retired=True, lifecycle_status="active",
        clear=["retired_at"]`. A deferred `embedding` is set here; a cleared one is computed again
        by the store's embedder, if it has one and does not defer.

        `metadata` is replaced as a whole: tags from it follow it, an existing tenant stays, and one
        outside the handle's scope is refused. The record keeps its id, its `created_at` and its
        place. Returns `updated` (False if the record does not exist), `version` and the `record` as
        it is now, or None.
        """
        records = self._writable()
        where = records.where(
            _identity(id, external_id),
            include_expired=include_expired,
            include_retired=include_retired,
        )
        patch = patch_of({**changes, "embedding": embedding}, clear)
        record = await changing.patch(
            records, where, lambda before: patched(before, patch, scope=records.scope)
        )
        if record is not None and record.kind == "message":
            await records.cleared({}, ids=[record.id])
        return {
            "updated": record is not None,
            "replaced_id": None if record is None else record.id,
            "version": await self.version(),
            "record": None if record is None else record_dict(record),
        }

    async def delete(self, *, id: str | None = None, external_id: str | None = None) -> bool:
        """Delete a record: no read returns it any more; returns False if it is absent.

        This is logical deletion: older versions still contain the record, and so does the disk.
        """
        records = self._writable()
        where = records.where(
            _identity(id, external_id), include_expired=True, include_retired=True
        )
        if not (await records.table.write(WriteBatch(where=where))).n_removed:
            return False
        if id is not None and records.context == "default":
            await records.cleared({}, ids=[id])
        return True

    async def forget(self, *, id: str | None = None, external_id: str | None = None) -> bool:
        """The same as `delete`."""
        return await self.delete(id=id, external_id=external_id)

    async def embed_pending(
        self,
        *,
        limit: int | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> int:
        """Embed the context's records without a vector, oldest first; returns their number.

        `progress` is called after each commit. Raises InvalidRequestError without an embedder.
        """
        where = self._records.where(include_expired=True, include_retired=True)
        return await embed_records(self._records.resources, where, limit=limit, progress=progress)

    # Reading

    async def get(
        self, *, id: str | None = None, external_id: str | None = None
    ) -> RecordDict | None:
        """Return the visible record with that id; None if absent.

        Requires one of `id` and `external_id`, else raises InvalidRequestError.
        """
        found = await self._records.visible(_identity(id, external_id))
        return None if found is None else record_dict(found)

    async def get_blob(self, id: str) -> bytes | None:
        """Return the bytes of the visible record with that id; None if absent."""
        found = await self._records.visible(_identity(id, None))
        return None if found is None else found.blob

    async def list(
        self,
        limit: int | None = None,
        offset: int | None = None,
        filters: FilterLike | None = None,
        *,
        include_expired: bool = False,
        include_retired: bool = False,
        include_binary: bool = True,
        include_embedding: bool = True,
        newest_first: bool = False,
    ) -> builtins.list[RecordDict]:
        """Return the records that match `filters`, in the order of writing.

        `newest_first` reverses both the order and the meaning of `offset`. Excluded payloads are
        None and are not read from the disk.
        """
        where = self._records.where(
            filter=filters, include_expired=include_expired, include_retired=include_retired
        )
        span = {"last": 2**62 if limit is None else limit} if newest_first else {"limit": limit}
        found = await self._records.read(
            where,
            offset=offset or 0,
            columns=columns_of(binary=include_binary, embedding=include_embedding),
            **span,
        )
        return [record_dict(one) for one in (reversed(found) if newest_first else found)]

    async def records(
        self,
        limit: int | None = None,
        offset: int = 0,
        filters: FilterLike | None = None,
        *,
        include_expired: bool = False,
        include_retired: bool = False,
        newest_first: bool = False,
    ) -> builtins.list[ContextRecord]:
        """Return the records of `list` as values, including the parts of messages.

        So a session's messages are read for all agents. Bytes outside messages, and vectors, are
        not read.
        """
        where = self._records.where(
            filter=filters, include_expired=include_expired, include_retired=include_retired
        )
        span = {"last": 2**62 if limit is None else limit} if newest_first else {"limit": limit}
        found = await self._records.read(where, offset=offset, columns=WITHOUT_BLOB, **span)
        return found[::-1] if newest_first else found

    def scan(
        self,
        *,
        filters: FilterLike | None = None,
        batch_size: int = 1_000,
        include_expired: bool = False,
        include_retired: bool = False,
    ) -> AsyncIterator[RecordDict]:
        """Yield any number of records of `list`, one by one.

        `batch_size` of them are in memory at a time. All are read from the version that is current
        at the first request: later writes neither appear nor shift them.
        """
        where = self._records.where(
            filter=filters, include_expired=include_expired, include_retired=include_retired
        )
        return scan(self._records, where, batch_size=check_batch_size(batch_size))

    async def entries(self) -> int:
        """Return the number of records of `list`."""
        return await self._records.table.count(self._records.where())

    @takes(HitArguments, DEFAULTS)
    async def search(
        self,
        query: str | Sequence[float],
        limit: int | None = 10,
        filters: FilterLike | None = None,
        *,
        mode: SearchMode | None = None,
        **arguments: Unpack[HitArguments],
    ) -> builtins.list[RecordDict]:
        """Return the records nearest to `query`, best first: by vector, or as in `mode`.

        A text is embedded by the store's embedder; without one it is searched by words. Records
        without a vector are found by words only. Each hit has, besides the record's keys, `score`
        in [0, 1], `distance` (cosine, in [0, 2]), `text_score` (BM25) and `matched_channels`, of
        "vector" and "text" in this order. At most `limit` are returned, 10 if it is None. Boosts
        apply only if in `options`; in `retrieve` by default.
        """
        if mode is None:
            by_words = isinstance(query, str) and self._records.resources.embeddings is None
            mode = "text" if by_words else "vector"
        return await found(
            self._records,
            query,
            limit=limit,
            filters=filters,
            mode=mode,
            room=ALONE,
            **arguments,
        )

    @takes(HitArguments, DEFAULTS)
    async def retrieve(
        self,
        *,
        text: str | None = None,
        vector: Sequence[float] | None = None,
        limit: int | None = 10,
        filters: FilterLike | None = None,
        fusion: Literal["convex", "rrf"] | Fusion = "convex",
        **arguments: Unpack[HitArguments],
    ) -> builtins.list[RecordDict]:
        """Search by words and vectors together (hybrid search); returns hits, best first.

        With a `text` alone its vector is computed by the store's embedder, if any. Hits have the
        same keys as those of `search`. `options` overrides `fusion`.
        """
        named: dict[str, Fusion] = {"convex": DEFAULT_FUSION, "rrf": ReciprocalRank()}
        if isinstance(fusion, str) and fusion not in named:
            raise InvalidRequestError(f"fusion={fusion!r}: use 'convex' or 'rrf'")
        chosen = named[fusion] if isinstance(fusion, str) else fusion
        if arguments.get("options") is None:
            arguments["options"] = SearchOptions(fusion=chosen)
        return await found(
            self._records, text, vector=vector, limit=limit, filters=filters, **arguments
        )

    async def related(
        self,
        target_id: str,
        relation: str | None = None,
        limit: int | None = None,
        *,
        include_expired: bool = False,
        include_retired: bool = False,
    ) -> builtins.list[RecordDict]:
        """Return the records with a relationship to `target_id`, of that `relation` or any.

        In the order of writing: the first `limit`, or all.
        """
        if relation is not None:
            relation = check_name(relation, "relation")
        target = edge(check_name(target_id, "target_id"), relation)
        where = self._records.where(
            sql.has_element("edges", target),
            include_expired=include_expired,
            include_retired=include_retired,
        )
        found = await self._records.read(where, limit=limit, columns=[*COLUMNS, VECTOR])
        return [record_dict(one) for one in found]

    # Helpers

    def _draft(self, index: int, record: Mapping[str, Any]) -> Draft:
        return draft_of(record, where=f"records[{index}]", now=self._records.now())

    def _draft_alone(self, _: int, record: Mapping[str, Any]) -> Draft:
        return draft_of(record, where="", now=self._records.now())

    async def _upsert(
        self,
        drafts: Sequence[Draft],
        key: str,
        places: Sequence[str],
        progress: Callable[[Progress], object] | None = None,
    ) -> builtins.list[dict[str, Any]]:
        records = self._writable()
        if key not in ("external_id", "id"):
            raise InvalidRequestError(
                f"key={key!r}: records are identified by 'external_id' or 'id'"
            )
        for draft, where in zip(drafts, places, strict=True):
            if draft.identity is None or draft.identity[0] != key:
                raise InvalidRequestError(f"{where or 'the record'} has no {key}: upsert needs one")
        upserted, version = await writes.upsert(records, drafts, progress=progress)
        return [_outcome(one, version) for one in upserted]


def _identity(id: str | None, external_id: str | None) -> sql.Clause:
    if (id is None) == (external_id is None):
        raise InvalidRequestError(
            f"id={id!r} and external_id={external_id!r}: pass exactly one of them"
        )
    if id is not None:
        return sql.equals("id", check_name(id, "id"))
    return sql.equals("external_id", check_name(external_id, "external_id"))


def _outcome(upserted: Upserted, version: int) -> dict[str, Any]:
    return {
        "inserted": upserted.was_inserted,
        "replaced_id": None if upserted.was_inserted else upserted.record.id,
        "version": version,
        "record": record_dict(upserted.record),
    }
