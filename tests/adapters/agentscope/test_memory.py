"""Long-term memories of the store as AgentScope's memory service, on all lines of the runtime."""

import asyncio

import pytest
from adapters.agentscope.samples import MESSAGES, dumps, said, texts
from agentscope_lance_context import LanceContextMemoryService
from agentscope_lance_context._runtime import MemoryService
from core.conformance.doubles import ManualClock, WordVectors
from lance_context_testing import MemoryServiceTests

from lance_context_core import AsyncContextStore, ContextStore, InvalidRequestError


def with_memory(restarts, use, **options):
    """What `use` returns of a service that lives for this call."""

    async def main():
        service = restarts.memory(**options)
        try:
            return await use(service)
        finally:
            await service.stop()

    return asyncio.run(main())


def found(restarts, query, user="ada", **filters):
    """The texts that a new service finds."""
    messages = with_memory(
        restarts, lambda service: service.search_memory(user, [said(query)], filters or None)
    )
    return texts(messages)


def remember(restarts, *given, user="ada", session=None, **options):
    messages = [said(text) for text in given]
    with_memory(restarts, lambda service: service.add_memory(user, messages, session), **options)


class TestMemoriesOfTheStore(MemoryServiceTests):
    """What the service forwards to keeps the store's own contract."""

    search_modes = ("text",)

    @pytest.fixture
    def memory(self, restarts):
        return restarts.memory()._handle.aio.memory


def test_it_is_what_agentscope_calls_one(restarts):
    assert isinstance(restarts.memory(), MemoryService)


def test_messages_of_every_kind_read_back_equal_after_a_restart(restarts):
    given = list(MESSAGES.values())
    with_memory(restarts, lambda service: service.add_memory("ada", given))
    listed = with_memory(
        restarts, lambda service: service.list_memory("ada", {"page_size": len(given) + 1})
    )
    assert dumps(listed) == dumps(given)


def test_what_is_added_twice_is_there_twice_unless_that_is_not_wanted(restarts):
    async def use(service):
        for _ in range(2):
            await service.add_memory("ada", [said("a", id="1"), said("b", id="2")], "monday")
        await service.add_memory("ada", [said("a", id="1")], "tuesday")
        listed = texts(await service.list_memory("ada"))
        await service.delete_memory("ada")
        return listed

    assert with_memory(restarts, use) == ["a", "b", "a", "b", "a"]
    assert with_memory(restarts, use, deduplicate=True) == ["a", "b", "a"]


@pytest.mark.parametrize("messages", [None, [], [None]])
def test_no_messages_are_no_error(restarts, messages):
    async def use(service):
        await service.add_memory("ada", messages)
        return await service.list_memory("ada")

    assert with_memory(restarts, use) == []


# Search by words


def test_the_last_matches_are_found_in_the_order_in_which_they_were_added(restarts):
    remember(restarts, *(f"message with keyword {n}" for n in range(5)))
    assert found(restarts, "keyword", top_k=3) == [f"message with keyword {n}" for n in (2, 3, 4)]
    assert len(found(restarts, "keyword")) == 5
    # AgentScope takes the last 0 of a list, which is all of it.
    assert len(found(restarts, "keyword", top_k=0)) == 5


def test_nothing_is_found_where_nothing_matches(restarts):
    remember(restarts, "some content here")
    assert found(restarts, "xyz") == []
    assert found(restarts, "  ") == []
    assert found(restarts, "content", user="ben") == []


def test_all_sessions_are_searched_whatever_the_filter_says(restarts):
    remember(restarts, "apple banana", session="monday")
    remember(restarts, "banana orange", session="tuesday")
    assert found(restarts, "banana", session_id="monday") == ["apple banana", "banana orange"]
    assert found(restarts, "APPLE") == ["apple banana"]
    assert found(restarts, "nan") == ["apple banana", "banana orange"]


