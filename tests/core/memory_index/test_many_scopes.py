"""Many scopes come and go in one process: what is in memory stays within its bound, and nothing is left over."""

import asyncio
import gc
import threading
from collections import Counter

import pytest
from core.conformance.doubles import WordVectors
from core.storage.journaling import SMALL

from lance_context_core import AsyncContextStore
from lance_context_core.memory_index import cache
from lance_context_core.memory_index.cache import segments_of
from lance_context_core.memory_index.segment import Segment
from lance_context_core.settings import SearchCache
from lance_context_core.storage.changes import Position

AT_ONCE = 20
BOUND = 100_000


def alive():
    """How many blocks are in memory, whoever holds them."""
    gc.collect()
    return sum(isinstance(one, Segment) for one in gc.get_objects())


@pytest.mark.slow
@pytest.mark.parametrize("scopes", [200, pytest.param(10_000, marks=pytest.mark.long)])
async def test_scopes_that_come_and_go_leave_nothing(tmp_path, scopes):
    cache = SearchCache(max_bytes=BOUND)
    there_before, n_kept = alive(), Counter()
    async with AsyncContextStore.open(
        tmp_path, embedder=WordVectors(), maintenance=None, journal=SMALL, search_cache=cache
    ) as store:
        users = [f"u{n}" for n in range(scopes)]
        said = [
            {"role": "user", "content": f"kite {user}", "user_id": user, "kind": "memory"}
            for user in users
        ]
        await store.context().add_many(said)
        hot = store._resources.hot
        kept = segments_of(cache)
        for start in range(0, scopes, AT_ONCE):
            some = users[start : start + AT_ONCE]
            found = await asyncio.gather(
                *(store.memory.search("kite", user_id=user) for user in some)
            )
            assert [hits[0].record.text for hits in found] == [f"kite {user}" for user in some]
            assert kept.n_bytes <= BOUND
            assert not hot._reading
            n_kept[kept.n_scopes] += 1
        told = (await store.stats()).search_cache
        assert (told.hits, told.misses) == (0, scopes)
        assert 0 < max(n_kept) < 100
        assert len(kept._kept) == sum(map(len, kept._scopes.values())) == kept.n_scopes
        assert sum(size for _, size in kept._kept.values()) == kept.n_bytes
        assert alive() - there_before <= kept.n_scopes
    assert (kept.n_scopes, kept.n_bytes, kept._scopes) == (0, 0, {})
    del store, hot
    assert alive() <= there_before


def test_a_store_that_is_collected_while_the_cache_is_at_work_holds_it_up_in_nothing():
    blocks = cache.Segments(10_000)
    gone, other = (cache.Table(object(), "records", None) for _ in range(2))
    seen = cache.NotKept(Position(0, 0, 0), is_unfit=True)

    class Collecting:
        """A scope at whose sight Python collects garbage, as it may at any line."""

        def __hash__(self):
            blocks.forget_store(gone.store)
            return 1

    def work():
        blocks.put(gone, "a", seen)
        blocks.put(other, "b", seen)
        found.append(blocks.get(other, Collecting()))

    found = []
    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(30)
    assert found == [None]
    assert blocks.get(gone, "a") is None
    assert blocks.get(other, "b") is seen
    assert blocks.n_scopes == 1
