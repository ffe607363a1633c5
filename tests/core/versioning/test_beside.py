"""Verbs that concern the whole store, beside each other: each takes its turn, or begins anew.

What a test does inside of a verb is done in that verb's turn: so it is where others take no turns, as on
an object store.
"""

import asyncio
import shutil
from contextlib import suppress
from contextvars import Context

import pytest

from lance_context_core import verify
from lance_context_core.erasure import planner
from lance_context_core.errors import ConflictError, NotFoundError
from lance_context_core.storage.lance import branches, purge, reads, retention, versions
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.types import Document
from lance_context_core.versioning import locations


async def put(store, *ids):
    for one in ids:
        await store.context().add("user", f"text of {one}", id=one)
        await store.flush()


async def ids(store):
    return sorted(one["id"] for one in await store.context().list())


def interfere(monkeypatch, where, name, other):
    """Have `other` done before the first call of a function; returns a list that tells of it."""
    real, done = getattr(where, name), []

    async def call(*args, **kwargs):
        if not done:
            done.append(True)
            await other()
        return await real(*args, **kwargs)

    monkeypatch.setattr(where, name, call)
    return done


def begun(work):
    """A task of somebody else's, who is in nobody's turn."""
    return asyncio.get_running_loop().create_task(work, context=Context())


# Turns


@pytest.mark.parametrize("verb", ["erase", "thin", "tag", "merge", "restore", "copy", "branch"])
async def test_whoever_concerns_the_whole_store_waits_until_all_of_a_branch_is_made(
    open_store, monkeypatch, tmp_path, verb
):
    store, other = open_store(), open_store()
    await put(store, "a", "b")
    await store.vectors("c").add([Document(id="d", text="t", embedding=[1.0])])
    await store.create_branch("old")
    waiting = {
        "erase": lambda: other.erase(ids=["a"]),
        "thin": other.thin,
        "tag": lambda: other.tag("t"),
        "merge": lambda: other.merge("old"),
        "restore": lambda: other.restore("old"),
        "copy": lambda: other.copy(tmp_path / "copy"),
        "branch": lambda: other.create_branch("other"),
    }[verb]
    fork, made, tasks = TableHandle.fork, [], []

    async def making(self, ref, at, handle=None):
        made.append(branches.owner_of(ref))
        if not tasks:
            tasks.append(begun(waiting()))
        if made[-1] == "new":
            await asyncio.wait(tasks, timeout=0.3)
            assert not tasks[0].done()
        return await fork(self, ref, at, handle)

    monkeypatch.setattr(TableHandle, "fork", making)
    await store.create_branch("new")
    assert made[:4] == ["new"] * 4, "of two tables, each with what both sides have in common"
    await tasks[0]
    assert (await other.verify()).is_whole


async def test_a_turn_that_others_have_for_too_long_is_a_conflict(open_store):
    store, other = open_store(), open_store()
    await put(store, "a")
    connection = store._resources.database.connection
    async with locations.turn(connection):

        async def wait():
            async with locations.turn(other._resources.database.connection, patience_seconds=0):
                pass

        with pytest.raises(ConflictError, match="call again"):
            await begun(wait())
    await begun(wait())


async def test_handles_of_a_store_in_memory_take_turns_too(memory_backend):
    store = memory_backend.open()
    await put(store, "a", "b")
    connection = store._resources.database.connection
    async with locations.turn(connection):

        async def wait():
            async with locations.turn(connection, patience_seconds=0):
                pass

        with pytest.raises(ConflictError, match="call again"):
            await begun(wait())
    await begun(wait())
    await store.close()


async def test_a_function_that_is_called_in_a_turn_may_ask_for_one(store):
    await put(store, "a", "b")
    branch = await store.create_branch("b")
    await branch.context().upsert("user", "theirs", id="a", key="id")
    await store.context().upsert("user", "ours", id="a", key="id")

    async def policy(conflict):
        await store.tag("before")
        return conflict.theirs

    await store.merge("b", policy=policy)
    assert {one["text"] for one in await store.context().list()} == {"theirs", "text of b"}
    before = await store.checkout("before")
    assert {one["text"] for one in await before.context().list()} == {"ours", "text of b"}


async def test_versions_that_are_due_to_go_stay_while_others_have_the_turn(open_store):
    store, other = open_store(), open_store()
    await put(store, "a", "b", "c")

    async def refuse(table):
        async with locations.turn(store._resources.database.connection, patience_seconds=0):
            raise AssertionError

    store._resources.upkeep.thin = refuse
    async with locations.turn(other._resources.database.connection):
        [done] = await begun(store.maintain())
    assert done.versions_removed == 0
    assert done.fragments_removed == 3, "the rest is done"
    assert "call again" in done.skipped


