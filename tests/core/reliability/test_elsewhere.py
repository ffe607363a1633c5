"""A store whose directory is moved, copied, or opened by another of its paths is whole by itself."""

import asyncio
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from core.reliability.rights import AS_SOMEBODY, rights, run

from lance_context_core import AsyncContextStore, ContextStore, Document, Message, StorageError
from lance_context_core.storage.lance import relocation

pytestmark = pytest.mark.slow

WORD = "xylophone"


def made(place):
    """A store with two tags and a branch, which has something of its own."""
    with ContextStore.open(place, maintenance=None) as store:
        said = [Message.user(f"{WORD} {n}", id=f"m{n}") for n in range(40)]
        store.scope(user_id="ada").history.append_many("a", said, session_id="s")
        store.tag("early")
        branch = store.create_branch("draft")
        branch.history.append("a", Message.user("on the branch", id="b1"), session_id="s")
        store.vectors("c").add([Document(id="d", text="x", embedding=[1.0])])
        store.tag("late")
        store.history.append("a", Message.user("last"), session_id="s")
        store.flush()
    return place


def read(store):
    """How many messages there are now, at each tag, and on the branch."""
    places = (store, store.checkout("early"), store.checkout("late"), store.branch("draft"))
    return [one.history.count("a", session_id="s") for one in places]


READ = [41, 40, 40, 41]


def of_refs(files):
    """Those of the files that are of branches and tags."""
    return {path: one for path, one in files.items() if "tree" in path.parts}


def bytes_of(place):
    """Each file with its content and the file that holds it."""
    found = (path for path in place.rglob("*") if path.is_file())
    return {path.relative_to(place): (path.read_bytes(), path.stat().st_ino) for path in found}


def named(place):
    """The files of tables that name that path."""
    paths = (path for path in place.parent.rglob("*.lance/**/*") if path.is_file())
    return {path for path in paths if f"{place}/".encode() in path.read_bytes()}


@pytest.mark.parametrize("put", [shutil.copytree, shutil.move], ids=["copied", "moved"])
def test_a_store_elsewhere_does_all_that_it_did_and_leaves_the_first_place_alone(tmp_path, put):
    first, second = made(tmp_path / "first"), tmp_path / "second"
    put(first, second)
    before = bytes_of(first)
    with ContextStore.open(second, maintenance=None) as store:
        assert read(store) == READ
        assert store.checkout("late").vectors("c").count() == 1
        assert store.verify().is_whole
        shutil.rmtree(first / "records.lance", ignore_errors=True)
        assert read(store) == READ
        store.branch("draft").history.append("a", Message.user("more"), session_id="s")
        store.tag("later")
        store.merge("draft")
        assert read(store) == [43, 40, 40, 42]
        assert store.branch("draft").search(WORD, mode="text", limit=50)
        store.copy(tmp_path / "third")
        store.scope(user_id="ada").erase(sole_writer=True)
        assert not [path for path in bytes_of(second).values() if WORD.encode() in path[0]]
        assert read(store)[1:3] == [0, 0]
        assert store.delete_branch("draft")
        store.maintain()
        store.thin()
        assert store.verify().is_whole
    assert {path: one for path, one in before.items() if path.parts[0] != "records.lance"} == (
        bytes_of(first)
    )
    shutil.rmtree(second)
    with ContextStore.open(tmp_path / "third", maintenance=None) as store:
        assert read(store) == [43, 40, 40, 42]
        assert store.verify().is_whole


def test_writes_at_the_first_place_do_not_reach_the_copy(tmp_path):
    first, second = made(tmp_path / "first"), tmp_path / "second"
    shutil.copytree(first, second)
    with ContextStore.open(first) as store:
        store.branch("draft").history.append("a", Message.user("more"), session_id="s")
        store.erase(filter={"session_id": "s"}, sole_writer=True)
        assert read(store) == [0, 0, 0, 0]
    with ContextStore.open(second) as store:
        assert read(store) == READ
        assert store.verify().is_whole


