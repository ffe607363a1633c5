"""A disk that is full, files that are damaged or gone, and places that may not be written.

Each is an error of the store that names the place and the way out. It makes nothing worse: once the
storage is well again, the store opens and has every record that was acknowledged.
"""

import asyncio
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import lancedb
import pytest
from core.reliability.rights import AS_SOMEBODY, rights, run

from lance_context_core import AsyncContextStore, ContextStoreError, Message, StorageError
from lance_context_core.errors import StoreFormatError
from lance_context_core.storage.lance.schema import FORMAT_KEY, FORMAT_VERSION, RECORDS
from lance_context_core.types import Document


async def read(store):
    return await store.history.get_messages("a", session_id="s")


async def write(store):
    return await store.history.append("a", Message.user("more", id="more"), session_id="s")


async def write_all(store):
    """A row in each sort of table; none is left in the journal."""
    await store.history.append("a", Message.user("tea", id="m"), session_id="s")
    await store.sessions.create("s")
    await store.vectors("c").add([Document(id="d", text="tea", embedding=[1.0, 2.0])])
    await store.flush()


async def failure(work):
    """The error that `work` ends with, which has the engine's as its cause."""
    with pytest.raises(ContextStoreError) as caught:
        await work
    assert caught.value.__cause__ is not None
    return caught.value


def assert_is(error, kind, *says):
    assert type(error) is kind, repr(error)
    assert len(str(error)) < 700
    for part in says:
        assert part in str(error)


# Places


@pytest.mark.parametrize("below", [(), ("store",)])
async def test_a_file_in_the_place_of_the_directory_is_a_storage_error(tmp_path, below):
    (tmp_path / "file").write_text("a file")
    place = tmp_path.joinpath("file", *below)
    works = [verb(AsyncContextStore.open(place)) for verb in (read, write)]
    for error in await asyncio.gather(*map(failure, works)):
        assert_is(error, StorageError, "cannot open", str(tmp_path), "name another directory")
    assert (tmp_path / "file").read_text() == "a file"


# Rights


USE_AS_SOMEBODY = (
    AS_SOMEBODY
    + """
async def main():
    store = AsyncContextStore.open(sys.argv[1])
    messages = await told(store.history.get_messages("a", session_id="s"))
    print(messages if isinstance(messages, str) else [message.text for message in messages])
    print(await told(store.history.append("a", Message.user("more"), session_id="s")))
    print(await told(store.context().upsert("user", "more", external_id="x")))
    print(await told(store.maintain()))

asyncio.run(main())
"""
)


async def test_who_may_only_read_reads_and_is_refused_every_write(public):
    async with AsyncContextStore.open(public / "store") as store:
        await write_all(store)
    before = contents(public)
    with rights(public / "store", folders=0o555, files=0o444):
        seen, *refusals = await asyncio.to_thread(run, USE_AS_SOMEBODY, public / "store")
    assert seen == "['tea']"
    appended, upserted, maintained = refusals
    journal = str(public / "store" / "journal.sqlite")
    assert appended.startswith(
        f"StorageError: the write-ahead log {journal!r} cannot be written: check"
    )
    assert upserted.startswith(
        f"StorageError: the write-ahead log {journal!r} cannot be written: check"
    )
    assert maintained.startswith("StorageError: cannot create table 'upkeep': permission denied")
    assert contents(public) == before
    async with AsyncContextStore.open(public / "store") as store:
        await write(store)
        assert [one.text for one in await read(store)] == ["tea", "more"]


READ_AS_SOMEBODY = (
    AS_SOMEBODY
    + """
async def main():
    store = AsyncContextStore.open(sys.argv[1])
    print([message.id for message in await store.history.get_messages("g", session_id="s")])
    print(await store.context().list(filters={"written_by": "ada"}))
    print(len(await store.context().list(filters={"written_by": {"$exists": False}})))
    print([one.expires_at for one in await store.sessions.list(limit=1)])
    print(len(await store.search("tea", mode="text", filter={"written_by": {"$ne": "ada"}})) > 0)

asyncio.run(main())
"""
)


