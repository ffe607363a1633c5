"""What the store's memory must do beyond the contract of `MemoryService`."""

import json
from dataclasses import replace
from itertools import product

import pytest
from lance_context_testing import MemoryServiceTests
from lance_context_testing.samples import NAMES, NO_NAMES

from lance_context_core.errors import AlreadyExistsError, InvalidRequestError
from lance_context_core.messages import ImagePart, Message, TextPart

LONGER = [name for name in NAMES if len(name) > 2]


def texts(found):
    """What the items of a page, the records of hits, or records say."""
    return [getattr(one, "record", one).text for one in getattr(found, "items", found)]


class StoredMemoryTests(MemoryServiceTests):
    """Needs the fixtures `clock` (what the store reads) and `back_door`, too."""

    # Adding and listing

    async def test_sessions_stand_in_the_order_of_their_names(self, memory):
        for session in ("b", "", "a", "b", "a"):
            batch = [Message.user(f"{session}{n}") for n in (1, 2)]
            await memory.add(batch, user_id="u", session_id=session)
        page = await memory.list(user_id="u", page_size=20)
        in_session = [f"{s}{n}" for s in ("a", "a", "b", "b") for n in (1, 2)]
        assert [text for text in texts(page) if len(text) > 1] == in_session
        assert sorted(text for text in texts(page) if len(text) == 1) == ["1", "2"]
        assert [one.session_id for one in page.items].count(None) == 2

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

    async def test_a_memory_is_the_whole_message_that_was_added(self, memory, clock):
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

    # Ids and scopes

    async def test_an_id_that_is_taken_is_named_and_other_metadata_are_no_other_memory(
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

    @pytest.mark.local
    async def test_longer_texts_can_name_a_user_and_a_session_too(self, memory):
        places = list(zip(LONGER, LONGER[1:] + LONGER[:1], strict=True))
        for user, session in places:
            await memory.add([f"of {user}"], user_id=user, session_id=session)
        for user, session in places:
            found = await memory.list(user_id=user, session_id=session)
            assert texts(found) == [f"of {user}"]
        for user, session in places:
            assert await memory.delete(user_id=user, session_id=session) == 1
        assert (await memory.list(user_id=LONGER[0])).total == 0

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

    # Forgetting

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
