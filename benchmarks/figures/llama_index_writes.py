"""One thing added by LlamaIndex: a node, a document, a message of a chat; vs. what others do."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bench import (
    LLAMA_INDEX,
    LLAMA_INDEX_CHROMA,
    LLAMA_INDEX_LANCEDB,
    LLAMA_INDEX_SQLITE,
    Bench,
    in_turn,
    ratio,
)
from benchmarks.corpus import DIMENSION
from benchmarks.processes import Side, SideError
from benchmarks.registry import Row, Target, figure

_NODES = 2_000
_WRITES = 200
_BESIDE_LANCEDB, _BESIDE_SQLITE = 0.5, 1.5
_NOTES = (
    f"the vector stores hold {_NODES:,} nodes; vs. a node that is added to the LanceDB store",
    "Chroma keeps its log in SQLite",
    "SQLite: LlamaIndex's KVDocumentStore over a table, its SQLAlchemyChatStore; WAL, synchronous off",
)


@figure(
    "llama-index-writes", "One node, one document, one message of a chat added, by LlamaIndex's"
)
def writes(bench: Bench) -> list[Row]:
    """Each by its own call, and every store's before the next one."""
    vectors, documents, notes = _opened(bench)
    rows = []
    for op, what, peer in (
        ("add_node", "one node added to the vector store", LLAMA_INDEX_CHROMA),
        ("put_document", "one node put into the document store", LLAMA_INDEX_SQLITE),
        ("add_message", "one message added to a chat", LLAMA_INDEX_SQLITE),
    ):
        sides = {**(vectors if op == "add_node" else documents)}
        if LLAMA_INDEX_LANCEDB in vectors:
            sides[LLAMA_INDEX_LANCEDB] = vectors[LLAMA_INDEX_LANCEDB]
        turns = in_turn(bench, sides, _requests(bench, op), adapt=_node_for_lancedb)
        ms = turns.medians_ms()
        rows += [
            Row(
                what=f"{what}, vs. {name}",
                unit="ms",
                values=ms,
                judged=ratio(ms, of=LLAMA_INDEX, to=other),
                target=Target(at_most=at_most),
                notes=(*_NOTES, *notes, *turns.notes),
            )
            for name, other, at_most in (
                ("LanceDB", LLAMA_INDEX_LANCEDB, _BESIDE_LANCEDB),
                (peer.removeprefix("llama-index, "), peer, _BESIDE_SQLITE),
            )
        ]
    return rows


def _opened(bench: Bench) -> tuple[dict[str, Side], dict[str, Side], list[str]]:
    """The sides with nodes, those with documents and chats, and why others are missing."""
    vectors: dict[str, Side] = {}
    documents: dict[str, Side] = {}
    notes = []
    names = (LLAMA_INDEX, LLAMA_INDEX_LANCEDB, LLAMA_INDEX_CHROMA, LLAMA_INDEX_SQLITE)
    for name in names:
        place = str(bench.folder / f"llama-index-writes-{name.replace(', ', '-')}")
        try:
            side = bench.start(name)
            if name != LLAMA_INDEX_SQLITE:
                side.ask("load", uri=place, corpus=str(bench.corpus.path), rows=_NODES)
                vectors[name] = side
            if name in (LLAMA_INDEX, LLAMA_INDEX_SQLITE):
                side.ask("open_small", uri=f"{place}-small")
                documents[name] = side
        except SideError as error:
            notes.append(bench.failed(name, error))
    return vectors, documents, notes


def _requests(bench: Bench, op: str) -> Sequence[Mapping[str, Any]]:
    texts, vectors = bench.corpus.query_texts, bench.corpus.queries.tolist()
    return [
        {"op": op, "number": number, "text": texts[number % len(texts)]}
        | ({"vector": vectors[number % len(vectors)]} if op == "add_node" else {})
        for number in range(_WRITES)
    ]


def _node_for_lancedb(name: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """It has neither documents nor chats: it is given a node each time."""
    if name != LLAMA_INDEX_LANCEDB or request["op"] == "add_node":
        return request
    number = request["number"] + (1 + (request["op"] == "add_message")) * _WRITES
    return {**request, "op": "add_node", "number": number, "vector": [0.5] * DIMENSION}
