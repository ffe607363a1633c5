"""A store that is whole is told to be, and whatever is damaged of one is named."""

import asyncio
import json
import os
import shutil
import sqlite3

import pytest
from core.conformance.doubles import WordVectors

from lance_context_core import ContextStore, InvalidRequestError, Item, Message
from lance_context_core.settings import IndexPolicy
from lance_context_core.storage.lance import manifests
from lance_context_core.storage.lance.schema import BLOBS


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with several versions, indexes, a branch, a tag, and something in the journal."""
    place = tmp_path_factory.mktemp("verify") / "memory"
    with ContextStore.open(place, embedder=WordVectors()) as store:
        store.context().add_many(
            [
                {"role": "user", "content": f"number {n} of tea", "id": f"r{n}", "user_id": "ada"}
                for n in range(300)
            ]
        )
        store.tag("then")
        store.kv("box").put([Item(key="k", value={"n": 1})])
        store.maintain(policy=IndexPolicy(scalar_rows=1, vector_rows=1))
        store.create_branch("try")
        store.memory.add([Message.user("late", id="late")], user_id="ada")
    return place


@pytest.fixture
def place(made):
    """The store at its place, which is put back afterwards: branches know where they are."""
    kept = made.with_name("kept")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(made, kept)
    yield made
    shutil.rmtree(made)
    kept.rename(made)


def verified(place):
    with ContextStore.open(place, embedder=WordVectors(), maintenance=None) as store:
        return store.verify()


def newest(directory):
    listed = manifests.listed(directory)
    return listed[max(listed)]


def files_of(place):
    directory = place / "records.lance"
    return manifests.contents(newest(directory), directory)


@pytest.mark.slow
def test_a_whole_store_is_whole_and_all_of_it_was_looked_at(place):
    seen = []
    with ContextStore.open(place, embedder=WordVectors(), maintenance=None) as store:
        found = store.verify(progress=seen.append)
        assert found.problems == ()
        assert found.is_whole
        assert {one.what for one in seen} == {"rows"}
        assert found.rows == seen[-1].n_done == 301 + 1 + 300 + 1
        assert found.indexes > 4
        assert found.files > 10
        with pytest.raises(InvalidRequestError):
            store.scope(user_id="ada").verify()


def damage_data(place, change):
    file = max((f for f in files_of(place).files if f.parent.name == "data"), key=os.path.getsize)
    change(file)
    return file


def cut(file):
    file.write_bytes(file.read_bytes()[:-20])


def grow(file):
    file.write_bytes(file.read_bytes() + b"x")


@pytest.mark.parametrize("change", [os.remove, cut, grow])
def test_a_data_file_that_is_not_as_it_was_is_named(place, change):
    file = damage_data(place, change)
    found = verified(place)
    assert str(file) in {one.where for one in found.problems if one.kind == "file"}


@pytest.mark.parametrize("change", [os.remove, cut])
def test_a_file_of_an_index_that_is_not_as_it_was_is_named(place, change):
    file = next(f for f in files_of(place).files if "_indices" in f.parts)
    change(file)
    assert str(file) in {one.where for one in verified(place).problems}


def test_a_folder_of_an_index_that_is_gone_is_named(place):
    folder = files_of(place).folders[0]
    shutil.rmtree(folder)
    assert str(folder) in {one.where for one in verified(place).problems}


def test_an_older_version_that_is_torn_is_named(place):
    listed = manifests.listed(place / "records.lance")
    cut(listed[min(listed)])
    found = verified(place)
    assert [one.where for one in found.problems if one.kind == "file"] == [str(listed[min(listed)])]


def test_a_branch_whose_file_is_gone_is_named(place):
    directory = place / "records.lance" / "tree" / "heads" / "try"
    file = next(
        f for f in manifests.contents(newest(directory), directory).files if f.suffix != ".txn"
    )
    file.unlink()
    assert str(file) in {one.where for one in verified(place).problems}


def test_a_journal_that_is_damaged_is_named(place):
    file = place / "journal.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    data = bytearray(file.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    file.write_bytes(bytes(data))
    with ContextStore.open(place, embedder=WordVectors(), maintenance=None) as store:
        found = store.verify()
        assert "journal" in {one.kind for one in found.problems}


def test_rows_that_say_two_things_and_texts_that_are_no_json_are_named(tmp_path):
    with ContextStore.open(tmp_path / "memory", journal=None, maintenance=None) as store:
        store.memory.add([Message.user("a", id="a"), Message.user("b", id="b")], user_id="ada")
        table = store.aio._resources.records
        rows = table.access

        async def forge(where, values):
            handle = await rows.writer()
            await handle.update(where=where, updates_sql=values)

        asyncio.run(forge("id = 'a'", {"user_id": "'bob'"}))
        asyncio.run(forge("id = 'b'", {"parts": "'{'"}))
        found = store.verify()
        assert sorted((one.kind, one.where) for one in found.problems) == [
            ("row", "records: a"),
            ("row", "records: b"),
        ]
        assert json.dumps([one.what for one in found.problems])


def test_a_key_that_stands_twice_is_named(tmp_path):
    with ContextStore.open(tmp_path / "memory", journal=None, maintenance=None) as store:
        store.memory.add(["a"], user_id="ada")

        async def twice():
            handle = await store.aio._resources.records.access.writer()
            rows = await handle.query().to_arrow()
            await handle.add(rows)

        asyncio.run(twice())
        assert [one.kind for one in store.verify().problems] == ["key"]


@pytest.mark.parametrize("size", [10, 2_500_000])
def test_a_blob_whose_bytes_are_others_is_named(tmp_path, size):
    with ContextStore.open(tmp_path / "memory", journal=None, maintenance=None) as store:
        store.blobs.put(bytes(size))
        store.blobs.put(b"x" * size)
        assert store.verify().problems == ()

        async def forge():
            table = store.aio._resources.database.table("blobs", BLOBS)
            handle = await table.access.writer()
            rows = (await handle.query().to_arrow()).to_pylist()
            mine = [row for row in rows if (row["data"] or b"").startswith(b"x")]
            key = max(mine, key=lambda row: row["position"] or 0)["key"]
            await handle.update(where=f"key = '{key}'", updates={"data": b"y"})

        asyncio.run(forge())
        (problem,) = store.verify().problems
        assert (problem.kind, "hash" in problem.what) == ("row", True)
