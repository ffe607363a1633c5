"""LangGraph's agent with its state in the store, vs. its own checkpointers."""

from statistics import median

from benchmarks.bench import (
    IN_MEMORY_SAVER,
    LANCEDB,
    LANGGRAPH,
    SAVER,
    SQLITE_SAVER,
    Bench,
    ratio,
)
from benchmarks.processes import Side, SideError
from benchmarks.registry import Row, Target, figure

_SAVERS = {SAVER: "lance", SQLITE_SAVER: "sqlite", IN_MEMORY_SAVER: "memory"}
"""What the side calls them."""
_THREADS = 12
_TURNS = 8
"""How many turns a thread has; the first of them is not counted."""
_AT_ONCE = 100
_ONE_BY_ONE = 20
_ROUNDS = 5
_CHECKPOINTS = 500
_MEMORY_FACTOR, _MEMORY_MS = 5, 10
_NOTES = (
    "SQLite with synchronous off; all with LangGraph's default durability; the model answers at once",
    f"{LANCEDB}: adding one row of two columns",
    "a turn writes 5 times, or 9 times with the tool: 3 or 5 of these wait for each other",
)


@figure("langgraph-turn", "A turn of LangGraph's create_agent, by checkpointer")
def turn(bench: Bench) -> list[Row]:
    """The turns of several threads, each thread's with every checkpointer before the next one's."""
    rows = []
    for uses_tools, what in ((False, "a plain answer"), (True, "an answer after one tool call")):
        times: dict[str, float] = {}
        notes: tuple[str, ...] = ()
        try:
            times = _turns(bench, uses_tools=uses_tools)
        except SideError as error:
            notes = (bench.failed(LANGGRAPH, error),)
        rows += [
            Row(
                what=f"{what}, vs. AsyncSqliteSaver",
                unit="ms",
                values=times,
                judged=ratio(times, of=SAVER, to=SQLITE_SAVER),
                target=Target(at_most=1),
                notes=(
                    *_NOTES,
                    *notes,
                ),
            ),
            Row(
                what=f"{what}, vs. {_MEMORY_FACTOR} x InMemorySaver + {_MEMORY_MS} ms",
                unit="ms",
                values={name: times[name] for name in (SAVER, IN_MEMORY_SAVER) if name in times},
                judged=_by_memory(times),
                target=Target(at_most=1),
            ),
            Row(
                what=f"{what}: what the checkpointer adds, in rows added to LanceDB",
                unit="ms",
                values={name: times[name] for name in (SAVER, LANCEDB) if name in times},
                judged=_in_adds(times),
            ),
        ]
    return rows


@figure("langgraph-threads", "Turns of 100 LangGraph threads at once, by checkpointer")
def threads(bench: Bench) -> list[Row]:
    """Turns a second, vs. those of one thread after the other."""
    rates: dict[str, dict[str, float]] = {"at once": {}, "one by one": {}}
    notes = ["InMemorySaver writes nothing: its ratio is the bound that LangGraph itself sets"]
    try:
        rates = _rates(bench)
    except SideError as error:
        notes.append(bench.failed(LANGGRAPH, error))
    own = {how: each[SAVER] for how, each in rates.items() if SAVER in each}
    return [
        Row(
            what=f"{_AT_ONCE} threads at once, vs. AsyncSqliteSaver",
            unit="turns/s",
            values=rates["at once"],
            judged=ratio(rates["at once"], of=SAVER, to=SQLITE_SAVER),
            target=Target(at_least=1),
            notes=tuple(notes),
        ),
        Row(
            what="the same, vs. one thread after the other",
            unit="turns/s",
            values=rates["at once"],
            judged=ratio(own, of="at once", to="one by one"),
        ),
        Row(what="one thread after the other", unit="turns/s", values=rates["one by one"]),
    ]


@figure("langgraph-disk", "500 checkpoints of a LangGraph state that grows to 500 messages")
def disk(bench: Bench) -> list[Row]:
    """What they take on the disk a month later, the store maintained."""
    sizes: dict[str, float] = {}
    notes: tuple[str, ...] = ()
    try:
        side, folder = bench.start(LANGGRAPH), str(bench.folder / "langgraph-disk")
        for name in (SAVER, SQLITE_SAVER):
            taken = side.ask(
                "grown_bytes", saver=_SAVERS[name], folder=folder, checkpoints=_CHECKPOINTS
            )
            sizes[name] = taken / 2**20
    except SideError as error:
        notes = (bench.failed(LANGGRAPH, error),)
    return [
        Row(
            what="disk, maintained",
            unit="MiB",
            values=sizes,
            judged=sizes.get(SAVER),
            target=Target(at_most=5),
            notes=notes,
        )
    ]


def _rates(bench: Bench) -> dict[str, dict[str, float]]:
    """Turns a second by how they come and by checkpointer, each of which has its own process."""
    sides = {name: bench.start(LANGGRAPH) for name in _SAVERS}
    folder = str(bench.folder / "langgraph-threads")
    counts = {"one by one": _ONE_BY_ONE, "at once": _AT_ONCE}
    seconds: dict[str, dict[str, list[float]]] = {
        how: {name: [] for name in sides} for how in counts
    }
    for number in range(_ROUNDS):
        for name in _order(number):
            for how, count in counts.items():
                took = sides[name].ask(
                    "threads",
                    saver=_SAVERS[name],
                    folder=folder,
                    name=f"{how}-{number}",
                    count=count,
                    at_once=how == "at once",
                )
                seconds[how][name].append(took)
    # Of the first round the imports and tables are made.
    return {
        how: {name: counts[how] / median(some[1:]) for name, some in each.items()}
        for how, each in seconds.items()
    }


def _turns(bench: Bench, *, uses_tools: bool) -> dict[str, float]:
    """The median milliseconds of a turn by checkpointer, and of an addition to LanceDB."""
    side, folder = bench.start(LANGGRAPH), str(bench.folder / f"langgraph-turns-{uses_tools}")
    seconds: dict[str, list[float]] = {name: [] for name in (*_SAVERS, LANCEDB)}
    for number in range(_THREADS):
        for name in _order(number):
            times = side.ask(
                "turns",
                saver=_SAVERS[name],
                folder=folder,
                thread=f"thread-{number}",
                start=0,
                count=_TURNS,
                uses_tools=uses_tools,
            )
            seconds[name] += times[1:]
        seconds[LANCEDB] += _adds(side, folder)
    # Of the first thread the others' imports and tables are made.
    return {name: median(each[_TURNS - 1 :]) * 1_000 for name, each in seconds.items()}


def _adds(side: Side, folder: str) -> list[float]:
    times: list[float] = side.ask("adds", folder=folder, count=_TURNS)
    return times


def _order(number: int) -> list[str]:
    """The checkpointers, another one first every time."""
    names = list(_SAVERS)
    first = number % len(names)
    return names[first:] + names[:first]


def _by_memory(times: dict[str, float]) -> float | None:
    """The time of a turn by the bound that the one in memory sets; None if one is missing."""
    if SAVER not in times or IN_MEMORY_SAVER not in times:
        return None
    return times[SAVER] / (_MEMORY_FACTOR * times[IN_MEMORY_SAVER] + _MEMORY_MS)


def _in_adds(times: dict[str, float]) -> float | None:
    """By how much a turn is longer than in memory, in additions to LanceDB."""
    if not {SAVER, IN_MEMORY_SAVER, LANCEDB} <= times.keys():
        return None
    return (times[SAVER] - times[IN_MEMORY_SAVER]) / times[LANCEDB]
