"""Small writes into a store that holds much, and the reads that come right after them."""

import itertools
from collections.abc import Mapping
from statistics import mean, median
from typing import Any

from benchmarks.bench import LANCEDB, STORE, Bench, ratio
from benchmarks.registry import Row, Target, figure

_ROUNDS = 12
_COUNT = 25
_STALL_SECONDS = 3
_STALL_ROUNDS = 3
_WINDOW = 500
_CHUNK = 50
_SEARCH_EVERY = 10
_ON_DISK = 10_000


@figure("small-writes", "Small writes, one after the other")
def small_writes(bench: Bench) -> list[Row]:
    """A turn with an id that the store makes and with a given one, and what is read of it at once."""
    store, corpus = bench.start(STORE), bench.corpus
    uri = str(bench.folder / "small-writes")
    store.ask("load", uri=uri, corpus=str(corpus.path), rows=bench.rows, timeout_seconds=900)
    seconds: dict[str, list[float]] = {}

    def note(times: Mapping[str, list[float]]) -> None:
        for name, some in times.items():
            seconds.setdefault(name, []).extend(some)

    queries = zip(corpus.queries.tolist(), corpus.query_texts, strict=True)
    for number, (vector, text) in enumerate(itertools.islice(queries, _ROUNDS)):
        note({"made": store.ask("turn", has_id=False, count=_COUNT)})
        note({"added": store.ask("added", uri=f"{uri}-added", count=_COUNT)})
        note(store.ask("embedded", uri=f"{uri}-embedded", count=_COUNT))
        note({"given": store.ask("turn", has_id=True, count=_COUNT)})
        note(store.ask("just_written", count=_COUNT))
        asked = {"text": text, "vector": vector, "limit": 10}
        found = store.ask("search_after_write", **asked)
        # The first one reads the indexes from the disk.
        note({name: [took] for name, took in found.items()} if number else {})
    ms = {name: median(some) * 1_000 for name, some in seconds.items()}
    stalls = [store.ask("stall_of_turns", seconds=_STALL_SECONDS) for _ in range(_STALL_ROUNDS)]
    stall = min(one["stall"] for one in stalls) * 1_000
    collecting = max(one["collecting"] for one in stalls) * 1_000
    return [
        _judged("a turn, with an id that the store makes", ms["made"], at_most=0.6),
        Row(
            what="the same, vs. a row of three columns that is added to a table of LanceDB",
            unit="ms",
            values={STORE: ms["made"], LANCEDB: ms["added"]},
            judged=ratio(ms, of="made", to="added"),
            target=Target(at_most=0.3),
        ),
        Row(
            what="a turn that the local embedder embeds, beyond what embedding its text alone takes",
            unit="ms",
            values={STORE: ms["embedded"]},
            judged=ms["embedded"] - ms["embedding"],
            target=Target(at_most=0.6),
        ),
        _judged("a turn, with a given id", ms["given"], at_most=1),
        _judged("a message that is in the journal, by its id", ms["by_id"], at_most=0.3),
        _judged("the last one of its session", ms["last"], at_most=0.3),
        Row(
            what="a hybrid search right after a write, vs. the same again",
            unit="ms",
            values={STORE: ms["after"]},
            judged=ratio(ms, of="after", to="again"),
            target=Target(at_most=1.5),
        ),
        Row(
            what=(
                f"the longest stall of the loop in {_STALL_SECONDS} seconds of turns, least of "
                f"{_STALL_ROUNDS} rounds"
            ),
            unit="ms",
            values={STORE: stall},
            judged=stall,
            target=Target(at_most=20),
            notes=(f"the store holds {bench.rows:,} records, and as many documents",),
        ),
        Row(
            what="the longest garbage collection of Python meanwhile",
            unit="ms",
            values={STORE: collecting},
            notes=(
                (
                    "it runs once in some ten thousand turns: most objects are from imports, "
                    "which gc.freeze() after them excludes"
                ),
            ),
        ),
    ]


@figure("long-run", "Endless turns with a search each tenth")
def long_run(bench: Bench) -> list[Row]:
    """The last turns of many vs. the first of a fresh store, and their disk usage."""
    store, corpus = bench.start(STORE), str(bench.corpus.path)
    places = {name: str(bench.folder / f"run-{name}") for name in ("old", "fresh", "turns", "once")}

    def ask(name: str, start: int, count: int, every: int = _SEARCH_EVERY) -> Any:
        return store.ask(
            "turns_and_searches",
            uri=places[name],
            corpus=corpus,
            start=start,
            count=count,
            every=every,
        )

    first = bench.rows - _WINDOW
    for start in range(0, first, _WINDOW):
        ask("old", start, min(_WINDOW, first - start))
    seconds: dict[str, list[float]] = {}
    # The fresh store's come between the old one's, so that both meet the same load.
    for start in range(0, _WINDOW, _CHUNK):
        for name, number in (("old", first + start), ("fresh", start)):
            found = ask(name, number, _CHUNK)
            for what in ("turn", "search"):
                seconds.setdefault(f"{name} {what}", []).extend(found[what])
            seconds.setdefault(f"{name} all", []).append(found["all"] / _CHUNK)
    ms = {name: median(some) * 1_000 for name, some in seconds.items()}
    ms |= {name: mean(some) * 1_000 for name, some in seconds.items() if name.endswith("all")}
    many = min(_ON_DISK, bench.rows)
    for start in range(0, many, _WINDOW):
        ask("turns", start, _WINDOW, every=many + 1)
    store.ask("bulk", uri=places["once"], corpus=corpus, rows=many)
    size = {name: store.ask("disk", uri=places[name]) / 2**20 for name in ("turns", "once")}

    def beside_fresh(what: str, name: str, *, target: Target | None = None) -> Row:
        return Row(
            what=what,
            unit="ms",
            values={STORE: ms[f"old {name}"]},
            judged=ratio(ms, of=f"old {name}", to=f"fresh {name}"),
            target=target,
        )

    last = f"the last {_WINDOW} of {bench.rows:,}, vs. the first of a fresh store"
    return [
        beside_fresh(f"a turn: {last}", "turn", target=Target(at_most=1.2)),
        beside_fresh("the search", "search"),
        beside_fresh("all that a turn costs on average, searches and upkeep too", "all"),
        Row(
            what=f"disk right after {many:,} turns, vs. the same rows in one call",
            unit="MiB",
            values={STORE: size["turns"]},
            judged=ratio(size, of="turns", to="once"),
            target=Target(at_most=3),
            notes=(
                "each turn is a call of its own, with a vector of 384 dimensions, 50 in a session",
                "each tenth is searched for, by words and vector, among all",
                "the store has its default maintenance, and nothing is thinned",
            ),
        ),
    ]


def _judged(what: str, ms: float, *, at_most: float) -> Row:
    return Row(what=what, unit="ms", values={STORE: ms}, judged=ms, target=Target(at_most=at_most))
