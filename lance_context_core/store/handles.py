"""The stores of one handle: what it hands out, each with no more than belongs to its scope."""

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
    """What a handle of a place hands out."""

    def __init__(
        self, resources: Resources, *, scope: Scope | None = None, is_owner: bool = True
    ) -> None:
        """Use `open`; who does not own the resources does not close them."""
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
        """What is known about conversations, beside their messages."""
        return AsyncSessions(self._records())

    @property
    def documents(self) -> AsyncDocuments:
        """Files that were read, and the passages in them."""
        return AsyncDocuments(ScopedDocuments(self._resources, self._scope))

    @property
    def images(self) -> AsyncImages:
        """Pictures, recordings and films, and what is said of them."""
        return AsyncImages(self._records())

    @property
    def blobs(self) -> AsyncBlobs:
        """Bytes, each kept once under the hash of them."""
        return AsyncBlobs(ScopedBlobs(self._resources, self._scope))

    @property
    def graph(self) -> AsyncGraph:
        """Entities, what relates them, and where they are spoken of."""
        return AsyncGraph(ScopedGraph(self._resources, self._scope))

    @property
    def knowledge(self) -> AsyncKnowledge:
        """What is known of what was said, with its evidence, and the jobs that make it."""
        return AsyncKnowledge(self._records())

    @property
    def tiers(self) -> AsyncTieredMemory:
        """What is kept at hand in its own words, or further off in a few, as it is used."""
        return AsyncTieredMemory(self._records(in_tiers.CONTEXT))

    @property
    def windows(self) -> AsyncWindows:
        """What agents were shown, step by step, where it was kept."""
        return AsyncWindows(self._records())

    @property
    def tables(self) -> AsyncInformationTables:
        """What the store holds, as tables of fixed names, to be read as Arrow."""
        return AsyncInformationTables(self._records())

    def vectors(self, collection: str = "default", *, embedder: Any = None) -> AsyncVectors:
        """A collection of documents with vectors; it need not exist yet.

        `embedder` makes the vectors of this collection, where it is another than the store's.
        """
        resources = self._resources.embedding_with(embedder)
        return AsyncVectors(check_name(collection, "collection"), resources, self._scope)

    def context(self, name: str = DEFAULT_CONTEXT) -> AsyncContext:
        """The record API over the records kept under `name`.

        The default context is where history and memory write, so it shows them too.
        """
        return AsyncContext(self._records(check_name(name, "name")))

    def kv(self, name: str = "default", *, embedder: Any = None) -> AsyncKeyValues:
        """Key-value items in namespaces, kept under `name`; there need not be any yet.

        `embedder` makes the vectors of their texts, where it is another than the store's.
        """
        return AsyncKeyValues(
            check_name(name, "name"), self._resources.embedding_with(embedder), self._scope
        )

    @property
    def locks(self) -> AsyncLocks:
        """Locks between all that share the store; the same on all branches and in all scopes."""
        return AsyncLocks(self._resources)

    @property
    def tasks(self) -> AsyncTaskStore:
        """Boards of what is to be done."""
        return AsyncTaskStore(self._resources, self._scope)

    @property
    def plans(self) -> AsyncPlans:
        """What agents mean to do, each plan with its versions and tasks."""
        return AsyncPlans(self._resources, self._scope)

    @property
    def templates(self) -> AsyncTemplates:
        """Prompts with variables."""
        return AsyncTemplates(self._resources, self._scope)

    @property
    def state(self) -> AsyncShortTermState:
        """What agents keep in mind during a session."""
        return AsyncShortTermState(self._resources, self._scope)

    @property
    def checkpoints(self) -> AsyncCheckpoints:
        """Where each agent stood."""
        return AsyncCheckpoints(self._resources, self._scope)

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
        scope = self._scope.narrow(tenant=tenant, user_id=user_id, agent_id=agent)
        return self._handle(self._resources, scope=scope)

    def writing_as(self, author: str) -> Self:
        """A handle through which that author writes; what it sees is the same.

        Who wrote a thing last is its `author`, which filters call `written_by`.
        """
        author = check_name(author, "author")
        return self._handle(replace(self._resources, author=author))

    # Helpers

    def _handle(self, resources: Resources, *, scope: Scope | None = None) -> Self:
        """Another handle of the store, which does not own it."""
        return type(self)(resources, scope=scope or self._scope, is_owner=False)

    def _records(self, context: str = DEFAULT_CONTEXT) -> Records:
        return Records(self._resources, self._scope, context)

    def _whole(self) -> Whole:
        return Whole(self._resources, self._scope)
