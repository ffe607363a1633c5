"""Whatever was written, by whom and how: a search in the process finds what a plain list owes."""

import asyncio
import math
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
import pytest
from core.conformance.doubles import ManualClock, WordVectors
from core.engine.journaling import SMALL
from core.search.corpus import WORDS
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lance_context_core import AsyncContextStore
from lance_context_core.settings import SearchCache, SearchOptions

ALL = 1_000
"""More than there are records, be they hits or candidates."""
USERS = ("ann", "bob")
EVERYBODY = ""


@dataclass
class Memory:
    user: str
    text: str
    expires_at: datetime | None


@dataclass
class Oracle:
    """What all users remember, by id, in order; what has expired stays until it is deleted."""

    memories: dict[str, Memory] = field(default_factory=dict)

    def of(self, user):
        return {id: one for id, one in self.memories.items() if user in (EVERYBODY, one.user)}

    def shown(self, user, now):
        rows = self.of(user)
        return {id for id, one in rows.items() if one.expires_at is None or one.expires_at > now}

    def cosines(self, user, query):
        model = WordVectors()
        asked = model.embed_query(query).astype(float)
        rows = {id: model.embed_query(one.text).astype(float) for id, one in self.of(user).items()}
        size = np.linalg.norm
        return {id: row @ asked / size(row) / size(asked) for id, row in rows.items()}

    def bm25(self, user, query):
        """k1 = 1.2, b = 0.75; statistics are those of the user's own memories."""
        texts = {id: one.text.split() for id, one in self.of(user).items()}
        mean = sum(map(len, texts.values())) / max(len(texts), 1)
        scores = Counter()
        for word in query.split():
            there = [id for id, text in texts.items() if word in text]
            rarity = math.log(1 + (len(texts) - len(there) + 0.5) / (len(there) + 0.5))
            for id in there:
                n, length = texts[id].count(word), len(texts[id])
                scores[id] += rarity * n * 2.2 / (n + 1.2 * (0.25 + 0.75 * length / mean))
        return dict(scores)


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
handles = st.sampled_from(["one", "two", "plain"])
users = st.sampled_from(USERS)
which = st.integers(0, 9)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("remember"), handles, users, st.lists(texts, min_size=1, max_size=5)),
        st.tuples(
            st.just("remember for a day"), handles, users, st.lists(texts, min_size=1, max_size=2)
        ),
        st.tuples(st.just("change"), handles, which, texts),
        st.tuples(st.just("hand over"), handles, which, users),
        st.tuples(st.just("forget"), handles, which),
        st.tuples(st.just("erase"), handles, which),
        st.tuples(st.just("forget all"), handles, users),
        st.tuples(st.sampled_from(["fold", "maintain"]), handles),
        st.just(("wait a day",)),
    ),
    min_size=2,
    max_size=6,
)
questions = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)


@pytest.mark.slow
@example(
    [
        ("remember", "one", "ann", ["zorp kvik", "drum", "zorp zorp plok"]),
        ("remember", "two", "ann", ["zorp"]),
        ("change", "one", 0, "blax"),
        ("hand over", "two", 3, "bob"),
        ("forget", "two", 2),
        ("remember", "plain", "ann", ["zorp drum"]),
        ("remember for a day", "one", "bob", ["zorp"]),
        ("wait a day",),
        ("erase", "one", 1),
    ],
    "zorp drum zorp",
)
@settings(max_examples=12)
@given(steps, questions)
def test_what_is_found_in_the_process_is_what_a_list_owes(steps, query):
    async def run():
        oracle, clock = Oracle(), ManualClock()
        async with AsyncExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            stores = {}
            for name, journal in {"one": SMALL, "two": SMALL, "plain": None}.items():
                store = AsyncContextStore.open(
                    directory,
                    embedder=WordVectors(),
                    clock=clock,
                    journal=journal,
                    maintenance=None,
                    search_cache=SearchCache(),
                )
                stores[name] = await stack.enter_async_context(store)
            n_searches = 0
            for step in steps:
                await take(step, stores, oracle, clock)
                for store in stores.values():
                    for user in (*USERS, EVERYBODY):
                        await compare(store, user, query, oracle, clock)
                n_searches += 3 if n_searches or oracle.memories else 0
            for store in stores.values():
                asked = (await store.stats()).search_cache
                assert asked.hits + asked.misses == n_searches

    asyncio.run(run())


async def compare(store, user, query, oracle, clock):
    options = SearchOptions(n_candidates=ALL)
    arguments = {"limit": ALL, "options": options}
    if user == EVERYBODY:
        hits = await store.search(query, **arguments)
    else:
        hits = await store.memory.search(query, user_id=user, **arguments)
    shown = oracle.shown(user, clock.now())
    owed = {"vector": oracle.cosines(user, query), "text": oracle.bm25(user, query)}
    found = {
        channel: {
            hit.record.id: hit.channels[channel].raw for hit in hits if channel in hit.channels
        }
        for channel in owed
    }
    for channel, scores in owed.items():
        expected = {id: score for id, score in scores.items() if id in shown}
        assert found[channel] == pytest.approx(expected, abs=1e-5), channel
    assert {hit.record.id: hit.record.text for hit in hits} == {
        id: oracle.memories[id].text for id in shown
    }


async def take(step, stores, oracle, clock):
    name, *arguments = step
    if name == "wait a day":
        clock.advance(days=1)
        return
    handle, *arguments = arguments
    store = stores[handle]
    if name.startswith("remember"):
        user, said = arguments
        until = clock.now() + timedelta(days=1) if name == "remember for a day" else None
        ids = await store.memory.add(said, user_id=user, expires_at=until)
        oracle.memories |= {
            id: Memory(user, text, until) for id, text in zip(ids, said, strict=True)
        }
    elif name == "fold":
        await store.flush()
    elif name == "maintain":
        await store.maintain()
    elif name == "forget all":
        await store.memory.delete(user_id=arguments[0])
        for id in oracle.of(arguments[0]):
            del oracle.memories[id]
    elif oracle.memories:
        id = list(oracle.memories)[arguments[0] % len(oracle.memories)]
        if name == "change":
            former = oracle.memories[id]
            text = arguments[1]
            await store.context().upsert(
                "user", text, key="id", id=id, user_id=former.user, kind="memory"
            )
            changed = Memory(former.user, text, None)
            if former.expires_at is not None and former.expires_at <= clock.now():
                # What has expired makes way: it is written as something new.
                del oracle.memories[id]
            oracle.memories[id] = changed
        elif name == "hand over":
            done = await store.context().update(id=id, user_id=arguments[1], include_expired=True)
            assert done["updated"]
            oracle.memories[id].user = arguments[1]
        elif name == "forget":
            await store.context().delete(id=id)
            del oracle.memories[id]
        else:
            await store.erase(ids=[id])
            del oracle.memories[id]
