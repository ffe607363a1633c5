"""Small writes into a store that holds much, and the reads that come right after them."""

import itertools
from collections.abc import Mapping
from statistics import median

from benchmarks.bench import STORE, Bench, ratio
from benchmarks.registry import Row, Target, figure

_ROUNDS = 12
_COUNT = 25
_STALL_SECONDS = 3


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
        note({"given": store.ask("turn", has_id=True, count=_COUNT)})
        note(store.ask("just_written", count=_COUNT))
        asked = {"text": text, "vector": vector, "limit": 10}
        found = store.ask("search_after_write", **asked)
        # The first one reads the indexes from the disk.
        note({name: [took] for name, took in found.items()} if number else {})
    ms = {name: median(some) * 1_000 for name, some in seconds.items()}
    stall = store.ask("stall_of_turns", seconds=_STALL_SECONDS) * 1_000
    return [
        _judged("a turn, with an id that the store makes", ms["made"], at_most=0.6),
        _judged("a turn, with a given id", ms["given"], at_most=1),
        _judged("a message that is in the journal, by its id", ms["by_id"], at_most=0.3),
        _judged("the last one of its session", ms["last"], at_most=0.3),
        Row(
            what="a hybrid search right after a write, beside the same once more",
            unit="ms",
            values={STORE: ms["after"]},
            judged=ratio(ms, of="after", to="again"),
            target=Target(at_most=1.5),
        ),
        Row(
            what=f"the longest stall of the loop in {_STALL_SECONDS} seconds of turns",
            unit="ms",
            values={STORE: stall},
            judged=stall,
            target=Target(at_most=20),
            notes=(f"the store holds {bench.rows:,} records, and as many documents",),
        ),
    ]


def _judged(what: str, ms: float, *, at_most: float) -> Row:
    return Row(what=what, unit="ms", values={STORE: ms}, judged=ms, target=Target(at_most=at_most))
