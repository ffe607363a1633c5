"""States of agents of agentscope 2.x in the store, and the conversations in them for everybody."""

import asyncio
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from agentscope_lance_context._checks import check_seconds
from agentscope_lance_context._handles import UserHandle
from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context.agentscope2._framework import AgentState
from agentscope_lance_context.agentscope2._messages import from_canonical, to_canonical
from lance_context_core import AsyncContextStore, Field, InvalidRequestError, Item, ItemKey, Message
from lance_context_core.adapting import StoreLike


class LanceContextAgentStateStore(StoreOwner):
    """The state of each agent in each session of a user.

    The conversation of a session is beside it in the history of the store, where other frameworks
    read it; what is summarised away in the state stays there.
    """

    _handle: UserHandle

    def __init__(
        self,
        store: StoreLike,
        *,
        ttl_seconds: float | None = None,
        embedder: Any = None,
        name: str = "agentscope_agent_states",
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `ttl_seconds`: how long after it was last saved or loaded a state is kept; absent means for
          ever. The conversation stays.
        - `embedder`: for a URI, what makes the vectors; see `AsyncContextStore.open`.
        - `name`: what the store calls the states, which are `store.kv(name)`.
        """
        self._handle = UserHandle(store, embedder=embedder)
        self._ttl = check_seconds(ttl_seconds, "ttl_seconds")
        self._name = name

    async def save(self, state: AgentState, *, user_id: str = "", agent_id: str = "") -> None:
        """Keep the state of an agent in its session, in the place of what is there.

        The conversation is written first: cut short in between, the call may be repeated. Raises
        InvalidRequestError, before anything is written, for a state that is not JSON.
        """
        data = _encoded(state)
        key = _key(state.session_id, agent_id)
        talk = await asyncio.to_thread(_conversation, data)
        store = self._handle.of(user_id)
        (known,) = await store.kv(self._name).get([key], include_data=False)
        written = (known.value or {}).get("messages", {}) if known is not None else {}
        await self._write(store, talk, written, session_id=state.session_id, agent_id=agent_id)
        item = Item(
            namespace=key[0],
            key=key[1],
            value={"messages": {one.id: one.digest for one in talk}},
            data=data,
            data_type="application/json",
            expires_at=None if self._ttl is None else self._handle.now() + self._ttl,
        )
        await store.kv(self._name).put([item])

    async def load(
        self, session_id: str, *, user_id: str = "", agent_id: str = ""
    ) -> AgentState | None:
        """The state that was saved; else one with the conversation that others had in the session.

        None if there is neither.
        """
        key = _key(session_id, agent_id)
        store = self._handle.of(user_id)
        (item,) = await store.kv(self._name).get([key])
        if item is None or item.data is None:
            found = await store.history.get_messages(agent_id, session_id=session_id)
            context = await asyncio.to_thread(lambda: [from_canonical(one) for one in found])
            return AgentState(session_id=session_id, context=context) if context else None
        if self._ttl is not None:
            await store.kv(self._name).touch([key], expires_at=self._handle.now() + self._ttl)
        return await asyncio.to_thread(AgentState.model_validate_json, item.data)

    async def delete(self, session_id: str, *, user_id: str = "", agent_id: str = "") -> bool:
        """Forget the state and the conversation; returns whether there was anything to forget."""
        key = _key(session_id, agent_id)
        store = self._handle.of(user_id)
        n_messages = await store.history.clear(agent_id, session_id=session_id)
        (existed,) = await store.kv(self._name).delete([key])
        return existed or n_messages > 0

    async def session_ids(self, *, user_id: str = "", agent_id: str = "") -> list[str]:
        """The sessions of which an agent has a state, in the order in which they were first saved."""
        items = self._handle.of(user_id).kv(self._name)
        keys = await items.keys(namespace=(agent_id,), order="created")
        return [session_id for _, session_id in keys]

    @staticmethod
    async def _write(
        store: AsyncContextStore,
        talk: "list[_Said]",
        written: dict[str, str],
        *,
        session_id: str,
        agent_id: str,
    ) -> None:
        """Bring the conversation up to date: what has grown is written anew, with what follows."""
        changed = [n for n, one in enumerate(talk) if written.get(one.id) != one.digest]
        if changed:
            rest = talk[changed[0] :]
            await store.history.replace(
                agent_id,
                [one.message for one in rest],
                session_id=session_id,
                filter=Field("id").is_in([one.id for one in rest]),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """A message of a conversation, under an id that no other has there."""

    id: str
    digest: str
    """The same for the same message."""
    message: Message


def _conversation(data: bytes) -> list[_Said]:
    """The messages in a state, without those that nobody said."""
    found: dict[str, _Said] = {}
    for one in json.loads(data)["context"]:
        if one["content"] and all(block["type"] == "hint" for block in one["content"]):
            continue
        id = one["id"]
        # A reply that a hint cuts in two has the same id twice.
        number = 1
        while id in found:
            number += 1
            id = f"{one['id']}:{number}"
        digest = hashlib.sha256(json.dumps(one).encode()).hexdigest()[:16]
        found[id] = _Said(id=id, digest=digest, message=to_canonical(one, id=id))
    return [*found.values()]


def _key(session_id: str, agent_id: str) -> ItemKey:
    if not isinstance(session_id, str) or not session_id:
        raise InvalidRequestError(f"session_id={session_id!r:.80}: give it a name")
    return (agent_id,), session_id


def _encoded(state: AgentState) -> bytes:
    if not isinstance(state, AgentState):
        raise InvalidRequestError(f"state is {state!r:.80}: give an AgentState")
    try:
        return state.model_dump_json().encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidRequestError(f"the state holds something that JSON cannot: {error}") from error
