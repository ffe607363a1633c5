"""AgentScope's ContextManager over the adapter's services, over Redis's, and over those in memory."""

import asyncio
from typing import Any

from agentscope_lance_context import LanceContextMemoryService, LanceContextSessionHistoryService
from agentscope_runtime.engine.schemas.agent_schemas import Message, TextContent
from agentscope_runtime.engine.services.context_manager import ContextManager
from agentscope_runtime.engine.services.memory_service import InMemoryMemoryService
from agentscope_runtime.engine.services.redis_memory_service import RedisMemoryService
from agentscope_runtime.engine.services.redis_session_history_service import (
    RedisSessionHistoryService,
)
from agentscope_runtime.engine.services.session_history_service import (
    InMemorySessionHistoryService,
)
from pyarrow import feather

from benchmarks.sides.measuring import timed_async, watched
from benchmarks.sides.opened import RUNNER, STORES, opened
from benchmarks.sides.protocol import serve

_TURNS = 20
_TOP_K = 5
_MANAGERS: dict[str, ContextManager] = {}
"""By the name that the harness gave them."""
_PLACES: dict[str, str] = {}
"""Where the adapter's services have their stores, by that name."""


def start(*, services: str, place: str) -> None:
    """Make a manager over services of that name; `place` is a directory, or a URL of Redis."""
    RUNNER.run(_start(services, place))


def fill(*, services: str, corpus: str, rows: int, users: int, session_rows: int) -> None:
    """Store messages of a corpus, those of one session in one call; sessions take turns by user.

    Every message is in the history and in the memory, as a manager leaves them. Then the store
    maintains itself.
    """
    texts = feather.read_table(corpus, columns=["text"]).column("text").to_pylist()

    async def run() -> None:
        manager = _MANAGERS[services]
        for begin in range(0, rows, session_rows):
            user, session_id = _names(begin // session_rows, users)
            session = await manager.session.create_session(user, session_id)
            messages = [
                _said(texts[number % len(texts)], "assistant" if number % 2 else "user")
                for number in range(begin, begin + session_rows)
            ]
            await manager.append(session, messages)
        if services in _PLACES:
            await STORES[_PLACES[services]].maintain()

    RUNNER.run(run())


def turn(*, services: str, number: int, users: int, text: str) -> dict[str, Any]:
    """Compose what a user says, and append an answer: the seconds of each, and of it all."""
    return RUNNER.run(_turn(services, number, users, text))


def crowd(*, services: str, number: int, users: int, text: str, at_once: bool) -> dict[str, float]:
    """A turn of each user, all at once or one after the other: the seconds of one, on average.

    `number` is the session of the first user.
    """

    async def run() -> None:
        turns = [_turn(services, number + user, users, text) for user in range(users)]
        if at_once:
            await asyncio.gather(*turns)
        else:
            for each in turns:
                await each

    seconds, _ = RUNNER.run(timed_async(run()))
    return {"seconds": seconds / users}


def search(*, services: str, number: int, users: int, text: str) -> dict[str, Any]:
    """What a user's memory says about a text."""

    async def run() -> dict[str, Any]:
        user, _ = _names(number, users)
        memory = _MANAGERS[services].memory
        seconds, found = await timed_async(
            memory.search_memory(user, [_said(text, "user")], {"top_k": _TOP_K})
        )
        return {"seconds": seconds, "found": len(found)}

    return RUNNER.run(run())


def stalls(*, place: str) -> dict[str, float]:
    """The longest stall of an event loop in seconds, while it only waits, and while turns are run.

    Twenty turns, four at once. A first turn is not watched: it imports and makes tables.
    """

    async def run() -> dict[str, float]:
        manager = await _manager("lance", place)

        async def one(number: int) -> None:
            session = await manager.compose_session(user_id="ada", session_id=f"s{number % 4}")
            said = [_said(f"text {number} {one}", "user") for one in range(10)]
            await manager.compose_context(session, request_input=said)
            await manager.append(session, event_output=said)
            await manager.memory.list_memory("ada", {"page_size": 50})

        await one(0)
        async with watched() as idle:
            await asyncio.sleep(1)
        async with watched() as busy:
            for begin in range(1, _TURNS, 4):
                await asyncio.gather(*(one(number) for number in range(begin, begin + 4)))
        return {"nothing": max(idle), "turns": max(busy)}

    return RUNNER.run(run())


async def _turn(services: str, number: int, users: int, text: str) -> dict[str, Any]:
    manager = _MANAGERS[services]
    user, session_id = _names(number, users)
    read, session = await timed_async(manager.compose_session(user_id=user, session_id=session_id))
    composed, _ = await timed_async(
        manager.compose_context(session, request_input=[_said(text, "user")])
    )
    appended, _ = await timed_async(
        manager.append(session, event_output=[_said(f"{text}, indeed", "assistant")])
    )
    return {
        "seconds": read + composed + appended,
        "composed": read + composed,
        "appended": appended,
        "messages": len(session.messages),
    }


async def _start(services: str, place: str) -> None:
    manager = await _manager(services, place)
    for service in (manager.session, manager.memory):
        await service.start()
    _MANAGERS[services] = manager
    if place in STORES:
        _PLACES[services] = place


async def _manager(services: str, place: str) -> ContextManager:
    if services.startswith("lance"):
        store = await opened(place, place)
        history, memory = LanceContextSessionHistoryService(store), LanceContextMemoryService(store)
    elif services == "redis":
        history, memory = RedisSessionHistoryService(place), RedisMemoryService(place)
    else:
        history, memory = InMemorySessionHistoryService(), InMemoryMemoryService()
    return ContextManager(session_history_service=history, memory_service=memory)


def _names(number: int, users: int) -> tuple[str, str]:
    """Whose session of that number it is, and what it is called."""
    return f"user{number % users}", f"session{number}"


def _said(text: str, role: str) -> Message:
    return Message(role=role, content=[TextContent(text=text)], status="completed")


if __name__ == "__main__":
    serve(
        {
            "start": start,
            "fill": fill,
            "turn": turn,
            "crowd": crowd,
            "search": search,
            "stalls": stalls,
        }
    )
