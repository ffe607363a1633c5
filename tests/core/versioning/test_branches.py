"""Branches: what is written on one is on no other, and each is a whole store."""

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from core.versioning.samples import AXES, dump, write, written
from lance_context_testing.samples import NAMES, NO_NAMES
from pyarrow.fs import FileSelector, S3FileSystem

from lance_context_core.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
    StoreClosedError,
)
from lance_context_core.messages import Message
from lance_context_core.storage.lance import branches as refs
from lance_context_core.storage.lance import orphaned_refs
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.types import Branch, Document


@pytest.fixture(params=["local", "memory"])
def anywhere(request, clock):
    """A store in a directory, or in the memory of this process."""
    store = request.getfixturevalue(f"{request.param}_backend").open(clock=clock)
    yield store
    asyncio.run(store.close())


async def everything(store):
    """All that is written, with what holds it: tables, and their refs."""
    connection = await store._resources.database.connection.engine()
    names = sorted((await connection.list_tables()).tables)
    return {name: await refs.listed(await connection.open_table(name), name) for name in names}


async def texts(store):
    return [record["text"] for record in await store.context().list()]


# Isolation


async def test_neither_side_sees_what_the_other_writes(anywhere):
    await write(anywhere, 0)
    before = await dump(anywhere)
    branch = await anywhere.create_branch("b")
    assert await dump(branch) == before
    for step in range(1, 5):
        await write(branch, step)
    assert await dump(anywhere) == before
    on_branch = await dump(branch)
    for step in range(5, 8):
        await write(anywhere, step)
        await anywhere.sessions.delete(f"s{step}")
    assert await dump(branch) == on_branch != await dump(anywhere)


async def test_a_collection_belongs_to_the_branch_on_which_it_was_made(anywhere):
    await write(anywhere, 0)
    branch = await anywhere.create_branch("b")
    await branch.vectors("mine").add([Document(id="a", text="on the branch", embedding=AXES[0])])
    await anywhere.vectors("yours").add(
        [Document(id="a", text="on main", embedding=[1.0, 2.0, 3.0])]
    )
    for store, own, other in ((branch, "mine", "yours"), (anywhere, "yours", "mine")):
        assert await store.vectors(own).count() == 1
        assert await store.vectors(other).count() == 0
        assert await store.vectors(other).search("branch main", mode="text") == []
        assert await store.vectors().list_collections() == sorted(["c", own])
    # Both may use the other's name for something else: other ids, other vectors.
    await branch.vectors("yours").add([Document(id="b", text="b", embedding=AXES[0])])
    await anywhere.vectors("mine").add([Document(id="b", text="b", embedding=[1.0])])
    assert [one.id for one in await branch.vectors("yours").list()] == ["b"]
    assert [one.id for one in await anywhere.vectors("mine").list()] == ["b"]
    assert [one.id for one in await branch.vectors("mine").list()] == ["a"]


async def test_removing_a_collection_leaves_those_of_other_branches(anywhere):
    await write(anywhere, 0)
    branch = await anywhere.create_branch("b")
    assert await anywhere.vectors("c").delete_collection() == 1
    assert await anywhere.vectors("c").count() == 0
    assert await anywhere.vectors().list_collections() == []
    assert await branch.vectors("c").count() == 1
    await anywhere.vectors("c").add([Document(id="new", text="new", embedding=AXES[0])])
    assert await branch.vectors("c").delete_collection() == 1
    assert await branch.vectors().list_collections() == []
    assert [one.id for one in await anywhere.vectors("c").list()] == ["new"]


