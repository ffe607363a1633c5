"""A copy is the store, with all that it was."""

from datetime import timedelta
from threading import Thread

import pytest

from lance_context_core import (
    AlreadyExistsError,
    ContextStore,
    Document,
    InvalidRequestError,
    Item,
    Message,
    NotFoundError,
)
from lance_context_core.settings import VersionRetention
from lance_context_core.storage.lance.locations import files_at
from lance_context_core.transfer import copying


@pytest.fixture
def place(tmp_path):
    return tmp_path / "memory"


@pytest.fixture
def store(place):
    with ContextStore.open(place, author="tutor") as store:
        store.history.append("bot", Message.user("one", id="m1"), session_id="s")
        store.kv("items").put([Item(key="k", value={"n": 1})])
        store.tag("monday")
        store.history.append("bot", Message.user("two", id="m2"), session_id="s")
        store.restore("monday")
        store.audit.seal()
        store.history.append("bot", Message.user("three", id="m3"), session_id="s")
        yield store


def shown(store):
    return store.context().list(), store.kv("items").list()


def test_a_copy_has_all_versions_and_tags(store, tmp_path):
    told = []
    done = store.copy(tmp_path / "copy", progress=told.append)
    assert (told[-1].n_done, told[-1].n_total, told[-1].what) == (done.files, done.files, "files")
    with ContextStore.open(tmp_path / "copy") as other:
        assert shown(other) == shown(store)
        assert (other.versions(), other.tags()) == (store.versions(), store.tags())
        for version in store.versions():
            assert shown(other.checkout(version.number)) == shown(store.checkout(version.number))
        assert shown(other.checkout("monday")) == shown(store.checkout("monday"))
        assert other.verify().is_whole
        assert other.audit.verify().is_whole
        assert other.audit.entries() == store.audit.entries()


def test_what_is_sealed_meanwhile_waits_for_the_copy(store, place, tmp_path, monkeypatch):
    """The log holds nothing of the audit's table: its files came and went while they were copied."""
    real, seen, sealing = copying._copy, [], []

    def files():
        return sorted(str(one) for one in (place / "audit.lance").rglob("*"))

    def copied(*arguments):
        if not sealing:
            sealing.append(Thread(target=other.audit.seal))
            sealing[0].start()
        sealing[0].join(timeout=0.3)
        before = files()
        real(*arguments)
        seen.append((before, files()))

    monkeypatch.setattr(copying, "_copy", copied)
    with ContextStore.open(place) as other:
        other.history.append("bot", Message.user("four", id="m4"), session_id="s")
        n_sealed = len(store.audit.entries())
        there = files()
        store.copy(tmp_path / "copy")
        sealing[0].join()
        assert seen == [(there, there)] * len(seen)
        assert len(store.audit.entries()) > n_sealed
    with ContextStore.open(tmp_path / "copy") as copy:
        assert len(copy.audit.entries()) == n_sealed
        assert copy.audit.verify().is_whole


def test_both_go_on_alone(store, tmp_path):
    store.copy(tmp_path / "copy")
    before = shown(store)
    with ContextStore.open(tmp_path / "copy") as other:
        other.history.append("bot", Message.user("there", id="m4"), session_id="s")
        assert [one["id"] for one in shown(other)[0]] == ["m1", "m3", "m4"]
        other.maintain()
        assert other.verify().is_whole
    assert shown(store) == before


def branched(place, **options):
    """A store with a tag, a branch that was merged with, and a branch of that one."""
    with ContextStore.open(place, maintenance=None, **options) as store:
        store.memory.add(["first"])
        store.vectors("notes").add([Document(id="d", text="on main", embedding=[1.0, 0.0])])
        store.tag("monday")
        draft = store.create_branch("draft")
        draft.memory.add(["on draft"])
        draft.create_branch("deeper.one").memory.add(["deeper"])
        store.memory.add(["later"])
        draft.merge("main")
        draft.vectors("notes").delete(ids=["d"])
        store.maintain()
        store.thin(retention=VersionRetention(all_for=timedelta(0)))


