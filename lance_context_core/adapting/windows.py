"""What an agent of a framework is shown of its conversation: the same window in each of them."""

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
"""Of so many conversations it is remembered up to where they were kept."""


@dataclass(slots=True, kw_only=True)
class WindowMaker:
    """Keeps what a framework has of a conversation, all of it, and makes a window of that.

    - `budget`: a `Budget`, or a number of tokens.
    - `sections`: what the window is made of; absent, the history, with a summary of what came before it
      where there is a `summariser`, and with what is recalled where there is a user.
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
        """Raise InvalidRequestError for arguments that `assemble` would refuse."""
        self.budget = as_budget(self.budget)
        checked(self.dialect)
        assemble_arguments(self.sections or (), ())

    async def keep(
        self, store: AsyncContextStore, session_id: str, messages: Sequence[Message]
    ) -> None:
        """Keep the messages of a conversation that are not kept yet, in one commit.

        Those without an id are not: they could not be told from others.
        """
        place = (
            repr(store),
            session_id,
        )  # Where it is, and of whom: another user's is another one.
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
        """The window: of what is kept, and of `messages`, which are not.

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


# What of a message a model reads as words: what a limit of tokens must count.


def countable_text(parts: Iterable[Part], *, with_reasoning: bool = True) -> str:
    """The text to count the tokens of, so that nothing which a model is sent counts as nothing.

    A line each, in order: texts; the names and arguments of tool calls; the names of tools that
    answered and all that their results hold; data, and unknown parts, as JSON;
    and, unless it is not sent again, reasoning. Ids, signatures and `extra` are no words of a model.

    What images, sounds, films and files weigh is the model's own affair, and not in here: find them
    with `iter_parts`, and `MediaPart`.
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
            # What it holds follows it in `iter_parts`.
            yield part.name or ""
        case kinds.DataPart():
            yield dumps(part.data)
        case kinds.UnknownPart():
            yield dumps({"type": part.type, **part.payload})


# What the parts of messages become in any framework's words.


def says_something(parts: Iterable[Part]) -> bool:
    """Whether a message is part of the conversation: what of a turn is to be remembered.

    A text that is not blank does, media do, and data, and unknown parts. Reasoning, tool
    calls and their results do not, whatever is in them: they are how an answer came about.
    """
    return any(
        bool(part.text.strip())
        if isinstance(part, TextPart)
        else not isinstance(part, ReasoningPart | ToolCallPart | ToolResultPart)
        for part in parts
    )


def arguments_of(given: Mapping[str, Any] | str) -> dict[str, Any] | str:
    """The arguments of a tool call by name, also of a JSON text; or the text, where it is no object.

    A model may have written anything: what cannot be read is kept as it is, and never an error.
    """
    if isinstance(given, Mapping):
        return dict(given)
    try:
        parsed = json.loads(given)
    except (ValueError, RecursionError):
        return given
    return parsed if isinstance(parsed, dict) else given


def arguments_text(given: Mapping[str, Any] | str) -> str:
    """The arguments of a tool call as a model writes them: JSON text, with letters as they are."""
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