async def test_a_branch_is_a_whole_store(anywhere, clock):
    await anywhere.history.append("a", Message.user("green tea", id="m"), session_id="s")
    branch = await anywhere.create_branch("b")
    context = branch.context()
    await context.add("user", "black tea", external_id="x", embedding=AXES[0])
    await context.add("user", "white wine", external_id="y", embedding=AXES[1])
    await context.upsert("user", "red wine", external_id="y", embedding=AXES[1])
    await context.update(external_id="x", tags=["hot"])
    await context.add("user", "gone", external_id="z", expires_at=clock.now())
    assert await texts(branch) == ["green tea", "black tea", "red wine"]
    assert [hit["text"] for hit in await context.search("wine")] == ["red wine"]
    assert [hit["text"] for hit in await context.search(AXES[0], 1)] == ["black tea"]
    assert [hit["text"] for hit in await context.list(filters={"tags": {"$contains": "hot"}})] == [
        "black tea"
    ]
    number = await branch.tag("then")
    await context.delete(external_id="y")
    assert await branch.tags() == {"then": number}
    assert [version.tags for version in await branch.versions() if version.tags] == [("then",)]
    assert await texts(await branch.checkout("then")) == ["green tea", "black tea", "red wine"]
    assert await texts(await branch.checkout(number)) == ["green tea", "black tea", "red wine"]
    assert [one.text for one in (await branch.diff("then")).removed] == ["red wine"]
    await branch.maintain()
    assert await branch.restore("then") == await branch.version() > number
    assert await texts(branch) == ["green tea", "black tea", "red wine"]
    assert await texts(anywhere) == ["green tea"]


async def test_a_context_of_a_branch_goes_through_the_branch(store):
    context = store.context("notes")
    await context.add("user", "0", external_id="x")
    branch = await store.create_branch("b")
    other = branch.context("notes")
    await other.add("user", "1")
    await context.add("user", "2")
    assert [one["text"] for one in await other.list()] == ["0", "1"]
    assert [one.text for one in (await other.diff("main")).added] == ["1"]
    assert [one.text for one in (await context.diff("b", "main")).added] == ["2"]
    await context.checkout("b")
    assert [one["text"] for one in await context.list()] == ["0", "1"]
    with pytest.raises(ReadOnlyError):
        await context.add("user", "3")
    await context.checkout_latest()
    await other.restore("main")
    assert [one["text"] for one in await other.list()] == ["0", "2"]


async def test_a_scope_holds_on_a_branch(store):
    await store.scope(tenant="x").context().add("user", "0")
    await store.create_branch("b")
    scope = await store.scope(tenant="x").branch("b")
    await scope.context().add("user", "1")
    await (await store.branch("b")).scope(tenant="y").context().add("user", "2")
    assert await texts(scope) == ["0", "1"]
    assert await texts(scope.scope(user_id="u")) == []
    for call in (scope.create_branch("c"), scope.delete_branch("b"), scope.merge("main")):
        with pytest.raises(InvalidRequestError, match="scope"):
            await call


# Where a branch begins


@pytest.mark.slow
async def test_a_branch_begins_at_any_moment(store):
    seen = await written(store, 4)
    await store.tag("tag", version=min(seen))
    moments = {version.number: version.created_at for version in await store.versions()}
    for version, expected in seen.items():
        branch = await store.create_branch(f"v{version}", at=version)
        later = await store.create_branch(f"t{version}", at=moments[version])
        assert await dump(branch) == await dump(later) == expected
    assert await dump(await store.create_branch("tagged", at="tag")) == seen[min(seen)]
    for nothing in (10_000, "nowhere", datetime(1970, 1, 1, tzinfo=UTC)):
        with pytest.raises(NotFoundError):
            await store.create_branch("c", at=nothing)
    assert {branch.forked_at for branch in await store.branches()} == set(seen)


