"""The session service for ADK compared with its own on SQLite: `python -m benchmarks.google_adk_sessions [ROUNDS]`.

Needs `google-adk-lance-context` and `aiosqlite`; with `sqlalchemy` it measures `DatabaseSessionService` too. In turn,
all do what a runner does in each turn of a conversation: read the last 20 events of a session and append 2 that change
its state, in 8 sessions; then 100 sessions at once do so; at last each session is read whole. Printed
are milliseconds by the clock and by the processor, and the ratio of ours to each: the median and the 95th
percentile of all calls, and the time of all 100 sessions. On a busy machine SQLite gives up on some of these with
"database is locked": how many, is printed, too.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from google_adk_lance_context import LanceSessionService

_SESSIONS, _AT_ONCE, _TURNS, _LAST = 8, 100, 4, 20
_ROUNDS = 3
_OURS, _SQLITE, _DATABASE = "lance-context", "SqliteSession", "DatabaseSession"
_WORDS = "I moved to Oslo last May and I am allergic to nuts, so please mind what you suggest. "
_TAIL = GetSessionConfig(num_recent_events=_LAST)

Measured = dict[tuple[str, str], list[float]]


def main(rounds: int) -> None:
    """Prints a row for each kind of call."""
    with tempfile.TemporaryDirectory() as folder:
        measured = asyncio.run(_measured(Path(folder), rounds))
    sides = [side for side in (_OURS, _SQLITE, _DATABASE) if any(side in one for one in measured)]
    print(f"{'':<34}{'':>8}" + "".join(f"{side:>17}{'ratio':>7}" for side in sides))
    for what in dict.fromkeys(what for _, what in measured):
        for name, of in (("median", median), ("p95", _p95)):
            if name == "p95" and "at once" in what:
                continue
            by_side = {side: of(measured[side, what]) for side in sides}
            ratios = [f"{by_side[_OURS] / one:.2f}" if one else "" for one in by_side.values()]
            told = [
                f"{one:>17.3f}{ratio:>7}"
                for one, ratio in zip(by_side.values(), ratios, strict=True)
            ]
            print(f"{what:<34}{name:>8}" + "".join(told))


async def _measured(folder: Path, rounds: int) -> Measured:
    """Returns the milliseconds of each call, by side and kind."""
    measured: Measured = {}
    ours = LanceSessionService(folder / "memory")
    services: dict[str, BaseSessionService] = {
        _OURS: ours,
        _SQLITE: SqliteSessionService(str(folder / "sqlite.db")),
    }
    if find_spec("sqlalchemy"):
        from google.adk.sessions.database_session_service import DatabaseSessionService

        services[_DATABASE] = DatabaseSessionService(
            f"sqlite+aiosqlite:///{folder / 'database.db'}"
        )
    for number in range(rounds + 1):
        # The first round warms up.
        into: Measured = measured if number else {}
        few = [f"few {number} {at}" for at in range(_SESSIONS)]
        for service in services.values():
            for name in few:
                await service.create_session(app_name="tutor", user_id="ada", session_id=name)
        for turn in range(_LAST):
            for at, name in enumerate(few):
                # Who begins changes from call to call.
                for side in _rotated([*services], turn + at):
                    await _turn(services[side], side, name, turn, into)
        for side in _rotated([*services], number):
            await _all_at_once(services[side], side, number, into)
        for at, name in enumerate(few):
            for side in _rotated([*services], at):
                await _note(
                    into, side, f"read {2 * _LAST} events", _read(services[side], name, None)
                )
    await ours.aclose()
    return measured


async def _turn(
    service: BaseSessionService, side: str, name: str, turn: int, into: Measured
) -> None:
    session = await _note(into, side, f"read the last {_LAST}", _read(service, name, _TAIL))
    for event in _said(turn):
        await _note(into, side, "append", lambda: service.append_event(session, event))  # noqa: B023 - called at once


async def _all_at_once(service: BaseSessionService, side: str, number: int, into: Measured) -> None:
    async def talk(name: str) -> None:
        await service.create_session(app_name="tutor", user_id="ada", session_id=name)
        for turn in range(_TURNS):
            session = await _read(service, name, _TAIL)()
            for event in _said(turn):
                await service.append_event(session, event)

    async def all_of_them() -> int:
        talks = (talk(f"many {number} {at}") for at in range(_AT_ONCE))
        ended = await asyncio.gather(*talks, return_exceptions=True)
        return sum(isinstance(one, Exception) for one in ended)

    n_failed = await _note(into, side, "100 sessions at once", all_of_them)
    into.setdefault((side, "of 100 at once, sessions that failed"), []).append(n_failed)


def _read(
    service: BaseSessionService, name: str, config: GetSessionConfig | None
) -> Callable[[], Awaitable[Any]]:
    return lambda: service.get_session(
        app_name="tutor", user_id="ada", session_id=name, config=config
    )


async def _note(into: Measured, side: str, what: str, call: Callable[[], Awaitable[Any]]) -> Any:
    """Returns what a call does, and notes its milliseconds by the clock, and by the processor."""
    began, spent = time.perf_counter(), time.process_time()
    found = await call()
    took = {"clock": time.perf_counter() - began, "processor": time.process_time() - spent}
    for by, seconds in took.items():
        into.setdefault((side, f"{what}, {by}"), []).append(1_000 * seconds)
    return found


def _said(turn: int) -> list[Event]:
    return [
        Event(
            invocation_id=f"i{turn}",
            author=author,
            content=types.Content(role=role, parts=[types.Part(text=f"{turn}: {_WORDS * n}")]),
            actions=EventActions(state_delta={"turn": turn, "topic": f"{author} {turn}"}),
        )
        for author, role, n in (("user", "user", 2), ("tutor", "model", 4))
    ]


def _rotated(sides: Sequence[str], by: int) -> list[str]:
    by %= len(sides)
    return [*sides[by:], *sides[:by]]


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else _ROUNDS)
