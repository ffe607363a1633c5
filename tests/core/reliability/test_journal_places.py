"""A journal that is removed, damaged, locked, somebody else's, or where nothing may be written.

Either it heals, or there is one error of the store that names the file and the way out. What was
acknowledged and is still on the disk is there once the place is well again.
"""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from core.reliability.rights import AS_SOMEBODY, rights, run

from lance_context_core import AsyncContextStore, ContextStore, Item, Message, StorageError
from lance_context_core.errors import StoreClosedError, StoreFormatError
from lance_context_core.settings import JournalPolicy
from lance_context_core.storage import file_locks
from lance_context_core.storage.wal import sqlite, waiting


@pytest.fixture
def place(tmp_path):
    return tmp_path / "store"


def opened(place, **options):
    return AsyncContextStore.open(place, maintenance=None, **options)


async def say(store, *texts):
    for text in texts:
        await store.history.append("a", Message.user(text), session_id="s")


async def read(store):
    return [one.text for one in await store.history.get_messages("a", session_id="s")]


async def made(place):
    """A store that is closed, whose journal holds two of its three messages."""
    async with opened(place) as store:
        await say(store, "first")
        await store.flush()
        await say(store, "second", "third")


LEAVE_A_LOG = """
import os, sys
from lance_context_core import ContextStore, Message
store = ContextStore.open(sys.argv[1], maintenance=None)
for text in sys.argv[2:]:
    store.history.append("a", Message.user(text), session_id="s")
os._exit(0)
"""


async def killed(place, *texts):
    """What a process writes that ends without closing the store: it stays in the journal's log."""
    await asyncio.to_thread(run, LEAVE_A_LOG, place, *texts)
    assert "journal.sqlite-wal" in files(place)


@contextmanager
def process(program, *arguments):
    """One that runs meanwhile, and is told and tells lines."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            yield running
        finally:
            running.kill()


async def answer(running, text=""):
    """What a process says to a line."""

    def tell():
        running.stdin.write(f"{text}\n")
        running.stdin.flush()
        return running.stdout.readline().strip()

    return await asyncio.to_thread(tell)


def files(place):
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


# Where nothing is written


async def test_reading_makes_no_file(tmp_path):
    async def look(place):
        async with opened(place) as store:
            assert await read(store) == await store.search("x", mode="text") == []
            assert await store.kv("app").get([((), "k")]) == [None]
            assert await store.sessions.list() == []
            await store.flush()

    await look(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    await look(tmp_path / "empty")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("somebody's")
    await look(tmp_path / "other")
    assert files(tmp_path) == ["empty", "other", "other/a.txt"]


async def test_reading_a_store_without_a_journal_makes_none(place):
    async with opened(place, journal=None) as store:
        await say(store, "first")
    before = files(place)
    async with opened(place) as store:
        assert await read(store) == ["first"]
        assert len(await store.search("first", mode="text")) == 1
    assert files(place) == before


@pytest.mark.slow
async def test_opening_and_closing_again_and_again_leaves_nothing_open(place):
    def held():
        # The event loop's own pool has as many threads as have ever been busy at once.
        threads = [one for one in threading.enumerate() if not one.name.startswith("asyncio_")]
        return len(list(Path("/proc/self/fd").iterdir())), len(threads)

    await made(place)
    before = None
    for n in range(60):
        async with opened(place) as store:
            if n % 2:
                await say(store, f"{n}")
            assert (await read(store))[0] == "first"
        before = before or (n == 20 and held())
    n_files, n_threads = held()
    assert n_files <= before[0]
    assert n_threads <= before[1]
    assert not (place / "journal.sqlite-wal").exists()


# Somewhere else


@pytest.mark.parametrize("put", [shutil.copytree, shutil.move])
async def test_a_closed_store_that_is_copied_or_moved_has_everything(tmp_path, place, put):
    await made(place)
    there = tmp_path / "elsewhere"
    put(place, there)
    async with opened(there) as store:
        assert await read(store) == ["first", "second", "third"]
        await say(store, "fourth")
        await store.flush()
        assert await read(store) == ["first", "second", "third", "fourth"]


async def test_a_copy_of_what_a_killed_process_left_has_everything(tmp_path, place):
    await killed(place, "one", "two")
    shutil.copytree(place, tmp_path / "copy")
    for there in (place, tmp_path / "copy"):
        async with opened(there) as store:
            assert await read(store) == ["one", "two"]


# Rights


READ_AS_SOMEBODY = (
    AS_SOMEBODY
    + """
