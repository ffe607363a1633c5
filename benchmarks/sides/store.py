"""The store of this project, through its asynchronous API."""

from datetime import datetime
from typing import Any

from pyarrow import feather

from benchmarks.sides import store_small, store_stalls, store_upkeep, store_writing
from benchmarks.sides.measuring import timed_async
from benchmarks.sides.opened import RUNNER, STORES
from benchmarks.sides.protocol import serve
from lance_context_core import AsyncContextStore, Document, ImagePart, Message, TextPart

_AGENT = "bench"
_BATCH = 10_000
_COLLECTION = "docs"
_IDS: list[str] = []
"""Of the records, in order: a record that is given an external id is given its id by the store."""


def load(*, uri: str, corpus: str, rows: int, has_journal: bool = True) -> str:
    """Store the first `rows` records and let the store maintain itself; returns its indexes."""
    table = feather.read_table(corpus).slice(0, rows)
    options: dict[str, Any] = {} if has_journal else {"journal": None}

    async def run() -> str:
        store = AsyncContextStore.open(uri, **options)
        for start in range(0, rows, _BATCH):
            added = await store.context("default").add_many(
                {
                    "role": "user",
                    "content": row["text"],
                    "embedding": row["vector"],
                    "external_id": row["external_id"],
                    "session_id": row["session_id"],
                    "agent_id": _AGENT,
                }
                for row in table.slice(start, _BATCH).to_pylist()
            )
            _IDS.extend(added.ids)
            await store.vectors(_COLLECTION).add(
                [
                    Document(id=row["external_id"], text=row["text"], embedding=row["vector"])
                    for row in table.slice(start, _BATCH).to_pylist()
                ]
            )
        done = await store.maintain()
        STORES["records"] = store
        return "; ".join(
            f"maintain() indexed {', '.join(one.indexes_built)} of {one.table}" for one in done
        )

    return RUNNER.run(run())


def vector(*, of: str, vector: list[float], text: str, limit: int) -> dict[str, Any]:
    """The nearest `of` the documents of a collection, or of the records."""
    del text

    async def run() -> dict[str, Any]:
        if of == "records":
            context = STORES["records"].context("default")
            work = context.search(vector, limit=limit, include_embedding=False)
            seconds, rows = await timed_async(work)
            return {"seconds": seconds, "ids": [row["external_id"] for row in rows]}
        documents = STORES["records"].vectors(_COLLECTION)
        seconds, hits = await timed_async(documents.search(vector, limit=limit))
        return {"seconds": seconds, "ids": [hit.record.id for hit in hits]}

    return RUNNER.run(run())


def hybrid(*, of: str, vector: list[float], text: str, limit: int) -> dict[str, Any]:
    """Vectors and words, fused by the store."""

    async def run() -> dict[str, Any]:
        work: Any
        if of == "records":
            work = STORES["records"].search(text, vector=vector, limit=limit)
        else:
            documents = STORES["records"].vectors(_COLLECTION)
            work = documents.search(text, vector=vector, limit=limit)
        seconds, found = await timed_async(work)
        return {"seconds": seconds, "found": len(found)}

    return RUNNER.run(run())


def get(*, by: str, value: str) -> dict[str, Any]:
    """One record by its `external_id`, or by the id of the record that peers call `r` and a number."""

    async def run() -> dict[str, Any]:
        context = STORES["records"].context("default")
        given = {"id": _IDS[int(value[1:])]} if by == "id" else {"external_id": value}
        seconds, found = await timed_async(context.get(**given))
        return {"seconds": seconds, "found": int(found is not None)}

    return RUNNER.run(run())


def last(*, session: str, limit: int) -> dict[str, Any]:
    """The last messages of a session."""

    async def run() -> dict[str, Any]:
        history = STORES["records"].history
        work = history.get_messages(_AGENT, session_id=session, last=limit)
        seconds, found = await timed_async(work)
        return {"seconds": seconds, "found": len(found)}

    return RUNNER.run(run())


def conversation(*, uri: str, name: str, turns: list[dict[str, Any]]) -> None:
    """Store a conversation, session by session, embedded by the local embedder."""

    async def run() -> None:
        store = AsyncContextStore.open(f"{uri}-{name}", embedder="local")
        for session in sorted({turn["session"] for turn in turns}):
            messages = [_message(turn) for turn in turns if turn["session"] == session]
            await store.history.append_many(_AGENT, messages, session_id=f"s{session}")
        STORES[name] = store

    RUNNER.run(run())


def recall(*, name: str, text: str, vector: list[float], limit: int) -> list[str]:
    """The turns that the store finds with its defaults."""
    del vector

    async def run() -> list[str]:
        found = await STORES[name].history.search(text, agent_id=_AGENT, limit=limit)
        return [hit.record.id for hit in found]

    return RUNNER.run(run())


def _message(turn: dict[str, Any]) -> Message:
    caption = turn["image_caption"]
    shown = [ImagePart(url="image:unseen", caption=caption)] if caption else []
    return Message.user(
        [TextPart(text=turn["text"]), *shown],
        id=turn["id"],
        name=turn["speaker"],
        created_at=datetime.fromisoformat(turn["session_time"]),
    )


if __name__ == "__main__":
    serve(
        {
            "load": load,
            "vector": vector,
            "hybrid": hybrid,
            "get": get,
            "last": last,
            "conversation": conversation,
            "recall": recall,
            **store_writing.OPERATIONS,
            **store_upkeep.OPERATIONS,
            **store_small.OPERATIONS,
            **store_stalls.OPERATIONS,
        }
    )
