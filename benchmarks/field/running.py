"""The run: every peer does the same, in turn, and what it answers is judged."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal, Protocol

from benchmarks.field.asking import Question, questions
from benchmarks.field.data import TURN, Data
from benchmarks.field.peers import Peer
from benchmarks.processes import SideError

Kind = Literal["measured", "lacks", "fails", "wrong"]

WRITES = {"append": "append", "turn": f"turn of {TURN}"}
SIZES = {"disk": "disk", "memory": "memory"}


class Asked(Protocol):
    """A process that answers; `benchmarks.processes.Side` is one."""

    def ask(self, op: str, **arguments: Any) -> Any:
        """Its answer. Raises SideError."""

    def close(self) -> None:
        """End it."""


_PATIENCE_SECONDS = 20.0
_AT_LEAST = 4
"""A peer that has needed longer for a task is asked no more of it, after so many times."""

Start = Callable[[Peer], Asked]
"""Starts the process of a peer. Raises SideError if there is no environment for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What came of a task."""

    kind: Kind
    value: float | None = None
    """Milliseconds or MiB; of a wrong answer, too."""
    says: str = ""
    """What is lacking, what failed, or what is wrong."""
    n_done: int | None = None
    """How often it was done where that is less than was planned."""


@dataclass(kw_only=True)
class Outcome:
    """What came of a peer."""

    cells: dict[str, Cell] = field(default_factory=dict)
    """By task."""
    versions: str = ""


@dataclass(kw_only=True)
class _Running:
    """A peer whose process answers."""

    side: Asked
    folder: Path
    outcome: Outcome
    held: list[int] = field(default_factory=list)
    """What it has acknowledged, in order."""
    answers: list[list[int]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def failed(self, task: str, error: str) -> None:
        """Note that it failed a task, which is asked no more."""
        self.outcome.cells[task] = Cell(kind="fails", says=error)

    def measured(
        self, task: str, seconds: Sequence[float], *, planned: int, problem: str | None = None
    ) -> None:
        """Note how long it took, and what is wrong with what it answered."""
        self.outcome.cells[task] = Cell(
            kind="wrong" if problem else "measured",
            value=median(seconds) * 1_000,
            says=problem or "",
            n_done=len(seconds) if len(seconds) < planned else None,
        )

    def is_quick(self) -> bool:
        """Whether it is asked any more in this task."""
        return len(self.seconds) < _AT_LEAST or sum(self.seconds) < _PATIENCE_SECONDS


def titles(data: Data) -> dict[str, str]:
    """The tasks in the order of the table, and what they are called in its head."""
    return {**WRITES, **{one.task: one.title for one in questions(data)}, **SIZES}


def run(
    peers: Sequence[Peer],
    data: Data,
    *,
    start: Start,
    folder: Path,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Outcome]:
    """What came of each peer, by its name. A peer that cannot begin fails every task."""
    outcomes = {peer.name: Outcome() for peer in peers}
    running: dict[str, _Running] = {}
    sides: list[Asked] = []
    try:
        for place, peer in enumerate(peers):
            say(f"{peer.name}: {data.sizes.rows:,} messages")
            outcome = outcomes[peer.name]
            try:
                side = start(peer)
                sides.append(side)
                one = _Running(side=side, folder=folder / f"peer{place}", outcome=outcome)
                _fill(one, data)
            except SideError as error:
                outcome.cells = {task: Cell(kind="fails", says=str(error)) for task in titles(data)}
                continue
            running[peer.name] = one
        _write(running, data, say)
        for one in running.values():
            size = sum(file.stat().st_size for file in one.folder.rglob("*") if file.is_file())
            one.outcome.cells["disk"] = Cell(kind="measured", value=size / 2**20)
        for question in questions(data):
            say(question.title)
            _read(running, data, question)
        for one in running.values():
            _measure_memory(one)
    finally:
        for side in sides:
            side.close()
    return outcomes


def _fill(one: _Running, data: Data) -> None:
    sizes = data.sizes
    one.outcome.versions = one.side.ask("open", folder=str(one.folder), rows=str(data.path))
    one.side.ask("fill", count=sizes.rows, session_rows=sizes.session_rows)
    one.held = list(range(sizes.rows))


def _write(running: Mapping[str, _Running], data: Data, say: Callable[[str], None]) -> None:
    """Append messages and turns in rounds, in which the peers take turns."""
    sizes = data.sizes
    work = (
        ("append", sizes.appends, 1, sizes.rows),
        ("turn", sizes.turns, TURN, sizes.rows + sizes.appends),
    )
    for task, count, size, first in work:
        say(WRITES[task])
        step = count // sizes.rounds
        able = dict(running)
        for round_number in range(sizes.rounds):
            for name in _from([name for name in able if able[name].is_quick()], round_number):
                one = able[name]
                start = first + round_number * step * size
                if not _written(one, task, start=start, count=step, size=size):
                    del able[name]
        for one in able.values():
            one.measured(task, one.seconds, planned=step * sizes.rounds)
        for one in running.values():
            one.seconds = []


def _written(one: _Running, task: str, *, start: int, count: int, size: int) -> bool:
    """Whether a peer has kept so many more; what it acknowledged before a failure counts."""
    more = {"size": size} if task == "turn" else {}
    try:
        answer = one.side.ask(task, start=start, count=count, **more)
    except SideError as error:
        one.failed(task, str(error))
        return False
    if "lacks" in answer:
        one.outcome.cells[task] = Cell(kind="lacks", says=answer["lacks"])
        return False
    one.seconds += answer["seconds"]
    one.held += range(start, start + len(answer["seconds"]) * size)
    if "error" in answer:
        one.failed(task, answer["error"])
        return False
    return True


def _read(running: Mapping[str, _Running], data: Data, question: Question) -> None:
    """Ask every peer each question before the next one; who comes first changes every time."""
    able = dict(running)
    for number in range(data.sizes.queries):
        asked = question.request(data, number)
        for name in _from([name for name in able if able[name].is_quick()], number):
            one = able[name]
            try:
                answer = one.side.ask(**asked)
            except SideError as error:
                one.failed(question.task, str(error))
                del able[name]
                continue
            if "lacks" in answer:
                one.outcome.cells[question.task] = Cell(kind="lacks", says=answer["lacks"])
                del able[name]
                continue
            one.seconds.append(answer["seconds"])
            one.answers.append([data.numbers.get(text, -1) for text in answer["texts"]])
    for one in able.values():
        problem = question.problem(data, one.held, one.answers)
        # The first time is that of a warm-up.
        planned = data.sizes.queries - 1
        one.measured(question.task, one.seconds[1:], planned=planned, problem=problem)
    for one in running.values():
        one.seconds, one.answers = [], []


def _measure_memory(one: _Running) -> None:
    try:
        one.outcome.cells["memory"] = Cell(kind="measured", value=one.side.ask("memory"))
    except SideError as error:
        one.failed("memory", str(error))


def _from(names: list[str], number: int) -> list[str]:
    """The same, begun at another one for each number."""
    place = number % len(names) if names else 0
    return names[place:] + names[:place]
