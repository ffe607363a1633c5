"""At any moment of a fold, and of a commit beside the journal: killed or stopped there, all is as it was."""

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

import lancedb
import pytest
from core.reliability.stopping import go_on, stopped
from efforts import in_proofs

from lance_context_core.errors import StorageError
from lance_context_core.messages import Message
from lance_context_core.settings import JournalPolicy
from lance_context_core.storage.wal import sqlite_log, waiting
from lance_context_core.types import Item

FOLDING = [
    "has the lock",
    "is about to commit",
    "has committed",
    "is about to have forgotten",
    "has forgotten",
]
DIRECTLY = ["is about to commit directly", "has committed directly"]


@dataclass(frozen=True)
class Shown:
    """What a store shows: the ids of a session in order, and the values of items by key."""

    ids: tuple[str, ...]
    items: dict[str, int]


THERE = Shown(("a", "b", "c", "d", "e"), {"replaced": 2, "kept": 1, "new": 2})
"""Some of it is folded, some of it is in the journal."""


@pytest.fixture
def store(open_store):
    """A store that was opened before anybody stopped."""
    store = open_store()
    asyncio.run(_fill(store))
    return store


async def _fill(store):
    await say(store, "a", "b")
    await put(store, replaced=1, kept=1, removed=1)
    await store.flush()
    await say(store, "c")
    await say(store, "d", "e")
    await put(store, replaced=2, new=2)
    await store.kv().delete([((), "removed")])
    assert await shown(store) == THERE


async def say(store, *names):
    messages = [Message.user(f"tea {name}", id=name) for name in names]
    await store.history.append_many("a", messages, session_id="s")


async def put(store, **items):
    await store.kv().put([Item(key=key, value={"n": number}) for key, number in items.items()])


async def shown(store):
    """What it shows without a lock, by session, list, count, last and key, which agree."""
    ids = await heard(store)
    context = store.context()
    assert tuple(one["id"] for one in await context.list()) == ids
    assert await context.entries() == len(ids)
    newest = await store.history.get_messages("a", session_id="s", last=2)
    assert tuple(one.id for one in newest) == ids[-2:]
    for one in ("a", "c", "e"):
        assert (await context.get(id=one) is not None) == (one in ids)
    items = {one.key: one.value["n"] for one in await store.kv().list()}
    assert await store.kv().count() == len(items)
    by_key = await store.kv().get([((), key) for key in ("replaced", "removed", "new")])
    assert [one and one.value["n"] for one in by_key] == [2, None, 2]
    return Shown(ids, items)


async def heard(store):
    """The ids of the session, each of which stands for its text."""
    messages = await store.history.get_messages("a", session_id="s")
    assert [one.text for one in messages] == [f"tea {one.id}" for one in messages]
    return tuple(one.id for one in messages)


async def found(store):
    """The ids that a search finds: of all that was acknowledged before."""
    return {hit.record.id for hit in await store.search("tea", mode="text", limit=20)}


async def flush(store):
    await store.flush()


BULK = tuple(f"bulk {n}" for n in range(JournalPolicy().batch_rows + 1))


async def write_in_bulk(store):
    """More than the journal takes: a commit of its own, behind what is folded before it."""
    await say(store, *BULK)


async def begin(store):
    await say(store, "a")


def then(there, *names):
    return replace(there, ids=(*there.ids, *names))


def without(there, *names):
    return replace(there, ids=tuple(one for one in there.ids if one not in names))


# Killed


@pytest.mark.parametrize("table", ["records", *in_proofs("items")])
@pytest.mark.parametrize("step", FOLDING)
def test_whoever_is_killed_in_a_fold_loses_and_doubles_nothing(
    store, local_backend, open_store, step, table, run
):
    with stopped(local_backend.uri, step, flush, table=table):
        pass

    async def look(store):
        assert await shown(store) == THERE
        assert await found(store) == set(THERE.ids)
        assert await shown(store) == THERE

    async def write(store, there, name):
        await say(store, name)
        there = then(there, name)
        assert await shown(store) == there
        return there

    async def go_through():
        late = open_store()
        there = await write(late, THERE, "x")
        there = await write(store, there, "y")
        await late.flush()
        assert await shown(store) == await shown(late) == there
        assert await found(store) == set(there.ids)
        assert await store.context().delete(id="c")
        assert await store.context().delete(id="x")
        there = without(there, "c", "x")
        for one in (store, late):
            assert await shown(one) == there
            await one.flush()
            assert await shown(one) == there

    run(look(open_store()))
    run(go_through())


@pytest.mark.parametrize("step", FOLDING)
def test_what_was_written_after_a_killed_fold_may_take_back_what_it_brought(
    store, local_backend, open_store, step, run
):
    with stopped(local_backend.uri, step, flush, table="items"):
        pass

    async def go_through():
        late = open_store()
        await put(late, new=3)
        await late.kv().delete([((), "replaced"), ((), "kept")])
        await store.kv().add(
            [Item(key="replaced", value={"n": 4}), Item(key="new", value={"n": 4})]
        )
        for _ in range(2):
            for one in (store, late):
                items = {one.key: one.value["n"] for one in await one.kv().list()}
                assert items == {"new": 3, "replaced": 4}
            await late.flush()

    run(go_through())


