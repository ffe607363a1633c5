"""The store, for blocking code."""

import builtins
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Unpack

from lance_context_core._loop import block_on, nothing_is_left
from lance_context_core._opening import DEFAULTS, OpenOptions
from lance_context_core._util.calls import takes
from lance_context_core.knowledge.builders import Model
from lance_context_core.knowledge.managed import AsyncManagedMemory
from lance_context_core.knowledge.protocols import Extractor
from lance_context_core.protocols import Clock
from lance_context_core.storage.lance.versions import Ref
from lance_context_core.store.handles import DEFAULT_CONTEXT
from lance_context_core.store.store import AsyncContextStore
from lance_context_core.store.transactions import AsyncTransaction
from lance_context_core.stores.records.context import AsyncContext
from lance_context_core.stores.records.lookup import ContextOptions
from lance_context_core.sync._blocking import (
    Blocking,
    Named,
    blocking,
    giving,
    handing,
    iterating,
    showing,
)
from lance_context_core.sync.stores import (
    Audit,
    Blobs,
    Checkpoints,
    Documents,
    Graph,
    History,
    Images,
    InformationTables,
    KeyValues,
    Knowledge,
    Locks,
    Memory,
    Plans,
    Sessions,
    ShortTermState,
    TaskStore,
    Templates,
    TieredMemory,
    Vectors,
    Windows,
)
from lance_context_core.types import Progress, WriteResult

# The record API, for blocking code.

C = TypeVar("C", bound="Context")


class Context(Named[AsyncContext]):
    """The records of a store under one name.

    `AsyncContext` is the asynchronous one, which documents all of its methods.
    """

    def __init__(self, uri: str | Path, **options: Unpack[ContextOptions]) -> None:
        """As `create`."""
        super().__init__(block_on(lambda: AsyncContext.create(uri, **options)))

    @classmethod
    def create(cls, uri: str | Path, **options: Unpack[ContextOptions]) -> Self:
        """Opens or creates the context `name` of the store at `uri`. See `AsyncContext.create`."""
        return cls(uri, **options)

    @classmethod
    def open(cls, uri: str | Path, **options: Unpack[ContextOptions]) -> Self:
        """As `create`; raises NotFoundError without a store. See `AsyncContext.open`."""
        return blocking_over(block_on(lambda: AsyncContext.open(uri, **options)), cls)

    close = blocking(AsyncContext.close, at_once=lambda _: nothing_is_left())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def uri(self) -> str:
        """The URI of the store."""
        return self._aio.uri()

    def branch(self) -> str:
        """The branch of the store to read and write. See `AsyncContext.branch`."""
        return self._aio.branch()

    # Writing

    add = blocking(AsyncContext.add)

    def add_many(
        self,
        records: Iterable[Mapping[str, Any]],
        *,
        progress: Callable[[Progress], object] | None = None,
    ) -> WriteResult:
        """Adds records in one commit, all or none. See `AsyncContext.add_many`."""
        # Consumed here: an iterable that itself calls the store could not do so on its loop.
        taken = [*records]
        return block_on(lambda: self._aio.add_many(taken, progress=progress))

    upsert = blocking(AsyncContext.upsert)

    def upsert_many(
        self,
        records: Iterable[Mapping[str, Any]],
        *,
        key: Literal["external_id", "id"] = "external_id",
        progress: Callable[[Progress], object] | None = None,
    ) -> builtins.list[dict[str, Any]]:
        """Adds or replaces records in one commit. See `AsyncContext.upsert_many`."""
        taken = [*records]
        return block_on(lambda: self._aio.upsert_many(taken, key=key, progress=progress))

    update = blocking(AsyncContext.update)
    delete = blocking(AsyncContext.delete)
    forget = blocking(AsyncContext.forget)
    embed_pending = blocking(AsyncContext.embed_pending)

    # Reading

    get = blocking(AsyncContext.get)
    get_blob = blocking(AsyncContext.get_blob)
    list = blocking(AsyncContext.list)
    records = blocking(AsyncContext.records)
    scan = iterating(AsyncContext.scan)
    entries = blocking(AsyncContext.entries)
    search = blocking(AsyncContext.search)
    retrieve = blocking(AsyncContext.retrieve)
    related = blocking(AsyncContext.related)

    # Versions

    version = blocking(AsyncContext.version)
    versions = blocking(AsyncContext.versions)

    def checkout(self, version: Ref) -> Self:
        """Turns this handle to an earlier version, and returns it. See `AsyncContext.checkout`."""
        block_on(lambda: self._aio.checkout(version))
        return self

    def checkout_latest(self) -> Self:
        """Returns this handle, at the newest version again. See `AsyncContext.checkout_latest`."""
        block_on(self._aio.checkout_latest)
        return self

    tag = blocking(AsyncContext.tag)
    tags = blocking(AsyncContext.tags)
    delete_tag = blocking(AsyncContext.delete_tag)
    restore = blocking(AsyncContext.restore)
    diff = blocking(AsyncContext.diff)

    # Compaction

    compact = blocking(AsyncContext.compact)
    compaction_stats = blocking(AsyncContext.compaction_stats)


