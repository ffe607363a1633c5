"""What each mode of a query finds, and in which order."""

import asyncio
import math

import numpy as np
import pytest
from adapters.llama_index.doubles import Backwards, WordEmbedding, node
from adapters.llama_index.filter_cases import every, leaf
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode
from llama_index_lance_context import LanceContextVectorStore

from lance_context_core import InvalidRequestError

TEXTS = [
    *("ginger tea", "ginger soup with carrot", "carrot cake", "tea tea tea", "green tea cake"),
    *("a long text about ginger and about much else", "nothing of that", "soup"),
]
NODES = [node(text, id=f"n{i}", source=f"d{i % 2}") for i, text in enumerate(TEXTS)]
QUERY = "ginger tea"
VECTOR = WordEmbedding().get_query_embedding(QUERY)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    with LanceContextVectorStore(tmp_path_factory.mktemp("modes") / "store") as made:
        made.add(NODES)
        yield made


def asked(mode="default", *, k=100, **fields):
    given = {"query_embedding": VECTOR, "query_str": QUERY, "similarity_top_k": k, **fields}
    return VectorStoreQuery(mode=mode, **given)


def found(store, *arguments, query_kwargs=None, **fields):
    """Ids and similarities, which both methods must find."""
    query = asked(*arguments, **fields)
    result = store.query(query, **(query_kwargs or {}))
    assert asyncio.run(store.aquery(query, **(query_kwargs or {}))) == result
    assert [one.node_id for one in result.nodes] == result.ids
    assert len(result.similarities) == len(result.ids)
    return dict(zip(result.ids, result.similarities, strict=True))


def cosine(one):
    return float(
        np.dot(one.embedding, VECTOR) / np.linalg.norm(one.embedding) / np.linalg.norm(VECTOR)
    )


def falls(scores):
    return list(scores) == sorted(scores, reverse=True)


# By meaning


@pytest.mark.defect(5)
def test_by_default_similarities_are_cosines_and_the_nearest_come_first(filled):
    similarities = found(filled)
    assert similarities == pytest.approx({one.node_id: cosine(one) for one in NODES}, abs=1e-6)
    assert falls(similarities.values())
    assert list(found(filled, k=2)) == list(similarities)[:2]


def test_the_nearest_are_those_of_llama_indexs_own_store(filled):
    simple = SimpleVectorStore()
    simple.add(NODES)
    theirs = simple.query(asked(k=4))
    ours = found(filled, k=4)
    assert ours == pytest.approx(dict(zip(theirs.ids, theirs.similarities, strict=True)), abs=1e-6)


def test_opposite_vectors_have_the_cosine_minus_one():
    with LanceContextVectorStore("memory://") as made:
        made.add([TextNode(id_="a", text="a", embedding=[1.0, 0.0])])
        assert found(made, query_embedding=[-2.0, 0.0]) == pytest.approx({"a": -1.0})


def test_none_are_found_where_none_are_asked_for(filled):
    for mode in ("default", "text_search", "hybrid", "mmr"):
        assert found(filled, mode, k=0) == {}


# By words


@pytest.mark.defect(2)
@pytest.mark.parametrize("mode", ["text_search", "sparse"])
def test_words_need_no_embedding_and_find_only_what_has_them(filled, mode):
    scores = found(filled, mode, query_embedding=None)
    words = set(QUERY.split())
    assert set(scores) == {one.node_id for one in NODES if words & set(one.text.split())}
    assert falls(scores.values())
    assert all(score > 0 for score in scores.values())


@pytest.mark.defect(4)
def test_the_rarer_word_and_the_shorter_text_score_higher(filled):
    scores = found(filled, "text_search", query_str="ginger")
    assert scores["n0"] > scores["n1"] > scores["n5"] > 0


@pytest.mark.parametrize("mode", ["text_search", "sparse"])
def test_sparse_top_k_says_how_many_words_find(filled, mode):
    assert len(found(filled, mode, k=1, sparse_top_k=3)) == 3
    assert len(found(filled, mode, k=2)) == 2


def test_a_node_is_found_by_words_as_soon_as_it_is_added(filled):
    with LanceContextVectorStore("memory://") as made:
        for i in range(5):
            made.add([node(f"word{i}", id=str(i))])
            assert list(found(made, "text_search", query_str=f"word{i}")) == [str(i)]


# By both


def normalised(scores):
    low, high = min(scores.values()), max(scores.values())
    return {id: 1.0 if high == low else (s - low) / (high - low) for id, s in scores.items()}


