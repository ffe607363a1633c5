"""Conformance tests of `SessionStore`."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar

import pytest

from lance_context_core.errors import NotFoundError
from lance_context_core.messages import Message
from lance_context_core.protocols import HistoryProvider, SessionStore
from lance_context_testing._contract import Contract, assert_has_the_methods
from lance_context_testing.samples import METADATA, NAMES

ENDED = datetime(2026, 5, 1, tzinfo=UTC)


class SessionStoreTests(Contract):
    """Give the fixtures `sessions`, an empty `SessionStore`, and `history`, its messages.

    A session exists as soon as it has messages, and its messages are deleted with it: the contract
    covers both.
    """

    hooks: ClassVar = {
        "sessions": "an empty SessionStore",
        "history": "the HistoryProvider that keeps the messages of its sessions",
    }

    def test_it_has_the_methods_of_the_protocol(self, sessions: SessionStore) -> None:
        assert_has_the_methods(sessions, SessionStore)

    # Creating and getting

    async def test_a_session_is_read_as_it_was_created(self, sessions: SessionStore) -> None:
        created = await sessions.create("s", title="A title", metadata={"a": [1, None]})
        assert (created.id, created.title, created.status) == ("s", "A title", "active")
        assert (created.metadata, created.n_messages) == ({"a": [1, None]}, 0)
        assert created.created_at == created.updated_at
        assert created.ended_at is None
        assert await sessions.get("s") == created
        assert await sessions.list() == [created]

    async def test_a_session_without_an_id_is_given_one_of_its_own(
        self, sessions: SessionStore
    ) -> None:
        made = [await sessions.create() for _ in range(3)]
        assert len({session.id for session in made}) == 3
        assert await sessions.get(made[0].id) == made[0]

    async def test_creating_what_exists_returns_it_as_it_is(
        self, sessions: SessionStore, later: Callable[[], None]
    ) -> None:
        first = await sessions.create("s", title="first", metadata={"n": 1})
        later()
        assert await sessions.create("s", title="second", metadata={"n": 2}) == first
        assert await sessions.create("s") == first
        assert await sessions.list() == [first]

    async def test_creating_at_the_same_time_makes_one_session(
        self, sessions: SessionStore
    ) -> None:
        made = await asyncio.gather(*(sessions.create("s", title=f"{n}") for n in range(8)))
        assert len({session.title for session in made}) == 1
        assert len(await sessions.list()) == 1

    async def test_a_session_that_has_messages_exists(
        self, sessions: SessionStore, history: HistoryProvider, later: Callable[[], None]
    ) -> None:
        await history.append("a", Message.user("0"), session_id="s")
        later()
        await history.append("a", Message.user("1"), session_id="s")
        found = await sessions.get("s")
        assert found is not None
        assert (found.id, found.agent_id, found.n_messages) == ("s", "a", 2)
        assert (found.title, found.status, found.metadata) == (None, "active", {})
        assert found.created_at < found.updated_at
        assert await sessions.list() == [found]

    async def test_describing_a_session_that_has_messages_loses_nothing(
        self, sessions: SessionStore, history: HistoryProvider, later: Callable[[], None]
    ) -> None:
        await history.append("a", Message.user("0"), session_id="s")
        before = await sessions.get("s")
        later()
        created = await sessions.create("s", title="A title")
        assert before is not None
        assert (created.title, created.n_messages, created.agent_id) == ("A title", 1, "a")
        assert created.created_at == before.created_at

    async def test_an_unknown_session_is_absent(
        self, sessions: SessionStore, history: HistoryProvider
    ) -> None:
        assert await sessions.get("s") is None
        assert await sessions.list() == []
        assert await sessions.delete("s") is False
        await sessions.create("another")
        await history.append("a", Message.user("0"), session_id="a third")
        assert await sessions.get("s") is None
        assert await sessions.delete("s") is False

    async def test_any_text_can_name_a_session(self, sessions: SessionStore) -> None:
        # The most similar names; each of them costs a write.
        names = [name for name in NAMES if len(name) < 4]
        for name in names:
            await sessions.create(name, title=name)
        found = {session.id: session.title for session in await sessions.list()}
        assert found == {name: name for name in names}
        assert await sessions.delete(names[0]) is True
        assert {session.id for session in await sessions.list()} == set(names[1:])

    async def test_metadata_of_every_shape_comes_back_equal(self, sessions: SessionStore) -> None:
        for n, metadata in enumerate(METADATA):
            assert (await sessions.create(f"{n}", metadata=metadata)).metadata == metadata
        found = {session.id: session.metadata for session in await sessions.list()}
        assert found == {f"{n}": metadata for n, metadata in enumerate(METADATA)}

    async def test_changing_what_was_given_or_found_changes_nothing_that_is_kept(
        self, sessions: SessionStore
    ) -> None:
        metadata: dict[str, Any] = {"list": [1]}
        created = await sessions.create("s", metadata=metadata)
        metadata["list"].append(2)
        created.metadata["list"].append(3)
        (found,) = await sessions.list()
        assert found.metadata == {"list": [1]}
        found.metadata["list"].append(4)
        again = await sessions.get("s")
        assert again is not None
        assert again.metadata == {"list": [1]}

    # Updating

    async def test_an_update_changes_what_is_given_and_keeps_the_rest(
        self, sessions: SessionStore, later: Callable[[], None]
    ) -> None:
        last = created = await sessions.create("s", title="old", metadata={"a": 1, "b": 2})
        expected = {"title": "old", "status": "active", "metadata": {"a": 1, "b": 2}, "ended_at": None}  # fmt: skip
        changes: list[dict[str, Any]] = [
            {"title": "new"},
            {"status": "closed"},
            {"metadata": {"c": 3}},
            {"ended_at": ENDED.astimezone(timezone(timedelta(hours=2)))},
            {"title": "", "metadata": {}},
            {},
        ]
        for change in changes:
            expected |= change
            later()
            updated = await sessions.update("s", **change)
            assert {name: getattr(updated, name) for name in expected} == expected
            assert updated.created_at == created.created_at
            assert updated.updated_at > last.updated_at
            assert await sessions.get("s") == updated
            last = updated

    async def test_a_session_known_by_its_messages_alone_can_be_updated(
        self, sessions: SessionStore, history: HistoryProvider
    ) -> None:
        await history.append("a", Message.user("0"), session_id="s")
        updated = await sessions.update("s", title="new")
        assert (updated.title, updated.n_messages, updated.agent_id) == ("new", 1, "a")

    async def test_an_unknown_session_cannot_be_updated(self, sessions: SessionStore) -> None:
        await sessions.create("another")
        with pytest.raises(NotFoundError):
            await sessions.update("s", title="new")
        assert [session.id for session in await sessions.list()] == ["another"]

    async def test_updates_of_different_fields_at_the_same_time_are_all_kept(
        self, sessions: SessionStore
    ) -> None:
        await sessions.create("s")
        await asyncio.gather(
            sessions.update("s", title="new"),
            sessions.update("s", status="closed"),
            sessions.update("s", metadata={"a": 1}),
            sessions.update("s", ended_at=ENDED),
        )
        (found,) = await sessions.list()
        assert (found.title, found.status, found.metadata) == ("new", "closed", {"a": 1})
        assert found.ended_at == ENDED

    # Listing

    async def test_the_most_recently_active_session_comes_first(
        self, sessions: SessionStore, history: HistoryProvider, later: Callable[[], None]
    ) -> None:
        async def order() -> list[str]:
            later()
            return [session.id for session in await sessions.list()]

        for name in ("b", "a", "c"):
            await sessions.create(name)
            later()
        assert await order() == ["c", "a", "b"]
        await history.append("x", Message.user("0"), session_id="b")
        assert await order() == ["b", "c", "a"]
        await sessions.update("a", title="new")
        later()
        await history.append("x", Message.user("0"), session_id="d")
        assert await order() == ["d", "a", "b", "c"]
        # Neither reading nor creating an existing session is activity.
        await sessions.get("c")
        await sessions.create("c")
        assert await order() == ["d", "a", "b", "c"]

    async def test_limit_and_offset_take_what_slices_of_the_list_would(
        self, sessions: SessionStore, later: Callable[[], None]
    ) -> None:
        for n in range(4):
            await sessions.create(f"{n}")
            later()
        everything = await sessions.list()
        assert len(everything) == 4
        for offset in (0, 1, 4, 9):
            for limit in (None, 0, 1, 9):
                page = await sessions.list(limit=limit, offset=offset)
                assert page == everything[offset:][:limit], (offset, limit)

    # Deleting

    async def test_deleting_forgets_the_session_and_its_messages_and_nothing_else(
        self, sessions: SessionStore, history: HistoryProvider
    ) -> None:
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
        self, sessions: SessionStore, history: HistoryProvider
    ) -> None:
        await history.append("a", Message.user("0"), session_id="s")
        await sessions.create("t")
        assert await sessions.delete("s") is True
        assert await sessions.delete("t") is True
        assert await sessions.list() == []

    async def test_a_cleared_session_keeps_its_description(
        self, sessions: SessionStore, history: HistoryProvider
    ) -> None:
        await sessions.create("s", title="A title")
        await history.append("a", Message.user("0"), session_id="s")
        await history.clear("a", session_id="s")
        found = await sessions.get("s")
        assert found is not None
        assert (found.title, found.n_messages) == ("A title", 0)

    async def test_a_deleted_session_starts_anew(
        self, sessions: SessionStore, later: Callable[[], None]
    ) -> None:
        old = await sessions.create("s", title="old", metadata={"a": 1})
        await sessions.delete("s")
        later()
        new = await sessions.create("s")
        assert (new.title, new.metadata) == (None, {})
        assert new.created_at > old.created_at