def blocking_over(aio: AsyncContext, cls: type[C]) -> C:
    """Returns the blocking context over an open asynchronous one."""
    context = cls.__new__(cls)
    Blocking.__init__(context, aio)
    return context


class Transaction(Blocking[AsyncTransaction]):
    """The stores of one transaction; made by `store.transaction()`, and used inside its block.

    `AsyncTransaction` is the asynchronous one.
    """

    def __enter__(self) -> Self:
        block_on(self._aio._begin).enter(None)  # noqa: SLF001 - in the caller's context
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        written = self._aio._of_block()  # noqa: SLF001
        try:
            if kind is None:
                block_on(written.commit)
        finally:
            written.leave()

    history = showing(AsyncTransaction.history, History)
    memory = showing(AsyncTransaction.memory, Memory)
    sessions = showing(AsyncTransaction.sessions, Sessions)
    graph = showing(AsyncTransaction.graph, Graph)
    tasks = showing(AsyncTransaction.tasks, TaskStore)
    plans = showing(AsyncTransaction.plans, Plans)
    templates = showing(AsyncTransaction.templates, Templates)
    state = showing(AsyncTransaction.state, ShortTermState)
    checkpoints = showing(AsyncTransaction.checkpoints, Checkpoints)
    vectors = giving(AsyncTransaction.vectors, Vectors)
    kv = giving(AsyncTransaction.kv, KeyValues)

    def context(self, name: str = DEFAULT_CONTEXT) -> Context:
        """As `ContextStore.context`. See `AsyncTransaction.context`."""
        return blocking_over(self._aio.context(name), Context)

    scope = handing(AsyncTransaction.scope)