@pytest.mark.defect(3, 4)
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 0.9, 1.0, None])
def test_alpha_weighs_both_channels(filled, alpha):
    weight = 0.5 if alpha is None else alpha
    vector, text = normalised(found(filled)), normalised(found(filled, "text_search"))
    if weight == 0:
        vector = {}
    if weight == 1:
        text = {}
    wanted = {
        id: weight * vector.get(id, 0) + (1 - weight) * text.get(id, 0)
        for id in vector.keys() | text.keys()
    }
    scores = found(filled, "hybrid", alpha=alpha)
    assert scores == pytest.approx(wanted)
    assert falls(scores.values())


@pytest.mark.defect(3)
def test_alpha_0_is_the_order_of_words_and_alpha_1_that_of_vectors(filled):
    assert list(found(filled, "hybrid", alpha=0.0)) == list(found(filled, "text_search"))
    assert list(found(filled, "hybrid", alpha=1.0)) == list(found(filled))
    assert list(found(filled, "hybrid", alpha=0.0)) != list(found(filled, "hybrid", alpha=1.0))[:5]


def test_hybrid_top_k_says_how_many_are_found_and_else_similarity_top_k(filled):
    best = list(found(filled, "hybrid"))
    assert list(found(filled, "hybrid", k=2)) == best[:2]
    assert list(found(filled, "hybrid", k=2, hybrid_top_k=5)) == best[:5]
    assert list(found(filled, "hybrid", hybrid_top_k=3)) == best[:3]


def test_sparse_top_k_bounds_what_words_bring(filled):
    best = next(iter(found(filled, "text_search")))
    assert list(found(filled, "hybrid", alpha=0.0, sparse_top_k=1)) == [best]


def test_more_candidates_than_the_answer_are_weighed(filled):
    """Best of both is what neither channel alone has first."""
    best = next(iter(found(filled, "hybrid", alpha=0.5)))
    assert list(found(filled, "hybrid", alpha=0.5, k=1)) == [best]


@pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan])
def test_alpha_is_a_share(filled, alpha):
    with pytest.raises(InvalidRequestError, match="alpha"):
        filled.query(asked("hybrid", alpha=alpha))


@pytest.mark.defect(1)
def test_semantic_hybrid_is_ordered_by_the_reranker(filled):
    with LanceContextVectorStore("memory://", reranker=Backwards()) as made:
        made.add(NODES)
        scores = found(made, "semantic_hybrid")
        text = {one.node_id: one.text for one in NODES}
        assert [text[id] for id in scores] == sorted(TEXTS, reverse=True)
    with pytest.raises(InvalidRequestError, match=r"Invalid query mode.*reranker"):
        filled.query(asked("semantic_hybrid"))


# Diversely


@pytest.mark.defect(1)
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7, 1.0])
def test_mmr_picks_what_llama_indexs_own_store_picks(filled, threshold):
    simple = SimpleVectorStore()
    simple.add(NODES)
    theirs = simple.query(asked("mmr", k=4), mmr_threshold=threshold)
    ours = found(filled, "mmr", k=4, query_kwargs={"mmr_threshold": threshold})
    assert ours == pytest.approx(dict(zip(theirs.ids, theirs.similarities, strict=True)), abs=1e-6)
    assert list(ours) == theirs.ids


def test_the_threshold_of_the_query_comes_first(filled):
    wanted = list(found(filled, "mmr", query_kwargs={"mmr_threshold": 0.1}))
    other = {"mmr_threshold": 1.0}
    assert list(found(filled, "mmr", mmr_threshold=0.1, query_kwargs=other)) == wanted
    zero = list(found(filled, "mmr", query_kwargs={"mmr_threshold": 0.0}))
    assert list(found(filled, "mmr", mmr_threshold=0.0, query_kwargs=other)) == zero


def test_mmr_picks_from_a_bounded_number_of_candidates(filled):
    nearest = set(found(filled, k=3))
    assert set(found(filled, "mmr", k=3, query_kwargs={"mmr_prefetch_k": 3})) == nearest
    assert set(found(filled, "mmr", k=3, query_kwargs={"mmr_prefetch_k": 1})) == nearest
    assert set(found(filled, "mmr", k=3, query_kwargs={"mmr_prefetch_factor": 1.0})) == nearest
    with pytest.raises(InvalidRequestError, match="mmr_prefetch_factor and mmr_prefetch_k"):
        filled.query(asked("mmr"), mmr_prefetch_k=3, mmr_prefetch_factor=2)


