"""Syncing the engine's commits, of whatever kind: each file and folder that a commit made."""

import asyncio
import os
import shutil
from datetime import timedelta

import lancedb
import pyarrow as pa
import pytest
from core.sync.syncing import Witness
from lancedb.index import FTS, BTree

from lance_context_core import Document, InvalidRequestError, Message, StorageError
from lance_context_core.storage.lance import contention, manifests
from lance_context_core.storage.lance.durability import Syncer, syncer_of

SCHEMA = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("n", pa.int64())])
STABLE_ROW_IDS = {"new_table_enable_stable_row_ids": "true"}
LONG_AGO = timedelta(days=9_000)


@pytest.fixture
def root(tmp_path):
    """Two folders above it are missing too."""
    return tmp_path / "new" / "newer" / "store"


@pytest.fixture
def witness(tmp_path, monkeypatch):
    return Witness(tmp_path, monkeypatch)


async def created(root, name="t"):
    connection = await lancedb.connect_async(str(root))
    return await connection.create_table(name, schema=SCHEMA, storage_options=STABLE_ROW_IDS)


def rows(*keys):
    return pa.table({"key": list(keys), "n": list(range(len(keys)))}, schema=SCHEMA)


async def merge(handle, *keys):
    await handle.merge_insert("key").when_not_matched_insert_all().execute(rows(*keys))


async def cleaned(handle):
    """Without all versions but the newest."""
    await asyncio.sleep(0.01)
    await handle.optimize(cleanup_older_than=timedelta(milliseconds=1))


COMMITS = [
    ("append", lambda t: t.add(rows("a", "b", "c"))),
    ("append again", lambda t: t.add(rows("d"))),
    ("words index", lambda t: t.create_index("key", config=FTS(), name="w")),
    ("index", lambda t: t.create_index("n", config=BTree())),
    ("merge", lambda t: merge(t, "a", "e")),
    ("deletion of a row", lambda t: t.delete("key = 'a'")),
    ("deletion of a fragment", lambda t: t.delete("key = 'd'")),
    ("many rows", lambda t: t.add(rows(*(f"m{n}" for n in range(9_000))))),
    ("deletion of many rows", lambda t: t.delete("key LIKE 'm%' AND n % 2 = 0")),
    ("update", lambda t: t.update(where="key = 'b'", updates_sql={"n": "n + 1"})),
    ("column", lambda t: t.add_columns(pa.field("z", pa.int64()))),
    ("several versions", lambda t: t.optimize(cleanup_older_than=LONG_AGO)),
    ("restored version", lambda t: t.restore(3)),
]


async def test_all_files_and_folders_of_a_commit_of_any_kind_are_synced(root, witness):
    syncer = Syncer(root)
    with witness.expects_all_synced():
        table = await created(root)
        await syncer.sync(table)
    for what, commit in COMMITS:
        with witness.expects_all_synced(what):
            await commit(table)
            await syncer.sync(table)


async def test_branches_and_what_they_take_from_the_table_are_synced(root, witness):
    syncer = Syncer(root)
    table = await created(root)
    await table.add(rows("a", "b"))
    await table.create_index("n", config=BTree())
    with witness.expects_all_synced("all before"):
        branch = await table.branches.create("heads/b", None, await table.version())
        await syncer.sync(branch)
        await syncer.sync_refs("t")
    below = [root / "t.lance" / name for name in ("data", "_indices")]
    inherited = {file for folder in below for file in folder.rglob("*.*")}
    assert {file.stat().st_ino for file in inherited} <= witness.files()
    for what, commit in COMMITS[:-1]:
        with witness.expects_all_synced(f"{what} on a branch"):
            await commit(branch)
            await syncer.sync(branch)
    with witness.expects_all_synced("a branch of a branch"):
        other = await branch.branches.create("heads/c", "heads/b", await branch.version())
        await syncer.sync(other)
        await syncer.sync_refs("t")
    with witness.expects_all_synced("a branch that goes"):
        await table.branches.delete("heads/c")
        await syncer.sync_refs("t")


async def test_tags_are_synced_and_their_removal_is(root, witness):
    syncer = Syncer(root)
    table = await created(root)
    await syncer.sync(table)
    await table.add(rows("a"))
    await syncer.sync(table)
    for change in (
        lambda: table.tags.create("x", 1),
        lambda: table.tags.update("x", 2),
        lambda: table.tags.delete("x"),
    ):
        with witness.expects_all_synced():
            await change()
            await syncer.sync_refs("t")


async def test_what_was_cleaned_away_is_gone_for_good(root, witness):
    syncer = Syncer(root)
    table = await created(root)
    for key in "abc":
        await table.add(rows(key))
    await table.optimize(cleanup_older_than=LONG_AGO)
    await syncer.sync(table)
    with witness.expects_all_synced():
        await cleaned(table)
        await syncer.sync(table)
        await syncer.sync_removals("t")
    with witness.expects_all_synced():
        await table.add(rows("d"))
        await syncer.sync(table)


