"""Whatever is said, deleted and erased, and however a question is put: turns, their scores and reasons."""

import asyncio
import math
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import pytest
from core.conformance.doubles import START, ManualClock, WordVectors
from core.search.corpus import WORDS, Conversation, stretched
from core.storage.journaling import SMALL
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lance_context_core import AsyncContextStore, Message
from lance_context_core.settings import Convex, Recency, Role, SearchCache, SearchOptions

ALL = 1_000
"""More than there are turns, be they hits or candidates."""
AGENTS = ("red", "blue")
NAMES = (None, "Ann", "Tom")
ROLES = {"user": Message.user, "assistant": Message.assistant}


@dataclass
class Turn:
    number: int
    agent: str
    text: str
    name: str | None
    role: str
    before: str | None = None
    """The id of the turn before it."""

    @property
    def id(self):
        return f"t{self.number}"

    @property
    def words(self):
        # The day is three words.
        return ["day"] * 3 + ([self.name.lower()] if self.name else []) + self.text.split()

    @property
    def embedded(self):
        return f'{self.name} said, "{self.text}"' if self.name else self.text


@dataclass(frozen=True)
class Asked:
    """How a question is put."""

    words: str
    mode: str | None = None
    by: str | None = None
    """Only turns by one of that name are meant."""
    vector_weight: float = 0.4
    shares: tuple[float, ...] | None = None
    preceding: float | None = None
    coverage: float | None = None
    speaker: float | None = None
    surroundings: bool | None = None
    role: float | None = None
    recency: float | None = None

    @property
    def arguments(self):
        boosts = [Role({"user": self.role})] if self.role else []
        boosts += (
            [Recency(weight=self.recency, half_life=timedelta(days=2))] if self.recency else []
        )
        options = SearchOptions(
            fusion=Convex(vector_weight=self.vector_weight),
            neighbours=self.shares,
            preceding=self.preceding,
            coverage=self.coverage,
            speaker=self.speaker,
            surroundings=self.surroundings,
            boosts=boosts,
            n_candidates=ALL,
        )
        filter = {"name": self.by} if self.by else None
        return {"mode": self.mode, "filter": filter, "limit": ALL, "options": options}

    # What the documentation says of options that are absent

    def what_counts(self):
        shares = (0.3, 0.2) if self.shares is None else self.shares
        preceding = self.preceding
        if preceding is None:
            preceding = 1.0 if self.shares is None else 0.0
        around = self.surroundings
        if around is None:
            around = self.mode in (None, "hybrid")
        coverage = 0.25 if self.coverage is None else self.coverage
        speaker = 0.2 if self.speaker is None else self.speaker
        return shares, preceding, around and (any(shares) or preceding > 0), coverage, speaker


