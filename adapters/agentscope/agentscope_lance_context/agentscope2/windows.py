"""Shows the model of an agent of agentscope 2.x a window of its context, within a budget."""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentscope_lance_context._handles import UserHandle
from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context.agentscope2._framework import MiddlewareBase, Msg
from agentscope_lance_context.agentscope2._messages import from_canonical, to_canonical
from lance_context_core import InvalidRequestError, Message, ToolResultPart
from lance_context_core.adapting import OnError, StoreLike, WindowMaker, check_on_error, going_on
from lance_context_core.messages import Part
from lance_context_core.window import Budget, DialectName, Section, Summariser, SystemSection

logger = logging.getLogger(__name__)

_INSTRUCTIONS = "instructions"


class LanceContextWindowMiddleware(StoreOwner, MiddlewareBase):
    """Shows the model a window of the agent's context, within a budget; the context stays whole.

    Use it instead of the context compression, which it turns off and which replaces messages by a
    summary. Before each model call the messages of the context are stored, in the session of the
    agent's state, and the model gets a window by `store.assemble`. The current answer changes until
    it is complete: it is in the window, and is stored with the next call.
    """

    def __init__(
        self,
        store: StoreLike,
        budget: Budget | int,
        *,
        user_id: str | None = None,
        summariser: Summariser | None = None,
        sections: Sequence[Section] | None = None,
        dialect: DialectName = "openai_chat",
        counter: Any = None,
        keep_windows: bool = False,
        on_error: OnError = "log",
        embedder: Any = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `budget`: a `Budget`, or a number of tokens; reserve the tokens of tools with
          `reserve_output`.
        - `user_id`: the owner; with a user, answers to the newest question are recalled from all of
          the user's sessions.
        - `summariser`: a function of a transcript that summarises messages before the window.
        - `sections`, `dialect`, `counter`: see `AsyncContextStore.assemble`.
        - `keep_windows`: whether each window is stored, for `store.windows`.
        - `on_error`: for a store that is unavailable: `"log"` calls the model with the whole
          context, and `"raise"` fails the call. Invalid arguments and a closed store always fail
          it.
        - `embedder`: for a store at a URI.
        """
        if user_id is not None and (not isinstance(user_id, str) or not user_id.strip()):
            raise InvalidRequestError(f"user_id={user_id!r:.80}: say whose conversation it is")
        self._maker = WindowMaker(
            budget=budget,
            sections=sections,
            summariser=summariser,
            dialect=dialect,
            counter=counter,
            keeps_windows=keep_windows,
        )
        self._on_error = check_on_error(on_error)
        self._user_id = user_id
        self._handle = UserHandle(store, embedder=embedder)

    async def on_model_call(
        self,
        agent: Any,
        input_kwargs: dict[str, Any],
        next_handler: Callable[..., Awaitable[Any]],
    ) -> Any:
        """Stores the context, and calls the model with a window of it."""
        given: list[Msg] = list(input_kwargs["messages"])
        told = given[0].get_text_content() if given and given[0].role == "system" else None
        messages = given[1:] if told is not None else given
        shown = given
        with going_on(self._on_error, "no window could be made, the model sees it all", logger):
            window = await self._shown(str(agent.state.session_id), told or "", messages)
            shown = [*given[: len(given) - len(messages)], *window]
        return await next_handler(**{**input_kwargs, "messages": shown})

    async def on_compress_context(
        self, agent: Any, input_kwargs: dict[str, Any], next_handler: Callable[..., Awaitable[None]]
    ) -> None:
        """Leaves the context unchanged: the window is within the budget anyway."""
        del agent, input_kwargs, next_handler

    async def _shown(self, session: str, told: str, messages: Sequence[Msg]) -> list[Msg]:
        whole = [to_canonical(one.model_dump(mode="json")) for one in messages]
        is_growing = bool(whole) and whole[-1].role == "assistant"
        kept, now = (whole[:-1], whole[-1:]) if is_growing else (whole, [])
        store = self._handle.aio.scope(user_id=self._user_id)
        await self._maker.keep(store, session, kept)
        before = [SystemSection(name=_INSTRUCTIONS, text=told)] if told.strip() else []
        window = await self._maker.window(
            store, session, now, before=before, user_id=self._user_id or ""
        )
        known = {one.id: (one, msg) for one, msg in zip(whole, messages, strict=True)}
        return [_restored(one, known) for one in _joined(window.messages[len(before) :])]


def _restored(message: Message, known: Mapping[str | None, tuple[Message, Msg]]) -> Msg:
    """The original message, unless a part of it is not shown."""
    was, msg = known.get(message.id, (None, None))
    if was is not None and msg is not None and _unnamed(was.parts) == _unnamed(message.parts):
        return msg
    return from_canonical(message)


def _joined(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages, with calls, their results and related texts merged again."""
    last: Message | None = None
    for one in messages:
        if last is not None and last.id is not None and one.id == last.id:
            last = Message(
                role="assistant", parts=(*last.parts, *one.parts), id=last.id, name=last.name
            )
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _unnamed(parts: Sequence[Part]) -> list[Part]:
    return [replace(one, name=None) if isinstance(one, ToolResultPart) else one for one in parts]
