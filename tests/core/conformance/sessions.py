"""What the store's sessions must do beyond the contract of `SessionStore`: times, rows, refusals."""

import asyncio
from datetime import datetime

import pytest
from lance_context_testing import SessionStoreTests
from lance_context_testing.samples import NAMES, NO_NAMES, TEXTS

from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.messages import Message
from lance_context_core.types import Session

LONGER = [name for name in NAMES if len(name) > 3]


class StoredSessionTests(SessionStoreTests):
    """Needs the fixtures `clock` (what the store reads) and `back_door`, too."""

    # Creating and getting

    async def test_a_session_has_the_time_of_the_store_s_clock(self, sessions, clock):
        created = await sessions.create("s", title="A title", metadata={"a": [1, None]})
        moment = clock.now()
        clock.advance(hours=1)
        assert created == Session(
            id="s",
            created_at=moment,
            updated_at=moment,
            title="A title",
            status="active",
            metadata={"a": [1, None]},
            n_messages=0,
        )
        assert await sessions.get("s") == created
        assert await sessions.list() == [created]

    async def test_creating_at_the_same_time_makes_one_row(self, sessions, back_door):
        made = await asyncio.gather(*(sessions.create("s", title=f"{n}") for n in range(8)))
        assert len({session.title for session in made}) == 1
        assert len(await back_door.rows("sessions")) == 1

    async def test_a_session_that_nobody_described_has_the_times_of_its_messages(
        self, sessions, history, clock
    ):
        first, second = clock.now(), clock.advance(hours=1)
        await history.append("a", Message.user("0", created_at=first), session_id="s")
        last = clock.advance(hours=1)
        await history.append("a", Message.user("1", created_at=second), session_id="s")
        expected = Session(
            id="s", created_at=first, updated_at=last, agent_id="a", n_messages=2, metadata={}
        )
        assert await sessions.get("s") == expected
        assert await sessions.list() == [expected]

    @pytest.mark.local
    async def test_longer_texts_can_name_a_session_too(self, sessions, history):
        for name in LONGER:
            await sessions.create(name, title=name)
        await history.append_many("a", [Message.user("0")] * 2, session_id=LONGER[-1])
        assert {session.id: session.title for session in await sessions.list()} == dict(
            zip(LONGER, LONGER, strict=True)
        )
        for name in LONGER:
            found = await sessions.get(name)
            assert (found.id, found.title) == (name, name)
            assert found.n_messages == (2 if name == LONGER[-1] else 0)
        for n_left, name in reversed(list(enumerate(LONGER))):
            assert await sessions.delete(name) is True
            assert len(await sessions.list()) == n_left

    @pytest.mark.anywhere
    @pytest.mark.parametrize("name", ["", *NO_NAMES], ids=ascii)
    async def test_what_cannot_be_a_name_is_refused_before_anything_is_written(
        self, sessions, back_door, name
    ):
        for call in (sessions.create, sessions.get, sessions.update, sessions.delete):
            with pytest.raises(InvalidRequestError, match="session_id"):
                await call(name)
        assert await back_door.rows("sessions") == []

    async def test_titles_of_every_shape_come_back_equal(self, sessions):
        await sessions.create("s")
        for title in TEXTS:
            assert (await sessions.update("s", title=title)).title == title

    async def test_an_unknown_session_is_named_and_makes_no_row(self, sessions, back_door):
        await sessions.create("another")
        with pytest.raises(NotFoundError, match="'s'"):
            await sessions.update("s", title="new")
        assert [row["id"] for row in await back_door.rows("sessions")] == ["another"]

    @pytest.mark.anywhere
    async def test_a_change_that_cannot_be_kept_is_refused_and_nothing_is_changed(self, sessions):
        before = await sessions.create("s", title="old")
        for change in (
            {"ended_at": datetime(2026, 5, 1)},  # noqa: DTZ001 - what is refused
            {"ended_at": "2026-05-01"},
            {"metadata": {"a": float("nan")}},
            {"metadata": {"a": {1, 2}}},
            {"metadata": ["a"]},
            {"title": "\ud800"},
            {"status": ""},
            {"status": "a\0b"},
        ):
            with pytest.raises(InvalidRequestError, match=next(iter(change))):
                await sessions.update("s", **{"title": "new", **change})
        with pytest.raises(InvalidRequestError, match="metadata"):
            await sessions.create("t", metadata={1: 2})
        assert await sessions.list() == [before]

    # Listing

    @pytest.mark.anywhere
    @pytest.mark.parametrize("span", [{"limit": -1}, {"offset": -1}, {"limit": True}], ids=repr)
    async def test_a_span_that_makes_no_sense_is_refused(self, sessions, span):
        with pytest.raises(InvalidRequestError, match=next(iter(span))):
            await sessions.list(**span)

    # Forgetting

    # Through the back door

    async def test_a_session_is_in_the_table_as_it_was_given(self, sessions, clock, back_door):
        await sessions.create("s", title="A title", metadata={"k": 1})
        (row,) = await back_door.rows("sessions")
        expected = {
            "id": "s",
            "title": "A title",
            "status": "active",
            "metadata": '{"k":1}',
            "created_at": clock.now(),
            "ended_at": None,
        }
        assert {name: row[name] for name in expected} == expected

    async def test_what_another_program_wrote_into_the_table_is_read(
        self, sessions, clock, back_door
    ):
        await sessions.create("s")
        moment = clock.advance(hours=1)
        required = {"key": "k", "created_at": moment, "updated_at": moment, "revision": 1}
        await back_door.add("sessions", [{"id": "t", "status": "closed", "title": "T", **required}])
        expected = Session(id="t", created_at=moment, updated_at=moment, title="T", status="closed")
        assert await sessions.get("t") == expected
        assert [session.id for session in await sessions.list()] == ["t", "s"]
