"""A store that is opened with read_only=True: it reads all that is there, and changes nothing on the disk."""

import asyncio
import shutil
from pathlib import Path

import pytest
from core.conformance.doubles import WordVectors
from core.reliability.rights import AS_SOMEBODY, rights, run

from lance_context_core import (
    AsyncContext,
    AsyncContextStore,
    Context,
    ContextStore,
    Document,
    Item,
    Message,
)
from lance_context_core.errors import NotFoundError, ReadOnlyError, StorageError
from lance_context_core.storage import side_table

pytestmark = pytest.mark.slow


def said(word, n):
    return [Message.user(f"{word} {i}", id=f"{word}{i}") for i in range(n)]


def fill(store):
    """Rows of each sort, some of them in the tables and some in the journal."""
    store.history.append_many("a", said("apple", 30), session_id="s")
    store.vectors("c").add(
        [Document(id=f"d{n}", text=f"pear {n}", embedding=[1.0, n]) for n in range(9)]
    )
    store.kv("k").put([Item(key="x", value={"n": 1}), Item(key="y", value={"n": 1})])
    store.flush()
    store.tag("t")
    draft = store.create_branch("b")
    draft.history.append_many("a", said("banana", 3), session_id="s")
    store.history.append_many("a", said("cherry", 5), session_id="s")
    store.context().update(id="apple3", metadata={"color": "red"})
    store.context().delete(id="apple4")
    store.vectors("c").add([Document(id="e", text="plum", embedding=[-1.0, 0.0])])
    store.kv("k").put([Item(key="x", value={"n": 2})])
    store.kv("k").delete([((), "y")])
    store.sessions.create("q", title="Fruit")
    store.blobs.put(b"seed")


@pytest.fixture
def place(tmp_path):
    with ContextStore.open(tmp_path / "store", maintenance=None) as store:
        fill(store)
    return tmp_path / "store"