def test_files_are_rewritten_once_and_only_those_that_name_the_former_place(tmp_path):
    first, second = made(tmp_path / "first"), tmp_path / "second"
    shutil.move(first, second)
    before = bytes_of(second)
    with ContextStore.open(second, maintenance=None) as store:
        store.tags()
    moved = bytes_of(second)
    changed = {path for path in before if moved[path] != before[path]}
    assert (
        changed - {Path("place"), Path("journal.sqlite")} == {*of_refs(before)} & changed != set()
    )
    assert not named(first)
    for _ in range(2):
        with ContextStore.open(second, maintenance=None) as store:
            assert read(store) == READ
    assert of_refs(bytes_of(second)) == of_refs(moved)


def test_a_store_that_an_older_release_left_without_a_record_of_its_place_is_whole(tmp_path):
    first, second = made(tmp_path / "first"), tmp_path / "second"
    (first / "place").unlink()
    shutil.copytree(first, second)
    for place in (first, second):
        with ContextStore.open(place, maintenance=None) as store:
            assert read(store) == READ
            assert store.verify().is_whole


def test_the_kept_store_of_the_first_release_is_whole_wherever_it_is_unpacked(tmp_path):
    archive = Path(__file__).parents[1] / "data" / "store-0.1.tar.gz"
    for name in ("one", "two"):
        with tarfile.open(archive) as opened:
            opened.extractall(tmp_path / name, filter="data")
        with ContextStore.open(tmp_path / name / "store", maintenance=None) as store:
            assert store.verify().is_whole
            assert store.checkout("before").history.count("g", session_id="s") == 3


def test_two_stores_that_change_places_keep_their_own_branches(tmp_path):
    one, two, aside = tmp_path / "one", tmp_path / "two", tmp_path / "aside"
    made(one)
    shutil.copytree(one, two)
    with ContextStore.open(two) as store:
        store.branch("draft").history.append("a", Message.user("more"), session_id="s")
    for source, goal in ((one, aside), (two, one), (aside, two)):
        source.rename(goal)
    with ContextStore.open(one) as store:
        assert read(store) == [41, 40, 40, 42]
        assert store.verify().is_whole
    with ContextStore.open(two) as store:
        assert read(store) == READ
        assert store.verify().is_whole


END_AFTER = """
import os, sys
from lance_context_core import ContextStore
from lance_context_core.storage.lance import relocation

n, real = int(sys.argv[2]), relocation._replace

def replace(*args, **options):
    global n
    if not n:
        os._exit(9)
    n -= 1
    real(*args, **options)

relocation._replace = replace
ContextStore.open(sys.argv[1], maintenance=None).tags()
"""


def test_a_process_that_is_killed_while_it_rewrites_files_leaves_them_to_the_next(tmp_path):
    first, second = made(tmp_path / "first"), tmp_path / "second"
    for n in (0, 1, 4, 9):
        shutil.rmtree(second, ignore_errors=True)
        shutil.copytree(first, second)
        command = [sys.executable, "-c", END_AFTER, str(second), str(n)]
        assert subprocess.run(command, check=False).returncode == 9
        (second / "place.part-of-a-process-that-was-killed").write_text("half")
        with ContextStore.open(second, maintenance=None) as store:
            assert read(store) == READ
            assert store.verify().is_whole
        assert not [*second.glob("place.part*")]


READ_ALL = """
import sys
from lance_context_core import ContextStore, Message
sys.stdin.readline()
with ContextStore.open(sys.argv[1], maintenance=None) as store:
    draft = store.branch("draft")
    found = [one.history.count("a", session_id="s")
             for one in (store, store.checkout("early"), store.checkout("late"))]
    draft.history.append("a", Message.user("more"), session_id="s")
    print(found, draft.history.count("a", session_id="s") > 41)
"""


