"""The LlamaIndex adapter, vs. the store's own calls and other vector stores of LlamaIndex."""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

from benchmarks.bench import (
    ADAPTER_STORE,
    LLAMA_INDEX,
    LLAMA_INDEX_LANCEDB,
    LLAMA_INDEX_PEERS,
    Bench,
    Turns,
    in_turn,
    ratio,
)
from benchmarks.processes import Side, SideError
from benchmarks.registry import Row, Target, figure

_NODES = 2_000
_MANY_NODES = 20_000
_K = 10
_ADDS = 21
_LATE_ADDS = 21
_STALL_ROUNDS = 5
_STALL_MS = 20
_DOCUMENT_NODES = 100
_BY_WORDS = (LLAMA_INDEX, LLAMA_INDEX_LANCEDB)


@figure("llama-index-query", "LlamaIndex's vector stores, 2,000 nodes of 384 dimensions, k = 10")
def queries_and_adding(bench: Bench) -> list[Row]:
    """200 queries, vs. the store's own and other vector stores; and one call of `add`."""
    sides, notes = _loaded(bench, _NODES)
    added = in_turn(bench, _ours_once(sides), _additions(bench), adapt=_elsewhere(bench))
    turns = in_turn(bench, sides, _questions(bench), adapt=_own)
    return [
        _recall(bench, turns, notes=(*notes, *turns.notes)),
        _beside(LLAMA_INDEX_LANCEDB, "time of query, vs. the shipped LanceDB store's", turns, 0.5),
        _beside(ADAPTER_STORE, "the same, vs. the store's own query", turns, 1.3),
        _beside(LLAMA_INDEX_LANCEDB, "time to add them to a new store in one call", added, 1.5),
    ]


@figure("llama-index-after-add", "A query right after a node was added to 20,000")
def after_an_add(bench: Bench) -> list[Row]:
    """What an `add` costs the query that comes next, by words and by meaning."""
    sides, notes = _loaded(bench, _MANY_NODES)
    rows = []
    for by_words in (True, False):
        requests = [
            {**request, "op": "after_add", "number": number + by_words * _LATE_ADDS}
            | {"by_words": by_words}
            for number, request in enumerate(_questions(bench)[:_LATE_ADDS])
        ]
        asked = _ours_once(sides)
        if by_words:
            # The others have no queries by words.
            asked = {name: asked[name] for name in _BY_WORDS if name in asked}
        turns = in_turn(bench, asked, requests)
        fresh, warm = turns.medians_ms(), turns.medians_ms("warm")
        kind = "words" if by_words else "meaning"
        rows += [
            Row(
                what=f"by {kind}, right after; judged vs. the same query again",
                unit="ms",
                values=fresh,
                judged=fresh[LLAMA_INDEX] / warm[LLAMA_INDEX] if LLAMA_INDEX in fresh else None,
                target=Target(at_most=2),
                notes=(*notes, *turns.notes),
            ),
            Row(what=f"by {kind}, again", unit="ms", values=warm),
        ]
    return rows


@figure(
    "llama-index-stalls",
    "Longest stall of the event loop while 200 aquery run at once, least of five rounds",
)
def loop_stalls(bench: Bench) -> list[Row]:
    """By how much a clock on the same loop was late at most.

    The least of five rounds: what blocks the loop does so in each, what else the machine does not.
    """
    sides, notes = _loaded(bench, _NODES)
    requests = [
        {"op": "stalls", "vectors": bench.corpus.queries.tolist(), "limit": _K}
    ] * _STALL_ROUNDS
    turns = in_turn(bench, _ours_once(sides), requests)
    idle = in_turn(bench, _ours_once(sides), [{"op": "idle", "seconds": 1}] * _STALL_ROUNDS)
    stalls, idle_stalls = (
        {name: min(answers) * 1_000 for name, answers in one.answers.items()}
        for one in (turns, idle)
    )
    return [
        Row(
            what="stall",
            unit="ms",
            values=stalls,
            judged=stalls.get(LLAMA_INDEX),
            target=Target(at_most=_STALL_MS),
            notes=(*notes, *turns.notes),
        ),
        Row(what="a loop on which nothing but a timer runs", unit="ms", values=idle_stalls),
    ]


