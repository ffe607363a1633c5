"""The record API: everything that an agent produced or was told, as plain mappings."""

import builtins
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol, Self, Unpack

from lance_context_core._json import check_name
from lance_context_core.engine import sql, versions
from lance_context_core.engine.maintenance import CompactionMetrics
from lance_context_core.engine.schema import VECTOR
from lance_context_core.engine.versions import Ref
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.filters import FilterLike
from lance_context_core.fusion import DEFAULT_FUSION, Fusion, ReciprocalRank
from lance_context_core.protocols import Clock, SearchMode
from lance_context_core.records import (
    Version,
    WriteResult,
)
from lance_context_core.stores.compaction import CompactionSchedule, CompactionStats, Compactor
from lance_context_core.stores.fields import (
    RecordChanges,
    RecordDict,
    RecordFields,
    draft_of,
    hit_dict,
    patch_of,
    record_dict,
)
from lance_context_core.stores.records import Draft, Records, Upserted
from lance_context_core.stores.rows import (
    COLUMNS,
    edge,
)
from lance_context_core.stores.searching import SearchOptions


class Closable(Protocol):
    """What a context may own: the store that it opened."""

    async def close(self) -> None:
        """End it."""


class AsyncContext:
    """The records of a store under one name, as the record API gives them.

    Every method that takes `id` or `external_id` takes exactly one of them. Reads leave out what is
    expired or retired unless they are asked for it. Records come in the order in which they were
    written, as mappings; `record_dict` says which keys they have.
    """

    def __init__(
        self, records: Records, compactor: Compactor, *, owned: Closable | None = None
    ) -> None:
        """Use `create`, `open`, or `AsyncContextStore.context`."""
        self._live = records
        self._records = records
        self._compactor = compactor
        self._owned = owned

    @classmethod
    async def create(
        cls,
        uri: str | Path,
        *,
        name: str = "default",
        embedder: Any = None,
        embedding_dim: int | None = None,
        storage_options: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        enable_background_compaction: bool = False,
        compaction_interval_secs: float = 300,
        compaction_min_fragments: int = 5,
        quiet_hours: Iterable[tuple[int, int]] | None = None,
    ) -> Self:
        """The context `name` of the store at `uri`, which is made when it is first written to.

        The store belongs to this handle and ends with its `close`; for the meaning of `embedder`,
        `storage_options` and `clock` see `AsyncContextStore.open`. `embedding_dim` fixes the length
        of the vectors; without it the first vector does. With `enable_background_compaction` the
        fragments are counted every `compaction_interval_secs`, and merged from
        `compaction_min_fragments` on, but in none of the `quiet_hours`: pairs of hours of the
        machine's local day, such as (22, 6).
        """
        from lance_context_core.store import AsyncContextStore  # it hands out contexts itself

        if embedding_dim is not None and not (type(embedding_dim) is int and embedding_dim > 0):
            raise InvalidRequestError(
                f"embedding_dim={embedding_dim!r}: give the length of the vectors, 1 or more"
            )
        schedule = CompactionSchedule(
            interval_secs=compaction_interval_secs,
            min_fragments=compaction_min_fragments,
            quiet_hours=tuple(quiet_hours or ()),
        )
        store = await AsyncContextStore.open(
            uri, embedder=embedder, storage_options=storage_options, clock=clock
        )
        records, compactor = store.room(name)
        if embedding_dim is not None:
            await records.table.ensure_vectors(embedding_dim, None)
        if enable_background_compaction:
            compactor.start(schedule)
        return cls(records, compactor, owned=store)

    @classmethod
    async def open(
        cls,
        uri: str | Path,
        *,
        name: str = "default",
        embedder: Any = None,
        storage_options: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """As `create`, for a store that must exist: raises NotFoundError where there is none."""
        context = await cls.create(
            uri, name=name, embedder=embedder, storage_options=storage_options, clock=clock
        )
        if await context.version() == 0:
            await context.close()
            raise NotFoundError(f"there is no store at {context.uri()!r}: create() makes one")
        return context

    async def close(self) -> None:
        """End the store that `create` or `open` opened; a store's own context closes nothing."""
        if self._owned is not None:
            await self._owned.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri()!r}, name={self.name!r})"

    @property
    def name(self) -> str:
        """The name of the context."""
        return self._live.context

    def uri(self) -> str:
        """Where the store is."""
        return self._live.resources.database.uri

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
        """Add one record; returns its id and the version that holds it.

        `content` is a text, bytes, an image of Pillow, an Arrow table, JSON, or a `Message`;
        `content_type` (or `data_type`) declares its media type where that does not show.
        Without an `embedding` the store's embedder makes one from a text.

        A `tenant` and `tags` that stand in `metadata` count as the record's own where these are
        absent. A record of a chat role in a session is a message of that session's history.

        Adding the same content under the same `external_id` or `id` again changes nothing. Raises
        AlreadyExistsError if another content has it, and InvalidRequestError, before anything is
        written, for what cannot be kept faithfully.
        """
        given = {"content_type": content_type, "data_type": data_type, "embedding": embedding}
        return await self.add_many([{"role": role, "content": content, **given, **fields}])

    async def add_many(self, records: Iterable[Mapping[str, Any]]) -> WriteResult:
        """Add records in one commit, all or none; each a mapping of the parameters of `add`."""
        return await self._records.insert(self._drafts(records))

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
        """Add a record, or replace the one that has its `external_id`.

        A replaced record keeps its id, its `created_at` and its place. Returns `inserted`,
        `replaced_id`, `version` and the `record` as it is now.
        """
        given = {"content_type": content_type, "data_type": data_type, "embedding": embedding}
        record = {"role": role, "content": content, **given, **fields}
        (result,) = await self.upsert_many([record], key=key)
        return result

    async def upsert_many(
        self,
        records: Iterable[Mapping[str, Any]],
        *,
        key: Literal["external_id", "id"] = "external_id",
    ) -> builtins.list[dict[str, Any]]:
        """Add or replace records in one commit; returns what became of each, as `upsert` does."""
        if key not in {"external_id", "id"}:
            raise InvalidRequestError(
                f"key={key!r}: records are told apart by 'external_id' or 'id'"
            )
        drafts = self._drafts(records)
        for index, draft in enumerate(drafts):
            if draft.identity is None or draft.identity[0] != key:
                raise InvalidRequestError(f"records[{index}] has no {key}: upsert needs one")
        upserted, version = await self._records.upsert(drafts)
        return [_outcome(one, version) for one in upserted]

    async def update(
        self,
        *,
        id: str | None = None,
        external_id: str | None = None,
        embedding: Sequence[float] | None = None,
        **changes: Unpack[RecordChanges],
    ) -> dict[str, Any]:
        """Change fields of one visible record; what is not named stays.

        `metadata` is replaced as a whole. An `embedding` that was deferred is attached here. The
        record keeps its id, its `created_at` and its place. Returns `updated` (False if there is
        no such record), `version` and the `record` as it is now, or None.
        """
        where = self._records.where(_identity(id, external_id))
        patch = patch_of({**changes, "embedding": embedding})
        record = await self._records.patch(where, lambda before: replace(before, **patch))
        return {
            "updated": record is not None,
            "replaced_id": None if record is None else record.id,
            "version": await self.version(),
            "record": None if record is None else record_dict(record),
        }

    async def delete(self, *, id: str | None = None, external_id: str | None = None) -> bool:
        """Forget a record: no read shows it any more; returns False if it is absent already.

        This is logical forgetting: older versions still hold the record, and so does the disk.
        """
        where = self._records.where(
            _identity(id, external_id), include_expired=True, include_retired=True
        )
        return await self._records.delete(where) > 0

    async def forget(self, *, id: str | None = None, external_id: str | None = None) -> bool:
        """The same as `delete`."""
        return await self.delete(id=id, external_id=external_id)

    # Reading

    async def get(
        self, *, id: str | None = None, external_id: str | None = None
    ) -> RecordDict | None:
        """The visible record with that id; None if there is none."""
        found = await self._records.first(self._records.where(_identity(id, external_id)))
        return None if found is None else record_dict(found)

    async def get_blob(self, id: str) -> bytes | None:
        """The bytes of the visible record with that id; None if there is none, or it has none."""
        found = await self._records.first(self._records.where(_identity(id, None)))
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
        """Records that match `filters`, in the order in which they were written.

        With `newest_first` both the order and the meaning of `offset` are turned around. Payloads
        that are not included come as None and are not read from the disk.
        """
        where = self._records.where(
            filter=filters, include_expired=include_expired, include_retired=include_retired
        )
        span = {"last": 2**62 if limit is None else limit} if newest_first else {"limit": limit}
        found = await self._records.read(
            where,
            offset=offset or 0,
            columns=_columns(binary=include_binary, embedding=include_embedding),
            **span,
        )
        return [record_dict(one) for one in (reversed(found) if newest_first else found)]

    async def entries(self) -> int:
        """How many records `list` would return."""
        return await self._records.table.count(self._records.where())

    async def search(
        self,
        query: str | Sequence[float],
        limit: int = 10,
        filters: FilterLike | None = None,
        *,
        mode: SearchMode | None = None,
        include_expired: bool = False,
        include_retired: bool = False,
        include_relationships: bool = False,
        include_binary: bool = True,
        include_embedding: bool = True,
        options: SearchOptions | None = None,
    ) -> builtins.list[RecordDict]:
        """The records nearest to `query`, best first: by vector, unless `mode` says otherwise.

        A text is embedded by the store's embedder; without one it is searched by words. Records
        without a vector are found by words only. Each hit has, beside the record's keys, `score`
        in [0, 1], `distance` (cosine, in [0, 2]), `text_score` (BM25) and `matched_channels`.
        """
        if mode is None:
            by_words = isinstance(query, str) and self._records.resources.embeddings is None
            mode = "text" if by_words else "vector"
        hits = await self._records.search(
            query,
            mode=mode,
            where=self._records.where(
                filter=filters, include_expired=include_expired, include_retired=include_retired
            ),
            limit=limit,
            options=options,
            columns=_columns(
                binary=include_binary,
                embedding=include_embedding,
                relationships=include_relationships,
            ),
        )
        return [hit_dict(hit) for hit in hits]

    async def retrieve(
        self,
        *,
        text: str | None = None,
        vector: Sequence[float] | None = None,
        limit: int = 10,
        filters: FilterLike | None = None,
        include_expired: bool = False,
        include_retired: bool = False,
        include_relationships: bool = False,
        include_binary: bool = True,
        include_embedding: bool = True,
        fusion: Literal["convex", "rrf"] | Fusion = "convex",
        options: SearchOptions | None = None,
    ) -> builtins.list[RecordDict]:
        """The records that answer best by words and by meaning at once, best first.

        With a `text` alone its vector is made by the store's embedder, if there is one. Hits have
        the same keys as those of `search`. `options` goes before `fusion`.
        """
        named: dict[str, Fusion] = {"convex": DEFAULT_FUSION, "rrf": ReciprocalRank()}
        if isinstance(fusion, str) and fusion not in named:
            raise InvalidRequestError(f"fusion={fusion!r}: there are 'convex' and 'rrf'")
        chosen = named[fusion] if isinstance(fusion, str) else fusion
        hits = await self._records.search(
            text,
            vector=vector,
            where=self._records.where(
                filter=filters, include_expired=include_expired, include_retired=include_retired
            ),
            limit=limit,
            options=options or SearchOptions(fusion=chosen),
            columns=_columns(
                binary=include_binary,
                embedding=include_embedding,
                relationships=include_relationships,
            ),
        )
        return [hit_dict(hit) for hit in hits]

    async def related(
        self,
        target_id: str,
        relation: str | None = None,
        limit: int | None = None,
        *,
        include_expired: bool = False,
        include_retired: bool = False,
    ) -> builtins.list[RecordDict]:
        """The records with a relationship to `target_id`, of that `relation` or of any."""
        target = edge(check_name(target_id, "target_id"), relation)
        where = self._records.where(
            f"array_has(edges, {sql.quote_string(target)})",
            include_expired=include_expired,
            include_retired=include_retired,
        )
        found = await self._records.read(where, limit=limit, columns=[*COLUMNS, VECTOR])
        return [record_dict(one) for one in found]

    # Versions

    async def version(self) -> int:
        """The number of the version that is read; 0 before anything was written."""
        return await self._records.table.version()

    async def versions(self) -> builtins.list[Version]:
        """All versions that are kept, oldest first."""
        return await versions.versions(self._live.table)

    async def checkout(self, version: Ref | str) -> Self:
        """Turn this handle to an earlier moment: a version, a tag, or an aware datetime.

        It then reads what was, and refuses writes with ReadOnlyError, until `checkout_latest`.
        Other handles of the store are not touched. Raises NotFoundError if there was no such moment.
        """
        if isinstance(version, str) and version.isdecimal():
            version = int(version)
        pin = await versions.pin(self._live.table, version)
        database = self._live.resources.database.at(pin)
        resources = replace(self._live.resources, database=database)
        self._records = replace(self._live, resources=resources)
        return self

    async def checkout_latest(self) -> Self:
        """Turn this handle back to the present, for reading and writing."""
        self._records = self._live
        return self

    # Compaction

    async def compact(
        self, *, target_rows_per_fragment: int | None = None, materialize_deletions: bool = True
    ) -> CompactionMetrics:
        """Merge small fragments into large ones, now; reads get faster, nothing changes for them.

        Returns `fragments_removed`, `fragments_added`, `files_removed` and `files_added`. The two
        parameters are accepted for compatibility: the engine chooses both by itself.
        """
        del target_rows_per_fragment, materialize_deletions
        return await self._compactor.compact()

    async def compaction_stats(self) -> CompactionStats:
        """How fragmented the records are, and what compaction has done so far."""
        return await self._compactor.stats()

    # Helpers

    def _drafts(self, records: Iterable[Mapping[str, Any]]) -> builtins.list[Draft]:
        now = self._records.resources.clock.now()
        return [draft_of(record, f"records[{i}]", now) for i, record in enumerate(records)]


def _columns(*, binary: bool, embedding: bool, relationships: bool = True) -> list[str]:
    left_out = set() if binary else {"blob"}
    left_out |= set() if relationships else {"relationships"}
    return [c for c in COLUMNS if c not in left_out] + ([VECTOR] if embedding else [])


def _identity(id: str | None, external_id: str | None) -> str:
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
