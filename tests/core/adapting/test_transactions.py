"""Several stores are written in one commit where the place has a log, and in order elsewhere."""

import pytest

from lance_context_core import AsyncContextStore, ConflictError, Item, Message
from lance_context_core.adapting import transaction_or_store

PLACES = {"directory": {}, "without a log": {"journal": None}, "memory": {}}


async def written(store, *, n_rows, expected=None):
    """Write an item and a message; returns whether that was one commit."""
    async with transaction_or_store(store, n_rows=n_rows, n_bytes=100) as at:
        item = Item(namespace=("a",), key="b", value={})
        await at.kv("c").write(puts=[item], expected=expected)
        await at.history.append("d", Message.user("e"), session_id="f")
        return at is not store


async def counted(store):
    return await store.kv("c").count(), await store.history.count("d", session_id="f")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("n_rows", [2, 100_000], ids=["few", "more than a transaction holds"])
async def test_both_are_written_in_one_commit_or_in_order(tmp_path, place, n_rows):
    uri = "memory://" if place == "memory" else tmp_path / "store"
    async with AsyncContextStore.open(uri, **PLACES[place]) as store:
        ada = store.scope(user_id="ada")
        assert await written(ada, n_rows=n_rows) == (place == "directory" and n_rows == 2)
        assert await counted(ada) == (1, 1)
        with pytest.raises(ConflictError):
            await written(ada, n_rows=n_rows, expected={(("a",), "b"): None})
        assert await counted(ada) == (1, 1)


async def test_a_block_that_fails_writes_nothing_where_there_is_a_log(tmp_path):
    async with AsyncContextStore.open(tmp_path / "store") as store:

        async def failing():
            async with transaction_or_store(store, n_rows=1, n_bytes=1) as at:
                await at.history.append("d", Message.user("e"), session_id="f")
                raise KeyError

        with pytest.raises(KeyError):
            await failing()
        assert await counted(store) == (0, 0)
