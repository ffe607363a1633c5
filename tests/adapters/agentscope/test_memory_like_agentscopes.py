"""The memory service beside AgentScope's own: in its place nobody sees a difference."""

import asyncio

from adapters.agentscope.samples import said, texts
from agentscope_lance_context import LanceContextMemoryService
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context_core import AsyncContextStore

try:
    from agentscope_runtime.engine.services.memory import InMemoryMemoryService
except ImportError:
    from agentscope_runtime.engine.services.memory_service import InMemoryMemoryService

# Few of each, so that they meet: sessions that go on after others began, words within words.
SESSIONS = st.sampled_from(["monday", "tuesday", "b", "a", "", None])
WORDS = st.sampled_from(
    ["tea", "TEAPOT", "pot", "ea", "t", "%", "_", "it's", '"', "\\", "ö", "100%", "a_b", "OR 1=1"]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
ADDED = st.tuples(st.just("add"), SESSIONS, st.lists(TEXTS, min_size=1, max_size=3))
FORGOTTEN = st.tuples(st.just("delete"), SESSIONS)
TOP_K = st.sampled_from([None, -2, 0, 1, 2, 5, 50])
SEARCHED = st.tuples(st.just("search"), TEXTS, TOP_K)
LISTED = st.tuples(st.just("list"), st.integers(1, 3), st.integers(1, 6))
STEPS = st.lists(st.one_of(ADDED, ADDED, ADDED, FORGOTTEN, SEARCHED, SEARCHED, LISTED), max_size=25)


async def step(service, verb, *arguments):
    """What a service answers to one step; None to those that only write."""
    match verb, *arguments:
        case "add", session, several:
            await service.add_memory("ada", [said(text) for text in several], session)
            await service.add_memory("ben", [said("tea with Ben")], session)
        case "delete", session:
            await service.delete_memory("ada", session)
        case "search", text, top_k:
            filters = None if top_k is None else {"top_k": top_k}
            return texts(await service.search_memory("ada", [said(text)], filters))
        case "list", page, size:
            filters = {"page_num": page, "page_size": size}
            return texts(await service.list_memory("ada", filters))
    return None


@settings(max_examples=30, deadline=None)
@given(steps=STEPS)
def test_it_finds_and_lists_what_agentscopes_own_service_does(steps):
    async def main():
        async with await AsyncContextStore.open("memory://") as store:
            ours, own = LanceContextMemoryService(store), InMemoryMemoryService()
            await own.start()
            for one in [*steps, ("search", "tea pot", 3), ("search", "a", None), ("list", 1, 100)]:
                assert await step(ours, *one) == await step(own, *one)

    asyncio.run(main())


def test_the_last_matches_are_those_of_the_session_that_began_last():
    async def main():
        async with await AsyncContextStore.open("memory://") as store:
            service = LanceContextMemoryService(store)
            for session, text in (("monday", "tea 1"), ("tuesday", "tea 2"), ("monday", "tea 3")):
                await service.add_memory("ada", [said(text)], session)
            return [
                texts(await service.search_memory("ada", [said("tea")], {"top_k": k}))
                for k in (1, 2, 3)
            ]

    assert asyncio.run(main()) == [["tea 2"], ["tea 3", "tea 2"], ["tea 1", "tea 3", "tea 2"]]


def test_as_many_messages_of_a_session_are_remembered_as_are_wanted():
    async def main():
        async with await AsyncContextStore.open("memory://") as store:
            everything = LanceContextMemoryService(store)
            await everything.add_memory("ada", [said(f"tea {n}") for n in range(5)], "tuesday")
            await everything.add_memory("ben", [said(f"tea {n}") for n in range(5)], "monday")
            service = LanceContextMemoryService(store, max_messages_per_session=3)
            for n in range(5):
                await service.add_memory("ada", [said(f"tea {n}")], "monday")
            await service.add_memory("ada", [said(f"tea {n}") for n in range(7)])
            found = await everything.list_memory("ada", {"page_size": 20})
            of_ben = await everything.list_memory("ben")
            return texts(found), len(of_ben)

    in_default, on_monday, on_tuesday = (4, 5, 6), (2, 3, 4), range(5)
    remembered = [f"tea {n}" for n in (*in_default, *on_monday, *on_tuesday)]
    assert asyncio.run(main()) == (remembered, 5)


def test_what_is_remembered_of_all_users_is_forgotten_at_once():
    async def main():
        async with await AsyncContextStore.open("memory://") as store:
            service = LanceContextMemoryService(store)
            for user in ("ada", "", "~"):
                await service.add_memory(user, [said("tea")])
            await service.clear_all_memory()
            return [await service.list_memory(user) for user in ("ada", "", "~")]

    assert asyncio.run(main()) == [[], [], []]
