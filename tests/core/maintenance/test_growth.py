"""A process that goes on for long keeps no more than one that has just begun."""

import asyncio
import collections
import gc
import threading

import pytest

from lance_context_core import Message
from lance_context_core.settings import IndexPolicy, Maintenance

OFTEN = Maintenance(every_n_commits=8, indexes=IndexPolicy(unindexed_rows=20))


EVERY = 20
"""Turns after which upkeep is waited for: on a busy machine it would come less often than it is due."""


async def turns(store, n):
    for number in range(n):
        await store.history.append("a", Message.user(f"word{number % 7}"), session_id="s")
        if number % 2:
            await store.search(f"word{number % 7}", mode="text", limit=5)
            await store.history.get_messages("a", session_id="s", last=5)
        if number % EVERY == EVERY - 1 and (worker := store._resources.upkeep._worker) is not None:
            await asyncio.wait([asyncio.wrap_future(worker)])


def alive():
    """How many there are of each of our classes and the engine's, and of what waits or runs."""
    gc.collect()
    kinds = collections.Counter(
        f"{type(one).__module__}.{type(one).__qualname__}"
        for one in gc.get_objects()
        if isinstance(one, asyncio.Future)
        or str(type(one).__module__).startswith(("lance_context_core", "lancedb", "concurrent"))
    )
    del kinds["lance_context_core.storage.lance.fragments.Fragment"]  # as many as the table has
    return kinds + collections.Counter(threads=threading.active_count())


@pytest.mark.usefixtures("each_write_commits")
@pytest.mark.slow
async def test_after_three_times_as_many_turns_nothing_more_is_kept(open_store):
    store = open_store(maintenance=OFTEN)
    await turns(store, 60)
    before = alive()
    await turns(store, 120)
    more = {kind: n - before[kind] for kind, n in alive().items()}
    # What one turn, or one round of upkeep, has in its hands may be there; of 120 turns nothing is.
    assert max(more.values()) < 10, more
    assert (await store.stats()).tables[0].n_done >= 180 // EVERY