async def test_a_branch_can_be_made_from_a_branch(anywhere):
    await anywhere.context().add("user", "main")
    child = await anywhere.create_branch("child")
    await child.context().add("user", "child")
    grandchild = await child.create_branch("grandchild")
    same = await anywhere.create_branch("same", at="child")
    await child.context().add("user", "late")
    await grandchild.context().add("user", "grandchild")
    assert await texts(grandchild) == ["main", "child", "grandchild"]
    assert await texts(child) == ["main", "child", "late"]
    assert await texts(same) == ["main", "child"]
    assert await texts(await grandchild.branch("main")) == ["main"]
    parents = {branch.name: branch.parent for branch in await anywhere.branches()}
    assert parents == {"child": "main", "grandchild": "child", "same": "child"}
    assert await anywhere.branches() == await grandchild.branches()
    with pytest.raises(InvalidRequestError, match=r"'(grandchild|same)'"):
        await anywhere.delete_branch("child")
    assert await texts(child) == ["main", "child", "late"]
    for name in ("grandchild", "same", "child"):
        assert await anywhere.delete_branch(name) is True
    assert await anywhere.branches() == []


async def test_an_empty_store_can_have_branches(anywhere):
    branch = await anywhere.create_branch("b")
    assert await dump(branch) == await dump(anywhere)
    await write(branch, 0)
    assert await texts(anywhere) == []
    assert await branch.vectors("c").count() == 1


# Names, lists, deletion


@pytest.mark.slow
async def test_any_name_is_a_branch_or_is_refused_for_what_it_is(store):
    await write(store, 0)
    taken = []
    for name in [*NAMES, *NO_NAMES, "main", "", "a/b", "a..b", ".a", "a.", "a.lock", "x" * 201]:
        try:
            await store.create_branch(name)
        except InvalidRequestError as refusal:
            assert "name" in str(refusal)  # noqa: PT017 - it may as well be taken
        else:
            taken.append(name)
    assert {"a", "A", "a.b", "0", "-1", "_"} <= set(taken)
    assert [branch.name for branch in await store.branches()] == sorted(taken)
    for name in taken:
        assert await texts(await store.branch(name)) == await texts(store)
        assert await store.delete_branch(name) is True


async def test_branches_and_tags_share_their_names(store):
    await write(store, 0)
    await store.tag("tag")
    branch = await store.create_branch("branch")
    for call in (
        store.create_branch("tag"),
        store.create_branch("branch"),
        branch.create_branch("branch"),
        store.tag("branch"),
    ):
        with pytest.raises(AlreadyExistsError, match=r"'(tag|branch)'"):
            await call
    with pytest.raises(InvalidRequestError):
        await store.tag("main")


async def test_a_list_says_where_each_branch_began(store):
    await write(store, 0)
    number = await store.version()
    branch = await store.create_branch("b")
    await write(branch, 1)
    await write(store, 1)
    assert await store.branches() == [Branch(name="b", parent="main", forked_at=number)]
    assert await branch.version() > number


async def test_a_deleted_branch_is_gone_and_its_name_is_free(anywhere):
    await write(anywhere, 0)
    before = await everything(anywhere)
    branch = await anywhere.create_branch("b")
    await write(branch, 1)
    assert await anywhere.delete_branch("b") is True
    assert await anywhere.delete_branch("b") is False
    assert await everything(anywhere) == before
    for name in ("b", "never"):
        with pytest.raises(NotFoundError, match=repr(name)):
            await anywhere.branch(name)
        with pytest.raises(NotFoundError, match=repr(name)):
            await anywhere.checkout(name)
    again = await anywhere.create_branch("b")
    assert await dump(again) == await dump(anywhere)
    await write(again, 2)
    assert await texts(again) != await texts(anywhere)
    with pytest.raises(InvalidRequestError, match="main"):
        await anywhere.delete_branch("main")


async def test_a_branch_that_a_tag_names_stays(store):
    await write(store, 0)
    branch = await store.create_branch("b")
    await write(branch, 1)
    await branch.tag("keep")
    with pytest.raises(InvalidRequestError, match="'keep'"):
        await store.delete_branch("b")
    assert await dump(await store.checkout("keep")) == await dump(branch)
    await store.delete_tag("keep")
    assert await store.delete_branch("b") is True


