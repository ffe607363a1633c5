"""States of agents of agentscope 2.x in the store; their conversations are the store's history."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

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
from lance_context_core.errors import AlreadyExistsError

T = TypeVar("T")

_BEYOND = 64
"""Number of further messages that the first read of a state includes."""
_SHORT = 256 * 1024
"""Maximum bytes of a state that is parsed or built in the event loop's thread."""


class LanceContextAgentStateStore(StoreOwner):
    """The state of each agent in each session of a user.

    The conversation of a session is in the store's history, where other frameworks read and
    continue it; messages that the state has summarised stay there. A state has no copy of it:
    deleted or erased messages are in no state.
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

        - `ttl_seconds`: lifetime of a state after its last save or load; absent means for ever. The
          conversation stays.
        - `embedder`: for a store at a URI; see `AsyncContextStore.open`.
        - `name`: of the states, which are `store.kv(name)`.
        """
        self._handle = UserHandle(store, embedder=embedder)
        self._ttl = check_seconds(ttl_seconds, "ttl_seconds")
        self._name = name

    async def save(self, state: AgentState, *, user_id: str = "", agent_id: str = "") -> None:
        """Save the state of an agent in its session, replacing the saved one.

        The conversation is written first, so that an interrupted call can be repeated. New messages
        are appended; a changed message, such as a reply that grew, is rewritten, with later ones.
        Another framework's messages stay unchanged, unless the agent changed them. Raises
        InvalidRequestError, before anything is written, for a state that is not JSON.
        """
        saved = await _in_time(_taken_apart, _encoded(state))
        key = _key(state.session_id, agent_id)
        store = self._handle.of(user_id)
        items = store.kv(self._name)
        (known,) = await items.get([key], include_data=False)
        before = None if known is None else _Mark.of(known)
        talk = _Talk(store, session_id=state.session_id, agent_id=agent_id)
        mark = await talk.appended(saved.said, before) or await talk.rewritten(saved.said, before)
        item = Item(
            namespace=key[0],
            key=key[1],
            value=mark.value(),
            data=saved.data,
            data_type="application/json",
            expires_at=None if self._ttl is None else self._handle.now() + self._ttl,
        )
        await items.put([item])

    async def load(
        self, session_id: str, *, user_id: str = "", agent_id: str = ""
    ) -> AgentState | None:
        """The saved state, with messages that others added since.

        Without one, a state with the session's conversation by others. None without either, or if
        the conversation of a state was deleted.
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
        mark = _Mark.of(item)
        talk = await _Talk(store, session_id=session_id, agent_id=agent_id).read(mark)
        if mark.n and not talk:
            return None
        return await _in_time(_put_together, item.data, mark.shown(talk))

    async def delete(self, session_id: str, *, user_id: str = "", agent_id: str = "") -> bool:
        """Deletes the state and the conversation; returns whether it existed."""
        key = _key(session_id, agent_id)
        store = self._handle.of(user_id)
        n_messages = await store.history.clear(agent_id, session_id=session_id)
        (existed,) = await store.kv(self._name).delete([key])
        return existed or n_messages > 0

    async def session_ids(self, *, user_id: str = "", agent_id: str = "") -> list[str]:
        """The sessions with a state of an agent, in the order of their first save."""
        items = self._handle.of(user_id).kv(self._name)
        keys = await items.keys(namespace=AGENT_STATES.namespace(agent_id), order="created")
        return [session_id for _, session_id in keys]


@dataclass(frozen=True, kw_only=True)
class _Said:
    """A message of a conversation, under an id that is unique there."""

    id: str
    raw: bytes
    """A stable id for a message."""

    @cached_property
    def message(self) -> Message:
        """The canonical message. Raises InvalidRequestError for one that cannot be stored."""
        return to_canonical(json.loads(self.raw), id=self.id)


class _Saved(NamedTuple):
    """A state to save."""

    said: list[_Said]
    """The conversation in it."""
    data: bytes
    """The rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """The part of a conversation in a state: all after one message, others' included."""

    n: int = 0
    """Number of the conversation's messages in the state."""
    digest: str = ""
    """Of these messages; absent for a state of an earlier release."""
    after: str | None = None
    """The message before the first of them; absent without one."""
    first: str | None = None
    last: str | None = None
    """The last message that the state contained."""
    without: Sequence[str] = ()
    """Those after the first that the state lacks."""
    known: Collection[str] = ()
    """All of the state's messages, in a state of an earlier release."""

    @classmethod
    def of(cls, item: Item) -> "_Mark":
        """The range of a saved state."""
        value = dict(item.value or {})
        if "messages" in value:
            known, last = value["messages"], value.get("last")
            after = None if known else last
            return cls(n=len(known), after=after, last=last, known=frozenset(known))
        return cls(**value)

    def value(self) -> dict[str, Any]:
        """Its stored form, of constant size for any length of the conversation."""
        kept = {
            "n": self.n,
            "digest": self.digest,
            "after": self.after,
            "first": self.first,
            "last": self.last,
            "without": [*self.without],
        }
        return {name: value for name, value in kept.items() if value}

    def shown(self, talk: Sequence[Message]) -> list[Message]:
        """The state's messages at the end of a conversation, and those that others added."""
        ids = [one.id for one in talk]
        if self.known:
            old = {*self.known, self.last}
            end = max((place for place, id in enumerate(ids) if id in old), default=-1)
            pairs = enumerate(talk)
            return [one for place, one in pairs if place > end or one.id in self.known]
        gone = {*self.without}
        return [one for one in talk[self._start(ids) :] if one.id not in gone]

    def _start(self, ids: Sequence[str | None]) -> int:
        if self.after in ids:
            return ids.index(self.after) + 1
        if self.first in ids:
            return ids.index(self.first)
        if self.after is None:
            return 0
        # Both were deleted: it began about as many messages before its last one.
        end = ids.index(self.last) + 1 if self.last in ids else len(ids)
        return max(0, end - self.n)


