"""A directory that is moved, removed or replaced under an open store: each call says so, and none makes a new one."""

import os
import shutil

import pytest

from lance_context_core import AsyncContextStore, ContextStore, Document, Item, Message
from lance_context_core.errors import NotFoundError

WORDS = "since it was opened"


def say(store):
    store.history.append("a", Message.user("tea"), session_id="s")


def made(place, **options):
    store = ContextStore.open(place, maintenance=None, **options)
    say(store)
    store.tag("t")
    store.create_branch("b")
    store.vectors("c").add([Document(id="d", text="x", embedding=[1.0])])
    store.kv("k").put([Item(key="x", value={})])
    return store


def count(store):
    return store.history.count("a", session_id="s")


CALLS = {
    "append": say,
    "append much": lambda s: s.history.append_many(
        "a", [Message.user("x")] * 2_000, session_id="s"
    ),
    "read": lambda s: s.history.get_messages("a", session_id="s"),
    "count": count,
    "search": lambda s: s.search("tea", mode="text"),
    "get": lambda s: s.kv("k").get([((), "x")]),
    "put": lambda s: s.kv("k").put([Item(key="x", value={})]),
    "put into a new table": lambda s: s.kv("new").put([Item(key="x", value={})]),
    "add vectors": lambda s: s.vectors("new").add([Document(id="d", text="x", embedding=[1.0])]),
    "add a blob": lambda s: s.blobs.put(b"x"),
    "list sessions": lambda s: s.sessions.list(),
    "tag": lambda s: s.tag("u"),
    "tags": lambda s: s.tags(),
    "make a branch": lambda s: s.create_branch("n"),
    "write on a branch": lambda s: say(s.branch("b")),
    "restore": lambda s: s.restore("t"),
    "merge": lambda s: s.merge("b"),
    "erase": lambda s: s.erase(ids=["m"]),
    "maintain": lambda s: s.maintain(),
    "flush": lambda s: s.flush(),
    "verify": lambda s: s.verify(),
    "stats": lambda s: s.stats(),
    "lock": lambda s: s.locks.acquire("l"),
    "query": lambda s: s.sql("SELECT count(*) FROM records"),
}


def moved(place):
    place.rename(place.with_name("elsewhere"))


def removed(place):
    shutil.rmtree(place)


def replaced(place):
    made(place.with_name("other")).close()
    moved(place)
    place.with_name("other").rename(place)


@pytest.mark.slow
@pytest.mark.parametrize("how", [moved, removed, replaced])
@pytest.mark.parametrize("options", [{}, {"journal": None}], ids=["a journal", "no journal"])
def test_each_call_says_that_the_directory_is_gone_and_writes_nothing(tmp_path, how, options):
    place = tmp_path / "store"
    store = made(place, **options)
    then, branch = store.checkout("t"), store.branch("b")
    assert count(store) == count(then) == count(branch) == 1
    how(place)
    before = sorted(tmp_path.rglob("*"))
    for name, call in CALLS.items():
        with pytest.raises(NotFoundError, match=WORDS) as told:
            call(store)
        assert str(place) in str(told.value), name
    for handle in (then, branch):
        with pytest.raises(NotFoundError, match=WORDS):
            count(handle)
    store.close()
    assert sorted(tmp_path.rglob("*")) == before


async def test_a_store_in_coroutines_says_it_too(tmp_path):
    place = tmp_path / "store"
    made(place).close()
    async with AsyncContextStore.open(place) as store:
        moved(place)
        for call in (
            store.history.append("a", Message.user("x"), session_id="s"),
            store.history.count("a", session_id="s"),
            store.search("tea", mode="text"),
        ):
            with pytest.raises(NotFoundError, match=WORDS):
                await call
    assert not place.exists()


def test_a_new_store_at_the_same_path_is_not_taken_for_the_former_one(tmp_path):
    for _ in range(5):  # A file system may give the new directory the number of the former one.
        store = made(tmp_path / "store")
        shutil.rmtree(tmp_path / "store")
        with ContextStore.open(tmp_path / "store") as other:
            say(other)
            with pytest.raises(NotFoundError, match="replaced by another one"):
                say(store)
            assert count(other) == 1
        store.close()


def test_one_that_is_put_back_goes_on(tmp_path):
    place = tmp_path / "store"
    with made(place) as store:
        moved(place)
        with pytest.raises(NotFoundError, match=WORDS):
            say(store)
        place.with_name("elsewhere").rename(place)
        say(store)
        assert count(store) == 2


def test_a_directory_that_never_was_is_made_by_the_first_write_of_each(tmp_path):
    with ContextStore.open(tmp_path / "store") as one, ContextStore.open(tmp_path / "store") as two:
        assert count(one) == count(two) == 0
        say(one)
        say(two)
        assert count(one) == count(two) == 2


def test_an_append_looks_at_the_disk_as_often_as_before(tmp_path, monkeypatch):
    looks, real = [], os.stat

    def stat(path, **options):
        looks.append(str(path))
        return real(path, **options)

    with made(tmp_path / "store") as store:
        say(store)
        monkeypatch.setattr(os, "stat", stat)
        say(store)
        monkeypatch.undo()
    assert str(tmp_path / "store") not in looks
