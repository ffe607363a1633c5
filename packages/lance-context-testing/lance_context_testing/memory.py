"""Conformance tests of `MemoryService`."""

import asyncio
from collections.abc import Sequence
from itertools import product
from typing import Any, ClassVar

import pytest

from lance_context_core import ContextRecord
from lance_context_core.errors import AlreadyExistsError
from lance_context_core.messages import ImagePart, Message
from lance_context_core.protocols import MemoryService, SearchMode
from lance_context_core.results import Page, SearchHit
from lance_context_testing._contract import Contract, assert_has_the_methods, needs
from lance_context_testing.samples import METADATA, NAMES

FACTS = ["likes green tea", "hates green paint", "owns a red bicycle", "plays chess on sundays"]


class MemoryServiceTests(Contract):
    """Give the fixture `memory`: an empty `MemoryService`, another one for each test."""

    hooks: ClassVar = {"memory": "an empty MemoryService"}

    search_modes: ClassVar[Sequence[SearchMode]] = ("hybrid", "vector", "text")
    """The supported search modes; a search without one must always work."""
    supports_filters: ClassVar[bool] = True
    """Whether a search takes a `filter`."""

    def test_it_has_the_methods_of_the_protocol(self, memory: MemoryService) -> None:
        assert_has_the_methods(memory, MemoryService)

    # Adding and listing

    async def test_memories_are_listed_by_session_and_then_in_the_order_of_adding(
        self, memory: MemoryService
    ) -> None:
        for session in ("b", "", "a", "b", "a"):
            batch = [Message.user(f"{session}{n}") for n in (1, 2)]
            await memory.add(batch, user_id="u", session_id=session)
        listed = texts(await memory.list(user_id="u", page_size=20))
        in_session = [f"{s}{n}" for s in ("a", "a", "b", "b") for n in (1, 2)]
        assert sorted(listed) == sorted([*in_session, "1", "2"])
        for session in ("a", "b", ""):
            expected = [text for text in [*in_session, "1", "2"] if text.rstrip("12") == session]
            first = listed.index(expected[0])
            assert listed[first : first + len(expected)] == expected

    async def test_a_session_lists_its_own_memories_and_the_empty_one_those_of_none(
        self, memory: MemoryService
    ) -> None:
        for session in ("", "a", "b"):
            await memory.add([f"in {session}"], user_id="u", session_id=session)
        for session in ("", "a", "b"):
            assert texts(await memory.list(user_id="u", session_id=session)) == [f"in {session}"]
        assert (await memory.list(user_id="u", session_id="c")).items == []

    async def test_pages_hold_every_memory_once(self, memory: MemoryService) -> None:
        written = [f"{n}" for n in range(7)]
        await memory.add(written, user_id="u", session_id="s")
        await memory.add(["another"], user_id="v", session_id="s")
        for page_size in (1, 3, 7, 8):
            read: list[str] = []
            number, more = 0, True
            while more:
                number += 1
                page = await memory.list(user_id="u", page=number, page_size=page_size)
                assert (page.page, page.page_size, page.total) == (number, page_size, 7)
                assert 0 < len(page.items) <= page_size
                read += texts(page)
                more = page.has_more
            assert read == written

    async def test_a_page_past_the_end_is_empty(self, memory: MemoryService) -> None:
        await memory.add(["a", "b"], user_id="u")
        for number in (2, 3, 1_000_000):
            page = await memory.list(user_id="u", page=number, page_size=2)
            assert (page.items, page.total, page.has_more) == ([], 2, False)
        assert (await memory.list(user_id="nobody")).items == []

    async def test_a_memory_comes_back_as_it_was_added(self, memory: MemoryService) -> None:
        message = Message.assistant(
            ["seen", ImagePart(data=b"\0\1", caption="a cat")],
            id="m",
            name="Ann",
            metadata={"of": "message", "both": 1},
        )
        of_all = {"of all": None, "both": 2}
        ids = await memory.add(["said", message], user_id="u", session_id="s", metadata=of_all)
        said, seen = (await memory.list(user_id="u")).items
        assert [said.id, seen.id] == ids
        assert ids[1] == "m"
        assert (said.text, said.metadata) == ("said", of_all)
        assert (said.user_id, said.session_id) == ("u", "s")
        found = seen.to_message()
        assert (found.parts, found.role, found.name) == (message.parts, "assistant", "Ann")
        assert found.metadata == {"of": "message", **of_all}

    async def test_metadata_of_every_shape_comes_back_equal(self, memory: MemoryService) -> None:
        batch = [Message.user(f"{n}", metadata=one) for n, one in enumerate(METADATA)]
        await memory.add(batch, user_id="u")
        found = (await memory.list(user_id="u", page_size=len(METADATA))).items
        assert [one.metadata for one in found] == METADATA

    async def test_changing_what_was_given_or_found_changes_nothing_that_is_kept(
        self, memory: MemoryService
    ) -> None:
        metadata: dict[str, Any] = {"list": [1]}
        await memory.add(["a"], user_id="u", metadata=metadata)
        metadata["list"].append(2)
        (found,) = (await memory.list(user_id="u")).items
        found.metadata["list"].append(3)
        (again,) = (await memory.list(user_id="u")).items
        assert again.metadata == {"list": [1]}

    async def test_nothing_to_add_adds_nothing(self, memory: MemoryService) -> None:
        assert await memory.add([], user_id="u") == []
        assert (await memory.list(user_id="u")).total == 0

    async def test_additions_at_the_same_time_lose_nothing(self, memory: MemoryService) -> None:
        await asyncio.gather(*(memory.add([f"{n}"], user_id="u") for n in range(8)))
        listed = texts(await memory.list(user_id="u"))
        assert sorted(listed) == [f"{n}" for n in range(8)]

    # Ids and users

    async def test_a_retry_changes_nothing(self, memory: MemoryService) -> None:
        batch = [Message.user(text, id=text) for text in FACTS]
        assert await memory.add(batch, user_id="u", session_id="s") == FACTS
        before = await memory.list(user_id="u")
        assert await memory.add(batch[:2], user_id="u", session_id="s") == FACTS[:2]
        assert await memory.list(user_id="u") == before

    async def test_a_known_id_that_says_something_else_is_refused_and_nothing_is_written(
        self, memory: MemoryService
    ) -> None:
        old, new = Message.user("old", id="m"), Message.user("new", id="m")
        await memory.add([old], user_id="u", session_id="s")
        batches: list[list[str | Message]] = [[new], ["another", new], [new, Message.user("more")]]
        for batch in batches:
            with pytest.raises(AlreadyExistsError):
                await memory.add(batch, user_id="u", session_id="s")
        assert texts(await memory.list(user_id="u")) == ["old"]

    async def test_one_id_names_a_memory_per_user_and_session(self, memory: MemoryService) -> None:
        places = list(product(["", "u", "v", "None"], ["", "s", "None"]))
        for user, session in places:
            message = Message.user(f"{user} in {session}", id="m")
            assert await memory.add([message], user_id=user, session_id=session) == ["m"]
        for user, session in places:
            found = await memory.list(user_id=user, session_id=session)
            assert texts(found) == [f"{user} in {session}"]
        for user in ("", "u", "v", "None"):
            assert (await memory.list(user_id=user)).total == 3

    async def test_any_text_can_name_a_user_and_a_session(self, memory: MemoryService) -> None:
        # The most similar names; each of them costs a write.
        names = [name for name in NAMES if len(name) < 3]
        places = list(zip(names, names[1:] + names[:1], strict=True))
        for user, session in places:
            await memory.add([f"of {user}"], user_id=user, session_id=session)
        for user, session in places:
            found = await memory.list(user_id=user, session_id=session)
            assert texts(found) == [f"of {user}"]

    # Searching

    async def test_a_search_finds_a_user_s_memories_in_all_sessions_best_first(
        self, memory: MemoryService
    ) -> None:
        for n, fact in enumerate(FACTS):
            await memory.add([fact], user_id="u", session_id=f"s{n}")
        await memory.add(["likes green tea too"], user_id="v", session_id="s0")
        for mode in (*self.search_modes, None):
            hits = await memory.search("green tea", user_id="u", mode=mode)
            assert texts(hits)[0] == FACTS[0], mode
            assert {hit.record.user_id for hit in hits} == {"u"}
            scores = [hit.score for hit in hits]
            assert scores == sorted(scores, reverse=True)
            assert all(0 <= score <= 1 for score in scores)

    async def test_a_search_in_one_session_stays_in_it(self, memory: MemoryService) -> None:
        for session in ("", "s", "t"):
            await memory.add([f"tea in {session}"], user_id="u", session_id=session)
        for session in ("", "s", "t"):
            hits = await memory.search("tea", user_id="u", session_id=session)
            assert texts(hits) == [f"tea in {session}"]
        assert len(await memory.search("tea", user_id="u")) == 3
        assert await memory.search("tea", user_id="u", session_id="unknown") == []

    async def test_a_search_finds_as_many_as_the_limit_if_there_are(
        self, memory: MemoryService
    ) -> None:
        await memory.add([Message.user("tea") for _ in range(12)], user_id="u")
        for mode in (*self.search_modes, None):
            for limit in (0, 1, 7, 12, 99):
                hits = await memory.search("tea", user_id="u", mode=mode, limit=limit)
                assert len(hits) == min(limit, 12), (mode, limit)

    @needs("supports_filters")
    async def test_a_filtered_search_finds_as_many_as_match(self, memory: MemoryService) -> None:
        tea = [Message.user("tea") for _ in range(30)]
        await memory.add(tea, user_id="u", metadata={"kept": False})
        longer = [f"tea and {n} more words" for n in range(5)]
        await memory.add(longer, user_id="u", metadata={"kept": True})
        for mode in (*self.search_modes, None):
            hits = await memory.search("tea", user_id="u", mode=mode, filter={"kept": True})
            assert sorted(texts(hits)) == longer, mode

    async def test_a_user_without_memories_finds_nothing(self, memory: MemoryService) -> None:
        assert await memory.search("tea", user_id="u") == []
        await memory.add(["tea"], user_id="v")
        for mode in (*self.search_modes, None):
            assert await memory.search("tea", user_id="u", mode=mode) == []

    # Deleting

    async def test_deleting_forgets_all_one_session_or_some(self, memory: MemoryService) -> None:
        ids = {
            (user, session): await memory.add(["1", "2"], user_id=user, session_id=session)
            for user, session in product(["u", "v"], ["", "s", "t"])
        }

        async def left() -> dict[tuple[str, str], int]:
            return {
                (user, session): (await memory.list(user_id=user, session_id=session)).total
                for user, session in ids
            }

        expected = dict.fromkeys(ids, 2)
        assert await memory.delete(user_id="u", ids=[ids["u", "s"][0], "unknown"]) == 1
        expected["u", "s"] = 1
        assert await left() == expected
        assert await memory.delete(user_id="u", ids=ids["v", "s"]) == 0
        assert await memory.delete(user_id="u", session_id="t", ids=ids["u", ""]) == 0
        assert await memory.delete(user_id="u", ids=[]) == 0
        assert await left() == expected
        assert await memory.delete(user_id="u", session_id="t") == 2
        assert await memory.delete(user_id="u", session_id="") == 2
        expected |= {("u", "t"): 0, ("u", ""): 0}
        assert await left() == expected
        assert await memory.delete(user_id="u") == 1
        assert await memory.delete(user_id="u") == 0
        assert await memory.search("1", user_id="u") == []
        assert (await left()) == expected | {("u", "s"): 0}


def texts(
    found: Page[ContextRecord] | Sequence[SearchHit[ContextRecord]],
) -> list[str]:
    """The texts of memories, of a page or a search."""
    if isinstance(found, Page):
        return [f"{one.text}" for one in found.items]
    return [f"{hit.record.text}" for hit in found]
