"""A copy is the store, with all that it was."""

import pytest

from lance_context_core import (
    AlreadyExistsError,
    ContextStore,
    InvalidRequestError,
    Item,
    Message,
    NotFoundError,
)


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


def test_both_go_on_alone(store, tmp_path):
    store.copy(tmp_path / "copy")
    before = shown(store)
    with ContextStore.open(tmp_path / "copy") as other:
        other.history.append("bot", Message.user("there", id="m4"), session_id="s")
        assert [one["id"] for one in shown(other)[0]] == ["m1", "m3", "m4"]
        other.maintain()
        assert other.verify().is_whole
    assert shown(store) == before


def test_a_store_with_branches_is_refused_by_their_names(store, tmp_path):
    store.create_branch("try")
    with pytest.raises(InvalidRequestError, match="try"):
        store.copy(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_what_ends_it_leaves_nothing(store, tmp_path):
    def stop(_):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.copy(tmp_path / "copy", progress=stop)
    assert [one.name for one in tmp_path.iterdir()] == ["memory"]
    store.history.append("bot", Message.user("goes on", id="m5"), session_id="s")


def test_wrong_places_are_refused(store, place, tmp_path):
    with pytest.raises(AlreadyExistsError, match="there already"):
        store.copy(tmp_path)
    with pytest.raises(InvalidRequestError, match="inside"):
        store.copy(place / "copy")
    with pytest.raises(InvalidRequestError, match="export"):
        store.copy("s3://bucket/copy")
    with pytest.raises(InvalidRequestError, match="scope"):
        store.scope(user_id="ada").copy(tmp_path / "copy")
    with (
        ContextStore.open(tmp_path / "none") as none,
        pytest.raises(NotFoundError, match="no store"),
    ):
        none.copy(tmp_path / "copy")
    with ContextStore.open("memory://") as held, pytest.raises(InvalidRequestError, match="export"):
        held.copy(tmp_path / "copy")
