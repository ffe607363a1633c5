"""What every `MemoryService` must do."""

import json
from dataclasses import replace
from itertools import product

import pytest
from lance_context_core.testing.samples import METADATA, NAMES, NO_NAMES

from lance_context_core.errors import AlreadyExistsError, InvalidRequestError
from lance_context_core.messages import ImagePart, Message, TextPart
from lance_context_core.protocols import MemoryService

FACTS = ["likes green tea", "hates green paint", "owns a red bicycle", "plays chess on sundays"]


def texts(found):
    """What the items of a page, or the records of hits, say."""
    return [getattr(one, "record", one).text for one in getattr(found, "items", found)]


class MemoryContract:
    """Needs the fixtures `memory`, `clock` and `back_door`; the store embeds."""

    def test_it_has_the_methods_of_the_protocol(self, memory):
        assert isinstance(memory, MemoryService)

    # Adding and listing

    async def test_memories_are_listed_by_session_and_then_in_the_order_of_adding(self, memory):
        for session in ("b", "", "a", "b", "a"):
            await memory.add([f"{session}1", f"{session}2"], user_id="u", session_id=session)
        page = await memory.list(user_id="u", page_size=20)
        in_session = [f"{s}{n}" for s in ("a", "a", "b", "b") for n in (1, 2)]
        assert [text for text in texts(page) if len(text) > 1] == in_session
        assert sorted(text for text in texts(page) if len(text) == 1) == ["1", "2"]
        assert [one.session_id for one in page.items].count(None) == 2

    async def test_a_session_lists_its_own_memories_and_the_empty_one_those_of_none(self, memory):
        for session in ("", "a", "b"):
            await memory.add([f"in {session}"], user_id="u", session_id=session)
        for session in ("", "a", "b"):
            assert texts(await memory.list(user_id="u", session_id=session)) == [f"in {session}"]
        assert (await memory.list(user_id="u", session_id="c")).items == []

    async def test_pages_hold_every_memory_once(self, memory):
        written = [f"{n}" for n in range(7)]
        await memory.add(written, user_id="u", session_id="s")
        await memory.add(["another"], user_id="v", session_id="s")
        for page_size in (1, 3, 7, 8):
            read, number, more = [], 0, True
            while more:
                number += 1
                page = await memory.list(user_id="u", page=number, page_size=page_size)
                assert (page.page, page.page_size, page.total) == (number, page_size, 7)
                assert 0 < len(page.items) <= page_size
                read += texts(page)
                more = page.has_more
            assert read == written

    async def test_a_page_past_the_end_is_empty(self, memory):
        await memory.add(["a", "b"], user_id="u")
        for number in (2, 3, 1_000_000):
            page = await memory.list(user_id="u", page=number, page_size=2)
            assert (page.items, page.total, page.has_more) == ([], 2, False)
        assert (await memory.list(user_id="nobody")).items == []

    @pytest.mark.anywhere
    @pytest.mark.parametrize("argument", ["page", "page_size"])
    @pytest.mark.parametrize("value", [0, -1, 1.0, True, "1", None])
    async def test_a_page_that_makes_no_sense_is_refused(self, memory, argument, value):
        with pytest.raises(InvalidRequestError, match=argument):
            await memory.list(user_id="u", **{argument: value})

    async def test_the_latest_are_the_last_added_of_those_that_match_newest_first(self, memory):
        written = [f"{n}" for n in range(12)]
        for n, text in enumerate(written):
            await memory.add([text], user_id="u", session_id=f"s{n % 2}", metadata={"third": n % 3})
        await memory.add(["another's"], user_id="v", session_id="s0")
        for limit, offset in product((0, 1, 5, 50), (0, 1, 11, 12, 50)):
            newest = written[::-1]
            page = {"user_id": "u", "limit": limit, "offset": offset}
            assert texts(await memory.latest(**page)) == newest[offset:][:limit]
            odd = await memory.latest(**page, session_id="s1")
            assert texts(odd) == newest[::2][offset:][:limit]
            third = await memory.latest(**page, filter={"third": 0})
            assert texts(third) == newest[2::3][offset:][:limit]
        assert len(await memory.latest(user_id="u")) == 10

    async def test_the_latest_by_session_are_first_those_of_the_session_that_began_last(
        self, memory
    ):
        begun = {}
        for n, session in enumerate(["b", "", "a", "b", "c", "a", "", "b", "c", "c"]):
            begun.setdefault(session, []).append(f"{n}")
            await memory.add([f"{n}"], user_id="u", session_id=session, metadata={"odd": n % 2})
            await memory.add(["another's"], user_id="v", session_id="d")
        written = [text for texts in begun.values() for text in texts]
        for limit, offset in product((0, 1, 4, 50), (0, 1, 9, 10, 50)):
            page = {"user_id": "u", "limit": limit, "offset": offset, "by_session": True}
            assert texts(await memory.latest(**page)) == written[::-1][offset:][:limit]
            # The order of the sessions is that of all their memories, not of those that match.
            odd = [text for text in written if int(text) % 2][::-1]
            assert texts(await memory.latest(**page, filter={"odd": 1})) == odd[offset:][:limit]
            in_c = await memory.latest(**page, session_id="c")
            assert texts(in_c) == begun["c"][::-1][offset:][:limit]

    async def test_a_session_that_was_forgotten_begins_anew(self, memory):
        for session in ("a", "b"):
            await memory.add([f"in {session}"], user_id="u", session_id=session)
        await memory.delete(user_id="u", session_id="a")
        await memory.add(["again in a"], user_id="u", session_id="a")
        newest = await memory.latest(user_id="u", by_session=True)
        assert texts(newest) == ["again in a", "in b"]

    async def test_all_memories_of_all_users_are_forgotten_at_once(self, memory):
        for user, session in product(("", "u", "v"), ("", "s")):
            await memory.add(["x"], user_id=user, session_id=session)
        assert await memory.clear() == 6
        for user in ("", "u", "v"):
            assert texts(await memory.list(user_id=user)) == []
        assert await memory.clear() == 0

    async def test_a_memory_comes_back_as_it_was_added(self, memory, clock):
        message = Message.assistant(
            ["seen", ImagePart(data=b"\0\1", caption="a cat")],
            id="m",
            name="Ann",
            metadata={"of": "message", "both": 1},
            native={"framework": "elsewhere"},
        )
        ids = await memory.add(
            ["said", message], user_id="u", session_id="s", metadata={"of all": None, "both": 2}
        )
        said, seen = (await memory.list(user_id="u")).items
        assert [said.id, seen.id] == ids
        assert (said.text, said.metadata, said.user_id) == (
            "said",
            {"of all": None, "both": 2},
            "u",
        )
        merged = {"of": "message", "of all": None, "both": 2}
        assert seen.to_message() == replace(message, metadata=merged, created_at=clock.now())
        assert said.kind == seen.kind == "memory"
        assert said.created_at == seen.created_at == clock.now()

    @pytest.mark.costly
    async def test_metadata_of_every_shape_comes_back_equal(self, memory):
        for n, metadata in enumerate(METADATA):
            await memory.add([f"{n}"], user_id="u", session_id=f"{n}", metadata=metadata)
        for n, metadata in enumerate(METADATA):
            (found,) = (await memory.list(user_id="u", session_id=f"{n}")).items
            assert found.metadata == metadata

    @pytest.mark.costly
    async def test_two_thousand_memories_are_one_commit(self, memory, back_door):
        await memory.add(["first"], user_id="u")
        before = await back_door.n_commits("records")
        ids = await memory.add([f"number {n}" for n in range(2_000)], user_id="u", session_id="s")
        assert await back_door.n_commits("records") == before + 1
        assert len(set(ids)) == 2_000
        page = await memory.list(user_id="u", session_id="s", page=20, page_size=100)
        assert texts(page) == [f"number {n}" for n in range(1_900, 2_000)]
        assert page.total == 2_000

    async def test_an_image_alone_can_be_remembered(self, memory):
        await memory.add([Message.user(ImagePart(data=b"\0"))], user_id="u")
        (found,) = (await memory.list(user_id="u")).items
        assert found.parts == (ImagePart(data=b"\0"),)

    @pytest.mark.anywhere
    @pytest.mark.parametrize(
        "nothing",
        ["", " \n\t ", Message.user([]), Message.user(["", TextPart(text=" ")])],
        ids=repr,
    )
    async def test_an_empty_memory_is_refused_and_nothing_is_written(
        self, memory, back_door, nothing
    ):
        with pytest.raises(InvalidRequestError, match=r"memories\[1\]"):
            await memory.add(["something", nothing], user_id="u")
        assert await back_door.rows("records") == []

    @pytest.mark.anywhere
    async def test_what_is_no_list_of_memories_is_refused_and_nothing_is_written(
        self, memory, back_door
    ):
        for nonsense in ("one text", [b"bytes"], ["a", None], [["a"]]):
            with pytest.raises(InvalidRequestError, match="memories"):
                await memory.add(nonsense, user_id="u")
        for metadata in ({"a": float("inf")}, {1: "a"}, {"a": object()}):
            with pytest.raises(InvalidRequestError, match="metadata"):
                await memory.add(["a"], user_id="u", metadata=metadata)
        assert await back_door.rows("records") == []

    async def test_nothing_to_add_writes_nothing(self, memory, back_door):
        assert await memory.add([], user_id="u") == []
        assert await back_door.n_commits("records") == 0

    # Ids and walls

    async def test_a_retry_changes_nothing(self, memory):
        batch = [Message.user(text, id=text) for text in FACTS]
        assert await memory.add(batch, user_id="u", session_id="s") == FACTS
        before = await memory.list(user_id="u")
        assert await memory.add(batch[:2], user_id="u", session_id="s") == FACTS[:2]
        assert await memory.list(user_id="u") == before

    async def test_a_known_id_that_says_something_else_is_refused_and_nothing_is_written(
        self, memory
    ):
        old, new = Message.user("old", id="m"), Message.user("new", id="m")
        await memory.add([old], user_id="u", session_id="s")
        for batch in ([new], ["another", new], [new, Message.user("another", id="n")]):
            with pytest.raises(AlreadyExistsError, match="'m'"):
                await memory.add(batch, user_id="u", session_id="s")
        assert await memory.add([old], user_id="u", session_id="s", metadata={"n": 1}) == ["m"]
        assert texts(await memory.list(user_id="u")) == ["old"]
        await memory.add([new], user_id="u", session_id="t")
        assert texts(await memory.list(user_id="u")) == ["old", "new"]

    async def test_an_id_twice_in_one_call_is_refused_and_nothing_is_written(
        self, memory, back_door
    ):
        with pytest.raises(InvalidRequestError, match="m0"):
            await memory.add([Message.user("a", id="m0"), Message.user("b", id="m0")], user_id="u")
        assert await back_door.rows("records") == []

    async def test_one_id_names_a_memory_per_user_and_session(self, memory):
        places = list(product(["", "u", "v", "None"], ["", "s", "None"]))
        for user, session in places:
            message = Message.user(f"{user} in {session}", id="m")
            assert await memory.add([message], user_id=user, session_id=session) == ["m"]
        for user, session in places:
            found = await memory.list(user_id=user, session_id=session)
            assert texts(found) == [f"{user} in {session}"]
            assert (await memory.list(user_id=user)).total == 3

    @pytest.mark.local
    async def test_any_text_can_name_a_user_and_a_session(self, memory):
        places = list(zip(NAMES, NAMES[1:] + NAMES[:1], strict=True))
        for user, session in places:
            await memory.add([f"of {user}"], user_id=user, session_id=session)
        for user, session in places:
            found = await memory.list(user_id=user, session_id=session)
            assert texts(found) == [f"of {user}"]
        for user, session in places:
            assert await memory.delete(user_id=user, session_id=session) == 1
        assert (await memory.list(user_id=NAMES[0])).total == 0

    @pytest.mark.anywhere
    @pytest.mark.parametrize("name", NO_NAMES, ids=ascii)
    async def test_what_cannot_be_a_name_is_refused_before_anything_is_written(
        self, memory, back_door, name
    ):
        for argument in ("user_id", "session_id"):
            with pytest.raises(InvalidRequestError, match=argument):
                await memory.add(["a"], **{argument: name})
        assert await back_door.rows("records") == []

    # Searching

    async def test_a_search_finds_a_user_s_memories_in_all_sessions_best_first(self, memory):
        for n, fact in enumerate(FACTS):
            await memory.add([fact], user_id="u", session_id=f"s{n}")
        await memory.add(["likes green tea too"], user_id="v", session_id="s0")
        for mode in ("hybrid", "vector", "text", None):
            hits = await memory.search("green tea", user_id="u", mode=mode)
            assert texts(hits)[:2] == FACTS[:2]
            assert all(hit.record.user_id == "u" for hit in hits)
            scores = [hit.score for hit in hits]
            assert scores == sorted(scores, reverse=True)
            assert all(0 <= score <= 1 for score in scores)

    async def test_a_search_in_one_session_stays_in_it(self, memory):
        for session in ("", "s", "t"):
            await memory.add([f"tea in {session}"], user_id="u", session_id=session)
        for session in ("", "s", "t"):
            hits = await memory.search("tea", user_id="u", session_id=session)
            assert texts(hits) == [f"tea in {session}"]
        assert await memory.search("tea", user_id="u", session_id="unknown") == []

    async def test_a_filtered_search_finds_as_many_as_match(self, memory):
        await memory.add(["tea"] * 30, user_id="u", metadata={"kept": False})
        await memory.add([f"tea and {n} more words" for n in range(5)], user_id="u", metadata={"kept": True})  # fmt: skip
        for mode in ("hybrid", "vector", "text"):
            hits = await memory.search(
                "tea", user_id="u", mode=mode, filter={"metadata.kept": True}, limit=10
            )
            assert len(hits) == 5
            assert all(hit.record.metadata == {"kept": True} for hit in hits)
            assert len(await memory.search("tea", user_id="u", mode=mode, limit=7)) == 7

    async def test_a_user_without_memories_finds_nothing(self, memory):
        assert await memory.search("tea", user_id="u") == []
        await memory.add(["tea"], user_id="v")
        for mode in ("hybrid", "vector", "text"):
            assert await memory.search("tea", user_id="u", mode=mode) == []

    # Forgetting

    async def test_deleting_forgets_all_one_session_or_some(self, memory):
        ids = {}
        for user, session in product(["u", "v"], ["", "s", "t"]):
            added = await memory.add(["1", "2"], user_id=user, session_id=session)
            ids[user, session] = added

        async def left():
            totals = {}
            for user, session in ids:
                totals[user, session] = (await memory.list(user_id=user, session_id=session)).total
            return totals

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

    # Through the back door

    async def test_a_memory_is_in_the_table_as_it_was_given(self, memory, clock, back_door):
        (id,) = await memory.add(["tea"], user_id="u", session_id="s", metadata={"k": 1})
        (row,) = await back_door.rows("records")
        expected = {
            "id": id,
            "kind": "memory",
            "user_id": "u",
            "session_id": "s",
            "agent_id": None,
            "text": "tea",
            "metadata": '{"k":1}',
            "created_at": clock.now(),
        }
        assert {name: row[name] for name in expected} == expected
        assert row["vector"] is not None

    async def test_what_another_program_wrote_into_the_table_is_read(
        self, memory, clock, back_door
    ):
        await memory.add(["likes coffee"], user_id="u", session_id="b")
        required = {
            "context": "default",
            "content_type": "text/plain",
            "lifecycle_status": "active",
            "created_at": clock.now(),
            "updated_at": clock.now(),
            "revision": 1,
            "kind": "memory",
        }
        written = {"user_id": "u", "session_id": "a", "text": "likes tea", "search_text": "tea"}
        row = {"key": "k", "id": "m", **required, **written}
        small = {name: row[name] for name in row if name not in {"key", "revision", "text"}}
        await back_door.add("records", [{**row, "fields": json.dumps(small, default=str)}])
        assert texts(await memory.list(user_id="u")) == ["likes tea", "likes coffee"]
        assert texts(await memory.search("tea", user_id="u", mode="text")) == ["likes tea"]
