"""What every `SessionStore` must do."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest
from lance_context_core.testing.samples import METADATA, NAMES, NO_NAMES, TEXTS

from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.messages import Message
from lance_context_core.protocols import SessionStore
from lance_context_core.records import Session


class SessionContract:
    """Needs the fixtures `sessions`, the `history` beside them, `clock` and `back_door`."""

    def test_it_has_the_methods_of_the_protocol(self, sessions):
        assert isinstance(sessions, SessionStore)

    # Creating and getting

    async def test_a_session_is_read_as_it_was_created(self, sessions, clock):
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

    async def test_a_session_without_an_id_is_given_one_of_its_own(self, sessions):
        made = [await sessions.create() for _ in range(3)]
        assert len({session.id for session in made}) == 3
        assert await sessions.get(made[0].id) == made[0]

    async def test_creating_what_exists_returns_it_as_it_is(self, sessions, clock):
        first = await sessions.create("s", title="first", metadata={"n": 1})
        clock.advance(hours=1)
        assert await sessions.create("s", title="second", metadata={"n": 2}) == first
        assert await sessions.create("s") == first
        assert await sessions.list() == [first]

    async def test_creating_at_the_same_time_makes_one_session(self, sessions, back_door):
        made = await asyncio.gather(*(sessions.create("s", title=f"{n}") for n in range(8)))
        assert len({session.title for session in made}) == 1
        assert len(await back_door.rows("sessions")) == 1

    async def test_a_session_that_has_messages_exists(self, sessions, history, clock):
        first, second = clock.now(), clock.advance(hours=1)
        await history.append("a", Message.user("0", created_at=first), session_id="s")
        last = clock.advance(hours=1)
        await history.append("a", Message.user("1", created_at=second), session_id="s")
        expected = Session(
            id="s", created_at=first, updated_at=last, agent_id="a", n_messages=2, metadata={}
        )
        assert await sessions.get("s") == expected
        assert await sessions.list() == [expected]

    async def test_describing_a_session_that_has_messages_loses_nothing(
        self, sessions, history, clock
    ):
        await history.append("a", Message.user("0"), session_id="s")
        before = await sessions.get("s")
        clock.advance(hours=1)
        created = await sessions.create("s", title="A title")
        assert (created.title, created.n_messages) == ("A title", 1)
        assert created.created_at == before.created_at
        assert created.agent_id == before.agent_id == "a"

    async def test_an_unknown_session_is_absent(self, sessions, history):
        assert await sessions.get("s") is None
        assert await sessions.list() == []
        assert await sessions.delete("s") is False
        await sessions.create("another")
        await history.append("a", Message.user("0"), session_id="a third")
        assert await sessions.get("s") is None
        assert await sessions.delete("s") is False

    @pytest.mark.local
    async def test_any_text_can_name_a_session(self, sessions, history):
        for name in NAMES:
            await sessions.create(name, title=name)
        await history.append_many("a", [Message.user("0")] * 2, session_id=NAMES[-1])
        assert {session.id: session.title for session in await sessions.list()} == dict(
            zip(NAMES, NAMES, strict=True)
        )
        for name in NAMES:
            found = await sessions.get(name)
            assert (found.id, found.title) == (name, name)
            assert found.n_messages == (2 if name == NAMES[-1] else 0)
        for n_left, name in reversed(list(enumerate(NAMES))):
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

    @pytest.mark.costly
    async def test_titles_and_metadata_of_every_shape_come_back_equal(self, sessions):
        for n, metadata in enumerate(METADATA):
            assert (await sessions.create(f"{n}", metadata=metadata)).metadata == metadata
            assert (await sessions.get(f"{n}")).metadata == metadata
        for title in TEXTS:
            assert (await sessions.update("0", title=title)).title == title

    # Updating

    async def test_an_update_changes_what_is_given_and_keeps_the_rest(self, sessions, clock):
        created = await sessions.create("s", title="old", metadata={"a": 1, "b": 2})
        ended = datetime(2026, 5, 1, tzinfo=timezone(timedelta(hours=2)))
        expected = {"title": "old", "status": "active", "metadata": {"a": 1, "b": 2}, "ended_at": None}  # fmt: skip
        for change in (
            {"title": "new"},
            {"status": "closed"},
            {"metadata": {"c": 3}},
            {"ended_at": ended},
            {"title": "", "metadata": {}},
            {},
        ):
            expected |= change
            moment = clock.advance(hours=1)
            updated = await sessions.update("s", **change)
            assert {name: getattr(updated, name) for name in expected} == expected
            assert (updated.created_at, updated.updated_at) == (created.created_at, moment)
            assert await sessions.get("s") == updated

    async def test_a_session_known_by_its_messages_alone_can_be_updated(
        self, sessions, history, clock
    ):
        await history.append("a", Message.user("0"), session_id="s")
        before = await sessions.get("s")
        clock.advance(hours=1)
        updated = await sessions.update("s", title="new")
        assert (updated.title, updated.n_messages) == ("new", 1)
        assert (updated.created_at, updated.agent_id) == (before.created_at, before.agent_id)

    async def test_an_unknown_session_cannot_be_updated(self, sessions, back_door):
        await sessions.create("another")
        with pytest.raises(NotFoundError, match="'s'"):
            await sessions.update("s", title="new")
        assert [row["id"] for row in await back_door.rows("sessions")] == ["another"]

    async def test_updates_of_different_fields_at_the_same_time_are_all_kept(self, sessions):
        await sessions.create("s")
        ended = datetime(2026, 5, 1, tzinfo=UTC)
        await asyncio.gather(
            sessions.update("s", title="new"),
            sessions.update("s", status="closed"),
            sessions.update("s", metadata={"a": 1}),
            sessions.update("s", ended_at=ended),
        )
        found = await sessions.get("s")
        assert (found.title, found.status, found.metadata) == ("new", "closed", {"a": 1})
        assert found.ended_at == ended

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

    async def test_the_most_recently_active_session_comes_first(self, sessions, history, clock):
        async def order():
            return [session.id for session in await sessions.list()]

        for name in ("b", "a", "c"):
            await sessions.create(name)
            clock.advance(minutes=1)
        assert await order() == ["c", "a", "b"]
        await history.append("x", Message.user("0"), session_id="b")
        clock.advance(minutes=1)
        assert await order() == ["b", "c", "a"]
        await sessions.update("a", title="new")
        clock.advance(minutes=1)
        await history.append("x", Message.user("0"), session_id="d")
        assert await order() == ["d", "a", "b", "c"]
        # Reading is no activity, and neither is creating what exists.
        clock.advance(minutes=1)
        await sessions.get("c")
        await sessions.create("c")
        assert await order() == ["d", "a", "b", "c"]

    async def test_limit_and_offset_take_what_slices_of_the_list_would(self, sessions, clock):
        for n in range(4):
            await sessions.create(f"{n}")
            clock.advance(minutes=1)
        everything = await sessions.list()
        assert len(everything) == 4
        for offset in (0, 1, 4, 9):
            for limit in (None, 0, 1, 9):
                page = await sessions.list(limit=limit, offset=offset)
                assert page == everything[offset:][:limit]

    @pytest.mark.anywhere
    @pytest.mark.parametrize("span", [{"limit": -1}, {"offset": -1}, {"limit": True}], ids=repr)
    async def test_a_span_that_makes_no_sense_is_refused(self, sessions, span):
        with pytest.raises(InvalidRequestError, match=next(iter(span))):
            await sessions.list(**span)

    # Forgetting

    async def test_deleting_forgets_the_session_and_its_messages_and_nothing_else(
        self, sessions, history
    ):
        for name in ("s", "t"):
            await sessions.create(name)
            for agent in ("", "a"):
                await history.append_many(agent, [Message.user("0")] * 2, session_id=name)
        assert await sessions.delete("s") is True
        assert await sessions.delete("s") is False
        assert await sessions.get("s") is None
        assert [session.id for session in await sessions.list()] == ["t"]
        for agent in ("", "a"):
            assert await history.count(agent, session_id="s") == 0
            assert await history.count(agent, session_id="t") == 2

    async def test_a_session_with_messages_alone_or_a_description_alone_can_be_deleted(
        self, sessions, history
    ):
        await history.append("a", Message.user("0"), session_id="s")
        await sessions.create("t")
        assert await sessions.delete("s") is True
        assert await sessions.delete("t") is True
        assert await sessions.list() == []

    async def test_a_cleared_session_keeps_its_description(self, sessions, history):
        await sessions.create("s", title="A title")
        await history.append("a", Message.user("0"), session_id="s")
        await history.clear("a", session_id="s")
        found = await sessions.get("s")
        assert (found.title, found.n_messages) == ("A title", 0)

    async def test_a_deleted_session_starts_anew(self, sessions, clock):
        await sessions.create("s", title="old", metadata={"a": 1})
        await sessions.delete("s")
        moment = clock.advance(hours=1)
        assert await sessions.create("s") == Session(id="s", created_at=moment, updated_at=moment)

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
