"""What is in memory is searched in each script, and by the same words as the engine's."""

# ruff: noqa: RUF001 - these are the letters of other scripts, none is a slip

from contextlib import asynccontextmanager

import pytest

from lance_context_core import AsyncContextStore
from lance_context_core.settings import SearchCache

SAID = [
    "我们搬到了上海",
    "来週の会議は月曜日です",
    "แมวชอบกินปลา",
    "Она купила ещё книги",
    "ذهبنا إلى السوق",
    "Mein Haustürschlüssel ist weg",
    "Kız kardeşim ışığı açtı",
    "Łódź, Øre, œuvre",
    "abc上海def",
]
ASKED = {
    "上海": {SAID[0], SAID[8]},
    "哪里的会議": {SAID[1]},
    "ปลา": {SAID[2]},
    "книгой": {SAID[3]},
    "سوق": {SAID[4]},
    "Schlüssel": {SAID[5]},
    "ışık": {SAID[6]},
    "lodz ore": {SAID[7]},
    "def": {SAID[8]},
}


@asynccontextmanager
async def told(**options):
    async with AsyncContextStore.open("memory://", **options) as store:
        await store.memory.add(SAID, user_id="ann")
        yield store


async def scores(store, question):
    hits = await store.memory.search(question, user_id="ann", mode="text")
    return {hit.record.text: pytest.approx(hit.score, abs=1e-6) for hit in hits}


async def test_scripts_without_spaces_and_other_endings_are_searched_in_memory():
    async with told(search_cache=SearchCache()) as store:
        for question, texts in ASKED.items():
            assert set(await scores(store, question)) == texts, question
        counted = (await store.stats()).search_cache
        assert (counted.hits, counted.misses) == (len(ASKED) - 1, 1)


async def test_the_engine_gives_the_same_scores():
    async with told(search_cache=SearchCache()) as hot, told(search_cache=None) as cold:
        for question in [*ASKED, *SAID]:
            assert await scores(hot, question) == await scores(cold, question), question
