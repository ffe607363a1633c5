"""Adds, deletes and conditional writes of a few items, in the caller's thread."""

from datetime import UTC, datetime, timedelta

import pytest

from lance_context_core import ContextStore, Item
from lance_context_core.errors import AlreadyExistsError, ConflictError, InvalidRequestError

KEY = ("n",), "a"


@pytest.fixture
def kv(tmp_path):
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        # From then on the table is known.
        kv.put([item("other", 0)])
        yield kv


def item(key, n, **more):
    return Item(namespace=("n",), key=key, value={"n": n}, **more)


def value(kv, key="a"):
    (found,) = kv.get([(("n",), key)])
    return found and found.value["n"]


def test_adds_deletes_and_expectations_go_no_way_to_the_loop(kv, hops):
    assert kv.add([item("a", 1), item("b", 1), item("a", 2)]) == [True, True, False]
    assert kv.add([item("a", 3)]) == [False]
    (there,) = kv.get([KEY])
    done = kv.write(puts=[item("a", 4)], deletes=[(("n",), "b")], expected={KEY: there.revision})
    assert (done.deleted, value(kv), value(kv, "b")) == ([True], 4, None)
    assert kv.delete([KEY, (("n",), "b")]) == [True, False]
    assert not hops
    assert (value(kv), done.version < kv.version()) == (None, True)


def test_what_is_taken_or_not_as_expected_writes_nothing_of_its_batch(kv, hops):
    kv.put([item("a", 1)])
    with pytest.raises(AlreadyExistsError, match="'a'"):
        kv.write(adds=[item("b", 1), item("a", 2)])
    for revision in (None, 7):
        with pytest.raises(ConflictError, match="'a'"):
            kv.write(puts=[item("b", 1)], expected={KEY: revision})
    with pytest.raises(ConflictError, match="'b'"):
        kv.write(puts=[item("a", 2)], expected={(("n",), "b"): 7})
    assert not hops
    assert (value(kv), value(kv, "b")) == (1, None)


def test_one_that_is_deleted_before_it_is_added_is_created_anew(kv, hops):
    kv.put([item("a", 1)])
    (before,) = kv.get([KEY])
    assert kv.write(deletes=[KEY], adds=[item("a", 2)]).deleted == [True]
    (after,) = kv.get([KEY])
    assert not hops
    assert (after.value, after.created_at > before.created_at) == ({"n": 2}, True)


def test_what_has_expired_makes_way_for_an_add(kv, hops):
    kv.put([item("a", 1, expires_at=datetime.now(UTC) - timedelta(seconds=1))])
    assert kv.write(adds=[item("a", 2)], expected={KEY: None}).deleted == []
    assert (value(kv), hops) == (2, [])


def test_what_was_written_here_is_known_once_it_is_folded(tmp_path, hops):
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        kv.put([item("a", 1), item("b", 1), item("c", 1)])
        (before,) = kv.get([KEY])
        store.flush()
        kv.put([item("z", 1)])  # Now the table is known as it is.
        hops.clear()
        kv.put([item("a", 2)])
        assert kv.add([item("b", 2)]) == [False]
        assert kv.delete([(("n",), "c")]) == [True]
        assert not hops
        (after,) = kv.get([KEY])
        for _ in range(2):
            assert (after.created_at, value(kv)) == (before.created_at, 2)
            assert [one.key for one in kv.list()] == ["a", "b", "z"]
            store.flush()


def test_what_another_store_has_changed_since_it_was_folded_is_found_changed(tmp_path):
    with ContextStore.open(tmp_path) as store, ContextStore.open(tmp_path) as other:
        kv, theirs = store.kv("k"), other.kv("k")
        kv.put([item("a", 1), item("b", 1)])
        (before,) = kv.get([KEY])
        store.flush()
        kv.put([item("z", 1)])
        theirs.put([item("a", 2)])
        theirs.delete([(("n",), "b")])
        with pytest.raises(ConflictError):
            kv.write(puts=[item("a", 3)], expected={KEY: before.revision})
        assert kv.delete([(("n",), "b")]) == [False]
        other.flush()
        with pytest.raises(ConflictError):
            kv.write(puts=[item("a", 3)], expected={KEY: before.revision})
        assert kv.add([item("a", 3), item("b", 3)]) == [False, True]
        assert (value(theirs), value(theirs, "b")) == (2, 3)


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"puts": [item("b", 1), None]}, id="an item that is none"),
        pytest.param({"deletes": [("n", "a")]}, id="a namespace that is a text"),
        pytest.param({"adds": [item("b", 1), item("b", 2)]}, id="a key that is added twice"),
        pytest.param({"puts": [item("b", 1)], "expected": {KEY: "1"}}, id="a revision in words"),
        pytest.param({"puts": [item("b", 1)], "expected": [KEY]}, id="expectations in a list"),
    ],
)
def test_a_write_that_cannot_be_understood_writes_nothing(kv, asked):
    with pytest.raises(InvalidRequestError):
        kv.write(**asked)
    assert [one.key for one in kv.list()] == ["other"]
