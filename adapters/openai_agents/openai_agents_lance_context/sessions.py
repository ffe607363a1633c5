"""The SDK's session over the store's history: a conversation that any process goes on with."""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from agents import FunctionTool, RunContextWrapper, TResponseInputItem, UserError
from agents.memory import SessionSettings
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

from lance_context_core import (
    AsyncContextStore,
    ConflictError,
    ContextRecord,
)
from lance_context_core.adapting import (
    Handle,
    HandleOwner,
    StoreLike,
    check_name,
    retried,
)
from lance_context_core.arguments import SearchArguments
from lance_context_core.results import SearchHit
from openai_agents_lance_context._conversation import Conversation, Snapshot
from openai_agents_lance_context._errors import as_user_errors
from openai_agents_lance_context._items import from_canonical, text_of, to_canonical
from openai_agents_lance_context._recall import recall_tool

Wrapper = RunContextWrapper[Any] | None


class LanceContextSession(HandleOwner):
    """A session of the store: `Runner.run(agent, "…", session=LanceSession("42", "memory"))`.

    - An item is stored when `add_items` returns, also if the process is killed after it, and reads
      back equal. Items added together are one commit; equal items are all kept.
    - Processes, threads and event loops may share one session: no item is lost, and all read one
      order. `pop_item` returns each item once.
    - Sessions of other frameworks read as items, and they read these: tool calls and their results
      are parts of messages there. A message of another framework may be several items here.

    Bad arguments raise the SDK's UserError before anything is written.
    """

    session_settings: SessionSettings | None
    """How many items are read if a call does not say it."""

    def __init__(
        self,
        session_id: str,
        store: StoreLike,
        *,
        user_id: str | None = None,
        tenant: str | None = None,
        agent_id: str = "",
        embedder: Any = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        scope_of: Callable[[RunContextWrapper[Any]], Mapping[str, str]] | None = None,
    ) -> None:
        """Wraps `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `user_id`, `tenant`: the owner of the session. Sessions of two users never meet, also if
          they have one id.
        - `agent_id`: the agent of the session; by default none, as in the other adapters.
        - `embedder`: for a store that is opened here, such as "local"; finds items by meaning.
        - `scope_of`: returns the owner of each run from its context, as keywords of `store.scope`,
          such as `{"user_id": wrapper.context.user}`. Calls outside a run must pass `wrapper` then.
        """
        with as_user_errors():
            self.session_id = check_name(session_id, "session_id")
            self.agent_id = check_name(agent_id, "agent_id") if agent_id else ""
            self._handle = Handle(store, embedder=embedder)
            self._store = self._handle.aio.scope(tenant=tenant, user_id=user_id)
        self._scope_of = scope_of
        self._compacted: list[str] = []
        self.session_settings = (
            SessionSettings()
            if session_settings is None
            else coerce_session_settings(session_settings)
        )

    # The session

    async def get_items(
        self, limit: int | None = None, *, wrapper: Wrapper = None
    ) -> list[TResponseInputItem]:
        """Returns the last `limit` items, oldest first; new dictionaries each time.

        None is the limit of `session_settings`, and without one all items. 0 returns none, and a
        negative number all. A limit may separate a call from its output.
        """
        limit = resolve_session_limit(limit, self.session_settings)
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise UserError(f"limit={limit!r:.80}: give a number of items, or None for the default")
        last = limit if limit is not None and limit >= 0 else None
        found = await self._conversation(wrapper).messages(last)
        items = [item for message in found for item in from_canonical(message)]
        return items[-last:] if last else items

    async def add_items(self, items: list[TResponseInputItem], *, wrapper: Wrapper = None) -> None:
        """Adds items at the end, all or none of them, in one commit.

        Raises UserError for an item that is no JSON, and StoreClosedError after `close`.
        """
        messages = to_canonical(items)
        if not messages:
            # Nothing to write, but an error if the store is closed.
            await self.get_items(0, wrapper=wrapper)
            return
        with as_user_errors():
            await self._scoped(wrapper).history.append_many(
                self.agent_id, messages, session_id=self.session_id
            )

    async def pop_item(self, *, wrapper: Wrapper = None) -> TResponseInputItem | None:
        """Removes the last item and returns it; None if the session is empty.

        The last item of another framework's message leaves the rest of that message in place.
        """
        return await retried(self._conversation(wrapper).pop, on=ConflictError)

    async def clear_session(self, *, wrapper: Wrapper = None) -> None:
        """Removes all items of the session, in one commit; older versions still contain them."""
        await self._scoped(wrapper).history.clear(self.agent_id, session_id=self.session_id)

    # Recall

    async def search(
        self, query: str, *, wrapper: Wrapper = None, **arguments: Unpack[SearchArguments]
    ) -> list[SearchHit[ContextRecord]]:
        """Returns what matches `query`, best first: of all sessions and memories of the user.

        Items of other agents and frameworks count, too; what a tool was called with does not.
        The arguments are those of `AsyncContextStore.search`, such as
        `filter={"session_id": "42"}`, or `{"kind": "message"}`. Without a user it searches all
        that the scope of the store contains.
        """
        with as_user_errors():
            return await self._scoped(wrapper).search(query, **arguments)

    def recall_tool(
        self, *, limit: int = 5, name: str = "recall", description: str | None = None
    ) -> FunctionTool:
        """Returns a tool with which an agent searches what the user said and what is remembered.

        It finds at most `limit` records of all sessions, except what the model of the run is given
        anyway, so that an agent has one tool for all sessions of a user. No argument of the tool
        selects a user: a prompt cannot reach another one's.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise UserError(f"limit={limit!r:.80}: give a number of records, 1 or more")

        async def find(
            wrapper: RunContextWrapper[Any], query: str
        ) -> list[SearchHit[ContextRecord]]:
            given = [text for item in wrapper.turn_input if (text := text_of(item))]
            unread = {"text": {"$nin": given}} if given else None
            return await self.search(query, limit=limit, filter=unread, wrapper=wrapper)

        return recall_tool(find, name=name, description=description)

    # Compaction: the SDK asks for these where a session has them.

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> Snapshot | None:
        """Returns the end of the session, for an automatic compaction of it."""
        if prune_prefix is not None or self._scope_of is not None:
            return None
        return await self._conversation(None).snapshot(limit)

    async def _read_compaction_items(
        self, limit: int | None
    ) -> tuple[list[TResponseInputItem], bool]:
        """Returns what `get_items` does, and whether that is all; notes what it was."""
        limit = resolve_session_limit(limit, self.session_settings)
        last = limit if limit is not None and limit >= 0 else None
        found = await self._conversation(None).messages(last)
        self._compacted = [str(message.id) for message in found]
        items = [item for message in found for item in from_canonical(message)]
        return items, last is None or len(found) < last

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        """Replaces the items that were read to be compacted; those of other writers stay."""
        await self._conversation(None).replace(self._compacted, items)
        return True

    # Helpers

    def _conversation(self, wrapper: Wrapper) -> Conversation:
        return Conversation(self._scoped(wrapper).history, self.agent_id, self.session_id)

    def _scoped(self, wrapper: Wrapper) -> AsyncContextStore:
        if self._scope_of is None:
            return self._store
        if wrapper is None:
            raise UserError("scope_of needs the context of a run: pass wrapper=...")
        with as_user_errors():
            return self._store.scope(**self._scope_of(wrapper))


LanceSession = LanceContextSession
"""The same class, by a shorter name."""
