"""Models by ONNX in a folder: embedders and cross-encoders of fastembed."""

import json
import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from models.tiny import MATRIX, WORDS, bi_encoder, cross_encoder, unit

from lance_context_core import ContextStore, as_embedder
from lance_context_core.embedders import FastEmbedEmbedder, Prompts
from lance_context_core.errors import InvalidRequestError, TruncatedTextWarning
from lance_context_core.rerankers import FastEmbedReranker
from lance_context_core.settings import SearchOptions


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return bi_encoder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def cross(tmp_path_factory):
    return cross_encoder(tmp_path_factory.mktemp("models") / "cross")


def test_a_folder_is_embedded_with_by_its_name(folder):
    embedder = as_embedder(f"fastembed:{folder}")
    assert embedder.dimension == 4
    found = embedder.embed_documents(["cat dog milk", "TEA"])
    np.testing.assert_allclose(found, [unit("cat", "dog", "milk"), unit("tea")], atol=1e-5)
    np.testing.assert_allclose(embedder.embed_query("milk"), unit("milk"), atol=1e-5)
    assert embedder.embed_documents([]).shape == (0, 4)


def test_a_store_finds_by_it(folder):
    with ContextStore.open("memory://", embedder=f"fastembed:{folder}") as store:
        store.memory.add(["cat dog", "tea milk"])
        assert store.memory.search("tea", mode="vector")[0].record.text == "tea milk"


def test_what_a_folder_says_of_its_pooling_counts(tmp_path):
    folder = bi_encoder(tmp_path / "first-token")
    (folder / "1_Pooling").mkdir()
    said = {"word_embedding_dimension": 4, "pooling_mode_cls_token": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(said))
    found = FastEmbedEmbedder(folder).embed_query("tea milk cat")
    np.testing.assert_allclose(found, unit("tea"), atol=1e-5)


def test_prompts_stand_before_texts(folder):
    given = FastEmbedEmbedder(folder, prompts=Prompts(query="query: ", document="passage: "))
    np.testing.assert_allclose(given.embed_query("cat"), unit("query", ":", "cat"), atol=1e-5)
    found = given.embed_documents(["cat"])[0]
    np.testing.assert_allclose(found, unit("passage", ":", "cat"), atol=1e-5)


def test_a_text_beyond_what_the_model_reads_is_told_once(tmp_path):
    embedder = FastEmbedEmbedder(bi_encoder(tmp_path / "short", max_length=8))
    exact = " ".join(["cat"] * 8)
    np.testing.assert_allclose(embedder.embed_query(exact), unit("cat"), atol=1e-5)
    with pytest.warns(TruncatedTextWarning, match="first 8 tokens of a text, and one has about 9"):
        found = embedder.embed_documents([f"{exact} dog"])
    np.testing.assert_allclose(found[0], unit("cat"), atol=1e-5)
    embedder.embed_query(f"{exact} dog")  # warnings are errors here: there is no second one


def test_threads_share_one_model_and_half_an_emoji_does_no_harm(folder):
    embedder = FastEmbedEmbedder(folder, threads=1)
    texts = [["cat dog", "tea"], ["milk"]] * 10
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(embedder.embed_documents, texts))
    for given, vectors in zip(texts, found, strict=True):
        np.testing.assert_allclose(vectors, [unit(*text.split()) for text in given], atol=1e-5)
    assert np.isfinite(embedder.embed_documents(["\ud83d", "cat"])).all()


def test_an_embedder_pickles_without_its_model(folder):
    embedder = FastEmbedEmbedder(folder)
    before = embedder.embed_query("cat")
    pickled = pickle.dumps(embedder)
    assert len(pickled) < 2000
    assert (pickle.loads(pickled).embed_query("cat") == before).all()  # noqa: S301 - our own


def test_the_length_of_a_known_model_s_vectors_is_known_without_it():
    embedder = as_embedder("fastembed:BAAI/bge-small-en-v1.5")
    assert (embedder.dimension, embedder.model) == (384, "BAAI/bge-small-en-v1.5")


def test_another_length_than_the_model_s_is_refused():
    with pytest.raises(InvalidRequestError, match=r"dimension=100: .* makes vectors of length 384"):
        as_embedder("fastembed:BAAI/bge-small-en-v1.5", dimension=100)


@pytest.mark.parametrize("made", [FastEmbedEmbedder, FastEmbedReranker])
def test_an_unknown_name_is_refused_with_those_that_are_known(made, tmp_path):
    with pytest.raises(InvalidRequestError, match=r"use one of .*or give a folder"):
        made("nobody/nothing")
    with pytest.raises(InvalidRequestError, match="no such folder"):
        made("/no/such/folder")
    with pytest.raises(InvalidRequestError, match=r"has no ONNX model: give a folder with onnx/"):
        made(tmp_path)


def test_a_folder_that_does_not_tell_the_length_is_refused(tmp_path):
    folder = bi_encoder(tmp_path / "untold")
    (folder / "config.json").unlink()
    with pytest.raises(InvalidRequestError, match="no hidden_size"):
        FastEmbedEmbedder(folder)


# Cross-encoders


def score_of(*words):
    """The sigmoid of the sum of the words' first numbers."""
    return 1 / (1 + math.exp(-sum(float(MATRIX[WORDS.index(word)][0]) for word in words)))


def test_a_cross_encoder_scores_question_and_text_together(cross):
    reranker = FastEmbedReranker(cross, batch_size=1)  # a batch of more is padded with a word
    found = reranker.scores("tea", ["cat", "dog", "milk"])
    expected = [score_of("tea", word) for word in ("cat", "dog", "milk")]
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
def test_a_search_is_ordered_by_a_cross_encoder(cross, folder, mode):
    options = SearchOptions(reranker=FastEmbedReranker(cross))
    with ContextStore.open("memory://", embedder=f"fastembed:{folder}") as store:
        store.memory.add(["tea cat", "tea dog", "tea milk"])
        hits = store.memory.search("tea", mode=mode, options=options)
    found = {hit.record.text: hit.score for hit in hits}
    assert list(found.values()) == sorted(found.values(), reverse=True)
    for text, score in found.items():
        assert score == pytest.approx(score_of("tea", *text.split()), abs=1e-5)


def test_a_cross_encoder_pickles_without_its_model(cross):
    reranker = FastEmbedReranker(cross)
    before = reranker.scores("tea", ["cat"])
    assert pickle.loads(pickle.dumps(reranker)).scores("tea", ["cat"]) == before  # noqa: S301
