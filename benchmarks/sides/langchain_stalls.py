"""How long an event loop stands still while the adapter's classes read and write on it."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_lance_context import (
    LanceContextChatMessageHistory,
    LanceContextSaver,
    LanceContextStore,
    LanceContextVectorStore,
)
from langgraph.checkpoint.base import empty_checkpoint

from benchmarks.sides.langchain_vectors import Known
from benchmarks.sides.measuring import watched
from lance_context_core import AsyncContextStore

_DIMENSION = 384
_TURNS = 20


async def longest_stalls(uri: str) -> dict[str, float]:
    """The seconds by which the loop was late at most, by class, and while it only waited.

    Every class reads and writes twenty times, four at once. A first turn is not watched: it imports
    and makes tables.
    """
    store = AsyncContextStore.open(uri)
    turns: dict[str, Callable[[int], Awaitable[None]]] = {
        "nothing": _nothing,
        "vector store": _documents(store),
        "history": _messages(store),
        "saver": _checkpoints(store),
        "store": _items(store),
    }
    found = {}
    for name, turn in turns.items():
        await turn(0)
        async with watched() as lateness:
            for start in range(1, _TURNS, 4):
                await asyncio.gather(*(turn(number) for number in range(start, start + 4)))
        found[name] = max(lateness)
    await store.close()
    return found


async def _nothing(_: int) -> None:
    await asyncio.sleep(0.02)


def _documents(store: AsyncContextStore) -> Callable[[int], Awaitable[None]]:
    # Made before anything is watched.
    texts_of = [[f"text {number} {one}" for one in range(20)] for number in range(_TURNS + 1)]
    embeddings = _known(text for texts in texts_of for text in texts)
    vectorstore = LanceContextVectorStore(store, embeddings)

    async def turn(number: int) -> None:
        texts = texts_of[number]
        ids = await vectorstore.aadd_texts(texts, [{"number": number}] * len(texts))
        await vectorstore.asimilarity_search(texts[0], k=10)
        await vectorstore.aget_by_ids(ids)
        await vectorstore.adelete(ids[:1])

    return turn


def _messages(store: AsyncContextStore) -> Callable[[int], Awaitable[None]]:
    history = LanceContextChatMessageHistory(store, "monday", limit=50)

    async def turn(number: int) -> None:
        said = [HumanMessage(f"{number}?"), AIMessage(f"{number}.")]
        await history.aadd_messages(said)
        await history.aget_messages()

    return turn


def _checkpoints(store: AsyncContextStore) -> Callable[[int], Awaitable[None]]:
    saver = LanceContextSaver(store)

    async def turn(number: int) -> None:
        config: Any = {"configurable": {"thread_id": str(number % 4), "checkpoint_ns": ""}}
        checkpoint = empty_checkpoint()
        said = [HumanMessage(f"{number} {one}") for one in range(50)]
        checkpoint["channel_values"] = {"messages": said}
        checkpoint["channel_versions"] = {"messages": f"{number:032}.0"}
        versions = checkpoint["channel_versions"]
        config = await saver.aput(config, checkpoint, {"step": number}, versions)
        await saver.aput_writes(config, [("messages", said[:1])], task_id="task")
        await saver.aget_tuple(config)

    return turn


def _items(store: AsyncContextStore) -> Callable[[int], Awaitable[None]]:
    embeddings = _known(f"item {number}" for number in range(_TURNS + 1))
    items = LanceContextStore(store, index={"dims": _DIMENSION, "embed": embeddings})

    async def turn(number: int) -> None:
        text = f"item {number}"
        await items.aput(("user", "ada"), text, {"text": text}, index=["text"])
        await items.aget(("user", "ada"), text)
        await items.asearch(("user",), query=text, limit=10)

    return turn


def _known(texts: Iterable[str]) -> Known:
    """Embeddings that know some vector of each text."""
    draw = random.Random(0)
    return Known({text: [draw.random() for _ in range(_DIMENSION)] for text in texts}.__getitem__)
