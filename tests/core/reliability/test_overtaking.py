"""A journal that is older than the tables: a power cut took its end, or it was put back from a copy."""

import shutil
from datetime import UTC, datetime

import pytest

from lance_context_core import ContextStore, Item, Message
from lance_context_core.storage.wal import transactions


def opened(place):
    return ContextStore.open(place, maintenance=None)


def say(store, *names):
    for name in names:
        store.history.append("a", Message.user(name, id=name), session_id="s")


def heard(store):
    return [one.id for one in store.history.get_messages("a", session_id="s")]


def put(store, **values):
    store.kv("box").put([Item(key=key, value={"n": one}) for key, one in values.items()])


def got(store, *keys):
    found = store.kv("box").get([((), key) for key in keys])
    return [None if one is None else one.value["n"] for one in found]


@pytest.fixture
def place(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def keep(place, tmp_path):
    """Keeps the journal as it is; the second call puts it back."""

    def keep():
        shutil.copy(place / "journal.sqlite", tmp_path / "kept")

    return keep


@pytest.fixture
def put_back(place, tmp_path):
    return lambda: shutil.copy(tmp_path / "kept", place / "journal.sqlite")


def is_as(place, expected):
    """Twice: as it is opened, and once more was written."""
    with opened(place) as store:
        assert heard(store) == expected
        assert store.history.count("a", session_id="s") == len(expected)
        assert store.verify().problems == ()
        say(store, "z")
        store.flush()
        assert heard(store) == [*expected, "z"]
    with opened(place) as store:
        assert heard(store) == [*expected, "z"]
        assert store.verify().problems == ()


def test_what_was_folded_is_shown_once_and_in_order(place, keep, put_back):
    with opened(place) as store:
        say(store, "a")
        store.flush()
        say(store, "b", "c")
    keep()
    with opened(place) as store:
        say(store, "d")
        store.tag("t")
        say(store, "e")
        store.flush()
    put_back()
    is_as(place, ["a", "b", "c", "d", "e"])


def test_what_was_changed_and_deleted_since_stays_so(place, keep, put_back):
    with opened(place) as store:
        put(store, a=1, b=1)
        store.flush()
        put(store, a=2, c=2, d=2)
    keep()
    with opened(place) as store:
        store.flush()
        put(store, a=3)
        store.kv("box").delete([((), "c")])
        store.flush()
    put_back()
    with opened(place) as store:
        assert got(store, "a", "b", "c", "d") == [3, 1, None, 2]
        store.flush()
        assert got(store, "a", "b", "c", "d") == [3, 1, None, 2]


def test_what_was_written_in_bulk_since_is_shown(place, keep, put_back):
    many = [f"m{n}" for n in range(200)]
    with opened(place) as store:
        say(store, "a")
        store.flush()
        say(store, "b")
    keep()
    with opened(place) as store:
        messages = [Message.user(one, id=one) for one in many]
        store.history.append_many("a", messages, session_id="s")
    put_back()
    is_as(place, ["a", "b", *many])


def test_on_a_branch_it_is_the_same(place, keep, put_back):
    with opened(place) as store:
        say(store, "a")
        say(store.create_branch("try"), "b")
    keep()
    with opened(place) as store:
        say(store.branch("try"), "c")
        store.flush()
    put_back()
    with opened(place) as store:
        assert heard(store.branch("try")) == ["a", "b", "c"]
        assert heard(store) == ["a"]
        assert store.verify().problems == ()


def test_what_was_not_folded_yet_stays_where_upkeep_was_not_noted_and_the_clock_was_set_back(
    place, monkeypatch
):
    """The moments of entries say nothing then: only what the table has is taken for folded."""
    with opened(place) as store:
        say(store, "a")
        store.flush()
        kept = store.aio._resources.records.access.commits
        past = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp() * 1e9)
        monkeypatch.setattr(transactions.time, "time_ns", lambda: past)
        say(store, "b", "c")

        async def nothing(*_, **__):
            pass

        monkeypatch.setattr(type(kept), "catch_up", nothing)
        monkeypatch.setattr(type(kept), "know_unchanged", nothing)
        monkeypatch.setattr(type(kept), "settle", nothing)
        store.maintain()
        monkeypatch.undo()
    is_as(place, ["a", "b", "c"])
