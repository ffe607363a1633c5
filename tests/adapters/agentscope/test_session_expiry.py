"""When sessions end that nobody uses, on all lines of the runtime."""

import asyncio

from adapters.agentscope.samples import said, texts
from agentscope_lance_context import LanceContextSessionHistoryService
from core.conformance.doubles import ManualClock

from lance_context_core import AsyncContextStore, Message


async def append(service, text):
    session = await service.get_session("ada", "monday")
    await service.append_message(session, said(text))
    return session


async def stored(service):
    session = await service.get_session("ada", "monday")
    return texts(session.messages)


async def listed(service):
    return [one.id for one in await service.list_sessions("ada")]


def test_a_session_is_forgotten_when_it_was_not_used_for_long_enough(tmp_path):
    async def main():
        clock = ManualClock()
        async with await AsyncContextStore.open(tmp_path / "store", clock=clock) as store:
            service = LanceContextSessionHistoryService(store, ttl_seconds=10)
            session = await append(service, "a")
            clock.advance(seconds=9)
            assert await stored(service) == ["a"]
            clock.advance(seconds=9)
            await service.append_message(session, said("b"))
            clock.advance(seconds=9)
            assert await stored(service) == ["a", "b"]
            clock.advance(seconds=10)
            assert await listed(service) == []
            assert await stored(service) == []
            assert await store.scope(user_id="ada").history.count("", session_id="monday") == 0

    asyncio.run(main())


def test_a_session_that_another_framework_goes_on_with_does_not_end(tmp_path):
    async def main():
        clock = ManualClock()
        async with await AsyncContextStore.open(tmp_path / "store", clock=clock) as store:
            service = LanceContextSessionHistoryService(store, ttl_seconds=10)
            history = store.scope(user_id="ada").history
            await append(service, "a")
            clock.advance(seconds=9)
            await history.append("", Message.user("b"), session_id="monday")
            clock.advance(seconds=9)
            assert await listed(service) == ["monday"]
            assert await stored(service) == ["a", "b"]
            clock.advance(seconds=9)
            assert await stored(service) == ["a", "b"]
            clock.advance(seconds=10)
            assert await listed(service) == []
            assert await stored(service) == []

    asyncio.run(main())