@pytest.mark.parametrize("step", DIRECTLY)
def test_a_direct_commit_that_is_cut_short_is_done_or_is_not(
    store, local_backend, open_store, step, run
):
    with stopped(local_backend.uri, step, write_in_bulk):
        pass

    async def go_through():
        late = open_store()
        left = await heard(late)
        assert left in (THERE.ids, THERE.ids + BULK)
        assert await heard(store) == left
        for one, name in ((late, "x"), (store, "y")):
            await say(one, name)
            left = (*left, name)
            assert await heard(store) == await heard(late) == left
        for one in (store, late):
            await one.flush()
            assert await heard(one) == left

    run(go_through())


def test_a_journal_that_is_half_made_is_none(local_backend, open_store, run):
    with stopped(local_backend.uri, "is making the journal", begin):
        pass

    async def go_through():
        store = open_store()
        assert await heard(store) == ()
        await say(store, "b")
        assert await heard(open_store()) == ("b",)

    run(go_through())


@pytest.mark.slow
@pytest.mark.parametrize("is_folded", [True, False], ids=["folded", "not folded"])
async def test_upkeep_that_is_killed_before_the_journal_knows_of_it_costs_nobody_a_row(
    open_store, local_backend, is_folded
):
    store, late = open_store(), open_store()
    await _fill(store)
    assert await shown(late) == THERE
    if is_folded:
        await store.flush()
    # What upkeep does beside the journal: the version that this one knows goes, being old.
    engine = await lancedb.connect_async(local_backend.uri)
    for name in (await engine.list_tables()).tables:
        table = await engine.open_table(name)
        await asyncio.sleep(0.002)
        await table.optimize(cleanup_older_than=timedelta(milliseconds=1))

    assert await shown(late) == THERE
    await say(store, "x")
    await put(late, kept=5)
    there = Shown((*THERE.ids, "x"), THERE.items | {"kept": 5})
    assert await shown(store) == await shown(late) == await shown(open_store()) == there
    assert await found(late) == set(there.ids)


# Stopped, and going on later


@contextmanager
def impatient(monkeypatch):
    """Who meets a lock of the journal waits a moment alone."""
    with monkeypatch.context() as patch:
        patch.setattr(waiting, "_PATIENCE_SECONDS", 0.2)
        patch.setattr(sqlite_log, "_PATIENCE_SECONDS", 0.2)
        yield


@pytest.mark.parametrize("step", FOLDING)
def test_whoever_is_stopped_in_a_fold_keeps_nobody_from_reading(
    store, local_backend, open_store, step, run, monkeypatch
):
    async def go_through(process):
        late = open_store()
        there = THERE
        for one, name in ((store, "x"), (late, "y")):
            assert await shown(one) == there
            if step == "is about to have forgotten":
                # SQLite has one writer at a time.
                with impatient(monkeypatch), pytest.raises(StorageError, match="locked by another"):
                    await say(one, name)
            else:
                await say(one, name)
                there = then(there, name)
            assert await shown(one) == there
        if step == "has forgotten":
            # A few rows that are folded are taken back by entries of their own.
            assert await store.context().delete(id="c")
            there = without(there, "c")
        # What is searched in the process waits for nobody, what the engine searches does.
        assert await found(late) == set(there.ids)
        by_engine, last = open_store(search_cache=None), there.ids[-1]
        waiting = [asyncio.ensure_future(work) for work in (found(by_engine), late.flush())]
        deleting = asyncio.ensure_future(store.context().delete(id=last))
        if step == "is about to have forgotten":
            await asyncio.sleep(0.1)
            assert not deleting.done()
        else:
            assert await deleting
            there = without(there, last)
        assert await shown(late) == there
        assert not any(one.done() for one in waiting)
        await asyncio.to_thread(go_on, process)
        hits, _, is_deleted = await asyncio.gather(*waiting, deleting)
        assert is_deleted
        there = without(there, last)
        assert hits - {last} == set(there.ids)
        for one in (store, late, open_store()):
            assert await shown(one) == there
            await say(one, f"z{len(there.ids)}")
            there = then(there, f"z{len(there.ids)}")
            assert await shown(one) == there

    with stopped(local_backend.uri, step, flush, is_killed=False) as process:
        run(go_through(process))


@pytest.mark.parametrize("step", DIRECTLY)
def test_whoever_is_stopped_in_a_direct_commit_keeps_nobody_from_reading(
    store, local_backend, open_store, step, run, monkeypatch
):
    async def go_through(process):
        late = open_store()
        left = await heard(late)
        assert left in (THERE.ids, THERE.ids + BULK)
        assert await heard(store) == left
        with impatient(monkeypatch), pytest.raises(StorageError, match="locked by another"):
            await say(late, "x")
        waiting = asyncio.ensure_future(say(late, "y"))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await asyncio.to_thread(go_on, process)
        await waiting
        for one in (store, late, open_store()):
            assert await heard(one) == (*THERE.ids, *BULK, "y")

    with stopped(local_backend.uri, step, write_in_bulk, is_killed=False) as process:
        run(go_through(process))