def owed(turns, asked):
    """What is found of these turns, by id: the score, what each channel says, and what each part gave."""
    shares, preceding, looks_around, least, speaker = asked.what_counts()
    meant = [one for one in turns if asked.by in (None, one.name)]
    own, whole, coverage = by_words(asked.words.lower().split(), turns, meant, preceding)
    matching = {id: whole[id] for id in (whole if looks_around else own)}
    spoken = {one.name for one in meant if one.id in matching}
    near = {} if asked.mode == "text" else cosines(asked.words, spoken, meant)
    text = {} if asked.mode == "vector" else matching
    there = {*near, *text}
    if looks_around:
        there |= {one.id for one in meant if one.before in {*near, *text}}
        there |= {one.before for one in meant if one.id in {*near, *text}}
    candidates = [one for one in meant if one.id in there]
    weigh = min(1.0, coverage / least) if least and text else 1.0

    if asked.mode in ("vector", "text"):
        raw = near or text
        low = min(raw.values(), default=0.0) if near else 0.0
        high = max(raw.values(), default=0.0)
        base = {one.id: raw.get(one.id, low) for one in candidates}
        lending = {
            id: (one - low) / (high - low) if high > low else 0.0 for id, one in base.items()
        }
        bare = {id: own.get(id, 0.0) for id in base} if text else base

        def scaled(raw, gain, _most):
            raw += (high - low) * gain
            return min(1.0, max(0.0, (1 + raw) / 2)) if asked.mode == "vector" else raw / (raw + 10)

    else:
        vector, words = stretched(near), {id: weigh * one for id, one in stretched(text).items()}
        low, high = min(text.values(), default=0.0), max(text.values(), default=0.0)
        alone = {
            id: min(
                words[id], weigh * max(0.0, (own[id] - low) / (high - low) if high > low else 1)
            )
            for id in text
            if id in own
        }
        w = asked.vector_weight
        base, bare = (
            {
                one.id: w * vector.get(one.id, 0) + (1 - w) * some.get(one.id, 0)
                for one in candidates
            }
            for some in (words, alone)
        )
        lending = base

        def scaled(own, gain, most):
            return (own + gain) / (1 + most)

    gains = boosted(asked, candidates, lending, shares, speaker)
    most = sum(largest for largest, _ in gains.values())
    hits = {}
    for one in candidates:
        given = {name: some[one.id] for name, (_, some) in gains.items() if some.get(one.id)}
        if not given and one.id not in near and one.id not in text:
            continue
        total = sum(given.values())
        score, by_channels = (scaled(base[one.id], gain, most) for gain in (total, 0.0))
        why = {name: (score - by_channels) * gain / total for name, gain in given.items()}
        handed = 0.0
        if preceding and one.id in text:
            handed = max(0.0, by_channels - scaled(bare[one.id], 0.0, most))
        why |= {"channels": by_channels - handed, "preceding": handed}
        said = {"vector": near.get(one.id), "text": text.get(one.id) if one.id in own else None}
        hits[one.id] = score, {name: raw for name, raw in said.items() if raw is not None}, why
    return hits


def by_words(question, turns, meant, preceding):
    """BM25 of the own words of what is meant, and with those of the turn before; and the coverage.

    k1 = 1.2, b = 0.75; `turns` tell how rare a word is.
    """
    by_id = {one.id: one for one in meant}
    heard = {one.id: by_id[one.before] for one in turns if preceding and one.before in by_id}

    def scores(share):
        def of(one, count):
            return count(one) + (share * count(heard[one.id]) if one.id in heard else 0)

        lengths = {one.id: of(one, lambda one: len(one.words)) for one in turns}
        mean = sum(lengths.values()) / max(len(turns), 1)
        found = Counter()
        for word in question:
            counts = {one.id: of(one, lambda one: one.words.count(word)) for one in turns}  # noqa: B023
            rare = rarity(len(turns), sum(n > 0 for n in counts.values()))
            for id, n in counts.items():
                if n:
                    found[id] += rare * n * 2.2 / (n + 1.2 * (0.25 + 0.75 * lengths[id] / mean))
        return found

    own, whole = scores(0), scores(preceding)
    for id in whole.keys() - own.keys():
        whole[id] = min(whole[id], 0.99 * whole[heard[id].id])
    attainable = sum(
        2.2 * rarity(len(turns), sum(word in one.words for one in turns)) for word in question
    )
    own, whole = ({id: s for id, s in some.items() if id in by_id} for some in (own, whole))
    counted = [whole[id] for id in (whole if preceding else own)]
    return own, whole, max(counted, default=0.0) / attainable


def rarity(n, there):
    return math.log(1 + (n - there + 0.5) / (there + 0.5))


def cosines(question, spoken, turns):
    model, size = WordVectors(), np.linalg.norm
    kept = [word for word in question.split() if word not in spoken]
    asked = model.embed_query(" ".join(kept)).astype(float)
    rows = {one.id: model.embed_query(one.embedded).astype(float) for one in turns}
    return {id: row @ asked / size(row) / size(asked) for id, row in rows.items()}