async def test_an_earlier_version_has_no_branches_to_make(store):
    await write(store, 0)
    await store.create_branch("b")
    view = await store.checkout(await store.version())
    assert [branch.name for branch in await view.branches()] == ["b"]
    for call in (view.create_branch("c"), view.delete_branch("b"), view.merge("b")):
        with pytest.raises(ReadOnlyError):
            await call


async def test_a_handle_of_a_deleted_branch_says_so(open_store):
    store, other = open_store(), open_store()
    await write(store, 0)
    handles = [await store.create_branch("b"), await other.branch("b")]
    for handle in handles:
        await write(handle, 1)
    await store.delete_branch("b")
    for handle in handles:
        for call in (
            lambda: handle.context().list(),  # noqa: B023 - called in this round
            lambda: handle.context().add("user", "x"),  # noqa: B023
            lambda: handle.context().update(external_id="x", tags=["x"]),  # noqa: B023
            lambda: handle.vectors("c").list(),  # noqa: B023
            lambda: handle.vectors("c").add([Document(id="z", text="z")]),  # noqa: B023
            lambda: handle.vectors("new").add([Document(id="z", text="z")]),  # noqa: B023
            lambda: handle.sessions.create("z"),  # noqa: B023
            lambda: handle.search("x", mode="text"),  # noqa: B023
            lambda: handle.version(),  # noqa: B023, PLW0108
            lambda: handle.tag("x"),  # noqa: B023
            lambda: handle.restore("main"),  # noqa: B023
            lambda: handle.merge("main"),  # noqa: B023
            lambda: handle.create_branch("x"),  # noqa: B023
        ):
            with pytest.raises(NotFoundError, match="'b'"):
                await call()
    assert await store.branches() == []
    assert all("heads/b" not in forks for forks in (await everything(store)).values())


async def test_a_closed_store_closes_its_branches(open_store):
    store = open_store()
    branch = await store.create_branch("b")
    await branch.close()
    await write(store, 0)
    await store.close()
    with pytest.raises(StoreClosedError):
        await branch.context().list()


# Crashes


def stop_after(patch, name, n_calls):
    """Have the process end at the next call of that step, once there were so many."""
    step, left = getattr(refs, name), [None] * n_calls

    async def stopping(*args):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return await step(*args)

    patch.setattr(refs, name, stopping)


@pytest.mark.slow
async def test_what_a_crash_left_of_a_branch_is_not_seen(store, monkeypatch):
    await write(store, 0)
    before = await everything(store)
    n_calls = 0
    while True:
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            stop_after(patch, "fork", n_calls)
            await store.create_branch("b")
            break
        assert await store.branches() == []
        with pytest.raises(NotFoundError):
            await store.branch("b")
        await write(store, n_calls + 1)
        n_calls += 1
    assert n_calls == 2 * len(before)
    assert await dump(await store.branch("b")) == await dump(store)
    await store.delete_branch("b")
    assert await everything(store) == before


@pytest.mark.slow
async def test_a_deletion_that_a_crash_cut_short_may_be_repeated(store, monkeypatch):
    await write(store, 0)
    before = await everything(store)
    n_calls = 0
    while True:
        branch = await store.create_branch("b")
        await write(branch, 1)
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            stop_after(patch, "drop", n_calls)
            await store.delete_branch("b")
            break
        # However little was done: a branch without its base would merge amiss.
        assert await store.branches() == []
        with pytest.raises(NotFoundError):
            await store.branch("b")
        await store.delete_branch("b")
        assert await everything(store) == before
        n_calls += 1
    assert n_calls == 2 * len(before) + 1
    assert await everything(store) == before


# Several processes

PROGRAM = """
import sys
from lance_context_core import ContextStore, Message
store = ContextStore.open(sys.argv[1])
branch = store.branch("b")
for n in range(20):
    branch.history.append("a", Message.user(f"{sys.argv[2]} {n}"), session_id="s")
"""