def bytes_of(place):
    files = (path for path in place.rglob("*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def reads(store):
    """What is read of a store, in many ways."""

    def found(where, text):
        return {hit.record.id for hit in where.search(text, mode="text", limit=20)}

    fruit = store.vectors("c")
    near = fruit.search([-1.0, 0.0], limit=3)
    records = {one["id"]: one["metadata"] for one in store.context().list()}
    return {
        "messages": [one.text for one in store.history.get_messages("a", session_id="s")],
        "count": store.history.count("a", session_id="s"),
        "folded": found(store, "apple"),
        "not folded": found(store, "cherry"),
        "both": found(store, "apple cherry"),
        "no such word": found(store, "fig"),
        "filtered": store.context().list(filters={"color": "red"}),
        "metadata": records,
        "branch": store.branch("b").history.count("a", session_id="s"),
        "on the branch": found(store.branch("b"), "banana"),
        "tag": store.checkout("t").history.count("a", session_id="s"),
        "near": [(hit.record.id, hit.record.text) for hit in near],
        "by word": [hit.record.id for hit in fruit.search("plum", mode="text", limit=3)],
        "vectors": fruit.count(),
        "values": [one and one.value for one in store.kv("k").get([((), "x"), ((), "y")])],
        "sessions": [(one.id, one.title) for one in store.sessions.list()],
        "blob": store.blobs.get(next(iter(store.blobs.list())).hash),
        "tags": store.tags(),
        "branches": [one.name for one in store.branches()],
        "sql": store.sql(
            "SELECT count(*) AS n FROM messages WHERE text LIKE '%cherry%'"
        ).to_pylist(),
        "diff": {one.id for one in store.diff("t").added},
        "locks": store.locks.list(),
        "tasks": store.tasks.boards(),
        "stats": store.stats().tables[0].table,
        "whole": store.verify().is_whole,
        "audit": store.audit.verify().problems,
        "exported": None,
    }


@pytest.mark.parametrize("cache", [{}, {"search_cache": None}], ids=["memory", "engine"])
def test_it_reads_what_a_store_that_may_write_reads_and_changes_no_byte(place, cache, tmp_path):
    before = bytes_of(place)
    with ContextStore.open(place, read_only=True, **cache) as store:
        read = reads(store)
        exported = store.export(tmp_path / "export.jsonl").rows
    assert bytes_of(place) == before
    with ContextStore.open(place, maintenance=None, **cache) as store:
        assert read == reads(store)
        assert exported == store.export(tmp_path / "again.jsonl").rows
        store.flush()
        assert read == reads(store)
    assert read["count"] == 34
    assert read["not folded"] == {f"cherry{n}" for n in range(5)}
    assert read["near"][0] == ("e", "plum")


def test_it_sees_what_others_write_meanwhile(place):
    with ContextStore.open(place, read_only=True, search_cache=None) as reader:
        assert reader.history.count("a", session_id="s") == 34
        with ContextStore.open(place, maintenance=None) as writer:
            for n in range(4):
                word = f"fig{n}"
                writer.history.append("a", Message.user(word, id=word), session_id="s")
                assert [hit.record.id for hit in reader.search(word, mode="text")] == [word]
                assert reader.history.count("a", session_id="s") == 35 + n
                if n % 2:
                    writer.flush()
                    assert [hit.record.id for hit in reader.search(word, mode="text")] == [word]
            writer.erase(ids=["fig0"], sole_writer=True)
            assert reader.search("fig0", mode="text") == []
        assert reader.history.count("a", session_id="s") == 37
        assert [hit.record.id for hit in reader.search("fig3", mode="text")] == ["fig3"]


def test_what_was_found_is_read_although_others_fold_in_between(place, monkeypatch):
    """A row's id, by which it is read after it was found, may not mean another one then."""
    asked, writers = side_table.SideTable.newest, []

    async def newest(self):
        handle = await asked(self)
        if writers:
            writer = writers.pop()
            more = [Message.user(f"date {n}") for n in range(3)]
            await writer.aio.history.append_many("z", more, session_id="z")
            await writer.aio.flush()
        return handle

    monkeypatch.setattr(side_table.SideTable, "newest", newest)
    with (
        ContextStore.open(place, read_only=True, search_cache=None) as reader,
        ContextStore.open(place, maintenance=None) as writer,
    ):
        writers.append(writer)
        hits = reader.search("cherry", mode="text", limit=9)
        assert not writers
        assert {hit.record.text for hit in hits} == {f"cherry {n}" for n in range(5)}


def test_what_a_killed_process_left_is_read_as_it_is(place, tmp_path):
    with ContextStore.open(place, maintenance=None) as store:
        store.history.append("a", Message.user("late", id="late"), session_id="s")
        shutil.copytree(place, tmp_path / "killed")
        shutil.copytree(place, tmp_path / "less")
    (tmp_path / "less" / "journal.sqlite-shm").unlink()
    for name in ("killed", "less"):
        left = tmp_path / name
        (left / "place").write_bytes(str(left).encode())
        assert (left / "journal.sqlite-wal").stat().st_size
        before = bytes_of(left)
        with ContextStore.open(left, read_only=True) as store:
            assert store.history.count("a", session_id="s") == 35
            assert [hit.record.id for hit in store.search("late", mode="text")] == ["late"]
            changed = {path for path, one in bytes_of(left).items() if before.get(path) != one}
            assert changed <= {str(left / "journal.sqlite-shm")} & before.keys()
            with ContextStore.open(left, maintenance=None) as writer:
                writer.history.append("a", Message.user("later"), session_id="s")
                assert store.history.count("a", session_id="s") == 36


WRITES = {
    "append": lambda s: s.history.append("a", Message.user("x"), session_id="s"),
    "append much": lambda s: s.history.append_many(
        "a", [Message.user("x")] * 2_000, session_id="s"
    ),
    "remember": lambda s: s.memory.add(["x"]),
    "add a record": lambda s: s.context().add("user", "x"),
    "update a record": lambda s: s.context().update(id="apple1", metadata={"a": 1}),
    "delete a record": lambda s: s.context().delete(id="nothing"),
    "put": lambda s: s.kv("k").put([Item(key="x", value={})]),
    "add an item": lambda s: s.kv("k").add([Item(key="z", value={})]),
    "delete an item": lambda s: s.kv("k").delete([((), "nothing")]),
    "put elsewhere": lambda s: s.kv("new").put([Item(key="x", value={})]),
    "add vectors": lambda s: s.vectors("c").add([Document(id="z", text="x", embedding=[1.0, 1.0])]),
    "delete vectors": lambda s: s.vectors("c").delete(["nothing"]),
    "drop a collection": lambda s: s.vectors("c").delete_collection(),
    "put a blob": lambda s: s.blobs.put(b"x"),
    "make a session": lambda s: s.sessions.create("z"),
    "add a task": lambda s: s.tasks.board("b").add("x"),
    "claim a task": lambda s: s.tasks.board("b").claim("me"),
    "lock": lambda s: s.locks.acquire("l"),
    "tag": lambda s: s.tag("n"),
    "delete a tag": lambda s: s.delete_tag("t"),
    "delete no tag": lambda s: s.delete_tag("nothing"),
    "make a branch": lambda s: s.create_branch("n"),
    "delete a branch": lambda s: s.delete_branch("b"),
    "write on a branch": lambda s: s.branch("b").history.append(
        "a", Message.user("x"), session_id="s"
    ),
    "merge": lambda s: s.merge("b"),
    "restore": lambda s: s.restore("t"),
    "erase": lambda s: s.erase(ids=["apple1"]),
    "erase nothing": lambda s: s.erase(ids=["nothing"]),
    "maintain": lambda s: s.maintain(),
    "thin": lambda s: s.thin(),
    "flush": lambda s: s.flush(),
    "embed": lambda s: s.embed_pending(),
    "change the model": lambda s: s.change_model(),
    "import": lambda s: s.import_("nothing.jsonl"),
    "copy": lambda s: s.copy(Path(s.uri).with_name("copy")),
    "seal": lambda s: s.audit.seal(),
    "compact": lambda s: s.context().compact(),
}


def test_each_write_is_refused_and_nothing_is_written(place):
    before = bytes_of(place)
    with ContextStore.open(place, read_only=True, embedder=WordVectors()) as store:
        for name, write in WRITES.items():
            with pytest.raises(ReadOnlyError, match="read_only=True") as told:
                write(store)
            assert str(place) in str(told.value), name
    assert bytes_of(place) == before
    assert sorted(one.name for one in place.parent.iterdir()) == ["store"]


async def test_so_it_is_in_coroutines_and_with_a_context(place):
    before = bytes_of(place)
    async with AsyncContextStore.open(place, read_only=True) as store:
        assert await store.history.count("a", session_id="s") == 34
        with pytest.raises(ReadOnlyError):
            await store.history.append("a", Message.user("x"), session_id="s")
    async with await AsyncContext.create(place, read_only=True) as context:
        assert len(await context.list()) == 34
        with pytest.raises(ReadOnlyError):
            await context.add("user", "x")
    with pytest.raises(ReadOnlyError):
        await AsyncContext.create(place, read_only=True, enable_background_compaction=True)
    with Context.open(place, read_only=True) as context, pytest.raises(ReadOnlyError):
        context.add("user", "x")
    assert bytes_of(place) == before


def test_a_place_without_a_store_is_not_found_and_not_made(tmp_path):
    (tmp_path / "empty").mkdir()
    for uri in (tmp_path / "absent", tmp_path / "empty", "memory://"):
        for opened in (ContextStore.open, AsyncContextStore.open, Context.create):
            with pytest.raises(NotFoundError, match="no store exists at"):
                opened(uri, read_only=True)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["empty"]


def test_a_moved_store_is_not_rewritten(place, tmp_path):
    place.rename(tmp_path / "moved")
    before = bytes_of(tmp_path / "moved")
    with ContextStore.open(tmp_path / "moved", read_only=True) as store:
        assert store.history.count("a", session_id="s") == 34
        assert store.checkout("t").history.count("a", session_id="s") == 30
        with pytest.raises(StorageError, match="Open it once where it may be written"):
            store.branch("b").history.count("a", session_id="s")
    assert bytes_of(tmp_path / "moved") == before


SEARCH_AS_SOMEBODY = (
    AS_SOMEBODY
    + """
async def main():
    async with AsyncContextStore.open(sys.argv[1], read_only=True, search_cache=None) as store:
        print(await told(store.history.count("a", session_id="s")))
        print(sorted(hit.record.id for hit in await store.search("cherry", mode="text", limit=3)))
        print(await told(store.history.append("a", Message.user("x"), session_id="s")))

asyncio.run(main())
"""
)


async def test_it_reads_and_searches_where_this_user_may_not_write(public):
    place = public / "store"

    def make():
        with ContextStore.open(place, maintenance=None) as store:
            fill(store)

    await asyncio.to_thread(make)
    with rights(place, folders=0o555, files=0o444):
        count, found, refusal = await asyncio.to_thread(run, SEARCH_AS_SOMEBODY, place)
    assert count == "34"
    assert found.count("cherry") == 3
    assert refusal.startswith("ReadOnlyError")