class _Talk:
    """The conversation of one session, in the history of the store."""

    def __init__(self, store: AsyncContextStore, *, session_id: str, agent_id: str) -> None:
        self._history = store.history
        self._agent_id, self._session_id = agent_id, session_id

    async def read(self, mark: _Mark) -> list[Message]:
        """The end of it, with all existing messages of a state."""
        if mark.known:
            wanted = {*mark.known, *filter(None, [mark.last])}
            return await self._end(mark.n, wanted.issubset)
        borders = {mark.after, mark.first} - {None}
        return await self._end(mark.n, lambda ids: not borders.isdisjoint(ids))

    async def appended(self, said: Sequence[_Said], before: _Mark | None) -> _Mark | None:
        """Appends new messages if nothing else changed; None otherwise."""
        if before is None or before.known or len(said) < before.n:
            return None
        digest = hashlib.sha256()
        for one in said[: before.n]:
            digest.update(one.raw)
        if before.n and digest.hexdigest() != before.digest:
            return None
        new = said[before.n :]
        if new:
            try:
                await self._append(new)
            except AlreadyExistsError:
                return None  # Others wrote it, or a call that was cut short.
        for one in new:
            digest.update(one.raw)
        return replace(
            before,
            n=len(said),
            digest=digest.hexdigest(),
            first=before.first or (said[0].id if said else None),
            last=new[-1].id if new else before.last,
        )

    async def rewritten(self, said: Sequence[_Said], before: _Mark | None) -> _Mark:
        """Updates the conversation: changed messages are rewritten, with later ones."""
        last = before.last if before is not None else None
        if not said:
            return _Mark(after=last, last=last)
        talk = await self._end(len(said), lambda ids: said[0].id in ids[1:])
        ids = [one.id for one in talk]
        mine = {one.id for one in said}
        # Messages that the agent saw and its state lacks were left out by it; later ones are
        # others'.
        known = max((n for n, id in enumerate(ids) if id == last or id in mine), default=-1)
        last = ids[known] if known >= 0 else last
        removed = {*ids[: known + 1]} - mine
        n_same, kept = await asyncio.to_thread(_compared, said, talk)
        if rest := said[n_same:]:
            anew = {one.id for one in rest}
            await self._replace(rest, kept, is_there=not anew.isdisjoint(ids))
            ids = [*(id for id in ids if id not in anew), *(one.id for one in rest)]
            last = rest[-1].id
        start = ids.index(said[0].id)
        return _Mark(
            n=len(said),
            digest=hashlib.sha256(b"".join(one.raw for one in said)).hexdigest(),
            after=ids[start - 1] if start else None,
            first=said[0].id,
            last=last,
            without=[id for id in ids[start:] if id in removed and id is not None],
        )

    async def _replace(
        self, rest: Sequence[_Said], kept: Mapping[str, Message], *, is_there: bool
    ) -> None:
        """Writes messages at the end, replacing existing ones from there on."""
        if not is_there:
            try:
                await self._append(rest)
            except AlreadyExistsError:
                pass  # Another process has written it meanwhile.
            else:
                return
        await self._history.replace(
            self._agent_id,
            [kept.get(one.id) or one.message for one in rest],
            session_id=self._session_id,
            filter=Field("id").is_in([one.id for one in rest]),
        )

    async def _append(self, said: Sequence[_Said]) -> None:
        await self._history.append_many(
            self._agent_id, [one.message for one in said], session_id=self._session_id
        )

    async def _end(self, n: int, is_enough: Callable[[list[str | None]], bool]) -> list[Message]:
        """The last messages, about `n`, or more until all of the ids are found."""
        n += _BEYOND
        while True:
            talk = await self._history.get_messages(
                self._agent_id, session_id=self._session_id, last=n
            )
            if len(talk) < n or is_enough([one.id for one in talk]):
                return talk
            n *= 4


