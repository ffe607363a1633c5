"""Search: nearest vectors, and vectors with words."""

from collections.abc import Mapping
from statistics import mean
from typing import Any

from benchmarks.bench import STORE, Bench, Turns, in_turn, ratio
from benchmarks.registry import Row, Target, figure

_K = 10


@figure("vector", "Vector search, k = 10")
def vector_search(bench: Bench) -> list[Row]:
    """How good the answers are, and how long they take."""
    loaded = bench.loaded
    turns = in_turn(bench, loaded.sides, _requests(bench, "vector", "documents"))
    whole = in_turn(bench, loaded.sides, _requests(bench, "vector", "records"))
    recalls = {}
    for name, answers in turns.answers.items():
        truth = bench.corpus.nearest(_K, rows=loaded.rows[name])
        recalls[name] = mean(
            len(true & set(answer["ids"])) / _K
            for true, answer in zip(truth, answers, strict=False)
        )
    times = turns.medians_ms()
    return [
        Row(
            what="recall@10 against brute force",
            unit="share",
            values=recalls,
            judged=recalls.get(STORE),
            target=Target(at_least=0.95),
            notes=loaded.notes,
        ),
        Row(
            what="time, vs. LanceDB's query",
            unit="ms",
            values=times,
            judged=ratio(times),
            target=Target(at_most=1.3),
            notes=turns.notes,
        ),
        _whole_records(whole),
    ]


@figure("hybrid", "Hybrid search, k = 10")
def hybrid_search(bench: Bench) -> list[Row]:
    """One hybrid search, vs. the sum of LanceDB's two queries."""
    turns = in_turn(bench, bench.loaded.sides, _requests(bench, "hybrid", "documents"))
    whole = in_turn(bench, bench.loaded.sides, _requests(bench, "hybrid", "records"))
    times = turns.medians_ms()
    return [
        Row(
            what="time, vs. LanceDB's two queries together",
            unit="ms",
            values=times,
            judged=ratio(times),
            target=Target(at_most=2),
            notes=(*bench.loaded.notes, *turns.notes),
        ),
        _whole_records(whole),
    ]


def _whole_records(turns: Turns) -> Row:
    """The same in the records: each is 35 columns, and hidden ones are filtered out."""
    times = turns.medians_ms()
    return Row(
        what="the same in the records, of which each hit has all 35 fields",
        unit="ms",
        values=times,
        judged=ratio(times),
    )


def _requests(bench: Bench, op: str, of: str) -> list[Mapping[str, Any]]:
    corpus = bench.corpus
    pairs = zip(corpus.queries.tolist(), corpus.query_texts, strict=True)
    requests: list[Mapping[str, Any]] = [
        {"op": op, "of": of, "vector": vector, "text": text, "limit": _K} for vector, text in pairs
    ]
    return requests[: bench.repeats]
