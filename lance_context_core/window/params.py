"""A stored window: its arguments and the ids of the shown records, without texts."""

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from datetime import datetime
from typing import Any

from lance_context_core._util.checks import dumps, loads
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.window.counting import Budget
from lance_context_core.window.sections import Section
from lance_context_core.window.window import Outcome, Verdict, Window, WindowDiff

SHOWN = ("kept", "stubbed", "frame")
"""Verdicts of records that an agent saw."""


@frozen_by_name
class Seen:
    """A group of messages or an item that was in a window."""

    section: str
    """The name of its section."""
    verdict: Verdict
    """`kept`; `stubbed` if its results were shortened; `frame` if the window itself added it."""
    tokens: int
    ids: tuple[str, ...]
    """Its records; none for texts that were arguments."""
    session_id: str | None = None
    """Their session, if they are turns."""
    text: str | None = None
    """The text when it was shown; None if nothing of it exists any more."""
    gone: tuple[str, ...] = ()
    """The `ids` that no longer exist: erased, expired, or never stored."""


@frozen_by_name
class KeptWindow:
    """A window that an agent saw at one step."""

    id: str
    at: datetime
    """The time when the window was assembled."""
    session_id: str
    run_id: str | None
    asked: Mapping[str, Any]
    """The arguments of `assemble`, and the fields of its sections.

    Of `messages` it has the number, and of `query` the length, `query_characters`.
    """
    tokens: int
    tokens_by_section: Mapping[str, int]
    room: int
    seen: tuple[Seen, ...]
    """In the order of the report."""
    left_out: Mapping[str, int]
    """Number of groups and items not shown, by verdict and reason, such as `dropped: over_budget`.
    """
    n_not_considered: int
    is_as_of_then: bool = True
    """Whether the texts are of that time; current ones if the version is gone."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the shown records, each once, in order."""
        return tuple(dict.fromkeys(id for one in self.seen for id in one.ids))

    @property
    def gone(self) -> tuple[str, ...]:
        """Those that no longer exist."""
        return tuple(dict.fromkeys(id for one in self.seen for id in one.gone))

    def diff(self, earlier: "KeptWindow") -> WindowDiff:
        """Compare the records of this window with those of an earlier one."""
        now, then = self.ids, earlier.ids
        common = 0
        for one, other in zip(self.seen, earlier.seen, strict=False):
            if (one.section, one.ids, one.tokens) != (other.section, other.ids, other.tokens):
                break
            common += one.tokens
        return WindowDiff(
            added=tuple(id for id in now if id not in set(then)),
            removed=tuple(id for id in then if id not in set(now)),
            stable=common / earlier.tokens if earlier.tokens else 1.0,
        )


def asked(
    *, budget: Budget, sections: Sequence[Section], messages: int, **arguments: Any
) -> dict[str, Any]:
    """Return the arguments of `assemble` in JSON; a user's texts only by their lengths."""
    return {
        **{name: value for name, value in arguments.items() if value is not None},
        "budget": {one.name: getattr(budget, one.name) for one in fields(budget)},
        "sections": [_section(one) for one in sections],
        "messages": messages,
    }


def _section(section: Section) -> dict[str, Any]:
    told = {
        one.name: _plain(getattr(section, one.name))
        for one in fields(section)
        if one.name == "name" or getattr(section, one.name) != one.default
    }
    return {"section": type(section).__name__, **told}


def _plain(value: object) -> Any:
    """Return a JSON value; of other values, the name."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Sequence):
        return [_plain(one) for one in value]
    return getattr(value, "__qualname__", type(value).__qualname__)


@frozen_by_name
class Entry:
    """A shown group or item, as stored."""

    section: str
    verdict: Verdict
    tokens: int
    ids: list[str] = field(default_factory=list)
    session_id: str | None = None
    kind: str = "message"


def noted(window: Window) -> str:
    """Return a window in JSON: its arguments, and the ids of the shown records."""
    left_out: dict[str, int] = {}
    for one in window.report.outcomes:
        if one.verdict not in SHOWN:
            why = f"{one.verdict}: {one.reason}"
            left_out[why] = left_out.get(why, 0) + 1
    said = {
        "asked": window.asked,
        "at": window.at.isoformat() if window.at else "",
        "tokens": window.tokens,
        "tokens_by_section": window.tokens_by_section,
        "room": window.room,
        "seen": [
            [one.section, one.verdict, one.tokens, one.ids, one.session_id, one.kind]
            for one in _entries(window)
        ],
        "left_out": left_out,
        "n_not_considered": window.report.n_not_considered,
    }
    return dumps(said)


def read(text: str) -> tuple[dict[str, Any], list[Entry]]:
    """Parse the JSON of `noted`: the arguments, and the shown entries."""
    said: dict[str, Any] = loads(text, "window")
    names = [one.name for one in fields(Entry)]
    return said, [Entry(**dict(zip(names, one, strict=True))) for one in said["seen"]]


def _entries(window: Window) -> list[Entry]:
    cited = list(window.citations.values())
    entries = []
    for one in window.report.outcomes:
        if one.verdict not in SHOWN:
            continue
        session_id, kind = window.asked.get("session_id"), "message"
        if (found := next((c for c in cited if _is_of(c.record_id, one)), None)) is not None:
            cited.remove(found)
            session_id, kind = found.session_id, found.kind
        entries.append(
            Entry(
                section=one.section,
                verdict=one.verdict,
                tokens=one.tokens,
                ids=list(one.ids),
                session_id=session_id,
                kind=kind,
            )
        )
    return entries


def _is_of(record_id: str, outcome: Outcome) -> bool:
    return outcome.ids == (record_id,)
