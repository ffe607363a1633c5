"""The window: the messages that a model is sent, and where all of them come from."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Literal

from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.messages import Message
from lance_context_core.types import ChannelScore
from lance_context_core.window.counting import Budget
from lance_context_core.window.overflow import shorter_room
from lance_context_core.window.providers import DialectName, dialect
from lance_context_core.window.providers.common import Violation

Verdict = Literal["kept", "stubbed", "summarised", "dropped", "rejected", "frame"]
"""What became of a thing that could be in a window; a frame is what the window itself adds."""

MARK = re.compile(r"\[(m[0-9]+)\]")


@frozen_by_name
class Outcome:
    """What became of one thing that could be in a window: of a group of messages, or of an item."""

    section: str
    """The name of the section that offered it."""
    verdict: Verdict
    reason: str
    """Why, in one word, such as `fits`, `over_budget`, `in_the_summary`, `orphan_result`."""
    tokens: int
    """What it takes of the window; 0 for what is not in it."""
    ids: tuple[str, ...] = ()
    """The ids of the records that it is made of."""
    notes: tuple[str, ...] = ()
    """What was changed in it, such as `result_added`, `reasoning_left_out` or `image_named`."""


@frozen_by_name
class Report:
    """What was kept, and what was not, and why."""

    outcomes: tuple[Outcome, ...]
    """In the order of the sections, and in each in the order of the conversation, or of its worth."""
    n_not_considered: int = 0
    """How many messages of the session are so far back that they were not looked at."""
    notes: tuple[str, ...] = ()
    """What went wrong on the way and did no harm, such as `summary: it raised TimeoutError`; and the
    pictures, sounds and files that the provider does not take where they stand, named in words."""

    def ids(self, *verdicts: Verdict) -> tuple[str, ...]:
        """The ids of the records to which this happened, each once, in order."""
        found = (one.ids for one in self.outcomes if one.verdict in verdicts)
        return tuple(dict.fromkeys(id for ids in found for id in ids))


@frozen_by_name
class Quoted:
    """What a window quotes, and where it is from."""

    text: str
    """What is quoted, as it was stored."""
    kind: str
    """`message`, `memory` or `document`."""
    session_id: str | None = None
    created_at: datetime | None = None
    score: float | None = None
    """What the search said of it; absent for what was not searched for, such as a neighbour."""
    channels: Mapping[str, ChannelScore] = field(default_factory=dict)
    """What each channel of the search said of it."""


@own_first
@frozen_by_name
class Citation(Quoted):
    """What a mark in a window stands for."""

    mark: str
    """Such as `m1`; in the window, and in an answer that cites it, it is in square brackets."""
    record_id: str


@frozen_by_name
class Cited:
    """What the marks in an answer stand for."""

    citations: tuple[Citation, ...]
    """Each once, in the order of the answer."""
    invented: tuple[str, ...]
    """Marks that no citation of the window has."""
    erased: tuple[str, ...] = ()
    """Marks of records that are there no more, as `store.windows.cite` says; a window cannot know it."""


@frozen_by_name
class WindowDiff:
    """What one window has that another has not, by the ids of records."""

    stable: float
    """In [0, 1]: the share of the earlier window's tokens that both begin with."""
    added: tuple[str, ...]
    removed: tuple[str, ...]


@frozen_by_name
class Window:
    """The messages that a model is sent: the same store, time and arguments give the same bytes."""

    messages: tuple[Message, ...]
    """In an order that the dialect's provider takes. What was cut short, or made here, is among them."""
    tokens: int
    """Of all messages, by the counter that was given; the sum of the report's outcomes."""
    tokens_by_section: Mapping[str, int]
    """By the names of the sections, in their order."""
    room: int
    """How many tokens there might be."""
    citations: Mapping[str, Citation]
    """By mark."""
    report: Report
    breakpoints: tuple[int, ...]
    """The indexes of the messages after which a cached prefix may end, in order: what comes up to
    there stays the same from turn to turn, until the history is cut anew."""
    dialect: DialectName
    sizes: tuple[int, ...]
    """The tokens of each message."""
    asked: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The arguments of `assemble`, in JSON, by which `store.windows` keeps it."""
    at: datetime | None = field(default=None, compare=False, repr=False)
    """When it was assembled."""

    def render(self) -> dict[str, Any]:
        """The part of a request to the provider that holds the messages: plain JSON, byte for byte."""
        made = dialect(self.dialect)
        return made.render(self.messages, breakpoints=self.breakpoints)

    def validate(self) -> list[Violation]:
        """The provider's rules that the rendered window breaks: none."""
        return dialect(self.dialect).validate(self.render())

    def smaller_budget(self, error: BaseException) -> Budget | None:
        """A budget for the next window, after the provider refused this one as too long.

        None if the error says something else, such as a rate limit. The budget is by so much smaller
        as the error says that the request was too long, else by a quarter.
        """
        room = shorter_room(self.tokens, error)
        return None if room is None else Budget(total=room, margin=0)

    def cite(self, answer: str) -> Cited:
        """What the marks in an answer stand for, and which of them stand for nothing."""
        marks = list(dict.fromkeys(MARK.findall(answer)))
        return Cited(
            citations=tuple(self.citations[mark] for mark in marks if mark in self.citations),
            invented=tuple(mark for mark in marks if mark not in self.citations),
        )

    def stable(self, earlier: "Window") -> float:
        """In [0, 1]: the share of the earlier window's tokens that this one begins with, too."""
        if not earlier.tokens:
            return 1.0
        common = 0
        for one, other, size in zip(self.messages, earlier.messages, earlier.sizes, strict=False):
            if one != other:
                break
            common += size
        return common / earlier.tokens

    def diff(self, earlier: "Window") -> WindowDiff:
        """What this window has that an earlier one has not, and the reverse."""
        now, then = _shown(self.report), _shown(earlier.report)
        return WindowDiff(
            added=tuple(id for id in now if id not in set(then)),
            removed=tuple(id for id in then if id not in set(now)),
            stable=self.stable(earlier),
        )


def _shown(report: Report) -> Sequence[str]:
    return report.ids("kept", "stubbed")
