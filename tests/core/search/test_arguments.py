"""Every search takes the same arguments, and says so wherever a user looks."""

import inspect
from typing import get_type_hints

import pytest

from lance_context_core import AsyncContextStore, ContextStore
from lance_context_core.search import query as searching
from lance_context_core.search.options import SearchArguments
from lance_context_core.stores.records import lookup
from lance_context_core.stores.records.lookup import HitArguments


def searches():
    store = ContextStore.open("memory://")
    for each in (store, store.aio):
        yield from (each.search, each.history.search, each.memory.search, each.vectors().search)


def record_searches():
    store = ContextStore.open("memory://")
    for each in (store.context(), store.aio.context()):
        yield from (each.search, each.retrieve)


def shown(function):
    found = inspect.signature(function).parameters.values()
    return {one.name: (one.annotation, one.default) for one in found}


@pytest.mark.parametrize(
    ("arguments", "place", "handed_to"),
    [(SearchArguments, searches, searching.search), (HitArguments, record_searches, lookup.found)],
)
def test_a_signature_names_what_every_search_takes_with_its_default(arguments, place, handed_to):
    taken = inspect.signature(handed_to).parameters
    wanted = {
        name: (type_, taken[name].default) for name, type_ in get_type_hints(arguments).items()
    }
    assert len(wanted) > 4
    for search in place():
        assert wanted.items() <= shown(search).items()
        assert all(
            one.kind is not one.VAR_KEYWORD for one in inspect.signature(search).parameters.values()
        )


@pytest.mark.parametrize(
    "search",
    [*searches(), *record_searches()],
    ids=lambda search: f"{search.__module__}.{search.__qualname__}".partition("core.")[2],
)
async def test_an_argument_that_no_search_takes_is_refused_by_its_name(search):
    query = {"text": "tea"} if search.__name__ == "retrieve" else {"query": "tea"}

    async def ask():
        return await search(**query, limti=3)

    with pytest.raises(TypeError, match="limti"):
        await ask()


async def test_the_arguments_of_a_search_mean_the_same_behind_every_door():
    async with AsyncContextStore.open("memory://") as store:
        await store.memory.add([f"tea {n}" for n in range(5)], user_id="u")
        for search in (store.search, store.memory.search):
            of = {"user_id": "u"} if search != store.search else {}
            hits = await search("tea", mode="text", limit=2, filter={"kind": "memory"}, **of)
            assert len(hits) == 2
            assert await search("tea", filter={"kind": "message"}, **of) == []
