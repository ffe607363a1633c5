"""Several writes to a store, all or nothing."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from lance_context_core._handle import place_and_scope
from lance_context_core._resources import Resources
from lance_context_core.coordination.checkpoints import AsyncCheckpoints
from lance_context_core.coordination.plans import AsyncPlans
from lance_context_core.coordination.state import AsyncShortTermState
from lance_context_core.coordination.tasks import AsyncTaskStore
from lance_context_core.coordination.templates import AsyncTemplates
from lance_context_core.errors import InvalidRequestError
from lance_context_core.graph.graph import AsyncGraph
from lance_context_core.scope import Scope
from lance_context_core.storage.transaction import WriteTransaction
from lance_context_core.storage.transaction_tables import TransactionDatabase
from lance_context_core.store.handles import DEFAULT_CONTEXT, AsyncStores
from lance_context_core.stores.history import AsyncHistory
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.stores.memory import AsyncMemory
from lance_context_core.stores.records.context import AsyncContext
from lance_context_core.stores.records.mappings import one_agent
from lance_context_core.stores.sessions import AsyncSessions
from lance_context_core.stores.vectors import AsyncVectors


class AsyncTransaction:
    """The stores of one transaction; made by `store.transaction()`, and used inside its block.

    The stores are those of the handle that began it, with its scope, branch and author. Each call
    checks and embeds its input, and raises as it would outside; nothing is written before the block
    ends.
    """

    def __init__(
        self,
        resources: Resources,
        scope: Scope,
        *,
        written: WriteTransaction | None = None,
        stores: AsyncStores | None = None,
    ) -> None:
        """Use `store.transaction()`."""
        self._resources = resources
        self._scope = scope
        self._written = written
        self._stores = stores

    # Its block

    async def __aenter__(self) -> Self:
        (await self._begin()).enter(asyncio.current_task())
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        written = self._of_block()
        try:
            if kind is None:
                await written.commit()
        finally:
            written.leave()

    # Its stores

    @property
    def history(self) -> AsyncHistory:
        """As `AsyncContextStore.history`."""
        return self._inside.history

    @property
    def memory(self) -> AsyncMemory:
        """As `AsyncContextStore.memory`."""
        return self._inside.memory

    @property
    def sessions(self) -> AsyncSessions:
        """As `AsyncContextStore.sessions`."""
        return self._inside.sessions

    @property
    def graph(self) -> AsyncGraph:
        """As `AsyncContextStore.graph`."""
        return self._inside.graph

    @property
    def tasks(self) -> AsyncTaskStore:
        """As `AsyncContextStore.tasks`."""
        return self._inside.tasks

    @property
    def plans(self) -> AsyncPlans:
        """As `AsyncContextStore.plans`."""
        return self._inside.plans

    @property
    def templates(self) -> AsyncTemplates:
        """As `AsyncContextStore.templates`."""
        return self._inside.templates

    @property
    def state(self) -> AsyncShortTermState:
        """As `AsyncContextStore.state`."""
        return self._inside.state

    @property
    def checkpoints(self) -> AsyncCheckpoints:
        """As `AsyncContextStore.checkpoints`."""
        return self._inside.checkpoints

    def vectors(
        self,
        collection: str = "default",
        *,
        embedder: Any = None,
        fields: Mapping[str, type] | None = None,
    ) -> AsyncVectors:
        """As `AsyncContextStore.vectors`."""
        return self._inside.vectors(collection, embedder=embedder, fields=fields)

    def kv(self, name: str = "default", *, embedder: Any = None) -> AsyncKeyValues:
        """As `AsyncContextStore.kv`."""
        return self._inside.kv(name, embedder=embedder)

    def context(self, name: str = DEFAULT_CONTEXT) -> AsyncContext:
        """As `AsyncContextStore.context`."""
        return self._inside.context(name)

    def scope(
        self,
        *,
        tenant: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        bot_id: str | None = None,
    ) -> Self:
        """The stores of the same transaction in a narrower scope. See `AsyncContextStore.scope`.

        One transaction writes for one user of one tenant, plus rows that belong to no user. Raises
        InvalidRequestError for a row of a second one.
        """
        agent = one_agent(agent_id, bot_id)
        scope = self._scope.narrow(tenant=tenant, user_id=user_id, agent_id=agent)
        inside = self._inside.scope(tenant=tenant, user_id=user_id, agent_id=agent)
        return type(self)(self._resources, scope, written=self._written, stores=inside)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({place_and_scope(self._resources, self._scope)})"

    # Helpers

    async def _begin(self) -> WriteTransaction:
        """Returns the write transaction that the block enters."""
        if self._written is not None:
            raise InvalidRequestError(
                "a transaction has one block: begin another one with store.transaction()"
            )
        database = self._resources.writable()
        connection = database.connection
        policy = None if connection.journal is None else await connection.journal.policy()
        if policy is None:
            raise InvalidRequestError(
                f"a transaction needs a write-ahead log, which {database.uri!r} does not have: open a "
                "store in a local directory with journal=JournalPolicy(), which is the default there. "
                "Nothing was written"
            )
        self._written = WriteTransaction(connection.place, policy)
        inside = replace(
            self._resources, database=TransactionDatabase(database, self._written), hot=None
        )
        self._stores = AsyncStores(inside, scope=self._scope, is_owner=False)
        return self._written

    def _of_block(self) -> WriteTransaction:
        if self._written is None:
            raise InvalidRequestError(
                "the transaction has not begun: use it in the block of "
                "`async with store.transaction() as tx:`"
            )
        return self._written

    @property
    def _inside(self) -> AsyncStores:
        self._of_block().require_open()
        assert self._stores is not None
        return self._stores
