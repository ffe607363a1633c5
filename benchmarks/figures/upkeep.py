"""Upkeep: reads while maintenance runs, branches, and diffs, in a store that holds much."""

import random
from statistics import median

from benchmarks.bench import STORE, Bench, ratio
from benchmarks.processes import Side, SideError
from benchmarks.registry import Row, Target, figure

_ROUNDS = 24
_ROUNDS_PER_BATCH = 4
_TEXT_TAIL = 0.06
"""So many new rows, of those that there are, that they join the full-text index."""
_FRAGMENTS = 64
"""How many one-row fragments maintenance finds each time."""
_BRANCHES = 21
_DIFFS = 15
_CHANGED = 100
_SMALL_ROWS = 10_000


@figure("reads-in-maintenance", "Reads while maintenance runs")
def reads_in_maintenance(bench: Bench) -> list[Row]:
    """A record by its external id, vs. the same store at rest.

    During automatic maintenance, which merges fragments each time and indexes the words of new rows
    sometimes; and during `maintain()`, which does all of it.
    """
    side = bench.loaded.sides.get(STORE)
    draw = random.Random(3)
    seconds: dict[str, list[float]] = {"idle": [], "automatic maintenance": [], "`maintain()`": []}
    notes: list[str] = [*bench.loaded.notes]
    if side is not None:
        try:
            for number in range(_ROUNDS):
                ids = [f"x{draw.randrange(bench.rows)}" for _ in range(50)]
                batch = 0 if number % _ROUNDS_PER_BATCH else int(bench.rows * _TEXT_TAIL)
                for kind in ("automatic maintenance", "`maintain()`"):
                    is_due = kind == "automatic maintenance"
                    if is_due or number % _ROUNDS_PER_BATCH == 1:
                        seconds[kind] += side.ask(
                            "reads_in_maintenance",
                            ids=ids,
                            appends=_FRAGMENTS,
                            batch=batch if is_due else 0,
                            only_due=is_due,
                        )
                seconds["idle"] += side.ask("idle_reads", ids=ids)
        except SideError as error:
            notes.append(bench.failed(STORE, error))
    times = {kind: _p99_ms(found) for kind, found in seconds.items() if found}
    return [
        Row(
            what=f"p99 during {kind}, of {len(seconds[kind])} reads, vs. rest",
            unit="ms",
            values={STORE: times[kind]} if kind in times else {},
            judged=ratio(times, of=kind, to="idle"),
            target=Target(at_most=2) if kind == "automatic maintenance" else None,
            notes=tuple(notes),
        )
        for kind in ("automatic maintenance", "`maintain()`")
    ] + [Row(what="p99 at rest", unit="ms", values={STORE: times["idle"]} if times else {})]


@figure("branch", "A branch of the whole store")
def create_branch(bench: Bench) -> list[Row]:
    """Creating it, vs. the append of one row."""
    side = bench.loaded.sides.get(STORE)
    times: dict[str, float] = {}
    notes: list[str] = [*bench.loaded.notes]
    if side is not None:
        try:
            done = [side.ask("branch", name=f"b{number}") for number in range(_BRANCHES)]
            times = {
                one: median(each[one] for each in done[1:]) * 1_000 for one in ("branch", "append")
            }
        except SideError as error:
            notes.append(bench.failed(STORE, error))
    return [
        Row(
            what=f"creating a branch of {bench.rows:,} rows, vs. a one-row append",
            unit="ms",
            values={STORE: times["branch"]} if times else {},
            judged=ratio(times, of="branch", to="append"),
            target=Target(at_most=10),
            notes=tuple(notes),
        ),
        Row(what="a one-row append", unit="ms", values={STORE: times["append"]} if times else {}),
    ]


@figure("diff", f"The diff of two versions {_CHANGED} records apart")
def diff(bench: Bench) -> list[Row]:
    """In a large store, vs. a small one."""
    seconds: dict[str, list[float]] = {"large": [], "small": []}
    notes: list[str] = [*bench.loaded.notes]
    try:
        sides = {"large": bench.loaded.sides[STORE], "small": _small(bench)}
        spans = {name: side.ask("change", records=_CHANGED) for name, side in sides.items()}
        for number in range(_DIFFS + 1):
            for name in sorted(sides, reverse=bool(number % 2)):
                before, after = spans[name]
                found = sides[name].ask("diff", before=before, after=after)
                seconds[name].append(found["seconds"])
                if found["records"] != _CHANGED:
                    notes.append(f"{name}: {found['records']} records differ")
    except (KeyError, SideError) as error:
        notes.append(bench.failed(STORE, error))
    times = {name: median(each[1:]) * 1_000 for name, each in seconds.items() if each[1:]}
    return [
        Row(
            what=f"at {bench.rows:,} rows, vs. {_SMALL_ROWS:,}",
            unit="ms",
            values={STORE: times["large"]} if "large" in times else {},
            judged=ratio(times, of="large", to="small"),
            target=Target(at_most=3),
            notes=tuple(notes),
        ),
        Row(
            what=f"at {_SMALL_ROWS:,} rows",
            unit="ms",
            values={STORE: times["small"]} if "small" in times else {},
        ),
    ]


def _small(bench: Bench) -> Side:
    side = bench.start(STORE)
    rows = min(bench.rows, _SMALL_ROWS)
    uri, corpus = str(bench.folder / "small"), str(bench.corpus.path)
    side.ask("load", uri=uri, corpus=corpus, rows=rows)
    return side


def _p99_ms(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)] * 1_000
