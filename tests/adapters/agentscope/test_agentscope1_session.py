"""The session of agentscope 1.x: states of modules, saved and loaded by name."""

import asyncio

import pytest
from agentscope.module import StateModule
from agentscope_lance_context import LanceContextSession

from lance_context_core import AsyncContextStore, ContextStore, InvalidRequestError


class Notes(StateModule):
    def __init__(self, *notes):
        super().__init__()
        self.notes = []
        self.inner = Inner()
        self.register_state("notes")
        self.notes += notes


class Inner(StateModule):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.register_state("n")


async def saved(where, session, *notes, user=""):
    async with LanceContextSession(where) as sessions:
        await sessions.save_session_state(session, user, notes=Notes(*notes))


async def loaded(where, session, user="", **options):
    async with LanceContextSession(where) as sessions:
        notes = Notes("untouched")
        await sessions.load_session_state(session, user, **options, notes=notes, other=Inner())
        return notes.notes


SAVED = {("a", ""): 1, ("a", "~"): 2, ("a", "ada"): 3, ("it's", "ada"): 4, ('"; --', "a'da"): 5}


async def test_each_session_of_each_user_has_what_it_saved_last_after_a_restart(tmp_path):
    for (session, user), number in SAVED.items():
        await saved(tmp_path, session, "old", user=user)
        await saved(tmp_path, session, number, {"ü": [None, 1.5]}, user=user)
    for (session, user), number in SAVED.items():
        assert await loaded(tmp_path, session, user) == [number, {"ü": [None, 1.5]}]
    assert await loaded(tmp_path, "it's", "bob") == ["untouched"]


async def test_an_absent_session_changes_nothing_or_is_an_error_as_is_asked(tmp_path):
    assert await loaded(tmp_path, "absent") == ["untouched"]
    with pytest.raises(ValueError, match="absent"):
        await loaded(tmp_path, "absent", allow_not_exist=False)


async def test_what_cannot_be_saved_is_refused_and_what_was_saved_stays(tmp_path):
    await saved(tmp_path, "a", "kept")
    with pytest.raises(InvalidRequestError, match="JSON"):
        await saved(tmp_path, "a", object())
    for wrong in ("", None, 7, "a\0"):
        with pytest.raises(InvalidRequestError):
            await saved(tmp_path, wrong, "x")
    assert await loaded(tmp_path, "a") == ["kept"]


async def test_a_session_is_forgotten_on_demand(tmp_path):
    await saved(tmp_path, "a", "mine", user="ada")
    async with LanceContextSession(tmp_path) as sessions:
        assert not await sessions.delete_session_state("a", "bob")
        assert await sessions.delete_session_state("a", "ada")
    assert await loaded(tmp_path, "a", "ada") == ["untouched"]


def test_a_session_that_is_not_used_for_long_ends(tmp_path, clock):
    with ContextStore.open(tmp_path, clock=clock) as store:
        sessions = LanceContextSession(store, ttl_seconds=60)

        def found():
            notes = Notes("untouched")
            asyncio.run(sessions.load_session_state("a", notes=notes))
            return notes.notes

        asyncio.run(sessions.save_session_state("a", notes=Notes("kept")))
        for _ in range(3):
            clock.advance(seconds=59)
            assert found() == ["kept"]
        clock.advance(seconds=60)
        assert found() == ["untouched"]


async def test_a_store_that_was_handed_over_stays_open(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        await saved(store, "a", "kept")
        assert await loaded(store, "a") == ["kept"]
        assert await store.version() == 0


async def test_many_sessions_are_saved_and_loaded_at_once(tmp_path):
    async with LanceContextSession(tmp_path) as sessions:
        names = [f"s{n}" for n in range(20)]
        await asyncio.gather(*(sessions.save_session_state(one, notes=Notes(one)) for one in names))
        found = [Notes() for _ in names]
        await asyncio.gather(
            *(sessions.load_session_state(n, notes=s) for n, s in zip(names, found, strict=True))
        )
        assert [one.notes for one in found] == [[name] for name in names]