async def test_two_processes_write_to_one_branch(open_store, local_backend):
    store = open_store()
    await store.history.append("a", Message.user("first"), session_id="s")
    branch = await store.create_branch("b")
    programs = [
        subprocess.Popen(  # noqa: ASYNC220 - waited for below
            [sys.executable, "-c", PROGRAM, local_backend.uri, name], env=os.environ
        )
        for name in ("x", "y")
    ]
    assert [await asyncio.to_thread(one.wait) for one in programs] == [0, 0]
    found = [one.text for one in await branch.history.get_messages("a", session_id="s")]
    assert found[0] == "first"
    assert len(found) == 41
    for name in ("x", "y"):
        assert [text for text in found if text.startswith(name)] == [
            f"{name} {n}" for n in range(20)
        ]
    assert await store.history.count("a", session_id="s") == 1


# Restoring across branches


@pytest.mark.slow
async def test_a_branch_can_be_made_what_another_one_is(anywhere):
    for step in range(3):
        await write(anywhere, step)
    await anywhere.tag("then")
    branch = await anywhere.create_branch("b")
    await branch.vectors("mine").add([Document(id="a", text="a", embedding=AXES[0])])
    for step in range(3, 6):
        await write(branch, step)
        await write(anywhere, step + 10)
    await anywhere.vectors("yours").add([Document(id="a", text="a", embedding=AXES[0])])
    await anywhere.history.clear("a", session_id="s")
    await branch.tag("there")
    seen = {
        "main": await dump(anywhere),
        "b": await dump(branch),
        "then": await dump(await anywhere.checkout("then")),
    }
    seen["there"] = seen["b"]
    for ref in ("then", "main", "there", "then", "b"):
        for store, own in ((anywhere, "main"), (branch, "b")):
            if ref == own:
                continue
            before, number = await dump(store), await store.version()
            expected = {**seen, "main": await dump(anywhere), "b": await dump(branch)}[ref]
            assert await store.restore(ref) == await store.version() >= number
            found = await dump(store)
            empty = {name: [] for name in found["vectors"]}
            assert {**found, "vectors": {**empty, **found["vectors"]}} == {
                **expected,
                "vectors": {**empty, **expected["vectors"]},
            }
            assert not await store.diff(ref)
            assert await dump(await store.checkout(number)) == before
            await write(store, 20)


async def test_restoring_across_branches_keeps_the_order(store):
    texts_ = [f"{n}" for n in range(6)]
    for text in texts_:
        await store.history.append("a", Message.user(text, id=text), session_id="s")
    branch = await store.create_branch("b")
    await branch.context().delete(id=(await branch.context().list())[1]["id"])
    await branch.history.append("a", Message.user("late"), session_id="s")
    await branch.restore("main")
    found = await branch.history.get_messages("a", session_id="s")
    assert [one.text for one in found] == texts_
    await branch.history.append("a", Message.user("later"), session_id="s")
    await branch.history.append("a", Message.user("3", id="3"), session_id="s")
    found = await branch.history.get_messages("a", session_id="s")
    assert [one.text for one in found] == [*texts_, "later"]


async def test_an_erasure_goes_through_a_branch_whose_deletion_was_cut_short(store, monkeypatch):
    await write(store, 0)
    await store.context().add("user", "a secret", id="secret")
    await store.create_branch("b")
    with monkeypatch.context() as patch:
        patch.setattr(refs, "drop", interrupted)
        with pytest.raises(KeyboardInterrupt):
            await store.delete_branch("b")
    assert (await store.erase(ids=["secret"])).records == 1
    handle = await store._resources.records.access.reader()
    assert await refs.listed(handle, "records", with_gone=True) == {}


