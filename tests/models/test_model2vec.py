"""Static models of model2vec in a folder: their vectors, their length, their name."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from models.tiny import MATRIX, mean, static

from lance_context_core import ContextStore, as_embedder
from lance_context_core.embedders import Model2VecEmbedder, Prompts
from lance_context_core.errors import EmbeddingModelMismatchError, InvalidRequestError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return static(tmp_path_factory.mktemp("models") / "tiny")


def test_a_folder_is_embedded_with_by_its_name(folder):
    embedder = as_embedder(f"model2vec:{folder}")
    assert embedder.dimension == 4  # before anything is loaded
    found = embedder.embed_documents(["cat dog", "TEA", "unheard"])
    np.testing.assert_allclose(found, [mean("cat", "dog"), mean("tea"), np.zeros(4)], atol=1e-6)
    np.testing.assert_allclose(embedder.embed_query("milk"), mean("milk"), atol=1e-6)


def test_a_store_finds_by_it(folder, tmp_path):
    with ContextStore.open(tmp_path / "store", embedder=f"model2vec:{folder}") as store:
        store.memory.add(["cat dog", "tea milk", "unheard"])
        hits = store.memory.search("tea", mode="vector")
        assert hits[0].record.text == "tea milk"
        assert len(hits) == 2  # no word of the third is known


def test_all_of_a_long_text_counts(folder):
    text = "unheard " * 5000 + "cat"
    np.testing.assert_allclose(Model2VecEmbedder(folder).embed_query(text), mean("cat"), atol=1e-6)


def test_vectors_may_be_shortened(folder):
    embedder = as_embedder(f"model2vec:{folder}", dimension=2)
    assert embedder.dimension == 2
    np.testing.assert_allclose(embedder.embed_query("cat"), mean("cat")[:2], atol=1e-6)


def test_a_copy_is_the_same_model_and_other_weights_are_another(folder, tmp_path):
    copy = static(tmp_path / "copy" / "tiny")
    other = static(tmp_path / "other" / "tiny", MATRIX * 2)
    names = [Model2VecEmbedder(one).model for one in (folder, copy, other)]
    assert names[0] == names[1] != names[2]
    with ContextStore.open(tmp_path / "store", embedder=f"model2vec:{folder}") as store:
        store.memory.add(["cat"])
    with ContextStore.open(tmp_path / "store", embedder=f"model2vec:{copy}") as store:
        store.memory.add(["dog"])
    with (
        ContextStore.open(tmp_path / "store", embedder=f"model2vec:{other}") as store,
        pytest.raises(EmbeddingModelMismatchError),
    ):
        store.memory.add(["tea"])


def test_prompts_stand_before_texts(folder, tmp_path):
    given = Model2VecEmbedder(folder, prompts=Prompts(query="query: ", document="passage: "))
    np.testing.assert_allclose(given.embed_query("cat"), mean("query", ":", "cat"), atol=1e-6)
    found = given.embed_documents(["cat"])[0]
    np.testing.assert_allclose(found, mean("passage", ":", "cat"), atol=1e-6)
    own = static(tmp_path / "own")
    said = json.dumps({"prompts": {"query": "query: "}})
    (own / "config_sentence_transformers.json").write_text(said)
    found = Model2VecEmbedder(own).embed_query("cat")
    np.testing.assert_allclose(found, mean("query", ":", "cat"), atol=1e-6)


def test_many_threads_share_one_model(folder):
    embedder = Model2VecEmbedder(folder)
    texts = [["cat dog", "tea " * 600], ["milk"], ["tea", "dog " * 3]] * 20
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(embedder.embed_documents, texts))
    for given, vectors in zip(texts, found, strict=True):
        expected = [mean(*text.split()) for text in given]
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_half_an_emoji_and_no_words_do_no_harm(folder):
    embedder = Model2VecEmbedder(folder)
    np.testing.assert_allclose(embedder.embed_query("\ud83d cat"), mean("cat"), atol=1e-6)
    assert not embedder.embed_documents(["", " "]).any()
    assert embedder.embed_documents([]).shape == (0, 4)


def test_an_embedder_pickles_without_its_model(folder):
    embedder = Model2VecEmbedder(folder)
    before = embedder.embed_query("cat")
    pickled = pickle.dumps(embedder)
    assert len(pickled) < 2000
    assert (pickle.loads(pickled).embed_query("cat") == before).all()  # noqa: S301 - our own


def test_a_folder_that_is_not_there_is_said_at_once():
    with pytest.raises(InvalidRequestError, match="no such folder"):
        as_embedder("model2vec:/no/such/folder")
