"""What an agent of a framework is shown of its conversation: the same window in each of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lance_context_core._util.lru import Recent
from lance_context_core.messages import Message
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

        Those without an id are not: nobody could tell them from others.
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
