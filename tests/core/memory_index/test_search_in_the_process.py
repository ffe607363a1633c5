"""Whatever was written, by whom and how: a search in the process finds what a plain list owes."""

import asyncio
import math
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np
import pytest
from core.conformance.doubles import ManualClock, WordVectors
from core.search.corpus import WORDS
from core.storage.journaling import SMALL
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lance_context_core import AsyncContextStore
from lance_context_core.settings import Convex, SearchCache, SearchOptions

ALL = 1_000
"""More than there are records, be they hits or candidates."""
USERS = ("ann", "bob")
EVERYBODY = ""


@dataclass
class Memory:
    user: str
    text: str
    n: int
    expires_at: datetime | None


@dataclass(frozen=True)
class Asked:
    """How a question is put, beside its words."""

    mode: str | None
    least: int | None
    """Only memories with such an `n`, or a higher one, are meant."""
    limit: int
    vector_weight: float

    @property
    def arguments(self):
        fusion = Convex(vector_weight=self.vector_weight)
        filter = None if self.least is None else {"metadata.n": {"$gte": self.least}}
        return {
            "mode": self.mode,
            "filter": filter,
            "limit": self.limit,
            "options": SearchOptions(n_candidates=ALL, fusion=fusion),
        }


@dataclass
class Oracle:
    """What all users remember, by id, in order; what has expired stays until it is deleted."""

    memories: dict[str, Memory] = field(default_factory=dict)

    def of(self, user):
        return {id: one for id, one in self.memories.items() if user in (EVERYBODY, one.user)}

    def shown(self, user, now):
        rows = self.of(user)
        return {
            id: one for id, one in rows.items() if one.expires_at is None or one.expires_at > now
        }

    def found(self, user, query, asked, now):
        """By channel, the raw scores of all that are meant."""
        shown = self.shown(user, now)
        meant = {id for id, one in shown.items() if asked.least is None or one.n >= asked.least}
        channels = {"vector": _cosines(shown, query), "text": _bm25(shown, query)}
        return {
            channel: {id: score for id, score in scores.items() if id in meant}
            for channel, scores in channels.items()
            if asked.mode in (None, "hybrid", channel)
        }

    def scores(self, found, asked):
        """The final scores of all that are meant."""
        if asked.mode == "vector":
            return {id: (1 + cosine) / 2 for id, cosine in found["vector"].items()}
        if asked.mode == "text":
            return {id: bm25 / (bm25 + 10) for id, bm25 in found["text"].items()}
        weights = {"vector": asked.vector_weight, "text": 1 - asked.vector_weight}
        fused = Counter()
        for channel, weight in weights.items():
            for id, score in _min_max(found[channel]).items():
                fused[id] += weight * score
        return dict(fused)


def _cosines(memories, query):
    model, size = WordVectors(), np.linalg.norm
    question = model.embed_query(query).astype(float)
    rows = {id: model.embed_query(one.text).astype(float) for id, one in memories.items()}
    return {id: row @ question / size(row) / size(question) for id, row in rows.items()}


def _bm25(memories, query):
    """k1 = 1.2, b = 0.75; statistics are those of the memories that the user is shown."""
    texts = {id: one.text.split() for id, one in memories.items()}
    mean = sum(map(len, texts.values())) / max(len(texts), 1)
    scores = Counter()
    for word in query.split():
        there = [id for id, text in texts.items() if word in text]
        rarity = math.log(1 + (len(texts) - len(there) + 0.5) / (len(there) + 0.5))
        for id in there:
            n, length = texts[id].count(word), len(texts[id])
            scores[id] += rarity * n * 2.2 / (n + 1.2 * (0.25 + 0.75 * length / mean))
    return dict(scores)


def _min_max(scores):
    low, high = min(scores.values(), default=0), max(scores.values(), default=0)
    # The engine's floats and these are equal to a few digits: so are candidates that are alike.
    return {
        id: 1.0 if high - low < 1e-9 else (score - low) / (high - low)
        for id, score in scores.items()
    }


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
handles = st.sampled_from(["one", "two", "plain", "left"])
users = st.sampled_from(USERS)
which = st.integers(0, 9)
said = st.lists(st.tuples(texts, st.integers(0, 3)), min_size=1, max_size=5)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("remember"), handles, users, said),
        st.tuples(st.just("remember for a day"), handles, users, said),
        st.tuples(st.just("change"), handles, which, texts),
        st.tuples(st.just("hand over"), handles, which, users),
        st.tuples(st.just("forget"), handles, which),
        st.tuples(st.just("erase"), handles, which),
        st.tuples(st.just("forget all"), handles, users),
        st.tuples(st.sampled_from(["fold", "maintain"]), handles),
        st.sampled_from([("wait a day",), ("branch",), ("tag",)]),
    ),
    min_size=2,
    max_size=6,
)
questions = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
ways = st.builds(
    Asked,
    mode=st.sampled_from([None, "hybrid", "vector", "text"]),
    least=st.sampled_from([None, None, 1, 2, 4]),
    limit=st.sampled_from([ALL, ALL, 1, 3]),
    vector_weight=st.sampled_from([0.4, 0.0, 0.75, 1.0]),
)
AS_USUAL = Asked(mode=None, least=None, limit=ALL, vector_weight=0.4)