async def test_what_waits_for_a_fold_on_a_branch_that_is_half_deleted_holds_nobody_up(
    open_store, monkeypatch
):
    store = open_store()
    await write(store, 0)
    branch = await store.create_branch("b")
    await branch.history.append("a", Message.user("unfolded"), session_id="s")
    with monkeypatch.context() as patch:
        patch.setattr(TableHandle, "drop", interrupted)
        with pytest.raises(KeyboardInterrupt):
            await store.delete_branch("b")
    late = open_store()
    assert await late.branches() == []
    await late.tag("t")
    again = await late.create_branch("b")
    await late.flush()
    assert await dump(again) == await dump(store)


async def interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("moves_on", [False, True], ids=["same-version", "later-version"])
@pytest.mark.parametrize("make", ["create_branch", "tag"])
@pytest.mark.parametrize("backend", ["local", "s3"])
async def test_what_a_killed_process_left_of_a_name_does_not_keep_it_taken(
    request, monkeypatch, backend, make, moves_on
):
    monkeypatch.setattr(orphaned_refs, "_QUIET_SECONDS", 0.2)
    place = request.getfixturevalue(f"{backend}_backend")
    async with place.open() as store:
        await write(store, 0)
        ref = {"create_branch": "heads/b", "tag": "tags/b"}[make]
        await getattr(store, make)("b")
    unmake(place, ref)
    async with place.open() as store:
        assert (await store.branches(), await store.tags()) == ([], {})
        if moves_on:
            await write(store, 1)
        await getattr(store, make)("b")
        assert await dump(await store.checkout("b")) == await dump(store)


@pytest.mark.parametrize("backend", ["local", "s3"])
async def test_a_deletion_that_was_killed_before_it_showed_may_be_repeated_later(
    request, backend, monkeypatch
):
    place = request.getfixturevalue(f"{backend}_backend")
    async with place.open() as store:
        await write(store, 0)
        await store.create_branch("b")
        with monkeypatch.context() as patch:
            patch.setattr(refs, "drop", interrupted)
            with pytest.raises(KeyboardInterrupt):
                await store.delete_branch("b")
    unmake(place, "gone/b")
    async with place.open() as store:
        assert [branch.name for branch in await store.branches()] == ["b"]
        await write(store, 1)
        assert await store.delete_branch("b")
        assert await store.branches() == []
        handle = await store._resources.records.access.reader()
        assert await refs.listed(handle, "records", with_gone=True) == {}


def unmake(place, ref):
    """Leave what is there before the engine notes, as the last thing, that there is such a ref."""
    name = f"{ref.replace('/', '%2F')}.json"
    if place.storage_options is None:
        references = list(Path(place.uri).glob(f"*/_refs/branches/{name}"))
        for reference in references:
            reference.unlink()
    else:
        files = objects(place)
        root = place.uri.removeprefix("s3://")
        found = files.get_file_info(FileSelector(root, recursive=True))
        references = [one.path for one in found if one.base_name == name]
        for reference in references:
            files.delete_file(reference)
    assert references


def objects(place):
    """The object store of a backend."""
    options = place.storage_options
    return S3FileSystem(
        access_key=options["aws_access_key_id"],
        secret_key=options["aws_secret_access_key"],
        region=options["aws_region"],
        endpoint_override=options["aws_endpoint"],
    )


async def test_what_a_killed_deletion_left_of_a_branch_goes_with_the_next_erasure(local_backend):
    async with local_backend.open() as store:
        await write(store, 0)
        branch = await store.create_branch("b")
        await branch.context().add("user", "the word is swordfish", id="on-branch")
        await store.context().add("user", "hello", id="elsewhere")
        await store.flush()
    unmake(local_backend, "heads/b")
    unmake(local_backend, "bases/b.0")
    tree = Path(local_backend.uri) / "records.lance" / "tree"
    assert b"swordfish" in contents(tree)
    async with local_backend.open() as store:
        await store.erase(ids=["elsewhere"])
    assert b"swordfish" not in contents(tree)
    assert not list(tree.glob("*/*"))


