"""A handle opens nothing that it was handed, and closes nothing that it did not open."""

import ast
import asyncio
import pickle
import sys
from pathlib import Path

import pytest
from core.conformance.doubles import ManualClock, WordVectors

from lance_context_core import (
    AsyncContextStore,
    ContextStore,
    InvalidRequestError,
    Message,
    adapting,
)
from lance_context_core.adapting import Handle, HandleOwner, uri_of
from lance_context_core.errors import StoreClosedError
from lance_context_core.scope import Scope
from lance_context_core.settings import IndexPolicy


class Owner(HandleOwner):
    """What an adapter's class looks like."""

    def __init__(self, store):
        self._handle = Handle(store)
        self.sync, self.aio = self._handle.sync, self._handle.aio


def say(store, text="tea"):
    store.history.append("a", Message.user(text), session_id="1")


def said(store):
    return [one.text for one in store.history.get_messages("a", session_id="1")]


@pytest.fixture(params=["sync", "async", "uri", "path"])
def given(request, tmp_path):
    """A store in each of the forms in which one is given."""
    place = tmp_path / "store"
    opened = AsyncContextStore.open(place)
    forms = {"sync": ContextStore(opened), "async": opened, "uri": str(place), "path": place}
    yield forms[request.param]
    asyncio.run(opened.close())


def is_open(store):
    return isinstance(store, ContextStore | AsyncContextStore)


def test_the_blocking_and_the_asynchronous_are_one_store(given):
    handle = Handle(given)
    say(handle.sync)
    (message,) = asyncio.run(handle.aio.history.get_messages("a", session_id="1"))
    assert message.text == "tea"
    handle.close()


def test_an_open_store_is_handed_on_as_it_is(tmp_path):
    opened = AsyncContextStore.open(tmp_path)
    assert Handle(opened).aio is opened
    blocking = ContextStore(opened)
    assert Handle(blocking).sync is blocking
    assert Handle(blocking).aio is opened


@pytest.mark.parametrize("how", ["close", "aclose", "with", "async with"])
def test_the_end_closes_what_was_opened_here_and_nothing_else(given, how):
    owner = Owner(given)
    say(owner.sync)

    async def leave():
        if how == "aclose":
            await owner.aclose()
            await owner.aclose()
        else:
            async with owner as entered:
                assert entered is owner

    if how == "close":
        owner.close()
        owner.close()
    elif how == "with":
        with owner as entered:
            assert entered is owner
    else:
        asyncio.run(leave())
    if is_open(given):
        assert said(owner.sync) == ["tea"]
    else:
        with pytest.raises(StoreClosedError):
            said(owner.sync)


@pytest.mark.usefixtures("each_write_commits")
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_whoever_has_a_store_can_have_it_looked_after(given, kind):
    owner = Owner(given)
    for n in range(3):
        say(owner.sync, f"{n}")

    def maintain(**options):
        done = (
            owner.maintain(**options) if kind == "sync" else asyncio.run(owner.amaintain(**options))
        )
        return {one.table: one for one in done}["records"]

    assert maintain(only_due=True).fragments_removed == 0
    done = maintain(policy=IndexPolicy(scalar_rows=1))
    assert (done.fragments_removed, done.fragments_added) == (3, 1)
    assert "id" in done.indexes_built
    owner.close()


def test_a_part_of_a_store_is_not_looked_after_by_itself(tmp_path):
    with ContextStore.open(tmp_path) as store:
        with pytest.raises(InvalidRequestError, match="whole store"):
            Owner(store.scope(tenant="acme")).maintain()
        with pytest.raises(InvalidRequestError, match="whole store"):
            asyncio.run(Owner(store.scope(tenant="acme")).amaintain())


def test_an_error_in_a_with_block_is_not_swallowed(tmp_path):
    owner = Owner(tmp_path)
    with pytest.raises(LookupError), owner:
        raise LookupError
    with pytest.raises(StoreClosedError):
        said(owner.sync)


def test_making_a_handle_touches_nothing(tmp_path):
    place = tmp_path / "store"
    Handle(place).close()
    assert not place.exists()


def test_an_embedder_is_that_of_a_store_which_is_opened_here(tmp_path):
    handle = Handle(tmp_path, embedder=WordVectors())
    say(handle.sync)
    assert handle.sync.search("tea", mode="vector")
    handle.close()


@pytest.mark.parametrize("store", [None, 7, b"store", object(), ["store"]])
def test_what_is_no_store_is_refused(store):
    with pytest.raises(InvalidRequestError, match=r"store=.*give a ContextStore"):
        Handle(store)


def test_the_time_is_that_of_the_store():
    clock = ManualClock()
    handle = Handle(ContextStore.open("memory://", clock=clock))
    assert handle.now() == clock.now()


def test_a_handle_says_what_part_of_the_store_it_is():
    with ContextStore.open("memory://") as store:
        assert Handle(store).scope == Scope()
        scoped = store.scope(tenant="t").scope(user_id="ada")
        assert Handle(scoped).scope == Handle(scoped.aio).scope == Scope(tenant="t", user_id="ada")


def test_a_reopened_handle_is_open_and_the_closed_one_stays_closed(tmp_path):
    first = Handle(tmp_path, embedder=WordVectors())
    say(first.sync)
    first.close()
    again = first.reopened()
    assert [hit.record.text for hit in again.sync.search("tea", mode="vector")] == ["tea"]
    with pytest.raises(StoreClosedError):
        said(first.sync)
    again.close()


def test_a_reopened_handle_of_an_open_store_is_that_store():
    with ContextStore.open("memory://") as store:
        handle = Handle(store)
        handle.close()
        assert handle.reopened().sync is store


class Marked(Handle):
    """A subclass stays one wherever it goes."""


def test_a_handle_of_a_uri_goes_to_another_process(tmp_path):
    handle = Marked(str(tmp_path), embedder=WordVectors())
    say(handle.sync)
    copy = pickle.loads(pickle.dumps(handle))  # noqa: S301 - what has just been pickled
    assert type(copy) is Marked
    assert type(handle.reopened()) is Marked
    assert said(copy.sync) == ["tea"]
    assert copy.sync.search("tea", mode="vector")
    copy.close()
    assert said(handle.sync) == ["tea"]
    handle.close()


@pytest.mark.parametrize("make", [lambda: "memory://", lambda: ContextStore.open("memory://")])
def test_what_no_uri_names_stays_in_its_process(make):
    store = make()
    with pytest.raises(InvalidRequestError, match=r"store=.*pass the URI"):
        uri_of(store)
    with pytest.raises(InvalidRequestError, match=r"store=.*pass the URI"):
        pickle.dumps(Handle(store))


def test_a_uri_is_the_one_that_was_given(tmp_path):
    assert uri_of("s3://bucket/memory") == "s3://bucket/memory"
    assert uri_of(tmp_path) == str(tmp_path)


def test_the_building_blocks_know_no_framework():
    trees = [ast.parse(Path(one).read_text(encoding="utf-8")) for one in pages()]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    roots = {name.partition(".")[0] for name in named}
    assert roots - sys.stdlib_module_names == {"lance_context_core", "numpy"}


def pages():
    return Path(adapting.__file__).parent.glob("*.py")