def test_the_first_text_of_what_was_said_is_searched_alone(restarts):
    twice = said("first")
    twice.content.extend(said("second").content)
    told = said("first thought", "assistant", type="reasoning")
    with_memory(
        restarts,
        lambda service: service.add_memory("ada", [twice, told, MESSAGES["output that is text"]]),
    )
    assert found(restarts, "first") == ["first"]
    assert found(restarts, "second") == []
    assert found(restarts, "cups") == []


def test_the_last_message_is_the_question(restarts):
    remember(restarts, "apple", "pear")

    async def use(service):
        asked = [
            await service.search_memory("ada", messages)
            for messages in (
                [said("apple"), said("pear")],
                [said("apple"), said("pear", type="reasoning")],
                [said("apple"), MESSAGES["no content"]],
                [{"role": "user", "content": "apple"}],
                [],
                None,
                said("apple"),
                "apple",
            )
        ]
        return [texts(one) for one in asked]

    assert with_memory(restarts, use) == [["pear"], [], [], ["apple"], [], [], [], []]


def test_a_question_of_many_words_is_answered_too(restarts):
    remember(restarts, *(f"note {n}" for n in range(120)), "the needle")
    long = " ".join(f"w{n}" for n in range(500))
    assert found(restarts, f"{long} needle", top_k=5) == ["the needle"]
    assert found(restarts, f"{long} note", top_k=2) == ["note 118", "note 119"]
    assert found(restarts, long) == []


def test_matches_are_found_between_and_behind_many_that_only_seem_to_be(restarts):
    late = said("late")
    late.content.extend(said("needle").content)
    every = [late if n % 3 else said(f"needle {n}") for n in range(61)]
    with_memory(
        restarts, lambda service: service.add_memory("ada", [said("needle"), *[late] * 99, *every])
    )
    needles = ["needle", *(f"needle {n}" for n in range(0, 61, 3))]
    for top_k in (1, 12, len(needles)):
        assert found(restarts, "needle", top_k=top_k) == needles[-top_k:]


# Search by relevance


@pytest.mark.parametrize("search", ["hybrid", "vector"])
def test_the_most_relevant_comes_first_if_that_is_wanted(tmp_path, search):
    async def main():
        path = tmp_path / "store"
        async with await AsyncContextStore.open(path, embedder=WordVectors()) as store:
            service = LanceContextMemoryService(store, search=search)
            given = ["green tea is hot", "tea", "carrot cake", "coffee"]
            await service.add_memory("ada", [said(text) for text in given])
            await service.add_memory("ben", [said("green tea")])
            ranked = await service.search_memory("ada", [said("green tea is")], {"top_k": 2})
            every = await service.search_memory("ada", [said("green tea is")])
            return texts(ranked), texts(every)

    ranked, every = asyncio.run(main())
    assert ranked == ["green tea is hot", "tea"]
    assert every[:2] == ranked
    assert set(every) <= {"green tea is hot", "tea", "carrot cake", "coffee"}


def test_an_embedder_is_opened_with_the_uri(tmp_path):
    async def main():
        service = LanceContextMemoryService(
            tmp_path / "store", embedder=WordVectors(), search="vector"
        )
        await service.add_memory("ada", [said("tea"), said("cake")])
        found = await service.search_memory("ada", [said("cake")], {"top_k": 1})
        await service.stop()
        return texts(found)

    assert asyncio.run(main()) == ["cake"]


def test_searches_at_once_do_not_disturb_each_other(restarts):
    words = [f"word{n}x" for n in range(20)]
    remember(restarts, *words)

    async def use(service):
        asked = [service.search_memory("ada", [said(word)], {"top_k": 5}) for word in words]
        return [texts(one) for one in await asyncio.gather(*asked)]

    assert with_memory(restarts, use) == [[word] for word in words]


# Pages


def test_pages_are_by_session_then_by_insertion(restarts):
    messages = [said(f"message{n}") for n in range(25)]

    async def use(service):
        for session in ("b", "a"):
            for message in messages:
                await service.add_memory("ada", [message], session)
        filters = [None, *({"page_num": n, "page_size": 10} for n in range(1, 8))]
        pages = [await service.list_memory("ada", one) for one in filters]
        return [texts(one) for one in pages]

    every = texts(messages) * 2
    pages = with_memory(restarts, use)
    assert pages[0] == every[:10]
    assert pages[1:] == [every[n : n + 10] for n in range(0, 70, 10)]