def boosted(asked, candidates, scores, shares, speaker):
    """By the names of the boosts that say anything: the most that each can give, and what it gives whom."""
    given = {}
    by_id = {one.id: one for one in candidates}
    if any(shares) and candidates:
        lent = Counter()
        for n_steps, share in enumerate(shares, start=1):
            after = {}
            for one in candidates:
                if earlier := before(one, by_id, n_steps):
                    lent[one.id] += share * scores[earlier.id]
                    after.setdefault(earlier.id, []).append(scores[one.id])
            for id, some in after.items():
                lent[id] += share * max(some)
        given["neighbours"] = 2 * sum(shares), lent
    if speaker and "Ann" in asked.words and any(one.name == "Ann" for one in candidates):
        given["speaker"] = speaker, {one.id: speaker for one in candidates if one.name == "Ann"}
    users = {one.id: asked.role for one in candidates if one.role == "user"}
    if asked.role and users:
        given["role"] = asked.role, users
    if asked.recency and candidates:
        newest = max(one.number for one in candidates)
        ages = {one.id: newest - one.number for one in candidates}
        given["recency"] = (
            asked.recency,
            {id: asked.recency * 0.5 ** (n / 2) for id, n in ages.items()},
        )
    return given


def before(turn, by_id, n_steps):
    for _ in range(n_steps):
        turn = by_id.get(turn.before) if turn else None
    return turn


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True).map(" ".join)
agents = st.sampled_from(AGENTS)
said = st.lists(
    st.tuples(texts, st.sampled_from(NAMES), st.sampled_from([*ROLES])), min_size=1, max_size=5
)
handles = st.sampled_from(["one", "two"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("say"), handles, agents, said),
        st.tuples(st.just("say"), handles, agents, said),
        st.tuples(st.sampled_from(["delete", "erase"]), handles, st.integers(0, 9)),
        st.tuples(st.sampled_from(["fold", "maintain", "tag"]), handles),
    ),
    min_size=2,
    max_size=6,
)
weights = st.sampled_from([None, None, 0.0, 0.5])
questions = st.builds(
    Asked,
    words=st.tuples(st.sampled_from(["", "Ann "]), texts).map("".join),
    mode=st.sampled_from([None, None, "hybrid", "vector", "text"]),
    by=st.sampled_from([None, None, "Ann"]),
    vector_weight=st.sampled_from([0.4, 0.0, 0.75, 1.0]),
    shares=st.sampled_from([None, None, (), (0.3,), (0.5, 0.25, 0.125)]),
    preceding=weights,
    coverage=weights,
    speaker=weights,
    surroundings=st.sampled_from([None, True, False]),
    role=st.sampled_from([None, 0.2]),
    recency=st.sampled_from([None, 0.1]),
)
ALL_PARTS = [
    ("say", "one", "red", [("zorp kvik", "Ann", "user"), ("drum", "Tom", "assistant")]),
    ("say", "two", "red", [("plok zorp", None, "user"), ("snar drum", "Ann", "user")]),
    ("say", "one", "blue", [("zorp", "Ann", "user")]),
    ("tag", "one"),
    ("delete", "two", 1),
    ("say", "two", "red", [("kvik", "Tom", "user"), ("wump", "Ann", "assistant")]),
    ("erase", "one", 0),
]

ONE_HEARS = [
    (
        "say",
        "one",
        "red",
        [("zorp kvik plok snar", "Ann", "user"), ("drum", None, "user"), ("wump", None, "user")],
    )
]
"""The last is shorter, with what it heard, than the one that said it."""


