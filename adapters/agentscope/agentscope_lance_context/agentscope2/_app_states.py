"""The messages in the states of the app's sessions: stored in the history, and named by the states."""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agentscope_lance_context._places import APP
from agentscope_lance_context.agentscope2._framework import AgentState, Msg
from agentscope_lance_context.agentscope2._messages import from_canonical, is_own, to_canonical
from lance_context_core import AsyncHistory, ConflictError, Field, Message, NotFoundError
from lance_context_core.adapting import encodable

_APART = f"{APP.name}/context"
"""The agent of messages that only a state has: the app does not list them."""
_FORMS = "context"
"""The key in a message's native form of its forms in the state, where these differ."""


class Contexts:
    """The contexts of a user's sessions.

    A state names each message by its id, so that a message which is deleted, erased or rewritten in
    the history is so in the state. A reply in the state has other times and ids of blocks than the
    one that the app stores: its record in the history has both forms.
    """

    def __init__(self, history: AsyncHistory) -> None:
        self._history = history

    async def save(self, session_id: str, state: AgentState, before: bytes | None) -> bytes:
        """Writes the messages of a state; returns the rest as data that names them.

        `before` is the data that it replaces. A message that it names, and that the history no
        longer contains, was deleted: it is not written again.
        """
        dumped: dict[str, Any] = json.loads(state.model_dump_json(exclude={"context"}))
        names: list[tuple[str, int]] = []
        forms: dict[str, list[Any]] = {}
        for one in state.context:
            several = forms.setdefault(one.id, [])
            names.append((one.id, len(several)))
            several.append(encodable(one.model_dump(mode="json")))
        known = _ids(_entries(before))
        there = await self._named("", session_id, forms)
        apart = await self._all_apart(session_id)
        alone = {
            id: _with_forms(to_canonical(several[0]), several)
            for id, several in forms.items()
            if id not in there and (id in apart or id not in known)
        }
        for id, message in there.items():
            made = _with_forms(message, forms[id])
            if made.native != message.native:
                # What another writer changed or deleted at the same moment stays so.
                with suppress(ConflictError, NotFoundError):
                    await self._history.rewrite("", made, session_id=session_id, expected=message)
        if [*_natives(alone).items()] != [*_natives(apart).items()]:
            await self._history.replace(_APART, [*alone.values()], session_id=session_id)
        return json.dumps({**dumped, "context": names}).encode()

    async def load(self, session_id: str, data: bytes) -> AgentState:
        """The state of such data, without the messages that were deleted.

        A state of an earlier release contains its messages.
        """
        entries = _entries(data)
        if not (ids := _ids(entries)):
            return AgentState.model_validate_json(data)
        found = await self._named("", session_id, ids)
        if ids - found.keys():
            found = {**await self._named(_APART, session_id, ids), **found}
        context = [_form(found[id], number) for id, number in entries if id in found]
        state = {**json.loads(data), "context": [one for one in context if one is not None]}
        return AgentState.model_validate(state)

    async def clear(self, session_id: str) -> None:
        """Deletes the messages that only the state has."""
        await self._history.clear(_APART, session_id=session_id)

    async def _named(
        self, agent_id: str, session_id: str, ids: Collection[str]
    ) -> dict[str, Message]:
        if not ids:
            return {}
        return _by_id(
            await self._history.get_messages(
                agent_id, session_id=session_id, filter=Field("id").is_in([*ids])
            )
        )

    async def _all_apart(self, session_id: str) -> dict[str, Message]:
        return _by_id(await self._history.get_messages(_APART, session_id=session_id))


def rewritten(known: Message, message: Message) -> bool:
    """Whether a message differs from the stored one, apart from its forms in the state."""
    return not is_own(known) or _data(known) != _data(message)


def _by_id(messages: Sequence[Message]) -> dict[str, Message]:
    return {one.id: one for one in messages if one.id is not None}


def _ids(entries: Sequence[Any]) -> set[str]:
    """The ids in the names; none for messages in a state of an earlier release."""
    return {one[0] for one in entries if isinstance(one, list)}


def _entries(data: bytes | None) -> Sequence[Any]:
    """The names of a state's messages; messages in a state of an earlier release."""
    entries: list[Any] = [] if data is None else json.loads(data)["context"]
    return entries


def _data(message: Message) -> Any:
    return (message.native or {})["data"]


def _with_forms(message: Message, forms: Sequence[Any]) -> Message:
    """The message with its forms in a state; one that another framework rewrote, unchanged."""
    if not is_own(message):
        return message
    native = {name: value for name, value in (message.native or {}).items() if name != _FORMS}
    if [*forms] != [native["data"]]:
        native[_FORMS] = [*forms]
    return replace(message, native=native)


def _form(message: Message, number: int) -> Msg | None:
    """A form of a message in the state; None if it was rewritten to have fewer."""
    forms = (message.native or {}).get(_FORMS) if is_own(message) else None
    if forms is None:
        return from_canonical(message) if number == 0 else None
    try:
        return Msg.model_validate(forms[number])
    except ValueError:
        # A later release may have written what this one does not know.
        return from_canonical(message)


def _natives(messages: Mapping[str, Message]) -> dict[str, Any]:
    return {id: one.native for id, one in messages.items()}