async def test_the_price_of_a_commit_does_not_grow_with_the_table(root, witness):
    syncer = Syncer(root)
    table = await created(root)
    prices = []
    for n in range(30):
        before = witness.n_syncs
        await table.add(rows(f"{n}"))
        await syncer.sync(table)
        prices.append(witness.n_syncs - before)
    # Data, transaction, manifest and hint; and the three folders that they are in.
    assert set(prices[2:]) == {7}
    before = witness.n_syncs
    await syncer.sync(table)
    assert witness.n_syncs == before


async def test_a_table_that_was_removed_and_made_anew_is_synced_anew(root, witness):
    syncer = Syncer(root)
    for _ in range(3):
        with witness.expects_all_synced():
            if root.exists():
                shutil.rmtree(root / "t.lance")
            table = await created(root)
            await table.add(rows("a"))
            await syncer.sync(table)
        # Where the table's own entry is; its inode may be that of the one before.
        assert root.stat().st_ino in witness.files()


async def test_a_version_that_others_removed_meanwhile_is_found_in_theirs(root, witness):
    syncer = Syncer(root)
    table = await created(root)
    await syncer.sync(table)
    with witness.expects_all_synced():
        await table.add(rows("a"))
        other = await (await lancedb.connect_async(str(root))).open_table("t")
        await other.add(rows("b"))
        await cleaned(other)
        assert not manifests.path(root / "t.lance", await table.version()).exists()
        await syncer.sync(table)


async def test_a_manifest_of_another_layout_has_everything_synced(root, witness, monkeypatch):
    syncer = Syncer(root)
    table = await created(root)
    await table.add(rows("a"))
    monkeypatch.setattr(manifests, "_DELETIONS", {})
    with witness.expects_all_synced():
        await table.add(rows("b", "c"))
        await table.delete("key = 'b'")
        await syncer.sync(table)
    everything = {file.stat().st_ino for file in root.rglob("*") if file.is_file()}
    assert everything <= witness.files()


@pytest.mark.parametrize("data", [b"", b"LANC", b"\0" * 40, b"\xff" * 40 + b"LANC"])
def test_a_file_that_is_no_manifest_is_told_so(tmp_path, data):
    file = tmp_path / "1.manifest"
    file.write_bytes(data)
    with pytest.raises(manifests.UnknownManifestError, match=r"1\.manifest"):
        manifests.contents(file, tmp_path)


async def test_no_call_returns_before_the_files_of_another_that_its_version_has(root, monkeypatch):
    syncer = Syncer(root)
    table = await created(root)
    await syncer.sync(table)
    done = set()
    real = os.fsync

    def slow(descriptor):
        real(descriptor)
        done.add(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", slow)

    async def append(key):
        await contention.insist("add", table, lambda handle: handle.add(rows(key)))
        mine = {file.stat().st_ino for file in (root / "t.lance" / "data").iterdir()}
        version = await table.version()
        await syncer.sync(table)
        refers = manifests.contents(manifests.path(root / "t.lance", version), root / "t.lance")
        assert {file.stat().st_ino for file in refers.files if "data" in file.parts} <= done & mine

    await asyncio.gather(*(append(key) for key in "abcdefgh"))


async def test_a_failed_sync_names_the_file_and_is_not_forgotten(root, monkeypatch):
    syncer = Syncer(root)
    table = await created(root)
    await syncer.sync(table)
    await table.add(rows("a"))

    def failing(_descriptor):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        with pytest.raises(StorageError, match=r"t\.lance/.* Input/output error: .*may or may not"):
            await syncer.sync(table)
    # The system reports such a failure once, and takes the file for synced from then on.
    await table.add(rows("b"))
    with pytest.raises(StorageError, match="may or may not survive"):
        await syncer.sync(table)
    with pytest.raises(StorageError, match=r"nothing was written: an earlier sync"):
        syncer.require_sound()
    again = Syncer(root)
    again.require_sound()
    await again.sync(table)


@pytest.mark.parametrize("uri", ["/directory", "s3://bucket/store", "memory://"])
@pytest.mark.parametrize("durability", ["", "full", None, True])
def test_a_durability_that_there_is_not_is_refused(uri, durability):
    with pytest.raises(InvalidRequestError, match=r"durability=.*'process' or 'fsync'"):
        syncer_of(uri, durability)


def test_memory_cannot_be_synced():
    syncer_of("memory://", "process")
    with pytest.raises(InvalidRequestError, match=r"memory:// ends with the process"):
        syncer_of("memory://", "fsync")


def test_nobody_syncs_unless_asked_to_or_what_is_durable_anyway(root):
    assert syncer_of(str(root), "process") is None
    assert syncer_of("s3://bucket/store", "fsync") is None
    assert isinstance(syncer_of(str(root), "fsync"), Syncer)


async def test_a_store_that_promises_no_more_than_the_process_syncs_nothing(open_store, witness):
    store = open_store(maintenance=None)
    await store.history.append("a", Message.user("one"), session_id="s")
    await store.tag("t")
    await store.vectors().add([Document(text="one")])
    await store.vectors().delete_collection()
    await store.erase(filter={"session_id": "s"})
    assert witness.n_syncs == 0
