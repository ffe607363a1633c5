"""Shows the model of an agent of agentscope 1.x a window of its memory, within a budget."""

from collections.abc import Mapping, Sequence
from typing import Any

from agentscope_lance_context._handles import UserHandle
from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context.agentscope1._framework import FormatterBase, Msg
from agentscope_lance_context.agentscope1._messages import from_canonicals, to_canonicals
from lance_context_core import InvalidRequestError, Message
from lance_context_core.adapting import StoreLike, WindowMaker
from lance_context_core.window import Budget, DialectName, Section, Summariser, SystemSection

_INSTRUCTIONS = "instructions"


class LanceContextWindowFormatter(StoreOwner, FormatterBase):
    """Formats, with the model's own formatter, a window of the agent's memory, within a budget.

    An agent formats its instructions and all of its memory before each model call; AgentScope's
    formatters with a limit remove the oldest messages. This one stores the messages in a session,
    and formats a window by `store.assemble`: calls keep their results, the user's newest turn is
    always included, and the beginning stays the same for many calls. The memory itself stays whole.
    """

    _handle: UserHandle

    def __init__(
        self,
        formatter: FormatterBase,
        store: StoreLike,
        budget: Budget | int,
        *,
        session_id: str,
        user_id: str | None = None,
        summariser: Summariser | None = None,
        sections: Sequence[Section] | None = None,
        dialect: DialectName = "openai_chat",
        counter: Any = None,
        keep_windows: bool = False,
        embedder: Any = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `formatter`: that of the agent's model.
        - `budget`: a `Budget`, or a number of tokens; reserve the tokens of tools with
          `reserve_output`.
        - `session_id`: of the stored messages; with that of the agent's `LanceContextMemory` they
          are stored once.
        - `user_id`: the owner; with a user, answers to the newest question are recalled from all of
          the user's sessions.
        - `summariser`: a function of a transcript that summarises messages before the window.
        - `sections`, `dialect`, `counter`: see `AsyncContextStore.assemble`.
        - `keep_windows`: whether each window is stored, for `store.windows`.
        - `embedder`: for a store at a URI.
        """
        if not isinstance(formatter, FormatterBase):
            raise InvalidRequestError(
                f"formatter={formatter!r:.80}: give that of the agent's model"
            )
        for name, value in (("session_id", session_id), ("user_id", user_id)):
            is_absent = value is None and name == "user_id"
            if not is_absent and (not isinstance(value, str) or not value.strip(" ~")):
                raise InvalidRequestError(f"{name}={value!r:.80}: give a name")
        self._formatter = formatter
        self._session_id = session_id
        self._user_id = user_id
        self._maker = WindowMaker(
            budget=budget,
            sections=sections,
            summariser=summariser,
            dialect=dialect,
            counter=counter,
            keeps_windows=keep_windows,
        )
        self._handle = UserHandle(store, embedder=embedder)

    async def format(self, msgs: list[Msg], **kwargs: Any) -> list[dict[str, Any]]:
        """The messages for the model: the instructions, and the window of the others."""
        told = msgs[0].get_text_content() if msgs and msgs[0].role == "system" else None
        first, rest = (msgs[:1], msgs[1:]) if told is not None else ([], msgs)
        if not rest:
            return await self._formatter.format(msgs, **kwargs)
        shown = await self._shown(told or "", rest)
        return await self._formatter.format([*first, *shown], **kwargs)

    async def _shown(self, told: str, msgs: Sequence[Msg]) -> list[Msg]:
        store = self._handle.of(self._user_id)
        await self._maker.keep(store, self._session_id, await to_canonicals(msgs))
        before = [SystemSection(name=_INSTRUCTIONS, text=told)] if told.strip() else []
        window = await self._maker.window(
            store, self._session_id, before=before, user_id=self._user_id or ""
        )
        known: dict[str | None, Msg] = {one.id: one for one in msgs}
        made = await from_canonicals(window.messages[len(before) :])
        return [
            _as_it_was(msg, one, known)
            for msg, one in zip(made, window.messages[len(before) :], strict=True)
        ]


def _as_it_was(made: Msg, message: Message, known: Mapping[str | None, Msg]) -> Msg:
    """The original message, unless a part of it is not shown."""
    return known.get(message.id, made) if message.native is not None else made