async def main():
    async with AsyncContextStore.open(sys.argv[1]) as store:
        messages = await told(store.history.get_messages("a", session_id="s"))
        print(messages if isinstance(messages, str) else [message.text for message in messages])
        print(await told(store.history.count("a", session_id="s")))
        hits = await told(store.search("second", mode="text"))
        print(hits if isinstance(hits, str) else [hit.record.text for hit in hits])
        print(await told(store.history.append("a", Message.user("more"), session_id="s")))
        print(await told(store.flush()))
    async with AsyncContextStore.open(sys.argv[1], search_cache=None) as store:
        print(await told(store.search("second", mode="text")))

asyncio.run(main())
"""
)


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
async def test_who_may_only_read_reads_what_is_in_the_journal(public, is_killed):
    place = public / "store"
    await made(place)
    texts = ["first", "second", "third"]
    if is_killed:
        await killed(place, "fourth")
        texts.append("fourth")
    before = files(place)
    with rights(place, folders=0o555, files=0o444):
        seen, n, hits, *refusals = await asyncio.to_thread(run, READ_AS_SOMEBODY, place)
    assert (seen, n, hits) == (str(texts), str(len(texts)), "['second']")
    for refusal in refusals:
        assert refusal.startswith("StorageError: ")
        assert str(place / "journal.") in refusal or "permission denied" in refusal
    assert files(place) == before
    async with opened(place) as store:
        assert await read(store) == texts


async def test_a_log_that_may_not_be_read_is_an_error_and_not_overlooked(public):
    place = public / "store"
    await killed(place, "one")
    (place / "journal.sqlite-shm").unlink()
    with rights(place, folders=0o555, files=0o444):
        (place / "journal.sqlite-wal").chmod(0o000)
        seen, *_ = await asyncio.to_thread(run, READ_AS_SOMEBODY, place)
    assert seen.startswith("StorageError: the write-ahead log ")
    assert str(place / "journal.sqlite") in seen
    assert "check the permissions" in seen
    async with opened(place) as store:
        assert await read(store) == ["one"]


FOLLOW = (
    AS_SOMEBODY
    + """
async def main():
    async with AsyncContextStore.open(sys.argv[1]) as store:
        for _ in sys.stdin:
            messages = await store.history.get_messages("a", session_id="s")
            print([message.text for message in messages], flush=True)

asyncio.run(main())
"""
)


async def test_who_may_only_read_sees_what_others_write_later(public):
    place = public / "store"
    await made(place)
    with rights(place, folders=0o755, files=0o644), process(FOLLOW, place) as reader:
        texts = ["first", "second", "third"]
        assert await answer(reader) == str(texts)
        for text in ("fourth", "fifth"):
            async with opened(place) as store:
                await say(store, text)
                texts.append(text)
                assert await answer(reader) == str(texts)
                await say(store, text * 2)
                texts.append(text * 2)
                assert await answer(reader) == str(texts)
                await store.flush()
            assert await answer(reader) == str(texts)


async def test_a_lock_that_cannot_be_made_is_an_error_that_names_it(place):
    await made(place)
    (place / "journal.lock").unlink()
    (place / "journal.lock").symlink_to(place / "absent" / "lock")
    async with opened(place) as store:
        assert await read(store) == ["first", "second", "third"]
        with pytest.raises(StorageError, match=r"journal\.lock.*check the permissions"):
            await store.flush()
    (place / "journal.lock").unlink()
    async with opened(place) as store:
        await store.flush()
        assert await read(store) == ["first", "second", "third"]


# Removed


@pytest.mark.parametrize("names", [["", "-wal", "-shm"], [""]], ids=["all", "one"])
async def test_a_journal_that_is_removed_under_an_open_store_is_an_error_until_that_is_accepted(
    place, names
):
    async with opened(place) as store, opened(place) as other:
        await say(store, "first")
        await store.flush()
        await say(store, "lost")
        assert await read(other) == ["first", "lost"]
        for name in names:
            (place / f"journal.sqlite{name}").unlink()
        for work in (read(store), read(other), say(other, "x"), store.flush()):
            with pytest.raises(StorageError, match=r"journal\.sqlite' is missing.*accept_loss\(\)"):
                await work
        assert [one.kind for one in await other.accept_loss()] == ["journal"]
        assert await read(store) == await read(other) == ["first"]
        for n in range(20):
            await say(store, f"s{n}")
            await say(other, f"o{n}")
        texts = ["first", *(f"{who}{n}" for n in range(20) for who in "so")]
        assert await read(store) == await read(other) == texts
        await store.flush()
        assert await read(store) == await read(other) == texts
    async with opened(place) as store:
        assert await read(store) == texts


ALTERNATE = """
import sys
from lance_context_core import ContextStore, Message
store = ContextStore.open(sys.argv[1], maintenance=None)
for line in sys.stdin:
    if line.strip() == "accept":
        print(len(store.accept_loss()), flush=True)
        continue
    store.history.append("a", Message.user(line.strip()), session_id="s")
    print(len(store.history.get_messages("a", session_id="s")), flush=True)
