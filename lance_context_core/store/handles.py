"""The stores of one handle, each limited to its scope."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from lance_context_core._resources import Resources
from lance_context_core._util.checks import check_name
from lance_context_core.blobs.blobs import AsyncBlobs, ScopedBlobs
from lance_context_core.coordination.checkpoints import AsyncCheckpoints
from lance_context_core.coordination.locks import AsyncLocks
from lance_context_core.coordination.plans import AsyncPlans
from lance_context_core.coordination.state import AsyncShortTermState
from lance_context_core.coordination.tasks import AsyncTaskStore
from lance_context_core.coordination.templates import AsyncTemplates
from lance_context_core.documents.documents import AsyncDocuments
from lance_context_core.documents.scoped import ScopedDocuments
from lance_context_core.filters import DOCUMENT_FIELDS
from lance_context_core.filters.columns import declared_fields
from lance_context_core.graph.graph import AsyncGraph
from lance_context_core.graph.scoped import ScopedGraph
from lance_context_core.information.tables import AsyncInformationTables
from lance_context_core.knowledge.knowledge import AsyncKnowledge
from lance_context_core.media.images import AsyncImages
from lance_context_core.scope import Scope
from lance_context_core.stores.history import AsyncHistory
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.stores.memory import AsyncMemory
from lance_context_core.stores.records.context import AsyncContext
from lance_context_core.stores.records.mappings import one_agent
from lance_context_core.stores.records.scoped import Records
from lance_context_core.stores.sessions import AsyncSessions
from lance_context_core.stores.vectors import AsyncVectors
from lance_context_core.tiers import entries as in_tiers
from lance_context_core.tiers.tiers import AsyncTieredMemory
from lance_context_core.versioning.locations import Whole
from lance_context_core.window.windows import AsyncWindows

DEFAULT_CONTEXT = "default"


class AsyncStores:
    """The stores that a handle gives access to."""

    def __init__(
        self, resources: Resources, *, scope: Scope | None = None, is_owner: bool = True
    ) -> None:
        """Use `open`; a handle that does not own the resources does not close them."""
        self._resources = resources
        self._scope = scope or Scope()
        self._is_owner = is_owner

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
        """Descriptions of conversations: metadata without the messages."""
        return AsyncSessions(self._records())

    @property
    def documents(self) -> AsyncDocuments:
        """Source documents: files that were read, and their passages."""
        return AsyncDocuments(ScopedDocuments(self._resources, self._scope))

    @property
    def images(self) -> AsyncImages:
        """Images, recordings and films, with their captions and transcripts."""
        return AsyncImages(self._records())

    @property
    def blobs(self) -> AsyncBlobs:
        """Blobs: bytes, each stored once under its hash."""
        return AsyncBlobs(ScopedBlobs(self._resources, self._scope))

    @property
    def graph(self) -> AsyncGraph:
        """Entities, their relations, and where they are mentioned."""
        return AsyncGraph(ScopedGraph(self._resources, self._scope))

    @property
    def knowledge(self) -> AsyncKnowledge:
        """Knowledge extracted from conversations, with its evidence, and the extraction jobs."""
        return AsyncKnowledge(self._records())

    @property
    def tiers(self) -> AsyncTieredMemory:
        """Memory in tiers: entries verbatim while in use, condensed when they are not."""
        return AsyncTieredMemory(self._records(in_tiers.CONTEXT))

    @property
    def windows(self) -> AsyncWindows:
        """The windows that agents were sent, step by step, if kept."""
        return AsyncWindows(self._records())

    @property
    def tables(self) -> AsyncInformationTables:
        """The store's content as tables of fixed names, read as Arrow."""
        return AsyncInformationTables(self._records())

    def vectors(
        self,
        collection: str = "default",
        *,
        embedder: Any = None,
        fields: Mapping[str, type] | None = None,
    ) -> AsyncVectors:
        """A collection of documents with vectors; it need not exist yet.

        `embedder` makes the vectors of this collection, in place of the store's embedder.

        `fields` declares keys of the metadata with their types, `str`, `int`, `float`, `bool` or
        `datetime`: each becomes a column with an index, so that filters on it need not read the
        metadata. The first write through the handle, or `maintain`, adds the columns and fills
        them; they stay for all handles. Writes through this one refuse a value of another type.
        Raises InvalidRequestError for another type than a field was declared with.
        """
        resources = self._resources.embedding_with(embedder)
        declared = declared_fields(fields, columns=DOCUMENT_FIELDS)
        return AsyncVectors(check_name(collection, "collection"), resources, self._scope, declared)

    def context(self, name: str = DEFAULT_CONTEXT) -> AsyncContext:
        """The record API over the records under `name`.

        History and memory write to the default context, so it contains their records too.
        """
        return AsyncContext(self._records(check_name(name, "name")))

    def kv(self, name: str = "default", *, embedder: Any = None) -> AsyncKeyValues:
        """Key-value items in namespaces, under `name`; it need not exist yet.

        `embedder` makes the vectors of their texts, in place of the store's embedder.
        """
        return AsyncKeyValues(
            check_name(name, "name"), self._resources.embedding_with(embedder), self._scope
        )

    @property
    def locks(self) -> AsyncLocks:
        """Locks between all users of the store, across branches and scopes."""
        return AsyncLocks(self._resources)

    @property
    def tasks(self) -> AsyncTaskStore:
        """Boards of tasks."""
        return AsyncTaskStore(self._resources, self._scope)

    @property
    def plans(self) -> AsyncPlans:
        """Plans of agents, each with its versions and tasks."""
        return AsyncPlans(self._resources, self._scope)

    @property
    def templates(self) -> AsyncTemplates:
        """Prompt templates with variables."""
        return AsyncTemplates(self._resources, self._scope)

    @property
    def state(self) -> AsyncShortTermState:
        """The state of agents during a session."""
        return AsyncShortTermState(self._resources, self._scope)

    @property
    def checkpoints(self) -> AsyncCheckpoints:
        """Checkpoints of agents."""
        return AsyncCheckpoints(self._resources, self._scope)

    def scope(
        self,
        *,
        tenant: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        bot_id: str | None = None,
    ) -> Self:
        """Returns a handle restricted to the data of that tenant, user and agent.

        `bot_id` is another name of `agent_id`. Scopes narrow: a scope of a scope has the parts of
        both. Raises InvalidRequestError for a part that already has another value.
        """
        agent = one_agent(agent_id, bot_id)
        scope = self._scope.narrow(tenant=tenant, user_id=user_id, agent_id=agent)
        return self._handle(self._resources, scope=scope)

    def writing_as(self, author: str) -> Self:
        """Returns a handle whose writes have that author; it sees the same data.

        A row's last writer is its `author`, which filters call `written_by`.
        """
        author = check_name(author, "author")
        return self._handle(replace(self._resources, author=author))

    # Helpers

    def _handle(self, resources: Resources, *, scope: Scope | None = None) -> Self:
        """Returns another handle of the store, which does not own it."""
        return type(self)(resources, scope=scope or self._scope, is_owner=False)

    def _records(self, context: str = DEFAULT_CONTEXT) -> Records:
        return Records(self._resources, self._scope, context)

    def _whole(self) -> Whole:
        return Whole(self._resources, self._scope)