# Restrictions


@pytest.mark.defect(6)
@pytest.mark.parametrize("mode", ["default", "text_search", "sparse", "hybrid", "mmr"])
def test_every_mode_honours_ids_of_nodes_and_of_documents(filled, mode):
    everything = set(found(filled, mode))
    assert set(found(filled, mode, node_ids=["n0", "n3", "gone"])) == {"n0", "n3"}
    assert set(found(filled, mode, node_ids=[])) == everything
    of_d1 = {one.node_id for one in NODES if one.ref_doc_id == "d1"}
    assert set(found(filled, mode, doc_ids=["d1"])) == everything & of_d1
    assert found(filled, mode, doc_ids=[]) == {}
    assert set(found(filled, mode, doc_ids=["d0"], node_ids=["n0", "n3"])) == {"n0"}
    both = {"doc_ids": ["d0"], "filters": every(leaf("ref_doc_id", "==", "d1"))}
    assert found(filled, mode, **both) == {}


def test_where_is_a_filter_in_the_stores_own_language(filled):
    by_id = {"id": {"$in": ["n0", "n3"]}}
    assert set(found(filled, query_kwargs={"where": by_id})) == {"n0", "n3"}
    assert set(found(filled, query_kwargs={"where": "id = 'n3'"})) == {"n3"}


# By filters and ids alone


@pytest.mark.parametrize("mode", ["default", "text_search", "sparse", "hybrid", "mmr"])
def test_filters_and_ids_alone_find_what_they_match_in_the_order_of_writing(filled, mode):
    def alone(k=9, query_kwargs=None, **fields):
        query = VectorStoreQuery(mode=mode, similarity_top_k=k, **fields)
        answers = [
            filled.query(query, **query_kwargs or {}),
            asyncio.run(filled.aquery(query, **query_kwargs or {})),
        ]
        for answer in answers:
            assert answer.similarities == [1.0] * len(answer.ids)
            assert [one.node_id for one in answer.nodes] == answer.ids
        assert answers[0].ids == answers[1].ids
        return answers[0].ids

    assert alone(node_ids=["n3", "gone", "n0"]) == ["n0", "n3"]
    of_d1 = [one.node_id for one in NODES if one.ref_doc_id == "d1"]
    assert alone(doc_ids=["d1"]) == alone(filters=every(leaf("ref_doc_id", "==", "d1"))) == of_d1
    assert alone(filters=every()) == [one.node_id for one in NODES]
    assert alone(k=2, filters=every()) == ["n0", "n1"]
    assert alone(query_kwargs={"where": {"id": "n2"}}) == ["n2"]
    assert alone(filters=every(leaf("ref_doc_id", "==", "d1")), node_ids=["n0"]) == []
    assert alone(doc_ids=[]) == []


# What cannot be asked


@pytest.mark.defect(1)
@pytest.mark.parametrize("mode", ["svm", "logistic_regression", "linear_regression", "magic"])
def test_a_mode_that_it_does_not_have_is_refused(filled, mode):
    for given in (mode, *(one for one in VectorStoreQueryMode if one == mode)):
        with pytest.raises(ValueError, match="Invalid query mode"):
            filled.query(asked(given))
        with pytest.raises(ValueError, match="Invalid query mode"):
            asyncio.run(filled.aquery(asked(given)))


@pytest.mark.defect(19)
@pytest.mark.parametrize("unknown", [{"query_type": "hybrid"}, {"refine_factor": 2}])
def test_a_keyword_that_it_does_not_know_is_refused(filled, unknown):
    with pytest.raises(InvalidRequestError, match=next(iter(unknown))):
        filled.query(asked("text_search"), **unknown)


@pytest.mark.parametrize(
    ("mode", "missing"),
    [
        *(("default", "query_embedding"), ("mmr", "query_embedding")),
        *(("text_search", "query_str"), ("hybrid", "query_str"), ("hybrid", "query_embedding")),
    ],
)
def test_what_a_mode_needs_must_be_there(filled, mode, missing):
    with pytest.raises(InvalidRequestError):
        filled.query(asked(mode, **{missing: None}))


@pytest.mark.parametrize("k", [-1, True, 1.5])
def test_a_number_of_nodes_is_a_number_of_nodes(filled, k):
    with pytest.raises(InvalidRequestError):
        filled.query(asked(k=k))
