"""The store, for blocking code."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, Unpack

from lance_context_core._handles import DEFAULT_CONTEXT
from lance_context_core._loop import block_on
from lance_context_core._opening import DEFAULTS, OpenOptions
from lance_context_core._options import takes
from lance_context_core.engine.refs.retention import VersionRetention
from lance_context_core.engine.refs.versions import Ref
from lance_context_core.engine.table.indexes import IndexPolicy
from lance_context_core.filters import FilterLike
from lance_context_core.protocols import Clock
from lance_context_core.records import (
    Branch,
    ContextRecord,
    Diff,
    Erasure,
    MergeReport,
    SearchHit,
    Version,
)
from lance_context_core.search import query as searching
from lance_context_core.search.options import SearchArguments
from lance_context_core.store import AsyncContextStore
from lance_context_core.sync.checkpoints import Checkpoints
from lance_context_core.sync.context import Context, blocking_over
from lance_context_core.sync.documents import Documents
from lance_context_core.sync.history import History
from lance_context_core.sync.keyvalues import KeyValues
from lance_context_core.sync.knowledge import Knowledge
from lance_context_core.sync.locks import Locks
from lance_context_core.sync.memory import Memory
from lance_context_core.sync.sessions import Sessions
from lance_context_core.sync.tasks import TaskStore
from lance_context_core.sync.vectors import Vectors
from lance_context_core.upkeep.upkeep import (
    StoreStats,
    TableUpkeep,
)
from lance_context_core.versioning.conflicts import MergePolicy
from lance_context_core.versioning.thin import Thinned
from lance_context_core.window import assembling
from lance_context_core.window.assembling import AssembleArguments
from lance_context_core.window.budget import Budget
from lance_context_core.window.window import Window


class ContextStore:
    """An agent's memory in one directory, or under one URI of an object store.

    `AsyncContextStore` is the asynchronous one. Safe to share between threads; in a coroutine use
    `aio`, since every call here blocks. Opening does nothing yet: the directory is made when it is
    first needed.
    """

    def __init__(self, aio: AsyncContextStore) -> None:
        """Use `open`."""
        self._aio = aio

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
        """Where the store has the time from."""
        return self._aio.clock

    # The stores

    @property
    def history(self) -> History:
        """Conversations, by agent and session."""
        return History(self._aio.history)

    @property
    def memory(self) -> Memory:
        """Long-term memories, by user and session."""
        return Memory(self._aio.memory)

    @property
    def sessions(self) -> Sessions:
        """What is known about conversations, beside their messages."""
        return Sessions(self._aio.sessions)

    @property
    def documents(self) -> Documents:
        """Files that were read, and the passages in them."""
        return Documents(self._aio.documents)

    @property
    def knowledge(self) -> Knowledge:
        """What is known of what was said, and why. See `AsyncContextStore.knowledge`."""
        return Knowledge(self._aio.knowledge)

    def vectors(self, collection: str = "default", *, embedder: Any = None) -> Vectors:
        """A collection of documents with vectors. See `AsyncContextStore.vectors`."""
        return Vectors(self._aio.vectors(collection, embedder=embedder))

    def context(self, name: str = DEFAULT_CONTEXT) -> Context:
        """The record API over the records under `name`. See `AsyncContextStore.context`."""
        return blocking_over(self._aio.context(name), Context)

    def kv(self, name: str = "default", *, embedder: Any = None) -> KeyValues:
        """Key-value items in namespaces, kept under `name`. See `AsyncContextStore.kv`."""
        return KeyValues(self._aio.kv(name, embedder=embedder))

    @property
    def locks(self) -> Locks:
        """Locks between all that share the store; the same on all branches and in all scopes."""
        return Locks(self._aio.locks)

    @property
    def tasks(self) -> TaskStore:
        """Boards of what is to be done."""
        return TaskStore(self._aio.tasks)

    @property
    def checkpoints(self) -> Checkpoints:
        """Where each agent stood."""
        return Checkpoints(self._aio.checkpoints)

    def scope(
        self,
        *,
        tenant: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        bot_id: str | None = None,
    ) -> Self:
        """A handle that sees and writes only one part of it. See `AsyncContextStore.scope`."""
        return type(self)(
            self._aio.scope(tenant=tenant, user_id=user_id, agent_id=agent_id, bot_id=bot_id)
        )

    def writing_as(self, author: str) -> Self:
        """A handle through which that author writes. See `AsyncContextStore.writing_as`."""
        return type(self)(self._aio.writing_as(author))

    # Erasure

    def erase(
        self,
        *,
        ids: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        derived: bool = True,
        sole_writer: bool = False,
        dry_run: bool = False,
    ) -> Erasure:
        """Remove records from every file of the store. See `AsyncContextStore.erase`."""
        return block_on(
            self._aio.erase(
                ids=ids,
                filter=filter,
                derived=derived,
                sole_writer=sole_writer,
                dry_run=dry_run,
            )
        )

    # Versions

    def version(self) -> int:
        """The number of the store's version. See `AsyncContextStore.version`."""
        return block_on(self._aio.version())

    def versions(self, *, limit: int | None = None, before: int | None = None) -> list[Version]:
        """The versions that are kept, oldest first. See `AsyncContextStore.versions`."""
        return block_on(self._aio.versions(limit=limit, before=before))

    def checkout(self, ref: Ref) -> Self:
        """The store as it was, for reading only. See `AsyncContextStore.checkout`."""
        return type(self)(block_on(self._aio.checkout(ref)))

    def restore(self, ref: Ref) -> int:
        """Make the store what it was, as a new version. See `AsyncContextStore.restore`."""
        return block_on(self._aio.restore(ref))

    def diff(self, before: Ref, after: Ref | None = None) -> Diff:
        """What changed between two versions, or since one. See `AsyncContextStore.diff`."""
        return block_on(self._aio.diff(before, after))

    def tag(self, name: str, *, version: Ref | None = None) -> int:
        """Name a version; returns its number. See `AsyncContextStore.tag`."""
        return block_on(self._aio.tag(name, version=version))

    def tags(self) -> dict[str, int]:
        """The version that each tag names. See `AsyncContextStore.tags`."""
        return block_on(self._aio.tags())

    def delete_tag(self, name: str) -> bool:
        """Forget a tag; returns whether it existed. See `AsyncContextStore.delete_tag`."""
        return block_on(self._aio.delete_tag(name))

    # Branches

    def create_branch(self, name: str, *, at: Ref | None = None) -> Self:
        """Make a branch of the whole store; returns it. See `AsyncContextStore.create_branch`."""
        return type(self)(block_on(self._aio.create_branch(name, at=at)))

    def branch(self, name: str) -> Self:
        """The store on a branch, to read and write. See `AsyncContextStore.branch`."""
        return type(self)(block_on(self._aio.branch(name)))

    def branches(self) -> list[Branch]:
        """All branches but `main`, by name. See `AsyncContextStore.branches`."""
        return block_on(self._aio.branches())

    def delete_branch(self, name: str) -> bool:
        """Remove a branch; returns whether it existed. See `AsyncContextStore.delete_branch`."""
        return block_on(self._aio.delete_branch(name))

    def merge(
        self, source: str, *, policy: MergePolicy = "newest", dry_run: bool = False
    ) -> MergeReport:
        """Bring into this branch what another changed. See `AsyncContextStore.merge`."""
        return block_on(self._aio.merge(source, policy=policy, dry_run=dry_run))

    # Search

    @takes(SearchArguments, searching.DEFAULTS)
    def search(
        self, query: str | Sequence[float] | None = None, **arguments: Unpack[SearchArguments]
    ) -> list[SearchHit[ContextRecord]]:
        """What answers `query` best among all records. See `AsyncContextStore.search`."""
        return block_on(self._aio.search(query, **arguments))

    # The window

    @takes(AssembleArguments, assembling.DEFAULTS)
    def assemble(
        self, *, session_id: str, budget: Budget | int, **arguments: Unpack[AssembleArguments]
    ) -> Window:
        """What a model is sent next, within a budget. See `AsyncContextStore.assemble`."""
        return block_on(self._aio.assemble(session_id=session_id, budget=budget, **arguments))

    # Upkeep of vectors

    def embed_pending(self, *, filter: FilterLike | None = None, limit: int | None = None) -> int:
        """Embed what has no vector yet; returns how many. See `AsyncContextStore.embed_pending`."""
        return block_on(self._aio.embed_pending(filter=filter, limit=limit))

    def change_model(self) -> None:
        """Take the vectors of another model away. See `AsyncContextStore.change_model`."""
        block_on(self._aio.change_model())

    # Upkeep

    def maintain(
        self, *, policy: IndexPolicy | None = None, only_due: bool = False
    ) -> list[TableUpkeep]:
        """Merge fragments, and build indexes that pay. See `AsyncContextStore.maintain`."""
        return block_on(self._aio.maintain(policy=policy, only_due=only_due))

    def stats(self) -> StoreStats:
        """What the tables consist of, and what is due. See `AsyncContextStore.stats`."""
        return block_on(self._aio.stats())

    def flush(self) -> None:
        """Fold what the journal holds into the tables. See `AsyncContextStore.flush`."""
        block_on(self._aio.flush())

    def thin(self, *, retention: VersionRetention | None = None, dry_run: bool = False) -> Thinned:
        """Remove the versions that need not be kept. See `AsyncContextStore.thin`."""
        return block_on(self._aio.thin(retention=retention, dry_run=dry_run))

    def close(self) -> None:
        """End background work and let go of the connection. See `AsyncContextStore.close`."""
        block_on(self._aio.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._aio).removeprefix("Async")