store.close()
"""


async def test_a_journal_that_is_removed_under_two_processes_is_made_anew_for_both(place):
    async with opened(place) as store:
        await say(store, "first")
        await store.flush()
        with process(ALTERNATE, place) as other:
            assert await answer(other, "lost") == "2"
            (place / "journal.sqlite").unlink()
            assert await answer(other, "accept") == "1"
            for n in range(10):
                await say(store, f"s{n}")
                assert await answer(other, f"o{n}") == f"{2 * n + 3}"
            other.stdin.close()
            assert other.wait() == 0
        await say(store, "last")
        texts = ["first", *(f"{who}{n}" for n in range(10) for who in "so"), "last"]
        assert await read(store) == texts
        await store.flush()
    async with opened(place) as store:
        assert await read(store) == texts


def removed(path):
    path.unlink()


def emptied(path):
    path.write_bytes(b"")


def another(path):
    path.unlink()
    with ContextStore.open(path.parent.with_name("another"), maintenance=None) as store:
        store.history.append("a", Message.user("theirs"), session_id="s")
    shutil.copy(path.parent.with_name("another") / "journal.sqlite", path)


@pytest.mark.parametrize("change", [removed, emptied, another])
async def test_a_journal_that_is_gone_or_another_is_an_error_until_it_is_put_back_or_accepted(
    place, tmp_path, change
):
    await made(place)
    path = place / "journal.sqlite"
    shutil.copy(path, tmp_path)
    change(path)
    async with opened(place) as store:
        for work in (read(store), say(store, "x"), store.search("x", mode="text"), store.flush()):
            with pytest.raises(StorageError, match=r"or call accept_loss\(\)") as told:
                await work
            assert str(path) in str(told.value)
        (problem,) = (await store.verify()).problems
        assert (problem.kind, problem.where) == ("journal", str(path))
    shutil.copy(tmp_path / "journal.sqlite", place)
    async with opened(place) as store:
        assert await read(store) == ["first", "second", "third"]
        assert await store.accept_loss() == ()
    change(path)
    async with opened(place) as store:
        assert [one.kind for one in await store.accept_loss()] == ["journal"]
        assert await read(store) == ["first"]
        assert (await store.verify()).is_whole
        await say(store, "again")
        assert await read(store) == ["first", "again"]
        await store.flush()
        assert await read(store) == ["first", "again"]


async def test_a_log_that_is_removed_leaves_what_was_folded(place):
    async with opened(place) as store:
        await say(store, "first")
        await store.flush()
        await store.kv("app").put([Item(key="k", value={"n": 1})])
    await killed(place, "second")
    (place / "journal.sqlite-wal").unlink()
    async with opened(place) as store:
        texts = await read(store)
        assert texts in (["first"], ["first", "second"])
        await say(store, "third")
        await store.flush()
        assert await read(store) == [*texts, "third"]


async def test_an_older_journal_whose_version_of_the_table_is_gone_heals(place, tmp_path):
    await made(place)
    shutil.copy(place / "journal.sqlite", tmp_path)
    async with opened(place) as store:
        await say(store, "fourth")
        await store.flush()
        await store.erase(ids=["none"])
        await store.context().add("user", "x", id="x")
        await store.erase(ids=["x"])  # removes all older versions
    shutil.copy(tmp_path / "journal.sqlite", place)
    async with opened(place) as store:
        assert await read(store) == ["first", "second", "third", "fourth"]
        await say(store, "fifth")
        await store.flush()
        assert await read(store) == ["first", "second", "third", "fourth", "fifth"]


# Damaged, or somebody else's


def in_the_header(path):
    with path.open("r+b") as opened:
        opened.write(b"\xff" * 64)


def in_the_middle(path):
    with path.open("r+b") as opened:
        for page in range(1, path.stat().st_size // 4096):
            opened.seek(page * 4096)
            opened.write(b"\xff" * 512)


def cut_off(path):
    os.truncate(path, path.stat().st_size // 2 + 100)


def of_no_row(payload):
    def damage(path):
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE rows SET payload = ?", (payload,))
        connection.close()

    return damage


def one_letter(path):
    with sqlite3.connect(path) as connection:
        for seq, payload in connection.execute("SELECT seq, payload FROM rows").fetchall():
            changed = payload.replace(b"second", b"secund").replace(b"third", b"thurd")
            connection.execute("UPDATE rows SET payload = ? WHERE seq = ?", (changed, seq))
    connection.close()


DAMAGES = {
    "header": in_the_header,
    "middle": in_the_middle,
    "cut off": cut_off,
    "empty payload": of_no_row(b""),
    "short payload": of_no_row(b"\xff\xff"),
    "payload of a number": of_no_row(b"\x01\0\0\x005"),
    "payload of half a text": of_no_row(b'\x09\0\0\0{"a":"\xff\xfe'),
    "payload too long": of_no_row(b"\x02\0\0\0{}rest"),
    "payload of a text": of_no_row("{}"),
    "one letter": one_letter,
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_journal_is_an_error_that_names_it_until_it_is_put_back(
    place, tmp_path, damage
):
    await made(place)
    path = place / "journal.sqlite"
    shutil.copy(path, tmp_path)
    DAMAGES[damage](path)
    before = path.read_bytes()
    async with opened(place) as store:
        for work in (read(store), say(store, "x"), store.search("x", mode="text"), store.flush()):
            with pytest.raises(StorageError, match="is damaged: put it back") as told:
                await work
            assert str(path) in str(told.value)
    assert path.read_bytes() == before
    shutil.copy(tmp_path / "journal.sqlite", place)
    async with opened(place) as store:
        assert await read(store) == ["first", "second", "third"]
    # The other way out that it names.
    DAMAGES[damage](path)
    async with opened(place) as store:
        assert [one.kind for one in await store.accept_loss()] == ["journal"]
        # A file that cannot be read is kept; of one that can, the rows go that are damaged.
        is_kept = damage in ("header", "middle", "cut off")
        assert bool(list(place.glob("journal.sqlite.lost-*"))) == is_kept
        assert await read(store) == ["first"]
        await say(store, "again")
        assert await read(store) == ["first", "again"]


async def test_a_journal_of_a_newer_format_is_left_alone(place):
    await made(place)
    path = place / "journal.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    async with opened(place) as store:
        for work in (read(store), say(store, "x"), store.flush(), store.context().add("user", "x")):
            with pytest.raises(StoreFormatError, match=r"format 99.*upgrade lance-context-core"):
                await work
    assert path.read_bytes() == before


def a_text(path):
    path.write_text("notes of somebody, " * 500)


def a_directory(path):
    path.mkdir()


def a_database(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("thing", [a_text, a_directory, a_database])
async def test_what_is_no_journal_is_not_touched(place, thing):
    place.mkdir()
    path = place / "journal.sqlite"
    thing(path)
    before = None if path.is_dir() else path.read_bytes()
    async with opened(place) as store:
        for work in (say(store, "x"), store.flush()):
            with pytest.raises(StorageError, match="move it away") as told:
                await work
            assert str(path) in str(told.value)
    assert before == (None if path.is_dir() else path.read_bytes())
    path.rename(place / "away")
    async with opened(place) as store:
        await say(store, "x")
        assert await read(store) == ["x"]


async def test_a_journal_that_was_being_made_when_its_process_ended_is_made(place):
    place.mkdir()
    (place / "journal.sqlite").touch()
    async with opened(place) as store:
        assert await read(store) == []
        await say(store, "one")
        assert await read(store) == ["one"]


# Locked


STOP_WITH_THE_LOCK = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


async def test_a_process_that_is_stopped_with_the_lock_is_an_error_of_writes_alone(
    place, monkeypatch
):
    await made(place)
    monkeypatch.setattr(waiting, "_PATIENCE_SECONDS", 0.3)
    path = place / "journal.sqlite"
    with process(STOP_WITH_THE_LOCK, path) as stopped:
        assert await asyncio.to_thread(stopped.stdout.readline) == "locked\n"
        async with opened(place) as store:
            assert await read(store) == ["first", "second", "third"]
            with pytest.raises(
                StorageError, match=r"was locked by another process.*end it"
            ) as told:
                await say(store, "x")
            assert str(path) in str(told.value)
            stopped.kill()
            stopped.wait()
            await say(store, "fourth")
            assert await read(store) == ["first", "second", "third", "fourth"]


# Forks


FORK = """
import os, sys, warnings
from lance_context_core import ContextStore, Message
from lance_context_core.errors import StoreClosedError
warnings.simplefilter("ignore")
store = ContextStore.open(sys.argv[1], maintenance=None)
def say(text):
    store.history.append("a", Message.user(text), session_id="s")
