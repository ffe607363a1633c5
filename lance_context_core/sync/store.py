"""The store, for blocking code."""

from pathlib import Path
from typing import Self, Unpack

from lance_context_core._loop import nothing_is_left
from lance_context_core._opening import DEFAULTS, OpenOptions
from lance_context_core._util.calls import takes
from lance_context_core.protocols import Clock
from lance_context_core.store.handles import DEFAULT_CONTEXT
from lance_context_core.store.store import AsyncContextStore
from lance_context_core.sync._blocking import Blocking, blocking, giving, handing, showing
from lance_context_core.sync.audit import Audit
from lance_context_core.sync.blobs import Blobs
from lance_context_core.sync.checkpoints import Checkpoints
from lance_context_core.sync.context import Context, blocking_over
from lance_context_core.sync.documents import Documents
from lance_context_core.sync.graph import Graph
from lance_context_core.sync.history import History
from lance_context_core.sync.images import Images
from lance_context_core.sync.information import InformationTables
from lance_context_core.sync.keyvalues import KeyValues
from lance_context_core.sync.knowledge import Knowledge
from lance_context_core.sync.locks import Locks
from lance_context_core.sync.memory import Memory
from lance_context_core.sync.plans import Plans
from lance_context_core.sync.sessions import Sessions
from lance_context_core.sync.state import ShortTermState
from lance_context_core.sync.tasks import TaskStore
from lance_context_core.sync.templates import Templates
from lance_context_core.sync.tiers import TieredMemory
from lance_context_core.sync.vectors import Vectors
from lance_context_core.sync.windows import Windows


class ContextStore(Blocking[AsyncContextStore]):
    """An agent's memory in one directory, or under one URI of an object store.

    `AsyncContextStore` is the asynchronous one. Safe to share between threads; in a coroutine use
    `aio`, since every call here blocks. Opening does nothing yet: the directory is made when it is
    first needed.
    """

    @classmethod
    @takes(OpenOptions, DEFAULTS)
    def open(cls, uri: str | Path, **options: Unpack[OpenOptions]) -> Self:
        """Open the store at `uri`, a directory or object store. See `AsyncContextStore.open`."""
        return cls(AsyncContextStore.open(uri, **options))

    @property
    def aio(self) -> AsyncContextStore:
        """The same store, asynchronous, for coroutines; closing either closes both."""
        return self._aio

    @property
    def uri(self) -> str:
        """Where the store is; a local directory as an absolute path."""
        return self._aio.uri

    @property
    def clock(self) -> Clock:
        """Where the store has the time from: what is written bears it, and expires by it."""
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

    # Whose it is

    user_ids = blocking(AsyncContextStore.user_ids)

    # SQL

    sql = blocking(AsyncContextStore.sql)

    # Out and in

    export = blocking(AsyncContextStore.export)
    import_ = blocking(AsyncContextStore.import_)
    copy = blocking(AsyncContextStore.copy)

    verify = blocking(AsyncContextStore.verify)
    accept_loss = blocking(AsyncContextStore.accept_loss)

    # Again, and in another way

    replay = blocking(AsyncContextStore.replay)

    # The window

    assemble = blocking(AsyncContextStore.assemble)

    # Upkeep of vectors

    embed_pending = blocking(AsyncContextStore.embed_pending)
    change_model = blocking(AsyncContextStore.change_model)

    # Upkeep

    maintain = blocking(AsyncContextStore.maintain)
    stats = blocking(AsyncContextStore.stats)
    flush = blocking(AsyncContextStore.flush)
    thin = blocking(AsyncContextStore.thin)
    close = blocking(AsyncContextStore.close, at_once=lambda _: nothing_is_left())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
