"""The window of a conversation for an agent of any framework."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lance_context_core._util.checks import dumps
from lance_context_core._util.lru import Recent
from lance_context_core.messages import Message, Part, iter_parts
from lance_context_core.messages import parts as kinds
from lance_context_core.messages.parts import ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from lance_context_core.store.store import AsyncContextStore
from lance_context_core.window.compaction.plans import Summariser
from lance_context_core.window.counting import Budget, as_budget
from lance_context_core.window.providers import DialectName
from lance_context_core.window.providers import dialect as checked
from lance_context_core.window.sections import HistorySection, RecallSection, Section
from lance_context_core.window.summaries import SummarySection
from lance_context_core.window.window import Window
from lance_context_core.window.window_builder import assemble_arguments

_N_KNOWN = 1_000
"""The number of conversations for which the kept position is cached."""


@dataclass(slots=True, kw_only=True)
class WindowMaker:
    """Stores a framework's conversation completely, and assembles windows of it.

    - `budget`: a `Budget`, or a number of tokens.
    - `sections`: the sections of the window; by default the history, with a summary of older turns
      if there is a `summariser`, and with recalled memories if there is a user.
    - `keeps_windows`: whether each window is kept, for `store.windows`.
    """

    budget: Budget | int
    sections: Sequence[Section] | None = None
    summariser: Summariser | None = None
    dialect: DialectName = "plain"
    counter: Any = None
    keeps_windows: bool = False
    _last: Recent[tuple[str, str], str] = field(default_factory=lambda: Recent(_N_KNOWN))

    def __post_init__(self) -> None:
        """Raises InvalidRequestError for arguments that `assemble` would refuse."""
        self.budget = as_budget(self.budget)
        checked(self.dialect)
        assemble_arguments(self.sections or (), ())

    async def keep(
        self, store: AsyncContextStore, session_id: str, messages: Sequence[Message]
    ) -> None:
        """Stores the new messages of a conversation in one commit.

        Skips messages without an id: they could not be told apart.
        """
        place = (
            repr(store),
            session_id,
        )  # Location and owner: another user's is a different one.
        named = [one for one in messages if one.id]
        last = self._last.get(place)
        ids = [one.id for one in named]
        start = ids.index(last) + 1 if last in ids else 0
        if named[start:]:
            await store.history.append_many(
                "", named[start:], session_id=session_id, keep_existing=True
            )
            self._last.put(place, str(ids[-1]))

    async def window(
        self,
        store: AsyncContextStore,
        session_id: str,
        messages: Sequence[Message] = (),
        *,
        before: Sequence[Section] = (),
        user_id: str = "",
        query: str | None = None,
        run_id: str = "",
    ) -> Window:
        """Returns the window of the stored messages, and of `messages`, which are not stored.

        `before` are sections that come before all others, such as a framework's instructions.
        """
        window = await store.assemble(
            session_id=session_id,
            budget=self.budget,
            sections=[*before, *(self.sections or self._usual(user_id))],
            messages=messages,
            user_id=user_id,
            query=query,
            dialect=self.dialect,
            counter=self.counter,
        )
        if self.keeps_windows:
            await store.windows.keep(window, run_id=run_id)
        return window

    def _usual(self, user_id: str) -> list[Section]:
        summary = [SummarySection(summariser=self.summariser)] if self.summariser else []
        return [*summary, HistorySection(), *([RecallSection()] if user_id else [])]


# The text of a message that a model reads: what a token limit must count.


def countable_text(parts: Iterable[Part], *, with_reasoning: bool = True) -> str:
    """Returns the text of a message whose tokens count, so that nothing counts as zero.

    A line each, in order: texts; the names and arguments of tool calls; the names of tools that
    answered and the contents of their results; data, and unknown parts, as JSON;
    and, unless it is not sent again, reasoning. Ids, signatures and `extra` are not sent as words.

    Images, sounds, films and files are not included, since each model counts them differently: find
    them with `iter_parts`, and `MediaPart`.
    """
    lines = (
        line for part in iter_parts(parts) for line in _lines(part, with_reasoning=with_reasoning)
    )
    return "\n".join(line for line in lines if line)


def _lines(part: Part, *, with_reasoning: bool) -> Iterator[str]:
    match part:
        case kinds.TextPart():
            yield part.text
        case kinds.ReasoningPart() if with_reasoning:
            yield part.text
        case kinds.ToolCallPart():
            yield part.name
            yield part.arguments if isinstance(part.arguments, str) else dumps(part.arguments)
        case kinds.ToolResultPart():
            # Its contents follow it in `iter_parts`.
            yield part.name or ""
        case kinds.DataPart():
            yield dumps(part.data)
        case kinds.UnknownPart():
            yield dumps({"type": part.type, **part.payload})


# Message parts in any framework's format.


def says_something(parts: Iterable[Part]) -> bool:
    """Whether a message is part of the conversation, and so worth remembering.

    True for nonblank text, media, data, and unknown parts. False for reasoning, tool
    calls and their results, with any content: they are only the way to an answer.
    """
    return any(
        bool(part.text.strip())
        if isinstance(part, TextPart)
        else not isinstance(part, ReasoningPart | ToolCallPart | ToolResultPart)
        for part in parts
    )


def arguments_of(given: Mapping[str, Any] | str) -> dict[str, Any] | str:
    """Returns a tool call's arguments, also from JSON text; the text if it is no object.

    A model may write anything: unreadable text is returned unchanged, and never an error.
    """
    if isinstance(given, Mapping):
        return dict(given)
    try:
        parsed = json.loads(given)
    except (ValueError, RecursionError):
        return given
    return parsed if isinstance(parsed, dict) else given


def arguments_text(given: Mapping[str, Any] | str) -> str:
    """Returns a tool call's arguments as a model writes them: JSON with unescaped letters."""
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