async def test_a_branch_that_two_merge_at_once_is_merged_once(open_store):
    store, other = open_store(), open_store()
    await put(store, "a")
    branch = await store.create_branch("b")
    for number in range(3):
        await put(branch, f"b{number}")
        done = await asyncio.gather(begun(store.merge("b")), begun(other.merge("b")))
        assert sum(one.tables["records"].added for one in done if "records" in one.tables) == 1
    assert await ids(store) == ["a", "b0", "b1", "b2"]


# What others remove meanwhile, where they take no turns


async def test_an_erasure_passes_by_tags_and_branches_that_go_meanwhile(store, monkeypatch):
    await put(store, "a", "b")
    await store.create_branch("b")
    await store.tag("t")
    await store.context().update(id="a", metadata={"seen": True})
    await store.flush()

    async def drop():
        await store.delete_branch("b")
        await store.delete_tag("t")

    for where, name in ((planner.traces, "found"), (purge, "delete"), (purge, "scour")):
        done = interfere(monkeypatch, where, name, drop)
        await store.create_branch("c")
        erased = await store.erase(ids=["a"])
        assert done
        assert await ids(store) == ["b"]
        assert await ids(await store.branch("c")) == ["b"]
        assert erased.records == 1
        await store.delete_branch("c")
        await put(store, "a")
        await store.context().update(id="a", metadata={"seen": True})
        await store.create_branch("b")
        await store.tag("t")


async def test_an_erasure_says_that_others_were_in_the_way_and_not_that_something_is_missing(
    store, monkeypatch
):
    await put(store, "a", "b")
    real, names = purge.table_refs, []

    async def table_refs(*args):
        names.append(f"t{len(names)}")
        await store.tag(names[-1])
        found = await real(*args)
        await store.delete_tag(names[-1])
        return found

    monkeypatch.setattr(purge, "table_refs", table_refs)
    with pytest.raises(ConflictError, match="call again"):
        await store.erase(ids=["a"])
    assert len(names) == 10
    monkeypatch.setattr(purge, "table_refs", real)
    assert (await store.erase(ids=["a"])).records == 1
    assert await ids(store) == ["b"]


async def test_thinning_passes_by_a_branch_that_goes_meanwhile(store, monkeypatch):
    await put(store, "a")
    for name in ("b", "c"):
        await put(await store.create_branch(name), f"on {name}")

    async def drop():
        await store.delete_branch("b")

    real = retention.branches.listed

    async def listed(handle, table, **options):
        if handle.current_branch() == "heads/b" and not done:
            done.append(True)
            await drop()
        return await real(handle, table, **options)

    done = []
    monkeypatch.setattr(retention.branches, "listed", listed)
    thinned = await store.thin()
    assert done
    assert {one.branch for one in thinned.tables} == {"main", "c"}


async def test_restoring_a_tag_that_goes_meanwhile_restores_all_of_it(store, monkeypatch):
    await put(store, "a")
    await store.vectors("c").add([Document(id="d", text="t", embedding=[1.0])])
    await store.tag("t")
    await put(store, "b")
    await store.vectors("c").add([Document(id="e", text="t", embedding=[1.0])])

    async def drop():
        await store.delete_tag("t")

    done = interfere(monkeypatch, versions, "restore", drop)
    await store.restore("t")
    assert done
    assert await ids(store) == ["a"]
    assert [one.id for one in await store.vectors("c").list()] == ["d"]


async def test_a_tag_or_a_branch_that_others_delete_is_not_read_as_an_empty_store(open_store):
    store, other = open_store(), open_store()
    await put(store, "a")
    await store.sessions.create("s")
    await store.vectors("c").add([Document(id="d", text="t", embedding=[1.0])])
    await store.tag("t")
    await store.create_branch("b")
    views = [await store.checkout("t"), await store.checkout("b")]
    await other.delete_tag("t")
    await other.delete_branch("b")
    for view, what in zip(views, ["tag 't'", "branch 'b'"], strict=True):
        for read in (view.context().list, view.sessions.list, view.vectors("c").list):
            with pytest.raises(NotFoundError, match=f"{what} does not exist"):
                await read()


