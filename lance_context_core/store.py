"""The front door: opens one directory or URI, and hands out the stores in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lance_context_core._json import check_name
from lance_context_core.composition import DEFAULT_COMPOSER, Composer
from lance_context_core.embedders import EmbeddingService, as_embedder
from lance_context_core.engine import maintenance, versions
from lance_context_core.engine.database import Database
from lance_context_core.engine.indexes import IndexPolicy
from lance_context_core.engine.table import Table
from lance_context_core.engine.text import TextIndex
from lance_context_core.engine.versions import Ref
from lance_context_core.filters import FilterLike
from lance_context_core.protocols import Clock, SearchMode
from lance_context_core.records import Branch, ContextRecord, Diff, SearchHit, Version
from lance_context_core.scope import Scope
from lance_context_core.stores import branching
from lance_context_core.stores.compaction import Compactor
from lance_context_core.stores.context import AsyncContext
from lance_context_core.stores.diff import diff
from lance_context_core.stores.fields import one_agent
from lance_context_core.stores.history import AsyncHistory
from lance_context_core.stores.memory import AsyncMemory
from lance_context_core.stores.pending import embed_documents, embed_records
from lance_context_core.stores.records import Records
from lance_context_core.stores.resources import Resources, SystemClock, Tails
from lance_context_core.stores.searching import SearchOptions
from lance_context_core.stores.sessions import AsyncSessions
from lance_context_core.stores.vectors import AsyncVectors
from lance_context_core.stores.whole import Whole

DEFAULT_CONTEXT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpkeep:
    """What maintenance did to one table."""

    table: str
    fragments_removed: int
    fragments_added: int
    indexes_built: tuple[str, ...]


class AsyncContextStore:
    """An agent's memory in one directory, or under one URI of an object store.

    Safe to share between tasks, threads and event loops. Opening does nothing yet: the directory
    is made, and the connection, when they are first needed.
    """

    def __init__(
        self,
        resources: Resources,
        *,
        scope: Scope | None = None,
        compactor: Compactor | None = None,
    ) -> None:
        """Use `open`; with the `compactor` of another handle this one does not own the store."""
        self._resources = resources
        self._scope = scope or Scope()
        self._is_owner = compactor is None
        self._compactor = compactor or Compactor(resources.records, resources.clock)

    @classmethod
    async def open(
        cls,
        uri: str | Path,
        *,
        embedder: Any = None,
        storage_options: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        composer: Composer | None = None,
        text_index: TextIndex | None = None,
        defer_embedding: bool = False,
        read_consistency: timedelta | None = timedelta(0),
    ) -> Self:
        """Open the store at `uri`: a directory, `memory://`, or `s3://`, `gs://`, `az://`.

        - `embedder`: makes the vectors. `"local"`, an `Embedder`, an object of LangChain,
          LlamaIndex or LanceDB's registry; see `as_embedder`. Its model's name is recorded with the
          vectors, and another model is refused with EmbeddingModelMismatchError. Without one,
          callers bring vectors, or search by words.
        - `storage_options`: credentials and endpoints of the object store, as LanceDB names them.
        - `clock`: where the time comes from.
        - `composer`: what of a record is embedded, and what is indexed for words.
        - `text_index`: how texts are cut into words; counts when the store is created.
        - `defer_embedding`: store now, embed when `embed_pending` is called.
        - `read_consistency`: how old the view of other processes' writes may be; None never looks
          for them. One's own writes are always seen.
        """
        return cls.opened(
            uri,
            embedder=embedder,
            storage_options=storage_options,
            clock=clock,
            composer=composer,
            text_index=text_index,
            defer_embedding=defer_embedding,
            read_consistency=read_consistency,
        )

    @classmethod
    def opened(
        cls,
        uri: str | Path,
        *,
        embedder: Any = None,
        storage_options: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        composer: Composer | None = None,
        text_index: TextIndex | None = None,
        defer_embedding: bool = False,
        read_consistency: timedelta | None = timedelta(0),
    ) -> Self:
        """As `open`, from code that cannot await."""
        database = Database(
            uri,
            storage_options=storage_options,
            read_consistency=read_consistency,
            text_index=text_index,
        )
        return cls(
            Resources(
                database=database,
                clock=clock or SystemClock(),
                composer=composer or DEFAULT_COMPOSER,
                embeddings=None if embedder is None else EmbeddingService(as_embedder(embedder)),
                defer_embedding=defer_embedding,
            )
        )

    @property
    def uri(self) -> str:
        """Where the store is; a local directory as an absolute path."""
        return self._resources.database.uri

    # The stores

    @property
    def history(self) -> AsyncHistory:
        """Conversations, by agent and session."""
        return AsyncHistory(self._records())

    @property
    def memory(self) -> AsyncMemory:
        """Long-term memories, by user and session."""
        return AsyncMemory(self._records())

    @property
    def sessions(self) -> AsyncSessions:
        """What is known about conversations, beside their messages."""
        return AsyncSessions(self._records())

    def vectors(self, collection: str = "default") -> AsyncVectors:
        """A collection of documents with vectors; it need not exist yet."""
        check_name(collection, "collection")
        return AsyncVectors(collection, self._resources, self._scope)

    def context(self, name: str = DEFAULT_CONTEXT) -> AsyncContext:
        """The record API over the records kept under `name`.

        The default context is where history and memory write, so it shows them too.
        """
        return AsyncContext(self._records(check_name(name, "name")), self._compactor)

    def scope(
        self,
        *,
        tenant: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        bot_id: str | None = None,
    ) -> Self:
        """A handle that sees and writes only what belongs to that tenant, user and agent.

        `bot_id` is another name of `agent_id`. Scopes narrow: a scope of a scope has the parts of
        both. Raises InvalidRequestError for a part that is set already to something else.
        """
        agent = one_agent(agent_id, bot_id)
        given = {"tenant": tenant, "user_id": user_id, "agent_id": agent}
        checked = {k: None if v is None else check_name(v, k) for k, v in given.items()}
        scope = self._scope.narrow(**checked)
        return type(self)(self._resources, scope=scope, compactor=self._compactor)

    # Search

    async def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        vector: Sequence[float] | None = None,
        mode: SearchMode | None = None,
        filter: FilterLike | None = None,
        limit: int = 10,
        options: SearchOptions | None = None,
    ) -> list[SearchHit[ContextRecord]]:
        """What answers `query` best among all records: messages, memories and the rest.

        `query` is a text or a vector; a text and its `vector` may be given together. Without a
        `mode` the search is hybrid where text and vector are at hand, else by the one that is.
        `filter` is applied before the best are taken: as many are returned as `limit`, if as many
        match. Scores lie in [0, 1]: (1 + cosine) / 2 by vector, bm25 / (bm25 + 10) by text, and
        the fused score in hybrid search, each with what the turns before and after lend to it.
        """
        records = self._records()
        where = records.where(filter=filter)
        return await records.search(
            query, vector=vector, mode=mode, where=where, limit=limit, options=options
        )

    async def embed_pending(self, *, limit: int | None = None) -> int:
        """Embed what was stored without a vector, oldest first; returns how many that were.

        The records of all contexts come first, hidden ones too, then the documents of all
        collections. A collection whose vectors are of another length or model is passed by. May be
        repeated, and stopped in between. Raises InvalidRequestError without an embedder.
        """
        where = self._records().everything()
        done = await embed_records(self._resources, where, limit=limit)
        rest = None if limit is None else limit - done
        return done + await embed_documents(self._resources, where, limit=rest)

    # Versions

    async def version(self) -> int:
        """The number of the store's version: that of its records; 0 before the first write."""
        return await self._resources.records.version()

    async def versions(self) -> list[Version]:
        """All versions that are kept, oldest first."""
        return await versions.versions(self._resources.records)

    async def checkout(self, ref: Ref) -> Self:
        """The store as it was at a version, a tag, or an aware datetime; for reading only.

        A version or a tag names the state of every table. Raises NotFoundError if there was no
        such moment.
        """
        resources = await self._resources_at(ref)
        compactor = Compactor(resources.records, resources.clock)
        return type(self)(resources, scope=self._scope, compactor=compactor)

    async def restore(self, ref: Ref) -> int:
        """Make the store what it was, as a new version, which is returned.

        Nothing is lost: what came after stays in the older versions. May be repeated after a crash.
        """
        return await self._whole().restore(ref)

    async def tag(self, name: str, *, version: Ref | None = None) -> int:
        """Name the current version, or another one; returns its number.

        Raises AlreadyExistsError if the name is taken. May be repeated after a crash.
        """
        return await self._whole().tag(name, version=version)

    async def tags(self) -> dict[str, int]:
        """The version that each tag names."""
        return await self._whole().tags()

    async def delete_tag(self, name: str) -> bool:
        """Forget a tag, not the version that it names; returns whether it existed."""
        return await self._whole().delete_tag(name)

    # Branches

    async def create_branch(self, name: str, *, at: Ref | None = None) -> Self:
        """Make a branch of the whole store, from now or from `at`; returns it, to read and write.

        The cost does not depend on what the store holds. The name has 1 to 200 ASCII letters,
        digits, `-`, `_`, and single dots between them. Raises AlreadyExistsError if a branch or a
        tag has it, NotFoundError if there was no such moment. May be repeated after a crash, which
        leaves either all of the branch or nothing that is seen.
        """
        await branching.create(self._whole(), name, at)
        return await self.branch(name)

    async def branch(self, name: str) -> Self:
        """The store on a branch, to read and write; `main` is the one that it began with.

        What is written there is on no other branch. Raises NotFoundError if there is none.
        """
        await branching.require(self._whole(), name)
        database = self._resources.writable().on(name)
        resources = replace(self._resources, database=database, tails=Tails())
        compactor = Compactor(resources.records, resources.clock)
        return type(self)(resources, scope=self._scope, compactor=compactor)

    async def branches(self) -> list[Branch]:
        """All branches but `main`, by name."""
        return await branching.listed(self._whole())

    async def delete_branch(self, name: str) -> bool:
        """Remove a branch with all that it alone holds; returns whether it existed.

        Raises InvalidRequestError for `main`, and while a tag or another branch names one of its
        versions. May be repeated after a crash.
        """
        return await branching.delete(self._whole(), name)

    async def diff(self, before: Ref, after: Ref | None = None) -> Diff:
        """What changed in the records from one version to another, or to now.

        Expired and retired records are compared too: they are there, if hidden.
        """
        old = await self._records_at(before)
        new = self._resources.records if after is None else await self._records_at(after)
        return await diff(old, new, self._records().everything())

    # Upkeep

    async def maintain(self, *, policy: IndexPolicy | None = None) -> list[TableUpkeep]:
        """Merge fragments, fold new rows into the indexes, and build the indexes that pay now."""
        self._whole().require("maintain")
        done = []
        for table in await self._tables():
            metrics = await maintenance.compact(table)
            built = await maintenance.build_indexes(table, policy or IndexPolicy())
            done.append(
                TableUpkeep(
                    table=table.name,
                    fragments_removed=metrics["fragments_removed"],
                    fragments_added=metrics["fragments_added"],
                    indexes_built=tuple(built),
                )
            )
        return done

    async def close(self) -> None:
        """End background work and let go of the connection; closing twice is no error.

        A compaction that runs is waited for. Only the store that was opened closes anything: its
        scopes and earlier versions do not.
        """
        if self._is_owner:
            await self._compactor.stop()
            await self._resources.database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        scope = "".join(f", {part}={value!r}" for part, value in self._scope.parts().items())
        return f"{type(self).__name__}({self.uri!r}{scope})"

    # Helpers

    def _records(self, context: str = DEFAULT_CONTEXT) -> Records:
        return Records(self._resources, self._scope, context)

    def _whole(self) -> Whole:
        return Whole(self._resources, self._scope)

    async def _tables(self) -> list[Table]:
        return await self._whole().tables()

    async def _resources_at(self, ref: Ref) -> Resources:
        pin = await versions.pin(self._resources.records, ref)
        return replace(self._resources, database=self._resources.database.at(pin))

    async def _records_at(self, ref: Ref) -> Table:
        return (await self._resources_at(ref)).records
