"""LangGraph's store on this store vs. on SQLite: one put and one get."""

import random
from statistics import median

from benchmarks.bench import ITEMS, SQLITE_ITEMS, Bench, ratio
from benchmarks.processes import SideError
from benchmarks.registry import Row, Target, figure

_STORES = {ITEMS: "lance", SQLITE_ITEMS: "sqlite"}
"""What the side calls them."""
_ROUNDS = 40
_COUNT = 25
_AT_MOST = 1.5
_NOTES = (
    "SQLite with synchronous off; both by their blocking calls, each in a process of its own",
    f"new items of 200 characters; look-ups among {_ROUNDS * _COUNT:,}, in the journal or in the table",
)


@figure("langgraph-store", "An item of LangGraph's store, by store")
def items(bench: Bench) -> list[Row]:
    """Puts and gets, some of each by every store before the next ones."""
    ms: dict[str, dict[str, float]] = {"put": {}, "get": {}}
    notes: list[str] = []
    try:
        ms = _measured(bench)
    except SideError as error:
        notes.append(bench.failed(ITEMS, error))
    return [
        Row(
            what=f"one {what}",
            unit="ms",
            values=each,
            judged=ratio(each, of=ITEMS, to=SQLITE_ITEMS),
            target=Target(at_most=_AT_MOST),
            notes=(*_NOTES, *notes),
        )
        for what, each in ms.items()
    ]


def _measured(bench: Bench) -> dict[str, dict[str, float]]:
    sides = {name: bench.start(name) for name in _STORES}
    for name, side in sides.items():
        place = str(bench.folder / f"langgraph-store-{_STORES[name]}")
        side.ask("start", store=_STORES[name], folder=place)
    draw = random.Random(4)
    seconds: dict[str, dict[str, list[float]]] = {
        what: {name: [] for name in sides} for what in ("put", "get")
    }
    for number in range(_ROUNDS):
        start = number * _COUNT
        numbers = [draw.randrange(start + _COUNT) for _ in range(_COUNT)]
        for name in sorted(sides, reverse=bool(number % 2)):
            put = sides[name].ask("put", start=start, count=_COUNT)
            got = sides[name].ask("get", numbers=numbers)
            # The first ones make the tables.
            if number:
                seconds["put"][name] += put
                seconds["get"][name] += got
    return {
        what: {name: median(some) * 1_000 for name, some in each.items()}
        for what, each in seconds.items()
    }
