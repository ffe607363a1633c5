"""The LangChain adapter, vs. the store's own calls and vs. other vector stores of LangChain."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean
from typing import Any

from benchmarks.bench import (
    ADAPTER,
    ADAPTER_STORE,
    LANGCHAIN_PEERS,
    Bench,
    Turns,
    in_turn,
    ratio,
)
from benchmarks.processes import Side, SideError
from benchmarks.registry import Row, Target, figure

_DOCUMENTS = 10_000
_K = 10
_LAST = 50
_STALL_ROUNDS = 5
_STALL_MS = 20


@figure("langchain-search", "LangChain's vector stores, 10,000 documents of 384 dimensions, k = 10")
def similarity_search(bench: Bench) -> list[Row]:
    """One search, vs. the store's own query and vs. other vector stores."""
    sides, notes = _loaded(bench)
    turns = in_turn(bench, sides, _questions(bench, "similarity_search"), adapt=_own)
    ours = {name: side for name, side in sides.items() if name in {ADAPTER, ADAPTER_STORE}}
    awaited = in_turn(bench, ours, _questions(bench, "asimilarity_search"), adapt=_own)
    return [
        _recall(bench, turns, notes=(*notes, *turns.notes)),
        _beside_the_store("time of similarity_search, vs. the store's own query", turns, 1.3),
        _beside_the_store("the same, awaited", awaited, 1.3),
    ]


@figure("langchain-history", "The last 50 messages of one long session, as LangChain's")
def chat_history(bench: Bench) -> list[Row]:
    """The end of a session that holds as many messages as the other figures have records."""
    try:
        side = bench.start(ADAPTER)
        place = {"uri": str(bench.folder / "langchain-history"), "corpus": str(bench.corpus.path)}
        side.ask("converse", **place, rows=bench.rows, timeout_seconds=900)
    except SideError as error:
        return [Row(what="time", unit="ms", notes=(bench.failed(ADAPTER, error),))]
    requests = [{"op": "last_messages", "limit": _LAST}] * bench.repeats
    turns = in_turn(bench, {ADAPTER: side, ADAPTER_STORE: side}, requests, adapt=_own)
    wrong = [
        f"{name}: {answers[0]['found']} messages found"
        for name, answers in turns.answers.items()
        if answers[0]["found"] != _LAST
    ]
    row = _beside_the_store("time of messages, vs. the store's own call", turns, 2)
    notes = (f"{bench.rows:,} messages in the session", *wrong, *row.notes)
    return [replace(row, notes=notes)]


@figure(
    "langchain-stalls",
    "Longest stall of the event loop while LangChain's classes read and write, least of five rounds",
)
def loop_stalls(bench: Bench) -> list[Row]:
    """By how much a clock on the same loop was late at most.

    The least of five rounds: what blocks the loop does so in each, what else the machine does not.
    """
    try:
        side = bench.start(ADAPTER)
        rounds = [
            side.ask("stalls", uri=str(bench.folder / f"langchain-stalls-{number}"))
            for number in range(_STALL_ROUNDS)
        ]
    except SideError as error:
        return [Row(what="stall", unit="ms", notes=(bench.failed(ADAPTER, error),))]
    stalls = {name: min(one[name] for one in rounds) * 1_000 for name in rounds[0]}
    idle = stalls.pop("nothing")
    return [
        *[
            Row(
                what=name,
                unit="ms",
                values={ADAPTER: stall},
                judged=stall,
                target=Target(at_most=_STALL_MS),
            )
            for name, stall in stalls.items()
        ],
        Row(what="a loop on which nothing but a timer runs", unit="ms", values={ADAPTER: idle}),
    ]


def _loaded(bench: Bench) -> tuple[dict[str, Side], tuple[str, ...]]:
    """The sides that hold the documents, and why the others do not."""
    sides: dict[str, Side] = {}
    notes = []
    rows = min(bench.rows, _DOCUMENTS)
    for name in (ADAPTER, *LANGCHAIN_PEERS):
        uri = str(bench.folder / f"langchain-{len(sides)}")
        try:
            side = bench.start(name)
            side.ask("load", uri=uri, corpus=str(bench.corpus.path), rows=rows, timeout_seconds=900)
            if name == ADAPTER:
                notes.append(f"{name}: maintain() indexed {side.ask('maintain')}")
                sides[ADAPTER_STORE] = side
        except SideError as error:
            notes.append(bench.failed(name, error))
            continue
        sides[name] = side
    return sides, (f"{rows:,} documents", *notes)


def _questions(bench: Bench, op: str) -> Sequence[Mapping[str, Any]]:
    pairs = zip(bench.corpus.query_texts, bench.corpus.queries.tolist(), strict=True)
    asked = [{"op": op, "text": text, "vector": vector, "limit": _K} for text, vector in pairs]
    return asked[: bench.repeats]


_OF_THE_STORE = {
    "similarity_search": "store_search",
    "asimilarity_search": "store_asearch",
    "last_messages": "store_last",
}


def _own(name: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The store is asked by its own call, in the process of the adapter."""
    return {**request, "op": _OF_THE_STORE[request["op"]]} if name == ADAPTER_STORE else request


def _recall(bench: Bench, turns: Turns, *, notes: tuple[str, ...]) -> Row:
    truth = bench.corpus.nearest(_K, rows=_DOCUMENTS)
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
        judged=recalls.get(ADAPTER),
        target=Target(at_least=0.95),
        notes=notes,
    )


def _beside_the_store(what: str, turns: Turns, at_most: float) -> Row:
    times = turns.medians_ms()
    return Row(
        what=what,
        unit="ms",
        values=times,
        judged=ratio(times, of=ADAPTER, to=ADAPTER_STORE),
        target=Target(at_most=at_most),
        notes=turns.notes,
    )
