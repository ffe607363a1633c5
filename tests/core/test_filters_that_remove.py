"""A filter that says nothing, given to a call that removes or changes what matches, is refused."""

import importlib
import inspect
import pkgutil

import pytest
from core.conformance.backends import memory
from core.conformance.doubles import ManualClock
from core.test_bad_input import assert_refused, filled, full

import lance_context_core
from lance_context_core import Field, Message
from lance_context_core.filters import And

__all__ = ["full"]

READ_ONLY = {
    "search",
    "list",
    "get_all",
    "keys",
    "count",
    "get_messages",
    "latest",
    "records",
    "scan",
    "retrieve",
}
"""What answers and changes nothing: a filter that says nothing is as good as none there."""

ADDS = {"embed_pending"}
"""What changes nothing that is there: it makes what is missing, of all where no filter is given."""

CHANGES = {
    "AsyncContextStore.erase": lambda store, nothing: store.scope(user_id="u").erase(
        filter=nothing
    ),
    "AsyncVectors.delete": lambda store, nothing: store.vectors("c").delete(filter=nothing),
    "AsyncVectors.erase": lambda store, nothing: (
        store.scope(user_id="u").vectors("c").erase(filter=nothing)
    ),
    "AsyncHistory.clear": lambda store, nothing: store.history.clear(
        "a", session_id="s", filter=nothing
    ),
    "AsyncHistory.replace": lambda store, nothing: store.history.replace(
        "a", [Message.user("rum")], session_id="s", filter=nothing
    ),
    "AsyncHistory.annotate": lambda store, nothing: store.history.annotate(
        "a", {"seen": True}, session_id="s", filter=nothing
    ),
}

SAY_NOTHING = [
    {},
    {"$and": []},
    {"$and": [{}]},
    {"$or": [{}]},
    {"$or": [{"user_id": "u"}, {}]},
    {"$not": []},
    {"$not": {"$or": []}},
    {"$not": {"$not": {}}},
    {"metadata.x": {"$nin": []}},
    {"metadata.x": {"$not": {"$in": []}}},
    And(()),
    ~Field("id").is_in([]),
]


def test_each_call_that_takes_a_filter_only_reads_or_is_looked_at_here():
    assert {
        f"{name}.{verb}" for name, verb in _with_a_filter() if verb not in READ_ONLY | ADDS
    } == set(CHANGES)


def _with_a_filter():
    """Each public method of an asynchronous handle that takes a filter, by its class and name."""
    for module in pkgutil.walk_packages(lance_context_core.__path__, "lance_context_core."):
        if module.name.startswith(("lance_context_core.testing", "lance_context_core.memory_tool")):
            continue
        for name, one in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if not name.startswith("Async"):
                continue
            for verb, method in inspect.getmembers(one, inspect.isfunction):
                takes = inspect.signature(method).parameters
                if not verb.startswith("_") and takes.keys() & {"filter", "filters", "where"}:
                    yield name, verb


@pytest.mark.parametrize("nothing", SAY_NOTHING, ids=str)
@pytest.mark.parametrize("call", CHANGES.values(), ids=CHANGES)
async def test_a_filter_that_matches_everything_removes_and_changes_nothing(full, call, nothing):
    await assert_refused(full, call(full, nothing), "filter=", "matches everything")


async def test_ids_beside_such_a_filter_name_what_goes_and_a_plain_condition_means_all():
    async with memory().open(clock=ManualClock()) as store:
        await filled(store)
        vectors, history = store.vectors("c"), store.history
        assert await vectors.delete(["x"], filter={}) == 0
        assert await vectors.delete(["d"], filter={}) == 1
        assert await history.clear("a", session_id="s", filter={"$or": []}) == 0
        assert await history.clear("a", session_id="s", filter=Field("id").exists()) == 1