say("before")
for n in range(3):
    if not (child := os.fork()):
        try:
            say("in the child")
        except StoreClosedError:
            try:
                store.close()
            except BaseException:
                pass
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    say(f"after {n}")
print([one.text for one in store.history.get_messages("a", session_id="s")])
os._exit(0)
"""


async def test_a_forked_child_is_refused_and_takes_nothing_from_its_parent(place):
    (told,) = await asyncio.to_thread(run, FORK, place)
    async with opened(place) as store:
        assert str(await read(store)) == told == "['before', 'after 0', 'after 1', 'after 2']"


# Durability


@pytest.mark.parametrize(("durability", "level"), [("process", 1), ("fsync", 2)])
async def test_sqlite_syncs_each_entry_before_it_is_acknowledged_if_asked(
    place, monkeypatch, durability, level
):
    made_, real = [], sqlite.connect

    def connect(*args, **options):
        way = real(*args, **options)
        made_.append(way.connection)
        return way

    monkeypatch.setattr(sqlite, "connect", connect)
    async with opened(place, durability=durability) as store:
        await say(store, "one")
        await store.context().add("user", b"x" * 2_000_000)
        await say(store, "two")
        levels = [one.execute("PRAGMA synchronous").fetchone()[0] for one in made_[:2]]
        assert levels == [level] * 2
    async with opened(place) as store:
        assert await read(store) == ["one", "two"]


async def test_what_a_fold_could_not_sync_stays_in_the_journal(place, monkeypatch):
    def failing(_descriptor):
        raise OSError(5, "Input/output error")

    async with opened(place, durability="fsync") as store:
        await say(store, "one", "two")
        monkeypatch.setattr(os, "fsync", failing)
        for _ in range(2):
            with pytest.raises(StorageError, match="Input/output"):
                await store.flush()
        monkeypatch.undo()
        with pytest.raises(StorageError, match="an earlier sync of"):
            await store.flush()
    with sqlite3.connect(place / "journal.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM rows").fetchone() == (2,)
    connection.close()
    async with opened(place) as store:
        assert await read(store) == ["one", "two"]
        await store.flush()
        assert await read(store) == ["one", "two"]


# Network file systems


MOUNTS = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:40 / {root}/nfs rw shared:1 - nfs4 server:/export rw
31 22 0:41 / {root}/with\\040space rw - cifs //server/share rw
32 30 8:2 / {root}/nfs/local rw - xfs /dev/sdb rw
33 22 0:41 / {root}/of\u2028two\x85lines rw - nfs server:/ rw
"""