@figure("llama-index-commits", "Commits to delete a document of 100 nodes")
def commits(bench: Bench) -> list[Row]:
    """In the document store and in the vector store."""
    try:
        side = bench.start(LLAMA_INDEX)
        uri = str(bench.folder / "llama-index-commits")
        counts = side.ask("commits", uri=uri, nodes=_DOCUMENT_NODES)
    except SideError as error:
        return [Row(what="commits", unit="commits", notes=(bench.failed(LLAMA_INDEX, error),))]
    theirs = counts.pop("KVDocumentStore")
    return [
        Row(
            what=f"delete_ref_doc of the {what}" if "document" in what else f"delete of the {what}",
            unit="commits",
            values={LLAMA_INDEX: count},
            judged=count,
            target=Target(at_most=1),
            notes=(f"LlamaIndex's KVDocumentStore over LanceContextKVStore: {theirs} commits",),
        )
        for what, count in counts.items()
    ]


def _loaded(bench: Bench, most: int) -> tuple[dict[str, Side], tuple[str, ...]]:
    """The sides that hold the nodes, and why the others do not."""
    sides: dict[str, Side] = {}
    rows = min(bench.rows, most)
    notes = [f"{rows:,} nodes"]
    for name in (LLAMA_INDEX, *LLAMA_INDEX_PEERS):
        uri = str(bench.folder / f"llama-index-{rows}-{name.replace(', ', '-')}-{id(sides)}")
        try:
            side = bench.start(name)
            side.ask("load", uri=uri, corpus=str(bench.corpus.path), rows=rows, timeout_seconds=900)
            if name == LLAMA_INDEX:
                notes.append(f"{name}: maintain() indexed {side.ask('maintain') or 'nothing'}")
                sides[ADAPTER_STORE] = side
        except SideError as error:
            notes.append(bench.failed(name, error))
            continue
        sides[name] = side
    return sides, tuple(notes)


def _ours_once(sides: Mapping[str, Side]) -> dict[str, Side]:
    """Without the store under the adapter, which is in the same process."""
    return {name: side for name, side in sides.items() if name != ADAPTER_STORE}


def _questions(bench: Bench) -> Sequence[Mapping[str, Any]]:
    """All the queries that there are, however few another figure asks."""
    pairs = zip(bench.corpus.query_texts, bench.corpus.queries.tolist(), strict=True)
    return [{"op": "query", "text": text, "vector": vector, "limit": _K} for text, vector in pairs]


def _additions(bench: Bench) -> Sequence[Mapping[str, Any]]:
    place = {"corpus": str(bench.corpus.path), "rows": min(bench.rows, _NODES)}
    return [{"op": "add", "number": number, **place} for number in range(_ADDS)]


def _elsewhere(bench: Bench) -> Callable[[str, Mapping[str, Any]], Mapping[str, Any]]:
    """Give each side a new place for each addition."""

    def adapt(name: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        asked = dict(request)
        place = f"llama-index-add-{asked.pop('number')}-{name.replace(', ', '-')}"
        return {**asked, "uri": str(bench.folder / place)}

    return adapt


def _own(name: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The store is asked by its own call, in the process of the adapter."""
    return {**request, "op": "store_query"} if name == ADAPTER_STORE else request


def _recall(bench: Bench, turns: Turns, *, notes: tuple[str, ...]) -> Row:
    truth = bench.corpus.nearest(_K, rows=_NODES)
    recalls = {
        name: mean(
            len(true & set(answer["ids"])) / _K
            for true, answer in zip(truth, answers, strict=False)
        )
        for name, answers in turns.answers.items()
    }
    return Row(
        what="recall@10 against brute force",
        unit="share",
        values=recalls,
        judged=recalls.get(LLAMA_INDEX),
        target=Target(at_least=0.95),
        notes=notes,
    )


def _beside(peer: str, what: str, turns: Turns, at_most: float) -> Row:
    times = turns.medians_ms()
    return Row(
        what=what,
        unit="ms",
        values=times,
        judged=ratio(times, of=LLAMA_INDEX, to=peer),
        target=Target(at_most=at_most),
        notes=turns.notes,
    )
