"""What the store's history must do beyond the contract of `HistoryProvider`: tables, refusals, sizes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from random import Random

import pytest
from lance_context_testing import HistoryProviderTests
from lance_context_testing.history import numbered, texts
from lance_context_testing.samples import NAMES, NATIVE, NO_NAMES

from lance_context_core.errors import AlreadyExistsError, InvalidRequestError
from lance_context_core.messages import ImagePart, Message

OF_ANY_TIME = [
    Message.user("hi", native=NATIVE),
    Message.user("hi", created_at=datetime(1970, 1, 1, tzinfo=UTC)),
    Message.user("hi", created_at=datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    Message.user("hi", created_at=datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    Message.user("hi", created_at=datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-7)))),
]


class StoredHistoryTests(HistoryProviderTests):
    """Needs the fixtures `clock` (what the history reads) and `back_door`, too."""

    # Order

    @pytest.mark.anywhere
    @pytest.mark.parametrize(
        "span",
        [
            {"limit": -1},
            {"offset": -1},
            {"last": -1},
            {"limit": 1, "last": 1},
            {"limit": 1.0},
            {"offset": None},
            {"offset": True},
            {"last": "1"},
        ],
        ids=repr,
    )
    async def test_a_span_that_makes_no_sense_is_refused(self, history, span):
        await history.append("a", Message.user("0"), session_id="s")
        with pytest.raises(InvalidRequestError, match=next(iter(span))):
            await history.get_messages("a", session_id="s", **span)

    # Content

    async def test_a_message_of_any_time_comes_back_equal(self, history, clock):
        given = [replace(message, id=f"{n}") for n, message in enumerate(OF_ANY_TIME)]
        await history.append_many("a", given, session_id="s")
        found = await history.get_messages("a", session_id="s")
        assert len(found) == len(given)
        for read, message in zip(found, given, strict=True):
            assert read == replace(message, created_at=message.created_at or clock.now())

    @pytest.mark.slow
    @pytest.mark.local
    async def test_an_image_of_fifty_megabytes_comes_back_whole(self, history):
        data = Random(0).randbytes(50 * 2**20)
        given = Message.user([ImagePart(data=data, media_type="image/png"), "large"])
        await history.append("a", given, session_id="s")
        (found,) = await history.get_messages("a", session_id="s")
        assert found.parts == given.parts

    @pytest.mark.s3
    async def test_an_image_that_is_uploaded_in_several_parts_comes_back_whole(self, history):
        given = Message.user(ImagePart(data=Random(0).randbytes(12 * 2**20)))
        await history.append("a", given, session_id="s")
        (found,) = await history.get_messages("a", session_id="s")
        assert found.parts == given.parts

    async def test_two_thousand_messages_come_back_in_order(self, history):
        ids = await history.append_many("a", numbered(0, 2_000), session_id="s")
        assert ids == [f"m{n}" for n in range(2_000)]
        found = await history.get_messages("a", session_id="s")
        assert texts(found) == [f"{n}" for n in range(2_000)]
        last = await history.get_messages("a", session_id="s", last=2, offset=1_000)
        assert texts(last) == ["998", "999"]

    async def test_the_time_of_a_message_without_one_is_that_of_the_append(self, history, clock):
        clock.advance(microseconds=1)
        await history.append("a", Message.user("0"), session_id="s")
        moment = clock.now()
        clock.advance(days=1)
        (found,) = await history.get_messages("a", session_id="s")
        assert found.created_at == moment

    # Ids

    @pytest.mark.anywhere
    async def test_an_id_that_is_taken_is_named_and_other_metadata_are_no_other_message(
        self, history
    ):
        await history.append("a", Message.user("old", name="Ann", id="m"), session_id="s")
        others = [
            Message.user("new", name="Ann", id="m"),
            Message.user("old", name="Ben", id="m"),
            Message.assistant("old", name="Ann", id="m"),
            Message.user(["old", ImagePart(data=b"\0")], name="Ann", id="m"),
        ]
        for other in others:
            for batch in ([other], [Message.user("1", id="m1"), other], [other, Message.user("2")]):
                with pytest.raises(AlreadyExistsError, match="'m'"):
                    await history.append_many("a", batch, session_id="s")
        assert texts(await history.get_messages("a", session_id="s")) == ["old"]
        again = Message.user("old", name="Ann", id="m", metadata={"seen": True})
        assert await history.append("a", again, session_id="s") == "m"
        assert await history.append("b", others[0], session_id="s") == "m"
        assert texts(await history.get_messages("a", session_id="s")) == ["old"]

    async def test_an_id_twice_in_one_batch_is_refused_and_nothing_is_written(
        self, history, back_door
    ):
        batch = [*numbered(0, 2), Message.user("another", id="m0")]
        with pytest.raises(InvalidRequestError, match="m0"):
            await history.append_many("a", batch, session_id="s")
        assert await back_door.rows("records") == []

    @pytest.mark.local
    async def test_any_text_can_name_a_message_an_agent_a_session_and_a_run(self, history):
        batch = [Message.user(name, id=name) for name in NAMES]
        assert await history.append_many("a", batch, session_id="all") == NAMES
        found = await history.get_messages("a", session_id="all")
        assert [message.id for message in found] == NAMES
        # Each name stands in each place once, beside two others.
        places = list(zip(NAMES, NAMES[1:] + NAMES[:1], NAMES[2:] + NAMES[:2], strict=True))
        for agent, session, run in places:
            await history.append(agent, Message.user(run), session_id=session, run_id=run)
        for agent, session, run in places:
            assert texts(await history.get_messages(agent, session_id=session)) == [run]
        for agent, session, run in places:
            assert await history.clear_run(agent, session_id=session, run_id=run) == 1
        assert await history.count("a", session_id="all") == len(NAMES)

    @pytest.mark.anywhere
    @pytest.mark.parametrize("name", ["", *NO_NAMES], ids=ascii)
    async def test_what_cannot_be_a_name_is_refused_before_anything_is_written(
        self, history, back_door, name
    ):
        message = Message.user("hi")
        with pytest.raises(InvalidRequestError, match="session_id"):
            await history.append("a", message, session_id=name)
        if name:
            with pytest.raises(InvalidRequestError, match="agent_id"):
                await history.append(name, message, session_id="s")
            with pytest.raises(InvalidRequestError, match="run_id"):
                await history.append("a", message, session_id="s", run_id=name)
        for read in (history.get_messages, history.count, history.clear):
            with pytest.raises(InvalidRequestError, match="session_id"):
                await read("a", session_id=name)
        assert await back_door.rows("records") == []

    async def test_a_batch_with_something_else_in_it_is_refused_as_a_whole(
        self, history, back_door
    ):
        with pytest.raises(InvalidRequestError, match=r"messages\[1\]"):
            await history.append_many("a", [Message.user("0"), "1"], session_id="s")
        assert await back_door.rows("records") == []

    # What is not there

    async def test_nothing_to_append_writes_nothing(self, history, back_door):
        assert await history.append_many("a", [], session_id="s") == []
        assert await back_door.n_commits("records") == 0
        await history.append("a", Message.user("0"), session_id="s")
        before = await back_door.n_commits("records")
        assert await history.append_many("a", [], session_id="s") == []
        assert await back_door.n_commits("records") == before

    # Forgetting

    # Through the back door

    async def test_a_message_is_in_the_table_as_it_was_given(self, history, clock, back_door):
        message = Message.user(["hi", ImagePart(data=b"\0")], id="m", name="Ann", metadata={"k": 1})
        await history.append("a", message, session_id="s", run_id="r")
        (row,) = await back_door.rows("records")
        expected = {
            "id": "m",
            "kind": "message",
            "agent_id": "a",
            "session_id": "s",
            "run_id": "r",
            "user_id": None,
            "role": "user",
            "name": "Ann",
            "text": "hi",
            "metadata": '{"k":1}',
            "created_at": clock.now(),
            "context": "default",
        }
        assert {name: row[name] for name in expected} == expected

    @pytest.mark.s3
    async def test_what_another_program_wrote_into_the_table_is_read(
        self, history, clock, back_door
    ):
        await history.append("a", Message.user("0"), session_id="s")
        required = {
            "kind": "message",
            "context": "default",
            "content_type": "text/plain",
            "lifecycle_status": "active",
            "created_at": clock.now(),
            "updated_at": clock.now(),
            "revision": 1,
        }
        written = {"agent_id": "a", "session_id": "s", "role": "user", "text": "1"}
        await back_door.add("records", [{"key": "k", "id": "m", **required, **written}])
        found = await history.get_messages("a", session_id="s")
        assert texts(found) == ["0", "1"]
        assert found[1] == Message.user("1", id="m", created_at=clock.now())

    @pytest.mark.s3
    async def test_a_batch_is_one_commit(self, history, back_door):
        await history.append("a", Message.user("0"), session_id="s")
        before = await back_door.n_commits("records")
        await history.append_many("a", numbered(0, 9), session_id="s")
        assert await back_door.n_commits("records") == before + 1
        await history.append_many("a", [Message.user("0")] * 9, session_id="s")
        assert await back_door.n_commits("records") == before + 2

    # All of it together