@pytest.mark.slow
@example(
    [
        ("remember", "one", "ann", [("zorp kvik", 0), ("drum", 1), ("zorp zorp plok", 2)]),
        ("remember", "two", "ann", [("zorp", 3)]),
        ("change", "one", 0, "blax"),
        ("hand over", "two", 3, "bob"),
        ("forget", "two", 2),
        ("remember", "plain", "ann", [("zorp drum", 1)]),
        ("remember for a day", "one", "bob", [("zorp", 2)]),
        ("wait a day",),
        ("erase", "one", 1),
    ],
    "zorp drum zorp",
    AS_USUAL,
)
@example(
    [
        ("remember", "one", "ann", [("zorp kvik", 0), ("drum", 1)]),
        ("branch",),
        ("tag",),
        ("remember", "left", "ann", [("zorp", 3)]),
        ("forget", "left", 0),
        ("remember", "two", "ann", [("zorp zorp", 1)]),
        ("erase", "two", 1),
    ],
    "zorp drum",
    Asked(mode="hybrid", least=1, limit=1, vector_weight=0.75),
)
@settings(max_examples=12)
@given(steps, questions, ways)
def test_what_is_found_in_the_process_is_what_a_list_owes(steps, query, asked):
    async def run():
        clock, world = ManualClock(), World()
        async with AsyncExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            for name, journal in {"one": SMALL, "two": SMALL, "plain": None}.items():
                store = AsyncContextStore.open(
                    directory,
                    embedder=WordVectors(),
                    clock=clock,
                    journal=journal,
                    maintenance=None,
                    search_cache=SearchCache(),
                )
                world.stores[name] = await stack.enter_async_context(store)
            n_searches = 0
            for step in steps:
                await take(step, world, clock)
                for name, store in world.stores.items():
                    for user in (*USERS, EVERYBODY):
                        await compare(store, user, query, asked, world.oracle(name), clock)
                n_searches += 3 if n_searches or world.main.memories else 0
                if world.tagged is not None:
                    await compare_earlier(world, query, clock)
            for name in ("one", "two", "plain"):
                told = (await world.stores[name].stats()).search_cache
                # A branch counts with the store that it was made through.
                is_alone = world.left is None or name != "two"
                assert told.hits + told.misses == n_searches or not is_alone

    asyncio.run(run())


@dataclass
class World:
    """Three handles of a store, one of a branch, and what they owe."""

    stores: dict[str, AsyncContextStore] = field(default_factory=dict)
    main: Oracle = field(default_factory=Oracle)
    left: Oracle | None = None
    tagged: Oracle | None = None

    def oracle(self, name):
        return self.main if name != "left" else self.left

    def forget(self, id):
        """It is gone from everywhere."""
        for oracle in (self.main, self.left, self.tagged):
            if oracle is not None:
                oracle.memories.pop(id, None)


async def compare(store, user, query, asked, oracle, clock):
    if user == EVERYBODY:
        alone = {
            "neighbours": 0,
            "speaker": 0,
            "preceding": 0,
            "coverage": 0,
            "surroundings": False,
        }
        options = replace(asked.arguments["options"], **alone)
        hits = await store.search(query, **{**asked.arguments, "options": options})
    else:
        hits = await store.memory.search(query, user_id=user, **asked.arguments)
    owed = oracle.found(user, query, asked, clock.now())
    found = {
        channel: {
            hit.record.id: hit.channels[channel].raw for hit in hits if channel in hit.channels
        }
        for channel in owed
    }
    ids = {hit.record.id for hit in hits}
    for channel, scores in owed.items():
        expected = {id: score for id, score in scores.items() if id in ids}
        assert found[channel] == pytest.approx(expected, abs=1e-5), channel
    scores = oracle.scores(owed, asked)
    assert [hit.score for hit in hits] == pytest.approx(
        sorted(scores.values(), reverse=True)[: asked.limit], abs=1e-4
    )
    for hit in hits:
        assert hit.score == pytest.approx(scores[hit.record.id], abs=1e-4)
        assert hit.record.text == oracle.memories[hit.record.id].text


async def compare_earlier(world, query, clock):
    """Of an earlier version the words' statistics are the table's, and all else is the same."""
    view = await world.stores["one"].checkout("then")
    for user in USERS:
        owed = world.tagged.found(user, query, AS_USUAL, clock.now())
        hits = await view.memory.search(query, user_id=user, **AS_USUAL.arguments)
        cosines = {hit.record.id: hit.channels["vector"].raw for hit in hits}
        assert cosines == pytest.approx(owed["vector"], abs=1e-5)
        assert {hit.record.id for hit in hits if "text" in hit.channels} == owed["text"].keys()


async def take(step, world, clock):
    name, *arguments = step
    if name == "wait a day":
        clock.advance(days=1)
        return
    if name == "branch":
        if world.left is None and world.main.memories:
            world.stores["left"] = await world.stores["two"].create_branch("left")
            world.left = deepcopy(world.main)
            # Before the journal knows a branch, the engine searches it.
            (id,) = await world.stores["left"].memory.add(["begun"], user_id="bob")
            world.left.memories[id] = Memory("bob", "begun", 0, None)
        return
    if name == "tag":
        if world.tagged is None and world.main.memories:
            await world.stores["one"].tag("then")
            world.tagged = deepcopy(world.main)
        return
    handle, *arguments = arguments
    handle = handle if handle in world.stores else "one"
    store, oracle = world.stores[handle], world.oracle(handle)
    if name.startswith("remember"):
        user, all_said = arguments
        until = clock.now() + timedelta(days=1) if name == "remember for a day" else None
        for text, n in all_said:
            (id,) = await store.memory.add(
                [text], user_id=user, expires_at=until, metadata={"n": n}
            )
            oracle.memories[id] = Memory(user, text, n, until)
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
                "user",
                text,
                key="id",
                id=id,
                user_id=former.user,
                kind="memory",
                metadata={"n": former.n},
            )
            changed = Memory(former.user, text, former.n, None)
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
            await world.stores["one"].erase(ids=[id])
            world.forget(id)
