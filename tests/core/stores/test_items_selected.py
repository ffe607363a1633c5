"""Which key-value items are meant: one set of conditions for all calls that take them."""

import inspect

import pytest

from lance_context_core import AsyncContextStore, InvalidRequestError
from lance_context_core.arguments import ItemConditions, ItemListing

CALLS = {
    "list": ItemListing,
    "keys": ItemListing,
    "count": ItemConditions,
    "search": ItemConditions,
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_condition_that_there_is_none_of_is_refused_with_the_one_that_is_meant(name):
    async with AsyncContextStore.open("memory://misspelled") as store:
        call = getattr(store.kv("items"), name)
        query = ["tea"] if name == "search" else []
        with pytest.raises(InvalidRequestError, match=r"'prefx' is not an option .* 'prefix'"):
            await call(*query, prefx=("users",))


async def test_what_orders_a_list_is_refused_where_there_is_no_order():
    async with AsyncContextStore.open("memory://ordered") as store:
        with pytest.raises(InvalidRequestError, match="'order' is not an option"):
            await store.kv("items").count(order="key")


@pytest.mark.parametrize("name", CALLS)
async def test_help_shows_each_condition_that_a_call_takes(name):
    async with AsyncContextStore.open("memory://shown") as store:
        call = getattr(store.kv("items"), name)
    assert CALLS[name].__annotations__.keys() <= inspect.signature(call).parameters.keys()
