"""The window: the messages for a model, with their sources."""

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
"""The outcome of a candidate; a frame is added by the window itself."""

MARK = re.compile(r"\[(m[0-9]+)\]")


@frozen_by_name
class Outcome:
    """The outcome of one group of messages or item."""

    section: str
    """The name of its section."""
    verdict: Verdict
    reason: str
    """The reason in one word, such as `fits`, `over_budget`, `in_the_summary`, `orphan_result`."""
    tokens: int
    """Its tokens in the window; 0 if it is not in it."""
    ids: tuple[str, ...] = ()
    """The ids of its records."""
    notes: tuple[str, ...] = ()
    """Changes, such as `result_added`, `reasoning_left_out` or `image_named`."""


@frozen_by_name
class Report:
    """The outcomes of all candidates, with reasons."""

    outcomes: tuple[Outcome, ...]
    """In the order of the sections; within each, by conversation order or rank."""
    n_not_considered: int = 0
    """Number of messages of the session too far back to be read."""
    notes: tuple[str, ...] = ()
    """Harmless problems, such as `summary: it raised TimeoutError`.

    Also the pictures, sounds and files that the provider does not accept at their place, and that
    are described in words.
    """

    def ids(self, *verdicts: Verdict) -> tuple[str, ...]:
        """The ids of the records with these verdicts, each once, in order."""
        found = (one.ids for one in self.outcomes if one.verdict in verdicts)
        return tuple(dict.fromkeys(id for ids in found for id in ids))


@frozen_by_name
class Quoted:
    """A quotation in a window, with its source."""

    text: str
    """The stored text."""
    kind: str
    """`message`, `memory` or `document`."""
    session_id: str | None = None
    created_at: datetime | None = None
    score: float | None = None
    """The search score; None for records that were not searched for, such as a neighbour."""
    channels: Mapping[str, ChannelScore] = field(default_factory=dict)
    """The score of each search channel."""


@own_first
@frozen_by_name
class Citation(Quoted):
    """The source of a mark in a window."""

    mark: str
    """Such as `m1`; in square brackets in the window and in answers."""
    record_id: str


@frozen_by_name
class Cited:
    """The sources of the marks in an answer."""

    citations: tuple[Citation, ...]
    """Each once, in the order of the answer."""
    invented: tuple[str, ...]
    """Marks without a citation in the window."""
    erased: tuple[str, ...] = ()
    """Marks of records that no longer exist, set by `store.windows.cite`; unknown to a window."""


@frozen_by_name
class WindowDiff:
    """The difference of two windows, by the ids of records."""

    stable: float
    """In [0, 1]: the share of the earlier window's tokens in the common beginning."""
    added: tuple[str, ...]
    removed: tuple[str, ...]


@frozen_by_name
class Window:
    """The messages for a model: the same store, time and arguments give the same bytes."""

    messages: tuple[Message, ...]
    """In an order that the dialect's provider accepts, with shortened and generated messages."""
    tokens: int
    """Of all messages, by the given counter; the sum of the report's outcomes."""
    tokens_by_section: Mapping[str, int]
    """By the names of the sections, in their order."""
    room: int
    """The maximum tokens."""
    citations: Mapping[str, Citation]
    """By mark."""
    report: Report
    breakpoints: tuple[int, ...]
    """Indexes of messages after which a cached prefix may end, in order.

    The messages up to there stay the same from turn to turn, until the history is cut again.
    """
    dialect: DialectName
    sizes: tuple[int, ...]
    """The tokens of each message."""
    asked: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The arguments of `assemble`, in JSON, for `store.windows`."""
    at: datetime | None = field(default=None, compare=False, repr=False)
    """The time when it was assembled."""

    def render(self) -> dict[str, Any]:
        """Return the messages part of a request to the provider: plain JSON, byte for byte."""
        made = dialect(self.dialect)
        return made.render(self.messages, breakpoints=self.breakpoints)

    def validate(self) -> list[Violation]:
        """Return the provider's rules that the rendered window breaks: none."""
        return dialect(self.dialect).validate(self.render())

    def smaller_budget(self, error: BaseException) -> Budget | None:
        """Return a smaller budget after the provider refused this window as too long.

        None for another error, such as a rate limit. The budget is reduced by the excess that the
        error names, else by a quarter.
        """
        room = shorter_room(self.tokens, error)
        return None if room is None else Budget(total=room, margin=0)

    def cite(self, answer: str) -> Cited:
        """Resolve the marks in an answer to citations, and list unknown marks."""
        marks = list(dict.fromkeys(MARK.findall(answer)))
        return Cited(
            citations=tuple(self.citations[mark] for mark in marks if mark in self.citations),
            invented=tuple(mark for mark in marks if mark not in self.citations),
        )

    def stable(self, earlier: "Window") -> float:
        """In [0, 1]: the share of the earlier window's tokens in the common beginning."""
        if not earlier.tokens:
            return 1.0
        common = 0
        for one, other, size in zip(self.messages, earlier.messages, earlier.sizes, strict=False):
            if one != other:
                break
            common += size
        return common / earlier.tokens

    def diff(self, earlier: "Window") -> WindowDiff:
        """Compare the records of this window with those of an earlier one."""
        now, then = _shown(self.report), _shown(earlier.report)
        return WindowDiff(
            added=tuple(id for id in now if id not in set(then)),
            removed=tuple(id for id in then if id not in set(now)),
            stable=self.stable(earlier),
        )


def _shown(report: Report) -> Sequence[str]:
    return report.ids("kept", "stubbed")