@pytest.mark.slow
@example(ALL_PARTS[:4], Asked("Ann zorp drum"))
@example(ALL_PARTS, Asked("Ann zorp kvik", mode="text", surroundings=True, role=0.2, recency=0.1))
@example(ALL_PARTS, Asked("Ann drum", mode="vector", shares=(0.5, 0.25, 0.125), surroundings=True))
@example(ONE_HEARS, Asked("drum", mode="text", surroundings=True))
@settings(max_examples=8)
@given(steps, questions)
def test_turns_are_found_with_the_scores_and_the_reasons_that_a_list_owes(steps, asked):
    async def run():
        async with AsyncExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            stores, clock = {}, ManualClock(START + timedelta(days=1_000))
            caches = {"one": SearchCache(), "two": SearchCache(), "engine": None}
            for name, cache in caches.items():
                store = AsyncContextStore.open(
                    directory,
                    embedder=WordVectors(),
                    clock=clock,
                    journal=SMALL,
                    maintenance=None,
                    search_cache=cache,
                )
                stores[name] = await stack.enter_async_context(store)
            turns, tagged = [], None
            for number, step in enumerate(steps):
                turns, tagged = await take(step, stores, turns, tagged)
                for agent in AGENTS:
                    await compare(stores[("one", "two")[number % 2]], agent, asked, turns)
            # How rare words are is otherwise known to the engine, and so are those of turns before.
            alike = replace(asked, mode="vector", preceding=0.0, surroundings=False)
            for agent in AGENTS:
                await compare(stores["engine"], agent, alike, turns)
                if tagged is not None:
                    await compare(await stores["one"].checkout("then"), agent, alike, tagged)

    asyncio.run(run())


async def compare(store, agent, asked, turns):
    mine = [one for one in turns if one.agent == agent]
    former = [None, *(one.id for one in mine)]
    mine = [replace(one, before=id) for one, id in zip(mine, former, strict=False)]
    expected = owed(mine, asked)
    hits = await store.history.search(asked.words, agent_id=agent, **asked.arguments)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert {hit.record.id for hit in hits} == expected.keys()
    for hit in hits:
        score, said, why = expected[hit.record.id]
        assert hit.score == pytest.approx(score, abs=1e-4)
        raw = {name: one.raw for name, one in hit.channels.items()}
        assert raw == pytest.approx(said, abs=1e-4)
        parts = dict.fromkeys(hit.why, 0.0) | why
        assert {"preceding": 0.0} | hit.why == pytest.approx(parts, abs=1e-4)


async def take(step, stores, turns, tagged):
    """What there is after a step, and what there was when it was tagged."""
    name, handle, *arguments = step
    store = stores[handle]
    if name == "say":
        agent, all_said = arguments
        messages, turns = [], [*turns]
        for text, speaker, role in all_said:
            number = max([one.number for one in turns], default=-1) + 1
            turns.append(Turn(number, agent, text, speaker, role))
            at = START + timedelta(days=number)
            make = ROLES[role]
            messages.append(make(text, name=speaker, id=turns[-1].id, created_at=at))
        await store.history.append_many(agent, messages, session_id=agent)
    elif name == "fold":
        await store.flush()
    elif name == "maintain":
        await store.maintain()
    elif name == "tag":
        if tagged is None and turns:
            await store.tag("then")
            tagged = turns
    elif turns:
        gone = turns[arguments[0] % len(turns)]
        turns = [one for one in turns if one is not gone]
        if name == "delete":
            await store.history.clear(gone.agent, session_id=gone.agent, filter={"id": gone.id})
        else:
            await store.erase(ids=[gone.id])
            tagged = tagged and [one for one in tagged if one is not gone]
    return turns, tagged


def test_the_engines_way_finds_most_of_what_the_process_finds():
    ours, engines = Conversation(), Conversation(search_cache=None)
    shares = []
    for n, word in enumerate(WORDS):
        question = f"{word} {WORDS[n - 3]}"
        best = [
            {hit.record.id for hit in one.store.search(question, limit=10)}
            for one in (ours, engines)
        ]
        shares.append(len(best[0] & best[1]) / 10)
    for one in (ours, engines):
        one.store.close()
    assert sum(shares) / len(shares) >= 0.8