class ContextStore(Blocking[AsyncContextStore]):
    """An agent's memory in one directory, or under one URI of an object store.

    `AsyncContextStore` is the asynchronous one. Safe to share between threads; in a coroutine use
    `aio`, since every call here blocks. Opening does no I/O: the directory is created on first use.
    """

    @classmethod
    @takes(OpenOptions, DEFAULTS)
    def open(cls, uri: str | Path, **options: Unpack[OpenOptions]) -> Self:
        """Opens the store at `uri`, a directory or object store. See `AsyncContextStore.open`."""
        return cls(AsyncContextStore.open(uri, **options))

    @property
    def aio(self) -> AsyncContextStore:
        """The same store, asynchronous, for coroutines; closing either closes both."""
        return self._aio

    @property
    def uri(self) -> str:
        """The URI of the store; a local directory as an absolute path."""
        return self._aio.uri

    @property
    def clock(self) -> Clock:
        """The clock of the store: the source of timestamps and expiry."""
        return self._aio.clock

    # The stores

    history = showing(AsyncContextStore.history, History)
    memory = showing(AsyncContextStore.memory, Memory)
    sessions = showing(AsyncContextStore.sessions, Sessions)
    documents = showing(AsyncContextStore.documents, Documents)
    images = showing(AsyncContextStore.images, Images)
    blobs = showing(AsyncContextStore.blobs, Blobs)
    graph = showing(AsyncContextStore.graph, Graph)
    knowledge = showing(AsyncContextStore.knowledge, Knowledge)
    tiers = showing(AsyncContextStore.tiers, TieredMemory)
    tables = showing(AsyncContextStore.tables, InformationTables)
    windows = showing(AsyncContextStore.windows, Windows)
    vectors = giving(AsyncContextStore.vectors, Vectors)
    kv = giving(AsyncContextStore.kv, KeyValues)
    locks = showing(AsyncContextStore.locks, Locks)
    tasks = showing(AsyncContextStore.tasks, TaskStore)
    plans = showing(AsyncContextStore.plans, Plans)
    templates = showing(AsyncContextStore.templates, Templates)
    state = showing(AsyncContextStore.state, ShortTermState)
    checkpoints = showing(AsyncContextStore.checkpoints, Checkpoints)
    audit = showing(AsyncContextStore.audit, Audit)

    def context(self, name: str = DEFAULT_CONTEXT) -> Context:
        """The record API over the records under `name`. See `AsyncContextStore.context`."""
        return blocking_over(self._aio.context(name), Context)

    scope = handing(AsyncContextStore.scope)
    writing_as = handing(AsyncContextStore.writing_as)

    transaction = giving(AsyncContextStore.transaction, Transaction)

    # Erasure

    erase = blocking(AsyncContextStore.erase)

    # Versions

    version = blocking(AsyncContextStore.version)
    versions = blocking(AsyncContextStore.versions)
    checkout = handing(AsyncContextStore.checkout)
    restore = blocking(AsyncContextStore.restore)
    diff = blocking(AsyncContextStore.diff)
    tag = blocking(AsyncContextStore.tag)
    tags = blocking(AsyncContextStore.tags)
    delete_tag = blocking(AsyncContextStore.delete_tag)

    # Branches

    create_branch = handing(AsyncContextStore.create_branch)
    branch = handing(AsyncContextStore.branch)
    branches = blocking(AsyncContextStore.branches)
    delete_branch = blocking(AsyncContextStore.delete_branch)
    merge = blocking(AsyncContextStore.merge)

    # Search

    search = blocking(AsyncContextStore.search)

    # Users

    user_ids = blocking(AsyncContextStore.user_ids)

    # SQL

    sql = blocking(AsyncContextStore.sql)

    # Export and import

    export = blocking(AsyncContextStore.export)
    import_ = blocking(AsyncContextStore.import_)
    copy = blocking(AsyncContextStore.copy)

    verify = blocking(AsyncContextStore.verify)
    accept_loss = blocking(AsyncContextStore.accept_loss)

    # Replay

    replay = blocking(AsyncContextStore.replay)

    # The window

    assemble = blocking(AsyncContextStore.assemble)

    # Vectors

    embed_pending = blocking(AsyncContextStore.embed_pending)
    change_model = blocking(AsyncContextStore.change_model)

    # Maintenance

    maintain = blocking(AsyncContextStore.maintain)
    stats = blocking(AsyncContextStore.stats)
    flush = blocking(AsyncContextStore.flush)
    thin = blocking(AsyncContextStore.thin)
    close = blocking(AsyncContextStore.close, at_once=lambda _: nothing_is_left())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# A memory that manages itself, for blocking code.


class ManagedMemory(Knowledge):
    """`store.knowledge`, extracted by a model; `AsyncManagedMemory` is the asynchronous one."""

    def __init__(
        self,
        store: ContextStore | str | Path,
        *,
        embedder: Any = None,
        model: Model | None = None,
        model_name: str = "model",
        extractor: Extractor | None = None,
    ) -> None:
        """Opens the memory of a store, a scope of it, or the store at a path or URI.

        `embedder` is for a store that is opened here, as in `ContextStore.open`; an open one has
        its own. Raises InvalidRequestError for anything but a store, and as `using` does.
        """
        given: Any = store.aio if isinstance(store, ContextStore) else store
        made = AsyncManagedMemory(
            given, embedder=embedder, model=model, model_name=model_name, extractor=extractor
        )
        super().__init__(made)

    get_all = blocking(AsyncManagedMemory.get_all)
    import_mem0 = blocking(AsyncManagedMemory.import_mem0)
    close = blocking(AsyncManagedMemory.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