async def test_a_branch_that_others_made_anew_is_read_and_written_as_it_is_now(open_store):
    store, other = open_store(), open_store()
    await put(store, "a")
    await store.sessions.create("s")
    await store.flush()
    await store.create_branch("b")
    branch = await other.branch("b")
    for number in range(3):
        await branch.sessions.create(f"former {number}")
        await put(branch, f"former {number}")
    await store.delete_branch("b")
    anew = await store.create_branch("b")
    assert [one.id for one in await branch.sessions.list()] == ["s"]
    assert await ids(branch) == ["a"]
    assert (await other.verify()).is_whole
    await branch.sessions.create("new")
    await put(branch, "new")
    assert {one.id for one in await anew.sessions.list()} == {"new", "s"}
    assert await ids(anew) == ["a", "new"]


# Versions that others remove meanwhile


@pytest.mark.parametrize("is_read_before", [False, True])
async def test_an_earlier_version_that_was_erased_meanwhile_is_not_kept_rather_than_damaged(
    open_store, is_read_before
):
    store, other = open_store(), open_store()
    await put(store, "a", "b", "c")
    number = await store.version()
    await put(store, "d")
    view = await store.checkout(number)
    if is_read_before:
        assert await ids(view) == ["a", "b", "c"]
    await other.erase(ids=["a"])
    for read in (
        view.context().list,
        lambda: view.search("text", mode="text"),
        lambda: view.sql("SELECT count(*) FROM records"),
    ):
        try:
            await read()
        except NotFoundError as error:
            assert f"version {number} of table 'records' was pruned" in str(error)  # noqa: PT017
        else:
            assert is_read_before, "what it has read it may still know"


async def test_a_version_that_was_damaged_is_not_taken_for_one_that_others_removed(open_store):
    store = open_store()
    await put(store, "a", "b")
    view = await store.checkout(await store.version())
    place = store.uri
    shutil.rmtree(f"{place}/records.lance/data")
    with pytest.raises(OSError, match="missing or damaged"):
        await view.context().list()


async def test_a_read_goes_on_however_often_others_remove_what_it_reads(open_store, monkeypatch):
    store, other = open_store(journal=None), open_store(journal=None)
    await put(store, "a", "b", "c", "d")
    gone = iter("abc")
    assert await ids(store) == ["a", "b", "c", "d"]
    real, n = reads.scan, []

    async def scan(handle, *args, **options):
        if len(n) < 6 and not options.get("are_there") and not busy:
            busy.append(True)
            with suppress(StopIteration):
                n.append(next(gone))
                await other.erase(ids=[n[-1]])
            busy.clear()
        return await real(handle, *args, **options)

    busy = []
    monkeypatch.setattr(reads, "scan", scan)
    assert await ids(store) == ["d"]
    assert n == ["a", "b", "c"]


async def test_a_long_read_whose_version_others_remove_is_to_be_repeated(open_store, monkeypatch):
    store, other = open_store(), open_store()
    await put(store, "a", "b")
    real, done = reads.stream, []

    async def stream(*args):
        if not done:
            done.append(True)
            await other.erase(ids=["a"])
        async for batch in real(*args):
            yield batch

    monkeypatch.setattr(reads, "stream", stream)
    with pytest.raises(ConflictError, match="call again"):
        await store.sql("SELECT id FROM records")
    assert (await store.sql("SELECT id FROM records"))["id"].to_pylist() == ["b"]


# Whether a store is whole


@pytest.fixture
def removing(monkeypatch):
    """Has a branch deleted, and a version erased, right before the branch is looked at."""

    def removing_(other):
        table, done = verify._Looked.table, []

        async def looking(self, *args):
            if args[1] == "b" and not done:
                done.append(True)
                await begun(other.delete_branch("b"))
                await begun(other.erase(ids=["a"]))
            await table(self, *args)

        monkeypatch.setattr(verify._Looked, "table", looking)
        return done

    return removing_


async def test_what_others_remove_while_a_store_is_verified_is_not_taken_for_damage(
    open_store, removing
):
    store, other = open_store(), open_store()
    await put(store, "a", "b")
    await put(await store.create_branch("b"), "c")
    done = removing(other)
    verified = await store.verify()
    assert done
    assert verified.problems == ()
    assert verified.rows == 1


async def test_damage_is_told_although_others_remove_something_meanwhile(open_store, removing):
    store, other = open_store(), open_store()
    await put(store, "a", "b")
    await put(await store.create_branch("b"), "c")
    await store.sessions.create("s")
    await store.flush()
    shutil.rmtree(f"{store.uri}/sessions.lance/data")
    done = removing(other)
    problems = (await store.verify()).problems
    assert done
    assert problems
    assert all("sessions" in one.where for one in problems)
