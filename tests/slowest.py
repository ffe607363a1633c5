"""Which tests take longest: each notes its processor time, and `python tests/slowest.py FILE` tells.

Processor time, of the test and of the processes that it started: what a test costs, on however busy
a machine. With `--slow` it names the tests that are too slow for a first verdict (`make slow`).
"""

import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

VARIABLE = "SLOWEST"
"""Names the file to which tests that are run note what they took; without it they do not."""
N_SHOWN = 20
QUICK = 150
"""The processor time, in seconds, that `make check` has for its tests: two processors have three
minutes, of which the rules and the imports take half. Whatever is added, the dearest tests give way."""
LIST = Path(__file__).with_name("slow.txt")
"""The tests that `make check` leaves to `make test`, a line each."""
SHARED = "what the tests of one worker share, such as its servers"


def spent() -> tuple[float, float]:
    """The seconds of processor time of this process, and of those that it started and saw end."""
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system


class Notes:
    """A plugin that notes what each test took."""

    def __init__(self, path: str):
        self._path = Path(path)
        self._shared = 0.0
        """What went to what several tests share, since a test was noted."""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        before = sum(spent())
        try:
            return (yield)
        finally:
            if fixturedef.scope == "session":
                self._shared += sum(spent()) - before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, nextitem):
        # A server's time is told when it has ended, after the last of the tests that it served.
        before = sum(spent())
        try:
            return (yield)
        finally:
            if nextitem is None:
                self._shared += sum(spent()) - before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        (own, others), began, self._shared = spent(), time.monotonic(), 0.0
        try:
            return (yield)
        finally:
            now_own, now_others = spent()
            seconds = now_own - own + now_others - others - self._shared
            by_clock = time.monotonic() - began
            self._note(item.nodeid, seconds, of_others=now_others - others, by_clock=by_clock)
            if self._shared:
                self._note(SHARED, self._shared)

    def _note(
        self, name: str, seconds: float, *, of_others: float = 0.0, by_clock: float = 0.0
    ) -> None:
        where = "" if Path(sys.prefix).name == ".venv" else Path(sys.prefix).name
        times = [round(one, 3) for one in (seconds, of_others, by_clock)]
        line = json.dumps([times[0], where, name, *times[1:]])
        # In one piece, as several processes note theirs in one file.
        with self._path.open("ab", buffering=0) as file:
            file.write(f"{line}\n".encode())


def listed() -> frozenset[str]:
    """The tests that were found slow, each a node id without the case."""
    return frozenset(LIST.read_text(encoding="utf-8").split())


def test_of(node_id: str) -> str:
    """The test that a case belongs to."""
    return node_id.partition("[")[0]


def told(path: Path, n_shown: int = N_SHOWN) -> str:
    """The slowest of all the tests that were noted in a file."""
    notes = sorted(_noted(path), reverse=True)
    total = sum(seconds for seconds, *_ in notes)
    shown = "".join(
        f"{seconds:8.1f} {of_others:8.1f} {by_clock:8.1f}  {name}{where and f'  ({where})'}\n"
        for seconds, where, name, of_others, by_clock in notes[:n_shown]
    )
    return (
        f"{len(notes)} tests took {total:.0f} s of processor time; the slowest {n_shown}, with what "
        "of it was of processes that ended then, whoever had started them, and what it was by the "
        f"clock:\n{shown}"
    )


def slow(path: Path) -> str:
    """The tests of the notes in a file that gave way to those whose cases take less, a line each, in order."""
    cases = defaultdict(list)
    for seconds, _, node_id, *_ in _noted(path):
        if node_id != SHARED:
            cases[test_of(node_id)].append(seconds)
    found, left = [], QUICK
    for name in sorted(cases, key=lambda one: sum(cases[one]) / len(cases[one])):
        left -= sum(cases[name])
        if left < 0:
            found.append(name)
    return "".join(f"{name}\n" for name in sorted(found))


def _noted(path: Path) -> list[tuple[float, str, str, float, float]]:
    """Of each test: its seconds, the environment where it ran, its node id.

    And what of them was of processes that ended meanwhile; and how long it was by the clock.
    """
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [tuple(json.loads(line)) for line in lines]


if __name__ == "__main__":
    *options, notes_path = sys.argv[1:]
    sys.stdout.write((slow if options == ["--slow"] else told)(Path(notes_path)))