def whole(store):
    """All that is read of a store, on every branch and at every version that is kept there."""
    found = {"branches": store.branches(), "tags": store.tags()}
    for name in ("main", *(one.name for one in store.branches())):
        branch = store.branch(name)
        versions = [one.number for one in branch.versions()]
        moments = [branch, *map(branch.checkout, [*versions, *store.tags()])]
        found[name] = (
            versions,
            [
                (one.context().list(), one.vectors("notes").list(include_embedding=True))
                for one in moments
            ],
        )
    return found


def test_a_copy_has_all_branches_and_needs_nothing_of_the_place_it_was_copied_from(tmp_path):
    place, goal = tmp_path / "memory", tmp_path / "cöpy 20% \U0001f600"
    branched(place)
    with ContextStore.open(place, maintenance=None) as store:
        before = whole(store)
        store.copy(goal)
    place.rename(tmp_path / "away")
    with ContextStore.open(goal, maintenance=None) as copy:
        assert whole(copy) == before
        assert copy.verify().is_whole
        copy.branch("draft").memory.add(["goes on"])
        assert copy.merge("draft").tables
        assert [one.text for one in copy.memory.list().items] == [
            "first", "later", "on draft", "goes on",
        ]  # fmt: skip
    assert not [
        one for one in goal.rglob("*") if one.is_file() and str(place).encode() in one.read_bytes()
    ]


def test_copies_go_to_an_object_store_and_back(tmp_path, s3_server):
    there, branches = s3_server.backend(), tmp_path / "memory"
    branched(branches)
    options = {"storage_options": there.storage_options}
    with ContextStore.open(branches, maintenance=None) as store:
        store.memory.add(["in the journal"])
        store.flush()
        before = whole(store)
        store.copy(there.uri, **options)
        with pytest.raises(AlreadyExistsError, match="already exists"):
            store.copy(there.uri, **options)
    branches.rename(tmp_path / "away")
    with ContextStore.open(there.uri, maintenance=None, **options) as copy:
        told = []
        copy.copy(tmp_path / "back", progress=told.append)
        with pytest.raises(InvalidRequestError, match="inside"):
            copy.copy(f"{there.uri}/below")
    with ContextStore.open(tmp_path / "back", maintenance=None) as back:
        assert whole(back) == before
        assert back.verify().is_whole
    assert told[-1].n_done == told[-1].n_total


def test_what_a_copy_to_an_object_store_left_gives_way_to_the_next(store, s3_server):
    there = s3_server.backend()
    options = {"storage_options": there.storage_options}

    def stop(_):
        raise RuntimeError

    files = files_at(there.uri, there.storage_options)
    with pytest.raises(RuntimeError):
        store.copy(there.uri, **options, progress=stop)
    assert files.listed() == {}
    # As one that was killed leaves it.
    files.begin()
    files.write("records.lance/_versions/18446744073709551614.manifest", b"half")
    store.copy(there.uri, **options)
    with ContextStore.open(there.uri, **options) as copy:
        assert copy.context().list() == store.context().list()


def test_what_ends_it_leaves_nothing(store, tmp_path):
    def stop(_):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.copy(tmp_path / "copy", progress=stop)
    assert [one.name for one in tmp_path.iterdir()] == ["memory"]
    store.history.append("bot", Message.user("goes on", id="m5"), session_id="s")


def test_wrong_places_are_refused(store, place, tmp_path):
    with pytest.raises(AlreadyExistsError, match="already exists"):
        store.copy(tmp_path)
    with pytest.raises(InvalidRequestError, match="inside"):
        store.copy(place / "copy")
    with pytest.raises(InvalidRequestError, match="export"):
        store.copy("gs://bucket/copy")
    with pytest.raises(InvalidRequestError, match="scope"):
        store.scope(user_id="ada").copy(tmp_path / "copy")
    with (
        ContextStore.open(tmp_path / "none") as none,
        pytest.raises(NotFoundError, match="no store"),
    ):
        none.copy(tmp_path / "copy")
    with ContextStore.open("memory://") as held, pytest.raises(InvalidRequestError, match="export"):
        held.copy(tmp_path / "copy")
