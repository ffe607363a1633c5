"""The framework's history provider over the store's history."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from agent_framework import HistoryProvider, Message

from agent_framework_lance_context._errors import RefusedError, as_integration_errors, scoped
from agent_framework_lance_context._messages import (
    Form,
    forms_of,
    from_canonical,
    n_bytes,
    to_canonical,
    to_forms,
)
from agent_framework_lance_context._replays import n_replayed, own_id
from lance_context_core import AlreadyExistsError
from lance_context_core import Message as Canonical
from lance_context_core.adapting import (
    Handle,
    HandleOwner,
    StoreLike,
    beside_the_loop,
    check_name,
    encodable,
    listed,
)

_NO_SESSION = "(no session)"
"""The session of calls without one. No other may have this name."""


class LanceHistoryProvider(HandleOwner, HistoryProvider):
    """The messages of sessions: `Agent(client, context_providers=[LanceHistoryProvider("memory")])`.

    - A turn is stored when the run returns, in one commit, also if the process is killed after it,
      and reads back equal. Processes, threads and event loops may share a session.
    - A caller may pass a whole transcript again: only what is new is stored. A user's second "yes"
      is new.
    - Sessions of other frameworks read as messages, and they read these: tool calls and their
      results are parts there.

    Arguments that cannot be right raise IntegrationInvalidRequestException, which is also a
    ValueError, before anything is written.
    """

    DEFAULT_SOURCE_ID: ClassVar[str] = "lance_history"

    def __init__(
        self,
        store: StoreLike,
        *,
        source_id: str = DEFAULT_SOURCE_ID,
        user_id: str | None = None,
        tenant: str | None = None,
        agent_id: str | None = None,
        embedder: Any = None,
        max_messages: int | None = None,
        skip_excluded: bool = False,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `aclose` closes again.

        - `source_id`: two providers of one agent, such as one for an audit, have different ones,
          and share no message.
        - `user_id`, `tenant`: the owner of the sessions. Those of two users never meet, also if
          they have one id.
        - `agent_id`: the agent of the messages in `store.history`; by default none, as in the
          adapters of other frameworks. A `source_id` of your own is appended to it.
        - `embedder`: for a store that is opened here, such as "local"; finds messages by meaning.
        - `max_messages`: loads at most the last ones, without results of calls that are not among
          them; 0 loads none. The store keeps all.
        - `skip_excluded`: does not load messages that a compaction strategy has marked as excluded.
        - The others are those of `HistoryProvider`.
        """
        with as_integration_errors():
            super().__init__(
                check_name(source_id, "source_id"),
                load_messages=load_messages,
                store_inputs=store_inputs,
                store_context_messages=store_context_messages,
                store_context_from=store_context_from,
                store_outputs=store_outputs,
            )
            if max_messages is not None and not _is_count(max_messages):
                raise RefusedError(
                    f"max_messages={max_messages!r:.80}: give a number of messages, 0 or more"
                )
            self._handle = Handle(store, embedder=embedder)
            self._agent = self._agent_of(agent_id)
        self._store = scoped(self._handle, tenant=tenant, user_id=user_id)
        self.max_messages = max_messages
        self.skip_excluded = skip_excluded

    async def get_messages(self, session_id: str | None, **_: Any) -> list[Message]:
        """Returns the messages of a session in order, or the last `max_messages`; new ones.

        An unknown session has none. None is a session of its own. The state is not read.
        """
        stored = await self._stored(session_id, self.max_messages)
        messages = await beside_the_loop(lambda: from_canonical(stored), n_bytes=n_bytes(stored))
        if self.max_messages is not None:
            messages = _with_calls(messages)
        if self.skip_excluded:
            return [one for one in messages if not one.additional_properties.get("_excluded")]
        return messages

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        **_: Any,
    ) -> None:
        """Adds the messages that are new at the end of a session, all or none, in one commit.

        What the session ends with already, in the same order, at the start of `messages` is left
        out, and any message whose id is there. The state is not written.
        """
        with as_integration_errors():
            given = listed(messages, "messages")
        if not given:
            return
        forms = to_forms(given)
        ids = _ids(forms)
        made = to_canonical(forms, ids)
        end = forms_of(await self._stored(session_id, len(forms)))
        await self._add(session_id, made[n_replayed(end, forms) :])

    async def clear(self, session_id: str | None) -> int:
        """Removes the messages of a session; returns their number. Older versions contain them."""
        with as_integration_errors():
            return await self._store.history.clear(self._agent, session_id=_name(session_id))

    # Helpers

    async def _stored(self, session_id: str | None, last: int | None) -> list[Canonical]:
        if last == 0:
            return []
        with as_integration_errors():
            return await self._store.history.get_messages(
                self._agent, session_id=_name(session_id), last=last
            )

    async def _add(self, session_id: str | None, messages: Sequence[Canonical]) -> None:
        """Adds messages; without its id where another message of the session has it."""
        if not messages:
            return
        history, where = self._store.history, dict[str, Any](session_id=_name(session_id))
        with as_integration_errors():
            try:
                await history.append_many(self._agent, messages, **where)
            except AlreadyExistsError:
                ids = [one.id for one in messages if one.id is not None]
                found = await history.get_messages(
                    self._agent, filter={"id": {"$in": ids}}, **where
                )
                others = {one.id: _content(one) for one in found}
                named = [
                    one
                    if _content(one) == others.get(one.id, _content(one))
                    else replace(one, id=None)
                    for one in messages
                ]
                await history.append_many(self._agent, named, **where)

    def _agent_of(self, agent_id: str | None) -> str:
        own = self._handle.scope.agent_id or "" if agent_id is None else agent_id
        if own:
            check_name(own, "agent_id")
        if self.source_id == self.DEFAULT_SOURCE_ID:
            return own
        agent = f"{own}/{self.source_id}" if own else self.source_id
        if self._handle.scope.agent_id is not None:
            raise RefusedError(
                f"source_id={self.source_id!r:.80} needs an agent of its own, and the store is the "
                f"scope of agent {self._handle.scope.agent_id!r}: give the store without an agent, "
                "and agent_id"
            )
        return agent


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _name(session_id: str | None) -> str:
    if session_id is None:
        return _NO_SESSION
    if session_id == _NO_SESSION:
        raise RefusedError(f"session_id={session_id!r} is the name of calls without a session")
    return check_name(session_id, "session_id")


def _ids(forms: Sequence[Form]) -> list[str | None]:
    """Returns the ids of messages; None for one that cannot be an id here, or was one before."""
    ids: list[str | None] = []
    for form in forms:
        id = own_id(form)
        is_usable = id is not None and "\0" not in id and encodable(id) == id and id not in ids
        ids.append(id if is_usable else None)
    return ids


def _content(message: Canonical) -> tuple[object, ...]:
    return message.role, message.name, message.parts


def _with_calls(messages: Sequence[Message]) -> list[Message]:
    """Returns the messages without those at the start that answer calls which are not among them."""
    for start, message in enumerate(messages):
        if message.role != "tool":
            return [*messages[start:]]
    return []