async def test_on_an_object_store_goes_what_an_announced_deletion_left(s3_backend, monkeypatch):
    monkeypatch.setattr(orphaned_refs, "_QUIET_SECONDS", 0.2)
    async with s3_backend.open() as store:
        await write(store, 0)
        branch = await store.create_branch("b")
        await branch.context().add("user", "the word is swordfish", id="on-branch")
        await store.context().add("user", "hello", id="elsewhere")
        with monkeypatch.context() as patch:
            patch.setattr(refs, "drop", interrupted)
            with pytest.raises(KeyboardInterrupt):
                await store.delete_branch("b")
    unmake(s3_backend, "heads/b")
    assert any("/records.lance/tree/heads/b/data/" in path for path in paths(s3_backend))
    async with s3_backend.open() as store:
        await store.erase(ids=["elsewhere"])
    assert not any("/tree/heads/" in path for path in paths(s3_backend))


def paths(place):
    """Those of all objects of a backend."""
    selector = FileSelector(place.uri.removeprefix("s3://"), recursive=True)
    return [one.path for one in objects(place).get_file_info(selector) if one.size]


async def test_what_was_killed_while_it_cleared_goes_with_the_next_erasure(store, monkeypatch):
    await write(store, 0)
    await store.context().add("user", "the word is swordfish", id="m")
    handle = await store._resources.records.access.writer()
    branches = type(handle.branches)
    with monkeypatch.context() as patch:
        patch.setattr(branches, "delete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            await refs.clear(handle, "records", "heads/b")
    assert (await store.branches(), await store.tags()) == ([], {})
    erased = await store.erase(ids=["m"])
    assert (erased.records, await handle.branches.list()) == (1, {})
    assert b"swordfish" not in contents(Path(store.uri))


async def test_a_tag_whose_files_went_with_the_last_one_is_made_again(store, monkeypatch):
    await write(store, 0)
    handle = await store._resources.records.access.writer()
    branches, tree = type(handle.branches), Path(store.uri) / "records.lance" / "tree"
    create, n_lost = branches.create, 0

    async def losing(self, name, *args):
        nonlocal n_lost
        made = await create(self, name, *args)
        if (tree / name).is_dir() and n_lost < 2:
            # What the engine does when it drops the last tag that it knows.
            shutil.rmtree(tree / "tags")
            n_lost += 1
        return made

    monkeypatch.setattr(branches, "create", losing)
    await store.tag("b")
    assert n_lost == 2
    assert await dump(await store.checkout("b")) == await dump(store)


def contents(place):
    """All bytes of all files of a directory."""
    return b"".join(path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file())


async def test_a_moment_without_records_cannot_be_branched_off_later(store):
    await store.tag("empty")
    await write(store, 0)
    with pytest.raises(InvalidRequestError, match="there were no records"):
        await store.create_branch("b", at="empty")
    assert await store.branches() == []


async def test_on_a_branch_of_an_empty_store_records_keep_their_places(store):
    branch = await store.create_branch("b")
    assert not await store.diff("main", "b")
    for name in ("m1", "m2"):
        await branch.context().add("user", name, id=name, session_id="s", bot_id="a")
    await branch.context().update(id="m1", metadata={"n": 1})
    found = await branch.history.get_messages("a", session_id="s")
    assert [message.id for message in found] == ["m1", "m2"]
    assert (await branch.context().entries(), await store.context().entries()) == (2, 0)
    assert [one.id for one in (await store.diff("main", "b")).added] == ["m1", "m2"]


async def test_a_record_that_is_updated_on_a_branch_keeps_its_place(store):
    await store.context().add("user", "first", id="m0", session_id="s", bot_id="a")
    branch = await store.create_branch("b")
    for name in ("m1", "m2"):
        await branch.context().add("user", name, id=name, session_id="s", bot_id="a")
    for name in ("m1", "m0"):
        await branch.context().update(id=name, metadata={"n": 1})
    found = await branch.history.get_messages("a", session_id="s")
    assert [message.id for message in found] == ["m0", "m1", "m2"]
