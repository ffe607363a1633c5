"""Writing: one turn after the other, what that leaves on the disk, many tasks, durability."""

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from benchmarks.bench import (
    LANCE_CONTEXT,
    LANCEDB,
    SQLITE_NORMAL,
    SQLITE_OFF,
    STORE,
    Bench,
    ratio,
)
from benchmarks.processes import Side, SideError
from benchmarks.registry import Row, Target, figure

_APPENDS = 10_000
_APPENDS_IN_LONG = 100_000
_WINDOW = 500
"""How many appends the medians are of."""
_CHUNK = 50
"""How many appends a side does until the next one has its turn."""
_PEER_ROWS = 500
_PEER_APPENDS = 8
_MONTH_DAYS = 31
_ROUNDS = 9

Ask = Callable[[int, int], list[float]]
"""Appends from a number on; returns the seconds of each."""


@figure("append", "One turn after the other, with vectors of 384 dimensions")
def append(bench: Bench) -> list[Row]:
    """The last turns of many, vs. the first ones and vs. the peers."""
    total = _APPENDS_IN_LONG if bench.is_long else min(bench.rows, _APPENDS)
    notes: list[str] = []
    store = bench.start(STORE)
    corpus = str(bench.corpus.path)

    def asking(side: Side, name: str, **more: Any) -> Ask:
        uri = str(bench.folder / f"turns-{name}")
        return lambda start, count: side.ask(
            "append", uri=uri, corpus=corpus, start=start, count=count, **more
        )

    old = asking(store, "store")
    grown: dict[str, Ask] = {STORE: old}
    for name, word in ((SQLITE_NORMAL, "NORMAL"), (SQLITE_OFF, "OFF")):
        grown[name] = asking(bench.start(name), f"sqlite-{word}", synchronous=word)
    for start in range(0, _PEER_ROWS, _CHUNK):
        for ask in grown.values():
            ask(start, _CHUNK)
    early = _in_turn(
        bench,
        {STORE: old, **_filled(bench, LANCE_CONTEXT, _PEER_ROWS, notes)},
        start=_PEER_ROWS,
        stop=_PEER_ROWS + _PEER_APPENDS,
        chunk=_PEER_APPENDS // 4,
        notes=notes,
    )
    for start in range(_PEER_ROWS + _PEER_APPENDS, total - _WINDOW, _WINDOW):
        for ask in grown.values():
            ask(start, min(_WINDOW, total - _WINDOW - start))
    # A fresh store's first turns come between the old one's last, so that both meet the same load.
    fresh = "fresh"
    late = _in_turn(
        bench,
        {
            **grown,
            fresh: asking(store, "fresh"),
            **_filled(bench, LANCEDB, total - _WINDOW, notes),
        },
        start=total - _WINDOW,
        stop=total,
        chunk=_CHUNK,
        notes=notes,
    )
    own = {STORE: late[STORE], fresh: late.pop(fresh)}
    return [
        Row(what=f"the first {_WINDOW}", unit="ms", values={STORE: own[fresh]}),
        Row(
            what=f"the last {_WINDOW} of {total:,}, vs. the first of a fresh store",
            unit="ms",
            values=late,
            judged=ratio(own, to=fresh),
            target=Target(at_most=1.2),
            notes=(
                *notes,
                "each turn is a call of its own, 50 in a session, with the store's default maintenance",
                "LanceDB's rows have a session, a text and a vector; the store's have 41 columns",
                "sqlite3: WAL, synchronous normal and off, the vector as a blob, a transaction a turn",
            ),
        ),
        Row(
            what="the same, vs. LanceDB on a table compacted before every 50",
            unit="ms",
            values={name: late[name] for name in (STORE, LANCEDB) if name in late},
            judged=ratio(late),
            target=Target(at_most=0.3),
        ),
        Row(
            what=f"after {_PEER_ROWS} turns one after the other, lance-context's time by ours",
            unit="ms",
            values=early,
            judged=ratio(early, of=LANCE_CONTEXT, to=STORE),
            target=Target(at_least=50),
        ),
        *_disk(bench, store, total),
    ]


