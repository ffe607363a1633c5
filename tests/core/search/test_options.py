"""What may follow the fusion: rerankers and variety; and what options are refused."""

import math
import threading
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from core.conformance.doubles import WordVectors
from core.search.corpus import WORDS, Conversation
from hypothesis import given
from hypothesis import strategies as st
from lancedb.rerankers import LinearCombinationReranker, RRFReranker
from lancedb.rerankers import Reranker as LanceReranker

from lance_context_core import Document, ImagePart, InvalidRequestError, Message
from lance_context_core.protocols import Reranker
from lance_context_core.settings import Convex, SearchOptions

MODES = ("hybrid", "vector", "text")
QUERIES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True).map(" ".join)

each_mode = pytest.mark.parametrize("mode", MODES)


@pytest.fixture(scope="module")
def conversation():
    talk = Conversation()
    yield talk
    talk.store.close()


class Backwards(LanceReranker):
    """A reranker of the sort that users write: it prefers the shortest text, in every mode."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def rerank_hybrid(self, query, vector_results, fts_results):
        return self._rank(query, self.merge_results(vector_results, fts_results))

    def rerank_vector(self, query, vector_results):
        return self._rank(query, vector_results)

    def rerank_fts(self, query, fts_results):
        return self._rank(query, fts_results)

    def _rank(self, query, rows):
        self.seen.append((query, rows, threading.current_thread()))
        lengths = [len(text) for text in rows["text"].to_pylist()]
        return rows.append_column("_relevance_score", pa.array([-1.0 * n for n in lengths]))


class Returning:
    """A reranker that returns what it is told to make of the row ids."""

    def __init__(self, make):
        self._make = make

    def rerank_hybrid(self, query, vector_results, fts_results):
        return self._make(sorted({*vector_results["_rowid"].to_pylist()}))


# Rerankers


@each_mode
@given(query=QUERIES)
def test_a_reranker_orders_the_candidates_of_every_mode(conversation, query, mode):
    reranker = Backwards()
    options = SearchOptions(reranker=reranker, n_candidates=20)
    hits = conversation.store.search(query, mode=mode, limit=10, options=options)
    ((asked, rows, thread),) = reranker.seen
    assert asked == query
    assert thread is not threading.main_thread()
    lengths = sorted(len(text) for text in rows["text"].to_pylist())
    assert [len(hit.record.text) for hit in hits] == lengths[:10]
    spread = (lengths[-1] - lengths[0]) or 1
    for hit in hits:
        stretched = (lengths[-1] - len(hit.record.text)) / spread if spread > 1 else hit.score
        assert hit.score == pytest.approx(stretched)
        assert hit.neighbour_bonus == 0
        assert hit.channels


@given(query=QUERIES, k=st.sampled_from([1, 60]))
def test_lancedb_s_reciprocal_rank_is_what_it_is_in_lancedb(conversation, query, k):
    options = SearchOptions(reranker=RRFReranker(K=k), n_candidates=1_000)
    hits = conversation.store.search(query, limit=1_000, options=options)
    assert len(hits) == len(conversation.cosines(query))
    for hit in hits:
        # A rank of ours is shared by equals; the engine's place among them is its own.
        most = sum(1 / (said.rank + k) for said in hit.channels.values())
        assert 0 < hit.score <= most + 1e-6
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@given(query=QUERIES, weight=st.sampled_from([0.0, 0.3, 1.0]))
def test_lancedb_s_linear_combination_keeps_its_order(conversation, query, weight):
    options = SearchOptions(reranker=LinearCombinationReranker(weight=weight), n_candidates=1_000)
    hits = conversation.store.search(query, limit=1_000, options=options)
    cosines, bm25 = conversation.cosines(query), conversation.bm25(query)
    mixed = [
        weight * cosines[hit.record.id] + (1 - weight) * bm25.get(hit.record.id, 0.0)
        for hit in hits
    ]
    assert len(hits) == len(cosines)
    assert all(one >= other - 1e-5 for one, other in pairwise(mixed))
    assert all(0 <= hit.score <= 1 for hit in hits)


@pytest.mark.parametrize("reranker", [RRFReranker(), LinearCombinationReranker()])
@pytest.mark.parametrize(("mode", "method"), [("vector", "rerank_vector"), ("text", "rerank_fts")])
def test_a_reranker_without_the_method_of_the_mode_is_refused(conversation, reranker, mode, method):
    options = SearchOptions(reranker=reranker)
    with pytest.raises(InvalidRequestError, match=f"mode='{mode}'.*{method}.*Reranker"):
        conversation.store.search("zorp", mode=mode, options=options)
    options = SearchOptions(reranker=Returning(lambda ids: None))
    with pytest.raises(InvalidRequestError, match=f"mode='{mode}'.*{method}, which Returning"):
        conversation.store.search("zorp", mode=mode, options=options, limit=0)


@pytest.mark.parametrize("reranker", [RRFReranker(), LinearCombinationReranker(), Backwards()])
async def test_rerankers_bear_an_empty_channel_or_two(open_store, reranker):
    store = open_store(embedder=WordVectors())
    options = SearchOptions(reranker=reranker)
    assert await store.search("vase", options=options) == []
    await store.memory.add(["blue vase"])
    for query in ("nothing of it", "vase"):
        assert len(await store.memory.search(query, options=options)) == 1
    assert len(await store.memory.search("  ", options=options)) == 0


@each_mode
async def test_memories_and_documents_are_reranked_alike(open_store, mode):
    store = open_store(embedder=WordVectors())
    texts = ["a long word about a vase", "vase", "a vase"]
    await store.memory.add(texts)
    await store.vectors("docs").add([Document(text=text) for text in texts])
    options = SearchOptions(reranker=Backwards())
    for hits in (
        await store.memory.search("vase", mode=mode, options=options),
        await store.vectors("docs").search("vase", mode=mode, options=options),
    ):
        assert [hit.record.text for hit in hits] == ["vase", "a vase", "a long word about a vase"]


async def test_a_reranker_reads_the_caption_of_a_turn_that_has_no_text(open_store):
    store = open_store(embedder=WordVectors())
    picture = ImagePart(url="photo:1", caption="a red kite")
    await store.history.append_many("", [Message.user([picture])], session_id="s")
    reranker = Backwards()
    await store.search("kite", options=SearchOptions(reranker=reranker))
    ((_, rows, _),) = reranker.seen
    assert "a red kite" in rows["text"].to_pylist()[0]
    assert {"text", "_rowid"} <= set(rows.column_names)


def test_what_a_reranker_leaves_out_is_no_hit(conversation):
    def first(ids):
        return pa.table({"_rowid": ids[:3], "_relevance_score": [0.25, 0.75, 0.5]})

    options = SearchOptions(reranker=Returning(first))
    hits = conversation.store.search("zorp", options=options)
    assert [hit.score for hit in hits] == [0.75, 0.5, 0.25]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda ids: None, "NoneType"),
        (lambda ids: [{"_rowid": one} for one in ids], "a list"),
        (lambda ids: pa.table({"_rowid": ids}), "_relevance_score"),
        (lambda ids: pa.table({"_rowid": [10**9], "_relevance_score": [1.0]}), "_rowid=1000000000"),
        (lambda ids: pa.table({"_rowid": ids[:1], "_relevance_score": [math.nan]}), "nan"),
        (lambda ids: pa.table({"_rowid": ids[:2], "_relevance_score": [1.0, None]}), "None"),
    ],
)
def test_what_a_reranker_must_not_return_is_named(conversation, make, says):
    options = SearchOptions(reranker=Returning(make))
    with pytest.raises(InvalidRequestError, match=f"rerank_hybrid of Returning.*{says}"):
        conversation.store.search("zorp", options=options)


def test_what_a_reranker_raises_is_raised(conversation):
    def fail(ids):
        raise TimeoutError("no answer")

    with pytest.raises(TimeoutError, match="no answer"):
        conversation.store.search("zorp", options=SearchOptions(reranker=Returning(fail)))


def test_rerankers_of_lancedb_and_of_one_s_own_satisfy_the_protocol():
    assert isinstance(RRFReranker(), Reranker)
    assert isinstance(Returning(None), Reranker)
    assert not isinstance(Conversation, Reranker)


# Variety


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@each_mode
@given(query=QUERIES, weight=st.sampled_from([0.0, 0.3, 0.5, 1.0]), limit=st.integers(1, 12))
def test_variety_picks_what_the_definition_picks(conversation, query, mode, weight, limit):
    options = SearchOptions(mmr_lambda=weight, n_candidates=1_000)
    hits = conversation.store.search(query, mode=mode, limit=limit, options=options)
    model = WordVectors()
    texts = {turn.id: turn.text for turn in conversation.turns}
    allowed = conversation.bm25(query) if mode == "text" else texts
    rows = {one: unit(model.embed_query(texts[one]).astype(float)) for one in allowed}
    asked = unit(model.embed_query(query).astype(float))
    picked = []

    def marginal(one):
        nearest = max((rows[one] @ rows[other] for other in picked), default=0.0)
        return weight * (rows[one] @ asked) - (1 - weight) * nearest

    for hit in hits:
        left = [one for one in rows if one not in picked]
        assert hit.record.id in left
        if picked or weight > 0:
            assert marginal(hit.record.id) >= max(map(marginal, left)) - 1e-5
        picked.append(hit.record.id)
    assert len(picked) == min(limit, len(rows))


@each_mode
async def test_variety_passes_over_a_copy(open_store, mode):
    store = open_store(embedder=WordVectors())
    await store.memory.add(
        ["blue vase", "blue vase", "the vase of the aunt was green"], duplicates="keep"
    )
    alike = await store.memory.search("blue vase", mode=mode, limit=2)
    assert [hit.record.text for hit in alike] == ["blue vase", "blue vase"]
    varied = await store.memory.search(
        "blue vase", mode=mode, limit=2, options=SearchOptions(mmr_lambda=0.3)
    )
    assert [hit.record.text for hit in varied][1] == "the vase of the aunt was green"


async def test_variety_bears_hits_without_a_vector(open_store):
    store = open_store()
    await store.vectors("docs").add([Document(text="vase one", embedding=[1.0, 0.0])])
    await store.vectors("docs").add([Document(text="vase two")])
    hits = await store.vectors("docs").search(
        "vase", vector=[1.0, 0.0], options=SearchOptions(mmr_lambda=0.5)
    )
    assert {hit.record.text for hit in hits} == {"vase one", "vase two"}


async def test_variety_needs_a_vector_for_the_question(store):
    await store.memory.add(["vase"])
    with pytest.raises(InvalidRequestError, match="needs a vector"):
        await store.memory.search("vase", mode="text", options=SearchOptions(mmr_lambda=0.5))


# What is refused


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("neighbours", -0.1),
        ("neighbours", 1.5),
        ("neighbours", math.nan),
        ("neighbours", "0.3"),
        ("neighbours", True),
        ("n_candidates", 0),
        ("n_candidates", -1),
        ("n_candidates", 2.5),
        ("n_candidates", True),
        ("n_candidates", None),
        ("mmr_lambda", 2),
        ("mmr_lambda", math.inf),
        ("mmr_lambda", "half"),
        ("mmr_lambda", False),
        ("fusion", None),
        ("fusion", "rrf"),
        ("fusion", Convex),
        ("reranker", "cross-encoder"),
        ("reranker", RRFReranker),
        ("reranker", lambda query, vector, text: text),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name_and_value(name, value):
    with pytest.raises(InvalidRequestError) as caught:
        SearchOptions(**{name: value})
    assert str(caught.value).startswith(f"{name}={value!r:.80}: give ")


@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.25)])
def test_numbers_of_any_type_are_numbers(conversation, value):
    options = SearchOptions(neighbours=value, mmr_lambda=value)
    assert conversation.store.search("zorp", options=options)


@pytest.mark.parametrize("options", [{}, {"neighbours": 0}, 0, "hybrid", SearchOptions, []])
async def test_what_is_no_options_is_refused_in_every_room(store, options):
    await store.memory.add(["vase"])
    for search in (
        store.search("vase", options=options),
        store.history.search("vase", options=options),
        store.memory.search("vase", options=options),
        store.vectors("docs").search("vase", options=options),
        store.context().search("vase", options=options),
        store.context().retrieve(text="vase", options=options),
    ):
        with pytest.raises(InvalidRequestError, match="options="):
            await search


@pytest.mark.parametrize("fusion", [None, "sum", ["rrf"], Convex, 3])
async def test_retrieve_refuses_what_is_no_fusion(store, fusion):
    await store.memory.add(["vase"])
    with pytest.raises(InvalidRequestError, match="fusion="):
        await store.context().retrieve(text="vase", fusion=fusion)


@pytest.mark.parametrize("limit", [-1, True, 1.5, None, "3"])
@each_mode
def test_a_limit_that_is_no_number_of_hits_is_refused(conversation, mode, limit):
    with pytest.raises(InvalidRequestError, match="limit="):
        conversation.store.search("zorp", mode=mode, limit=limit)


@pytest.mark.parametrize("mode", ["fuzzy", "", "HYBRID", 1, ["text"]])
def test_a_mode_that_there_is_not_is_refused(conversation, mode):
    with pytest.raises(InvalidRequestError, match="mode="):
        conversation.store.search("zorp", mode=mode)
