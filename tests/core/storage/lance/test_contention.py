"""A commit that lost to others is made again, and a write is whole or not there, however often it loses."""

import math
import os

import pytest
from core.conformance.interrupting import before

from lance_context_core import AsyncContextStore, ConflictError, ContextStore, Item, Message
from lance_context_core.storage import preconditions
from lance_context_core.storage.lance import contention, writes

LOST = "lance error: Too many concurrent writers. Attempted 3 times, but failed on retry_timeout"
IN_THE_WAY = "lance error: Incompatible transaction: others have changed the same rows"


class Table:
    """Stands for the engine's handle."""

    n_looks = 0

    async def checkout_latest(self):
        self.n_looks += 1

    async def version(self):
        return 1


def losing(monkeypatch, owner, name, times, text=LOST):
    """Have the engine refuse the next calls of that function, before they write anything."""
    real, tries = getattr(owner, name), []

    async def refused(*args, **options):
        tries.append(None)
        if len(tries) <= times:
            raise RuntimeError(text)
        return await real(*args, **options)

    monkeypatch.setattr(owner, name, refused)
    return tries


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch):
    monkeypatch.setattr(contention, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(contention, "_TURN_SECONDS", 0.001)
    monkeypatch.setattr(contention, "_LEAST_SECONDS", 0.0001)


def test_the_engine_is_told_to_leave_lost_races_to_the_store():
    assert float(os.environ["LANCE_COMMIT_RETRY_TIMEOUT_SECS"]) <= 1


@pytest.mark.usefixtures("each_write_commits")
async def test_a_write_that_loses_many_races_is_there_once_in_the_end(store, monkeypatch):
    await store.kv().put([Item(key="first")])
    tries = losing(monkeypatch, writes, "merge", 40)
    await store.kv().add([Item(key="mine", value={"n": 1})])
    assert len(tries) == 41
    assert [(one.key, one.value) for one in await store.kv().list()] == [
        ("first", None),
        ("mine", {"n": 1}),
    ]


async def test_each_try_is_on_top_of_what_others_have_committed():
    table, seen = Table(), []

    async def work(handle):
        seen.append(handle.n_looks)
        if len(seen) <= 10:
            raise RuntimeError(LOST)
        return "done"

    assert await contention.insist("write", table, work) == "done"
    assert seen == list(range(11))


async def test_what_does_not_pass_is_told_after_a_few_tries():
    tries = []

    async def work(_):
        tries.append(None)
        raise RuntimeError(IN_THE_WAY)

    with pytest.raises(ConflictError, match="cannot write"):
        await contention.insist("write", Table(), work)
    assert len(tries) == 5


@pytest.mark.usefixtures("each_write_commits")
async def test_what_came_too_late_is_taken_back_however_often_that_loses(tmp_path, monkeypatch):
    uri = str(tmp_path / "shared")
    async with await AsyncContextStore.open(uri) as one, await AsyncContextStore.open(uri) as two:
        kv = one.kv()
        await kv.put([Item(key="kept"), Item(key="watched")])
        expected = {((), item.key): item.revision for item in await kv.list()}

        async def others():
            await two.kv().delete([((), "watched")])

        before(monkeypatch, preconditions, "_commit", others)
        tries = losing(monkeypatch, preconditions, "_take_back", 40)
        with pytest.raises(ConflictError, match="nothing was written"):
            await kv.write(puts=[Item(key="kept", value={"n": 1})], expected=expected)
        assert len(tries) == 41
        assert [(item.key, item.value) for item in await two.kv().list()] == [("kept", None)]


@pytest.mark.usefixtures("each_write_commits")
async def test_a_version_is_restored_however_often_that_loses(store, monkeypatch):
    await store.memory.add(["first"])
    then = await store.version()
    await store.memory.add(["second"])
    real, tries = contention.insist, []

    async def insist(action, handle, work, **options):
        async def losing_first(handle):
            tries.append(action)
            if len(tries) <= 20:
                raise RuntimeError(LOST)
            return await work(handle)

        return await real(action, handle, losing_first, **options)

    monkeypatch.setattr(contention, "insist", insist)
    await store.restore(then)
    assert [one.text for one in (await store.memory.list()).items] == ["first"]
    assert any("restore" in action for action in tries)


def test_the_exit_waits_for_what_the_engine_writes_behind_the_last_commit(tmp_path, monkeypatch):
    slept = []
    monkeypatch.setattr(contention, "_ended_at", -math.inf)
    monkeypatch.setattr(contention, "_HINT_SECONDS", 60)
    with ContextStore.open(tmp_path, journal=None) as store:
        monkeypatch.setattr(contention.time, "sleep", slept.append)
        contention.rest_at_exit()
        assert slept == []
        store.history.append("a", Message.user("hello"), session_id="s")
        contention.rest_at_exit()
        assert len(slept) == 1
        assert 0 < slept[0] <= 60