async def test_who_may_only_read_reads_a_store_of_an_older_release(public):
    """Such a store lacks columns, which cannot be added then."""
    (archive,) = (Path(__file__).parents[1] / "data").glob("store-0.1.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(public, filter="data")
    before = contents(public)
    with rights(public / "store", folders=0o555, files=0o444):
        told = await asyncio.to_thread(run, READ_AS_SOMEBODY, public / "store")
    assert told == ["['m1', 'm2', 'm3', 'm4']", "[]", "6", "[None]", "True"]
    assert contents(public) == before


async def test_a_store_that_may_not_be_looked_at_is_a_storage_error(public):
    async with AsyncContextStore.open(public / "store") as store:
        await write_all(store)
    before = contents(public)
    with rights(public / "store", folders=0o000, files=0o000):
        told = await asyncio.to_thread(run, USE_AS_SOMEBODY, public / "store")
    for refusal in told:
        assert refusal.startswith("StorageError: cannot ")
        assert "permission denied" in refusal
    assert contents(public) == before


async def test_a_directory_in_which_none_may_be_made_is_a_storage_error(public):
    public.chmod(0o555)
    seen, refusal, *_ = await asyncio.to_thread(run, USE_AS_SOMEBODY, public / "store")
    assert seen == "[]"
    assert refusal.startswith("StorageError: cannot ")
    assert "permission denied" in refusal
    assert str(public / "store") in refusal
    public.chmod(0o755)
    assert not list(public.iterdir())


# Space


FILL_THE_DISK = """
import asyncio, os, sys
from pathlib import Path
from lance_context_core import AsyncContextStore, Message, StorageError

disk = Path(sys.argv[1])
ballast = disk / "ballast"

def leave(n_bytes):
    ballast.unlink(missing_ok=True)
    status = os.statvfs(disk)
    ballast.write_bytes(b"x" * max(status.f_bavail * status.f_bsize - n_bytes, 0))

async def main():
    acknowledged, refused, unsure = [], [], []
    async with AsyncContextStore.open(disk / "store") as store:
        await store.history.append("a", Message.user("first", id="first"), session_id="s")
        acknowledged.append("first")
        for n in range(24):
            # Less and less: at first all has room, then the data alone has, in the end nothing.
            leave(8192 * (24 - n))
            for id in (f"h{n}", f"c{n}"):
                try:
                    if id.startswith("h"):
                        message = Message.user("tea " * 300, id=id)
                        await store.history.append("a", message, session_id="s")
                    else:
                        await store.context().upsert("user", "tea", external_id=id)
                    acknowledged.append(id)
                except StorageError as error:
                    assert "disk is full: free some space" in str(error), error
                    assert "'records'" in str(error) or "journal.sqlite'" in str(error), error
                    # The table may have had room for what the journal had none to note.
                    is_unsure = "may have been committed or not" in str(error)
                    (unsure if is_unsure else refused).append(id)
        ballast.unlink()
        await store.history.append("a", Message.user("last", id="last"), session_id="s")
    async with AsyncContextStore.open(disk / "store") as store:
        there = [one["external_id"] or one["id"] for one in await store.context().list()]
        # What was refused may be written again, and is then there once.
        for id in refused:
            await store.context().add("user", "again", id=id)
        again = [one["external_id"] or one["id"] for one in await store.context().list()]
        await store.maintain()
        hits = await store.search("tea", mode="text", limit=100)
        found = {hit.record.external_id or hit.record.id for hit in hits}
    assert set(acknowledged) <= set(there), set(acknowledged) - set(there)
    assert len(there) == len(set(there))
    half = [id for id in unsure if id in there]
    assert sorted(again) == sorted([*acknowledged, *refused, *half, "last"])
    assert set(acknowledged) - {"first"} <= found
    print(len(acknowledged), len(refused), len(set(refused) & set(there)))

asyncio.run(main())
"""

SMALL_DISK = 'mount -t tmpfs -o size=16m none "$1" && shift && exec "$@"'


def test_a_full_disk_refuses_writes_and_loses_nothing(tmp_path):
    """On a small disk, in a name space of its own; the next test needs neither."""
    own = ("unshare", "--mount", *(["--map-root-user"] if os.geteuid() else []), "sh", "-c")
    before = (*own, SMALL_DISK, "sh", str(tmp_path))
    if not shutil.which("unshare") or subprocess.run([*before, "true"], check=False).returncode:
        pytest.skip("this system lets nobody mount a small disk here")
    n_acknowledged, n_refused, n_of_them_there = map(
        int, run(FILL_THE_DISK, tmp_path, before=before)[0].split()
    )
    assert n_acknowledged > 5
    assert n_refused > 0
    assert n_of_them_there == 0


WRITE_WITH_A_LIMIT = """
import asyncio, resource, sys
from lance_context_core import AsyncContextStore, StorageError

async def main():
    store = AsyncContextStore.open(sys.argv[1])
    await store.context().add("user", "small", id="small")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    try:
        await store.context().add("user", b"x" * 2_000_000, id="large")
    except StorageError as error:
        print(error)
    print([one["id"] for one in await store.context().list()])
    await store.context().add("user", "after", id="after")

asyncio.run(main())
"""


async def test_a_file_that_may_not_grow_is_a_storage_error_and_nothing_is_half_written(tmp_path):
    message, seen = await asyncio.to_thread(run, WRITE_WITH_A_LIMIT, tmp_path)
    assert message.startswith("cannot insert into")
    assert "'records'" in message
    assert "raise the limit" in message
    assert seen == "['small']"
    async with AsyncContextStore.open(tmp_path) as store:
        assert [one["id"] for one in await store.context().list()] == ["small", "after"]


# Files


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def overwritten(file: Path) -> None:
    file.write_bytes(b"\0" * file.stat().st_size)


DAMAGES: list[tuple[str, Callable[[Path], None]]] = [
    ("_versions/*.manifest", emptied),
    ("_versions/*.manifest", truncated),
    ("data/*.lance", Path.unlink),
    ("data/*.lance", overwritten),
    ("data/*.lance", emptied),
]


@pytest.mark.usefixtures("each_write_commits")
@pytest.mark.parametrize(
    ("files", "damage"), DAMAGES, ids=[f"{f}-{d.__name__}" for f, d in DAMAGES]
)
async def test_a_damaged_file_is_a_storage_error_that_names_the_table(tmp_path, files, damage):
    async with AsyncContextStore.open(tmp_path) as store:
        await write_all(store)
    for file in (tmp_path / "records.lance").glob(files):
        damage(file)
    before = contents(tmp_path)
    async with AsyncContextStore.open(tmp_path) as store:
        for work in (read(store), write(store), store.search("tea", mode="text")):
            assert_is(await failure(work), StorageError, "'records'", "restore it from a copy")
        # The other tables are not touched by it.
        assert [one.id for one in await store.vectors("c").list()] == ["d"]
    assert contents(tmp_path) == before


@pytest.mark.usefixtures("each_write_commits")
async def test_a_manifest_of_zeros_is_not_taken_for_an_empty_table(tmp_path):
    async with AsyncContextStore.open(tmp_path) as store:
        await write_all(store)
    for manifest in (tmp_path / "records.lance" / "_versions").glob("*.manifest"):
        overwritten(manifest)
    async with AsyncContextStore.open(tmp_path) as store:
        for verb in (read, write):
            with pytest.raises(StorageError, match=r"'records'.*manifest' is not whole"):
                await verb(store)


@pytest.mark.usefixtures("each_write_commits")
async def test_the_words_index_that_was_removed_is_a_storage_error_of_searches_alone(
    tmp_path, capfd
):
    async with AsyncContextStore.open(tmp_path) as store:
        await write_all(store)
    shutil.rmtree(tmp_path / "records.lance" / "_indices")
    async with AsyncContextStore.open(tmp_path) as store:
        error = await failure(store.search("tea", mode="text"))
        assert_is(error, StorageError, "cannot search table 'records' by words")
        assert [one.text for one in await read(store)] == ["tea"]
    capfd.readouterr()  # the engine prints warnings of its own


@pytest.mark.usefixtures("each_write_commits")
async def test_a_table_that_is_removed_under_an_open_store_is_empty_and_can_be_made_anew(tmp_path):
    store = AsyncContextStore.open(tmp_path)
    await write_all(store)
    connection = await lancedb.connect_async(str(tmp_path))
    for drop in (
        lambda: connection.drop_table("records"),
        lambda: removed(tmp_path / "records.lance"),
    ):
        await drop()
        assert await read(store) == []
        assert await store.search("tea") == []
        assert await write(store) == "more"
        assert [one.id for one in await read(store)] == ["more"]
        await store.flush()  # what the journal holds is not removed with the table


async def removed(directory: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, directory)


@pytest.mark.usefixtures("each_write_commits")
async def test_a_table_of_a_newer_engine_is_a_format_error(tmp_path):
    async with AsyncContextStore.open(tmp_path) as store:
        await write_all(store)
    for manifest in (tmp_path / "records.lance" / "_versions").glob("*.manifest"):
        demand_unknown_features(manifest)
    before = contents(tmp_path)
    async with AsyncContextStore.open(tmp_path) as store:
        for work in (read(store), write(store), store.search("tea")):
            assert_is(await failure(work), StoreFormatError, "'records'", "upgrade lancedb")
    assert contents(tmp_path) == before


def demand_unknown_features(manifest: Path) -> None:
    """Set feature flags that no reader and no writer knows yet.

    A manifest ends with a message of protocol buffers, its length before it, and 16 bytes after it
    that begin with its place. A field that is repeated at the end of a message replaces the first.
    """
    data = manifest.read_bytes()
    place = int.from_bytes(data[-16:-8], "little")
    n_bytes = int.from_bytes(data[place : place + 4], "little")
    message = data[place + 4 : place + 4 + n_bytes]
    unknown = b"\x80\x80\x80\x80\x04"  # 2**30, as a varint
    message += (
        b"\x48" + unknown + b"\x50" + unknown
    )  # fields 9 and 10: flags of readers, of writers
    length = len(message).to_bytes(4, "little")
    manifest.write_bytes(data[:place] + length + message + data[-16:])


@pytest.mark.parametrize("format", [None, FORMAT_VERSION + 1])
async def test_a_table_of_another_program_or_a_newer_release_is_a_format_error(tmp_path, format):
    metadata = {} if format is None else {FORMAT_KEY: f"{format}".encode()}
    connection = await lancedb.connect_async(str(tmp_path))
    await connection.create_table("records", schema=RECORDS.schema.with_metadata(metadata))
    before = contents(tmp_path)
    way_out = "a directory of its own" if format is None else "upgrade lance-context-core"
    async with AsyncContextStore.open(tmp_path) as store:
        for work in (read(store), write(store), store.version(), store.context().add("user", "x")):
            with pytest.raises(StoreFormatError, match=f"'records' .*{way_out}"):
                await work
    assert contents(tmp_path) == before


def contents(directory: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in directory.rglob("*") if file.is_file()}