def test_processes_that_open_it_at_the_same_time_all_read_and_write_it(tmp_path):
    first, second = made(tmp_path / "first"), tmp_path / "second"
    shutil.move(first, second)
    command = [sys.executable, "-c", READ_ALL, str(second)]
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(4)
    ]
    told = [one.communicate("go\n") for one in running]
    assert [out.strip() for out, _ in told] == [f"{READ[:3]} True"] * 4, told
    with ContextStore.open(second, maintenance=None) as store:
        assert read(store) == [41, 40, 40, 45]
        assert store.verify().is_whole


# One directory by several paths


def test_by_a_link_or_a_relative_path_it_is_the_same_place(tmp_path, monkeypatch):
    place = made(tmp_path / "store")
    (tmp_path / "link").symlink_to(place)
    monkeypatch.chdir(tmp_path)
    before = bytes_of(place)
    for path in ("store", "./store/../store", "link", tmp_path / "link", f"file://{place}"):
        with ContextStore.open(path, maintenance=None) as store:
            assert store.uri == str(place)
            assert read(store) == READ
    assert of_refs(bytes_of(place)) == of_refs(before)


def test_a_branch_that_is_made_through_a_link_outlives_the_link(tmp_path):
    link = tmp_path / "link"
    (tmp_path / "store").mkdir()
    link.symlink_to(tmp_path / "store")
    made(link)
    link.unlink()
    shutil.copytree(tmp_path / "store", link)
    shutil.rmtree(link / "records.lance")
    with ContextStore.open(tmp_path / "store") as store:
        assert read(store) == READ


def test_a_directory_that_is_mounted_twice_keeps_the_path_by_which_it_was_made(
    tmp_path, monkeypatch
):
    place, mount = made(tmp_path / "store"), tmp_path / "mount"
    mount.symlink_to(place)
    # As a mount, this one is no link.
    monkeypatch.setattr(relocation.os.path, "realpath", os.path.abspath)
    before = bytes_of(place)
    with ContextStore.open(mount, maintenance=None) as store:
        assert read(store) == READ
    assert of_refs(bytes_of(place)) == of_refs(before)
    with ContextStore.open(mount) as store:
        store.create_branch("other")
    assert not named(mount)


# Where nothing may be written


READ_AS_SOMEBODY = (
    AS_SOMEBODY
    + """
async def main():
    async with AsyncContextStore.open(sys.argv[1], maintenance=None) as store:
        print(await told(store.history.count("a", session_id="s")))
        for open in (lambda: store.checkout("early"), lambda: store.branch("draft")):
            async def count():
                there = open()
                there = await there if hasattr(there, "__await__") else there
                return await there.history.count("a", session_id="s")
            print(await told(count()))

asyncio.run(main())
"""
)


async def test_moved_to_where_it_may_not_be_written_main_is_read_and_branches_say_what_to_do(
    public, tmp_path
):
    place = public / "store"
    shutil.copytree(made(tmp_path / "first"), place)
    (place / "journal.lock").unlink()
    with rights(place, folders=0o555, files=0o444):
        *counts, refusal = await asyncio.to_thread(run, READ_AS_SOMEBODY, place)
    assert counts == ["41", "40"]
    assert refusal.startswith(f"{StorageError.__name__}: ")
    assert "moved or copied to" in refusal
    assert "Open it once where it may be written" in refusal
    async with AsyncContextStore.open(place, maintenance=None) as store:
        await store.tags()
    with rights(place, folders=0o555, files=0o444):
        assert await asyncio.to_thread(run, READ_AS_SOMEBODY, place) == ["41", "40", "41"]


async def test_where_it_may_not_be_written_and_no_place_is_recorded_it_is_read_if_it_is_the_right_one(
    public,
):
    place = made(public / "store")
    (place / "place").unlink()
    with rights(place, folders=0o555, files=0o444):
        assert await asyncio.to_thread(run, READ_AS_SOMEBODY, place) == ["41", "40", "41"]