def _compared(said: Sequence[_Said], talk: Sequence[Message]) -> tuple[int, dict[str, Message]]:
    """Number of unchanged messages at the beginning; and the parts that others wrote."""
    places = {one.id: place for place, one in enumerate(talk)}
    n_same, previous = 0, -1
    kept: dict[str, Message] = {}
    for number, one in enumerate(said):
        place = places.get(one.id)
        if place is None:
            continue
        there = talk[place]
        if is_own(there):
            is_same = there.native == one.message.native
        elif is_same := _is_kept(one, there):
            kept[one.id] = there
        if is_same and number == n_same and place > previous:
            n_same, previous = number + 1, place
    return n_same, kept


def _is_kept(one: _Said, foreign: Message) -> bool:
    """Whether a message holds its original from another framework."""
    made = to_canonical(_dumped(foreign), id=one.id)
    return (made.role, made.name, made.parts) == (
        one.message.role,
        one.message.name,
        one.message.parts,
    )


def _taken_apart(encoded: bytes) -> _Saved:
    """The conversation in a state, and the state without it.

    Data that no message holds stays in the state, with the id of the preceding message.
    """
    state = json.loads(encoded)
    found: dict[str, _Said] = {}
    unsaid: list[tuple[str | None, Any]] = []
    id = None
    for one in state["context"]:
        if one["content"] and all(block["type"] == "hint" for block in one["content"]):
            unsaid.append((id, one))
            continue
        id = one["id"]
        # A reply that a hint interrupts has the same id twice.
        number = 1
        while id in found:
            number += 1
            id = f"{one['id']}:{number}"
        found[id] = _Said(id=id, raw=json.dumps(one).encode())
    return _Saved([*found.values()], json.dumps({**state, "context": unsaid}).encode())


def _put_together(data: bytes, talk: Sequence[Message]) -> AgentState:
    """The state with its conversation."""
    state = json.loads(data)
    unsaid: dict[str | None, list[Any]] = {}
    shown = {one.id for one in talk}
    id = None
    for entry in state["context"]:
        # Earlier releases store the ids of all messages in between.
        if isinstance(entry, str):
            id = entry if entry in shown else id
            continue
        after, one = entry if isinstance(entry, list) else (id, entry)
        id = after if after in shown else id
        unsaid.setdefault(id, []).append(one)

    def made(dumped: Callable[[Message], Any]) -> AgentState:
        context = [*unsaid.get(None, [])]
        for one in talk:
            context += [dumped(one), *unsaid.get(one.id, [])]
        return AgentState.model_validate({**state, "context": context})

    try:
        return made(_as_written)
    except ValueError:
        # A later release may have written fields that this one does not know.
        return made(_dumped)


def _as_written(message: Message) -> Any:
    native = message.native
    return native["data"] if native is not None and is_own(message) else _dumped(message)


def _dumped(message: Message) -> Any:
    return from_canonical(message).model_dump(mode="json")


async def _in_time(make: Callable[..., T], data: bytes, *others: Any) -> T:
    """The result for the data; large data is processed in another thread."""
    if len(data) <= _SHORT:
        return make(data, *others)
    return await asyncio.to_thread(make, data, *others)


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
