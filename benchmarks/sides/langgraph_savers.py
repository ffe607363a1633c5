"""LangGraph's agent over checkpointers: the adapter's, SQLite's without syncing, and that in memory."""

import asyncio
import time
from pathlib import Path
from typing import Any

import aiosqlite
import lancedb
import pyarrow as pa
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_lance_context import LanceContextSaver
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from benchmarks.sides.measuring import bytes_in, timed_async
from benchmarks.sides.opened import RUNNER, LaterClock, settle
from benchmarks.sides.protocol import serve
from lance_context_core import AsyncContextStore

_MONTH_DAYS = 31
_SAVERS: dict[str, BaseCheckpointSaver[Any]] = {}
_TABLES: dict[str, Any] = {}


class Scripted(BaseChatModel):
    """Answers at once; where it is to use tools, it calls one for every question first."""

    uses_tools: bool = False

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> "Scripted":
        """Itself: it knows what there is."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        message = AIMessage(f"answer {len(messages)}: " + "word " * 20)
        if self.uses_tools and isinstance(messages[-1], HumanMessage):
            call = {"name": "look_up", "args": {"word": "x"}, "id": f"call-{len(messages)}"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


def look_up(word: str) -> str:
    """What a word means."""
    return f"{word} is a letter"


def turns(
    *, saver: str, folder: str, thread: str, start: int, count: int, uses_tools: bool
) -> list[float]:
    """The seconds of each of `count` turns of one thread, one after the other."""

    async def run() -> list[float]:
        agent = await _agent(saver, folder, uses_tools=uses_tools)
        return [
            (await timed_async(_turn(agent, thread, number)))[0]
            for number in range(start, start + count)
        ]

    return RUNNER.run(run())


def threads(*, saver: str, folder: str, name: str, count: int, at_once: bool) -> float:
    """The seconds that so many new threads need for a turn each, at once or one after the other."""

    async def run() -> None:
        agent = await _agent(saver, folder)
        work = [_turn(agent, f"{name}-{number}", number) for number in range(count)]
        if at_once:
            await asyncio.gather(*work)
            return
        for one in work:
            await one

    async def timed() -> float:
        return (await timed_async(run()))[0]

    return RUNNER.run(timed())


def adds(*, folder: str, count: int) -> list[float]:
    """The seconds of each of so many additions of a row of two columns to a table of LanceDB."""

    async def run() -> list[float]:
        if folder not in _TABLES:
            connection = await lancedb.connect_async(f"{folder}/raw")
            schema = pa.schema([("key", pa.string()), ("data", pa.large_binary())])
            _TABLES[folder] = await connection.create_table("rows", schema=schema)
        seconds = []
        for number in range(count):
            rows = pa.table({"key": [str(number)], "data": [b"x" * 600]})
            rows = rows.cast(await _TABLES[folder].schema())
            began = time.perf_counter()
            await _TABLES[folder].add(rows)
            seconds.append(time.perf_counter() - began)
        return seconds

    return RUNNER.run(run())


def grown_bytes(*, saver: str, folder: str, checkpoints: int) -> int:
    """What a thread takes on the disk that gained a message with each checkpoint, a month later."""

    async def run() -> int:
        await _put_growing(await _saver(saver, folder), checkpoints)
        if saver == "sqlite":
            await _SAVERS[saver].conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return bytes_in(f"{folder}/sqlite")
        await _SAVERS.pop(saver).aclose()
        store = AsyncContextStore.open(f"{folder}/lance", clock=LaterClock(_MONTH_DAYS))
        await settle(store, f"{folder}/lance")
        await store.close()
        return bytes_in(f"{folder}/lance")

    return RUNNER.run(run())


async def _put_growing(saver: BaseCheckpointSaver[Any], checkpoints: int) -> None:
    config: Any = {"configurable": {"thread_id": "long", "checkpoint_ns": ""}}
    messages: list[BaseMessage] = []
    versions: dict[str, Any] = {}
    for number in range(checkpoints):
        # A fifth of a kilobyte each, as messages of a chat have.
        messages.append(HumanMessage(f"{number}: " + "word " * 40, id=f"message-{number}"))
        checkpoint = empty_checkpoint()
        versions = {"messages": saver.get_next_version(versions.get("messages"), None)}
        checkpoint["id"] = str(uuid6())
        checkpoint["channel_values"] = {"messages": list(messages)}
        checkpoint["channel_versions"] = versions
        config = await saver.aput(
            config, checkpoint, {"source": "loop", "step": number, "parents": {}}, versions
        )


async def _saver(name: str, folder: str) -> BaseCheckpointSaver[Any]:
    if name not in _SAVERS:
        if name == "lance":
            _SAVERS[name] = LanceContextSaver(f"{folder}/lance")
        elif name == "memory":
            _SAVERS[name] = InMemorySaver()
        else:
            await asyncio.to_thread(Path(folder, "sqlite").mkdir, parents=True)
            saver = AsyncSqliteSaver(await aiosqlite.connect(f"{folder}/sqlite/saver.db"))
            await saver.setup()
            await saver.conn.execute("PRAGMA synchronous = OFF")
            _SAVERS[name] = saver
    return _SAVERS[name]


async def _agent(saver: str, folder: str, *, uses_tools: bool = False) -> Any:
    model = Scripted(uses_tools=uses_tools)
    return create_agent(model, [look_up], checkpointer=await _saver(saver, folder))


async def _turn(agent: Any, thread: str, number: int) -> None:
    question = HumanMessage(f"question {number}: " + "why " * 20)
    await agent.ainvoke({"messages": [question]}, {"configurable": {"thread_id": thread}})


if __name__ == "__main__":
    serve({"turns": turns, "threads": threads, "adds": adds, "grown_bytes": grown_bytes})