async def test_where_other_machines_have_the_directory_too_no_journal_is_made(
    tmp_path, monkeypatch
):
    (tmp_path / "mountinfo").write_text(MOUNTS.format(root=tmp_path))
    monkeypatch.setattr(file_locks, "_TABLE", tmp_path / "mountinfo")
    for name in ("nfs/store", "with space/store", "of\u2028two\x85lines/store"):
        async with opened(tmp_path / name, journal=JournalPolicy()) as store:
            await say(store, "one")
            assert await read(store) == ["one"]
        assert not list((tmp_path / name).glob("journal.*"))
    for name in ("nfs/local/store", "nfsx/store"):
        async with opened(tmp_path / name) as store:
            await say(store, "one")
        assert (tmp_path / name / "journal.sqlite").exists()


async def test_a_store_that_was_copied_to_other_machines_reads_its_journal_there(
    place, tmp_path, monkeypatch
):
    await made(place)
    monkeypatch.setattr(file_locks, "_TABLE", tmp_path / "mountinfo")
    (tmp_path / "mountinfo").write_text(f"30 22 0:40 / {place} rw shared:1 - nfs server:/ rw\n")
    async with opened(place) as store:
        assert await read(store) == ["first", "second", "third"]
        await say(store, "fourth")
        assert await read(store) == ["first", "second", "third", "fourth"]


def test_of_a_system_that_does_not_tell_nothing_is_assumed(tmp_path, monkeypatch):
    monkeypatch.setattr(file_locks, "_TABLE", tmp_path / "absent")
    assert not file_locks.is_shared(tmp_path)
    with ContextStore.open(tmp_path / "store") as store:
        store.kv("app").put([Item(key="k", value={"n": 1})])
    assert (tmp_path / "store" / "journal.sqlite").exists()
    with pytest.raises(StoreClosedError):
        store.kv("app").get([((), "k")])
