"""States of agents of agentscope 2.x in the store; their conversations are the store's history."""

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentscope_lance_context._checks import check_seconds
from agentscope_lance_context._handles import UserHandle
from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context._places import AGENT_STATES
from agentscope_lance_context.agentscope2._framework import AgentState
from agentscope_lance_context.agentscope2._messages import (
    from_canonical,
    is_own,
    to_canonical,
)
from lance_context_core import AsyncContextStore, Field, InvalidRequestError, Item, Message
from lance_context_core.adapting import StoreLike
from lance_context_core.arguments import ItemKey

_BEYOND = 64
"""How many messages more than it refers to are read at first with a state."""


class LanceContextAgentStateStore(StoreOwner):
    """The state of each agent in each session of a user.

    The conversation of a session is in the history of the store, where other frameworks read it and
    go on with it; what is summarised away in the state stays there. A state has no copy of it: what
    is forgotten or erased there is in no state any more.
    """

    _handle: UserHandle

    def __init__(
        self,
        store: StoreLike,
        *,
        ttl_seconds: float | None = None,
        embedder: Any = None,
        name: str = AGENT_STATES.name,
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

        The conversation is written first: cut short in between, the call may be repeated. What
        another framework wrote of it stays as that wrote it, unless the agent has changed it. Raises
        InvalidRequestError, before anything is written, for a state that is not JSON.
        """
        encoded = _encoded(state)
        key = _key(state.session_id, agent_id)
        talk, data = await asyncio.to_thread(_taken_apart, encoded)
        store = self._handle.of(user_id)
        (known,) = await store.kv(self._name).get([key], include_data=False)
        before = (known.value or {}) if known is not None else {}
        written = before.get("messages", {})
        await self._write(store, talk, written, session_id=state.session_id, agent_id=agent_id)
        value = {
            "messages": {one.id: one.digest for one in talk},
            "last": talk[-1].id if talk else before.get("last"),
        }
        item = Item(
            namespace=key[0],
            key=key[1],
            value=value,
            data=data,
            data_type="application/json",
            expires_at=None if self._ttl is None else self._handle.now() + self._ttl,
        )
        await store.kv(self._name).put([item])

    async def load(
        self, session_id: str, *, user_id: str = "", agent_id: str = ""
    ) -> AgentState | None:
        """The state that was saved, with what others have added to its conversation since.

        Without one a state with the conversation that others had in the session. None if there is
        neither, and where the conversation of a state was forgotten.
        """
        key = _key(session_id, agent_id)
        store = self._handle.of(user_id)
        (item,) = await store.kv(self._name).get([key])
        if item is None or item.data is None:
            talk = await store.history.get_messages(agent_id, session_id=session_id)
            context = await asyncio.to_thread(lambda: [from_canonical(one) for one in talk])
            return AgentState(session_id=session_id, context=context) if context else None
        if self._ttl is not None:
            await store.kv(self._name).touch([key], expires_at=self._handle.now() + self._ttl)
        known = item.value or {}
        talk = await _talk(store, known, session_id=session_id, agent_id=agent_id)
        if known.get("messages") and not talk:
            return None
        return await asyncio.to_thread(_put_together, item.data, talk, known)

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
        keys = await items.keys(namespace=AGENT_STATES.namespace(agent_id), order="created")
        return [session_id for _, session_id in keys]

    @staticmethod
    async def _write(
        store: AsyncContextStore,
        talk: "list[_Said]",
        written: Mapping[str, str],
        *,
        session_id: str,
        agent_id: str,
    ) -> None:
        """Bring the conversation up to date: what has grown is written anew, with what follows."""
        first = _first_changed(talk, written)
        if first is None:
            return
        of_rest = Field("id").is_in([one.id for one in talk[first:]])
        found = await store.history.get_messages(agent_id, session_id=session_id, filter=of_rest)
        foreign = {one.id: one for one in found if one.id and not is_own(one)}
        kept = {one.id: one.digest for one in talk if _is_kept(one, foreign.get(one.id))}
        first = _first_changed(talk, {**written, **kept})
        if first is None:
            return
        rest = talk[first:]
        await store.history.replace(
            agent_id,
            [foreign[one.id] if one.id in kept else one.message for one in rest],
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


async def _talk(
    store: AsyncContextStore, known: Mapping[str, Any], *, session_id: str, agent_id: str
) -> list[Message]:
    """The end of a conversation, with all that a state refers to, as far as it is there."""
    wanted = {*known.get("messages", {}), *filter(None, [known.get("last")])}
    n = len(wanted) + _BEYOND
    while True:
        talk = await store.history.get_messages(agent_id, session_id=session_id, last=n)
        if len(talk) < n or wanted <= {one.id for one in talk}:
            return talk
        n *= 4


def _taken_apart(encoded: bytes) -> tuple[list[_Said], bytes]:
    """The conversation in a state, and the state with references in its place.

    What nobody said is not part of the conversation, and stays in the state.
    """
    state = json.loads(encoded)
    found: dict[str, _Said] = {}
    context: list[Any] = []
    for one in state["context"]:
        if one["content"] and all(block["type"] == "hint" for block in one["content"]):
            context.append(one)
            continue
        id = one["id"]
        # A reply that a hint cuts in two has the same id twice.
        number = 1
        while id in found:
            number += 1
            id = f"{one['id']}:{number}"
        digest = hashlib.sha256(json.dumps(one).encode()).hexdigest()[:16]
        found[id] = _Said(id=id, digest=digest, message=to_canonical(one, id=id))
        context.append(id)
    return [*found.values()], json.dumps({**state, "context": context}).encode()


def _put_together(data: bytes, talk: Sequence[Message], known: Mapping[str, Any]) -> AgentState:
    """The state with its conversation, without what was forgotten, with what others have added."""
    state = json.loads(data)
    by_id = {one.id: one for one in talk}
    old = [n for n, one in enumerate(talk) if one.id in {*known["messages"], known["last"]}]
    added = talk[old[-1] + 1 :] if old else talk
    said = [
        _dumped(by_id[one]) if isinstance(one, str) else one
        for one in state["context"]
        if not isinstance(one, str) or one in by_id
    ]
    context = [*said, *map(_dumped, added)]
    return AgentState.model_validate_json(json.dumps({**state, "context": context}).encode())


def _dumped(message: Message) -> Any:
    return from_canonical(message).model_dump(mode="json")


def _first_changed(talk: Sequence[_Said], written: Mapping[str, str]) -> int | None:
    """Where the conversation is another than what was written; None if nowhere."""
    return next((n for n, one in enumerate(talk) if written.get(one.id) != one.digest), None)


def _is_kept(one: _Said, foreign: Message | None) -> bool:
    """Whether a message says what it was made of, which another framework wrote."""
    if foreign is None:
        return False
    made = to_canonical(_dumped(foreign), id=one.id)
    return (made.role, made.name, made.parts) == (
        one.message.role,
        one.message.name,
        one.message.parts,
    )


def _key(session_id: str, agent_id: str) -> ItemKey:
    if not isinstance(session_id, str) or not session_id:
        raise InvalidRequestError(f"session_id={session_id!r:.80}: give it a name")
    return AGENT_STATES.key(session_id, agent_id)


def _encoded(state: AgentState) -> bytes:
    if not isinstance(state, AgentState):
        raise InvalidRequestError(f"state is {state!r:.80}: give an AgentState")
    try:
        return state.model_dump_json().encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidRequestError(f"the state holds something that JSON cannot: {error}") from error