@figure("group", "100 tasks at once, vs. one task in a loop")
def group(bench: Bench) -> list[Row]:
    """Messages a second, with ids that the store makes and with given ones."""
    side = bench.start(STORE)
    rows = []
    for given_ids, which in ((False, "made"), (True, "given")):
        uri = str(bench.folder / f"group-{which}")
        rates: dict[str, list[float]] = {"one_by_one": [], "at_once": []}
        notes: tuple[str, ...] = ()
        number = 0
        try:
            for _ in range(_ROUNDS + 1):
                for op, count in (("one_by_one", 30), ("at_once", 100)):
                    seconds = side.ask(op, uri=uri, count=count, given_ids=given_ids, start=number)
                    rates[op].append(count / seconds)
                    number += count
        except SideError as error:
            notes = (bench.failed(STORE, error),)
        medians = {op: median(each[1:]) for op, each in rates.items() if each[1:]}
        rows += [
            Row(
                what=f"100 tasks, {which} ids, vs. the loop",
                unit="messages/s",
                values=_only(medians, "at_once"),
                judged=ratio(medians, of="at_once", to="one_by_one"),
                notes=notes,
            ),
            Row(
                what=f"one task in a loop, {which} ids",
                unit="messages/s",
                values=_only(medians, "one_by_one"),
            ),
        ]
    return rows


@figure("durability", "Cost of surviving a power cut")
def durability(bench: Bench) -> list[Row]:
    """One turn with `durability="fsync"`, vs. the default."""
    side = bench.start(STORE)
    notes: list[str] = []

    def asking(name: str, **options: Any) -> Ask:
        uri, corpus = str(bench.folder / name), str(bench.corpus.path)
        return lambda start, count: side.ask(
            "append", uri=uri, corpus=corpus, start=start, count=count, options=options
        )

    asks = {"default": asking("plain"), "fsync": asking("synced", durability="fsync")}
    times = _in_turn(bench, asks, start=0, stop=250, chunk=25, notes=notes)
    return [
        Row(what="one turn, the default", unit="ms", values=_only(times, "default")),
        Row(
            what='one turn, `durability="fsync"`, vs. the default',
            unit="ms",
            values=_only(times, "fsync"),
            judged=ratio(times, of="fsync", to="default"),
            notes=tuple(notes),
        ),
    ]


def _disk(bench: Bench, store: Side, total: int) -> list[Row]:
    """Disk usage of the turns, vs. the same rows written in one call."""
    notes: tuple[str, ...] = ()
    sizes: dict[str, float] = {}
    try:
        whole = str(bench.folder / "turns-whole")
        store.ask("bulk", uri=whole, corpus=str(bench.corpus.path), rows=total)
        once = store.ask("settled_bytes", uri=whole, days=0)
        turned = store.ask("settled_bytes", uri=str(bench.folder / "turns-store"), days=_MONTH_DAYS)
        sizes = {
            "once": once["before"],
            "once, settled": once["after"],
            "before": turned["before"],
            "after": turned["after"],
        }
        notes = (f"{turned['versions']:,} versions are kept after the month",)
    except SideError as error:
        notes = (bench.failed(STORE, error),)
    sizes = {name: size / 2**20 for name, size in sizes.items()}
    return [
        Row(
            what="disk after them, as it is, vs. the same rows written in one call",
            unit="MiB",
            values=_only(sizes, "before"),
            judged=ratio(sizes, of="before", to="once"),
            target=Target(at_most=3),
        ),
        Row(
            what="disk a month later, maintained, vs. the same rows written in one call",
            unit="MiB",
            values=_only(sizes, "after"),
            judged=ratio(sizes, of="after", to="once"),
            target=Target(at_most=1.2),
            notes=notes,
        ),
        Row(what="the same rows in one call", unit="MiB", values=_only(sizes, "once")),
        Row(
            what="the same rows in one call, maintained",
            unit="MiB",
            values=_only(sizes, "once, settled"),
        ),
    ]


def _filled(bench: Bench, name: str, rows: int, notes: list[str]) -> dict[str, Ask]:
    """A peer that holds as many turns; nothing, and a note, if it fails."""
    uri, corpus = str(bench.folder / f"turns-{name}"), str(bench.corpus.path)
    try:
        side = bench.start(name)
        side.ask("fill", uri=uri, corpus=corpus, rows=rows)
    except SideError as error:
        notes.append(bench.failed(name, error))
        return {}
    return {
        name: lambda start, count: side.ask(
            "append", uri=uri, corpus=corpus, start=start, count=count
        )
    }


def _in_turn(
    bench: Bench,
    asks: Mapping[str, Ask],
    *,
    start: int,
    stop: int,
    chunk: int,
    notes: list[str],
) -> dict[str, float]:
    """The median milliseconds of each, who are asked for `chunk` appends in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in asks}
    for number in range(start, stop, chunk):
        for name in list(seconds):
            try:
                seconds[name] += asks[name](number, min(chunk, stop - number))
            except SideError as error:
                notes.append(bench.failed(name, error))
                del seconds[name]
    return {name: median(each) * 1_000 for name, each in seconds.items()}


def _only(values: Mapping[str, float], name: str) -> dict[str, float]:
    """One value, as the store's; none if it was not measured."""
    return {STORE: values[name]} if name in values else {}