@pytest.mark.parametrize(("page", "size"), [(0, 10), (-1, 10), (1, 0), (1, -3), (2, 10)])
def test_a_page_that_there_is_not_is_empty(restarts, page, size):
    remember(restarts, *"abc")

    async def use(service):
        return await service.list_memory("ada", {"page_num": page, "page_size": size})

    assert with_memory(restarts, use) == []


@pytest.mark.parametrize("page", ["1", 1.5, None, True])
def test_a_page_that_is_no_number_is_refused(restarts, page):
    with pytest.raises(InvalidRequestError, match="page_num"):
        with_memory(restarts, lambda service: service.list_memory("ada", {"page_num": page}))


# Forgetting


def test_forgetting_is_of_a_session_or_of_a_user(restarts):
    for user in ("ada", "ben"):
        for session in ("monday", None, ""):
            remember(restarts, f"{session} tea", user=user, session=session)

    async def use(service):
        await service.delete_memory("ada", "default")
        left = texts(await service.list_memory("ada"))
        await service.delete_memory("ada", "nothing")
        await service.delete_memory("nobody", "default")
        await service.delete_memory("ada", "")
        return left, await service.list_memory("ada"), len(await service.list_memory("ben"))

    assert with_memory(restarts, use) == (["monday tea"], [], 3)


def test_memories_end_when_their_time_has_passed(tmp_path):
    async def main():
        clock = ManualClock()
        async with await AsyncContextStore.open(tmp_path / "store", clock=clock) as store:
            service = LanceContextMemoryService(store, ttl_seconds=10)
            await service.add_memory("ada", [said("old tea")])
            clock.advance(seconds=9)
            await service.add_memory("ada", [said("new tea")])
            both = texts(await service.list_memory("ada"))
            clock.advance(seconds=1)
            found = await service.search_memory("ada", [said("tea")])
            return both, texts(found), texts(await service.list_memory("ada"))

    assert asyncio.run(main()) == (["old tea", "new tea"], ["new tea"], ["new tea"])


# Bad input, and who may see what


@pytest.mark.parametrize("bad", [7, "text", {"role": "poet"}, {"content": [{"type": "poem"}]}])
def test_bad_input_raises_before_anything_is_written(restarts, bad):
    async def use(service):
        with pytest.raises(InvalidRequestError):
            await service.add_memory("ada", [said("a"), bad])
        return await service.list_memory("ada")

    assert with_memory(restarts, use) == []


@pytest.mark.parametrize("options", [{"search": "magic"}, {"ttl_seconds": -1}])
def test_options_that_there_are_not_are_refused(restarts, options):
    with pytest.raises(InvalidRequestError, match=next(iter(options))):
        restarts.memory(**options)


USERS = ["ada", "", "~", "it's", "' OR 1=1 --", '"']


def test_users_never_see_what_others_told(restarts):
    for user in USERS:
        remember(restarts, f"tea of {user}", user=user, session="it's")
    assert [found(restarts, "tea", user=user) for user in USERS] == [
        [f"tea of {user}"] for user in USERS
    ]


def test_others_read_what_was_written_here_and_the_reverse(restarts):
    remember(restarts, "Likes green tea", session="monday")
    with ContextStore.open(restarts.where) as store:
        memory = store.scope(user_id="ada").memory
        (page,) = memory.list().items
        memory.add(["Is allergic to nuts"], session_id="zoo")
    assert (page.text, page.user_id, page.session_id) == ("Likes green tea", "ada", "monday")
    assert found(restarts, "nuts") == ["Is allergic to nuts"]
    listed = with_memory(restarts, lambda service: service.list_memory("ada"))
    assert texts(listed) == ["Likes green tea", "Is allergic to nuts"]
