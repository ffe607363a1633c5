"""Models of sentence-transformers in a folder: embedders, static and not, and cross-encoders."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from models.tiny import MATRIX, WORDS, mean, tokenizer
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedTokenizerFast,
)

from lance_context_core import ContextStore, as_embedder
from lance_context_core.embedders import Prompts, SentenceTransformersEmbedder
from lance_context_core.errors import InvalidRequestError, TruncatedTextWarning
from lance_context_core.rerankers import SentenceTransformersReranker
from lance_context_core.settings import SearchOptions

CONFIG = {
    "vocab_size": len(WORDS),
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 8,
    "max_position_embeddings": 32,
}


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "static"
    module = StaticEmbedding(tokenizer(), embedding_weights=MATRIX)
    prompts = {"query": "query : ", "document": ""}
    SentenceTransformer(modules=[module], device="cpu", prompts=prompts).save_pretrained(
        str(folder)
    )
    return folder


def saved(folder, kind, **config):
    """A transformer that nobody has trained, with a tokenizer."""
    torch.manual_seed(0)
    kind(BertConfig(**CONFIG, **config)).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer(), pad_token="[PAD]", unk_token="[UNK]", model_max_length=16
    ).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    transformer = Transformer(saved(folder / "bare", BertModel))
    pooling = Pooling(8)
    SentenceTransformer(modules=[transformer, pooling], device="cpu").save_pretrained(
        str(folder / "bert")
    )
    return folder / "bert"


@pytest.fixture(scope="module")
def cross(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return saved(folder / "cross", BertForSequenceClassification, num_labels=1)


def test_a_folder_is_embedded_with_by_its_name_and_with_its_own_prompts(static):
    embedder = as_embedder(f"sentence-transformers:{static}")
    found = embedder.embed_documents(["cat dog", "TEA"])
    np.testing.assert_allclose(found, [mean("cat", "dog"), mean("tea")], atol=1e-5)
    found = embedder.embed_query("milk")
    np.testing.assert_allclose(found, mean("query", ":", "milk"), atol=1e-5)
    assert embedder.model.startswith("static@")


def test_other_prompts_and_a_shorter_vector_can_be_had(static):
    embedder = SentenceTransformersEmbedder(
        static, dimension=2, prompts=Prompts(query="", document="passage : ")
    )
    assert embedder.dimension == 2
    np.testing.assert_allclose(embedder.embed_query("cat"), mean("cat")[:2], atol=1e-5)
    found = embedder.embed_documents(["cat"])[0]
    np.testing.assert_allclose(found, mean("passage", ":", "cat")[:2], atol=1e-5)


def test_a_store_finds_by_it(static):
    with ContextStore.open("memory://", embedder=f"sentence-transformers:{static}") as store:
        store.memory.add(["cat dog", "tea milk"])
        assert store.memory.search("milk", mode="vector")[0].record.text == "tea milk"


def test_a_transformer_s_length_is_known_before_it_is_loaded_and_its_vectors_are_its_own(bert):
    embedder = SentenceTransformersEmbedder(bert, device="cpu")
    assert embedder.dimension == 8
    texts = ["cat dog", "tea", "milk milk tea"]
    expected = SentenceTransformer(str(bert), device="cpu").encode(texts)
    np.testing.assert_allclose(embedder.embed_documents(texts), expected, atol=1e-5)


def test_a_text_beyond_what_the_model_reads_is_told_once(bert):
    embedder = SentenceTransformersEmbedder(bert, device="cpu")
    embedder.embed_query("cat " * 16)
    with pytest.warns(
        TruncatedTextWarning, match="first 16 tokens of a text, and one has about 17"
    ):
        embedder.embed_documents(["cat " * 17])
    embedder.embed_query("cat " * 17)  # warnings are errors here: there is no second one


def test_threads_share_one_model(bert):
    embedder = SentenceTransformersEmbedder(bert, device="cpu")
    texts = [["cat dog", "tea " * 9], ["milk"]] * 8
    expected = [embedder.embed_documents(some) for some in texts]
    with ThreadPoolExecutor(4) as pool:
        for one, other in zip(pool.map(embedder.embed_documents, texts), expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_an_embedder_pickles_without_its_model(static):
    embedder = SentenceTransformersEmbedder(static)
    before = embedder.embed_query("cat")
    pickled = pickle.dumps(embedder)
    assert len(pickled) < 2000
    assert (pickle.loads(pickled).embed_query("cat") == before).all()  # noqa: S301 - our own


def test_a_folder_that_is_not_there_is_said_at_once():
    with pytest.raises(InvalidRequestError, match="no such folder"):
        as_embedder("sentence-transformers:/no/such/folder")


# Cross-encoders


def test_a_cross_encoder_scores_question_and_text_together(cross):
    texts = ["cat", "dog tea", "milk"]
    found = SentenceTransformersReranker(cross, device="cpu").scores("tea", texts)
    usual = CrossEncoder(cross, device="cpu").predict([("tea", text) for text in texts])
    assert found == pytest.approx(usual.tolist(), abs=1e-5)  # its own activation is the sigmoid
    assert len(set(found)) == 3


def test_a_search_is_ordered_by_a_cross_encoder(cross, static):
    reranker = SentenceTransformersReranker(cross, device="cpu")
    texts = ["tea cat", "tea dog", "tea milk"]
    with ContextStore.open("memory://", embedder=f"sentence-transformers:{static}") as store:
        store.memory.add(texts)
        hits = store.memory.search("tea", options=SearchOptions(reranker=reranker))
    expected = sorted(reranker.scores("tea", texts), reverse=True)
    assert [hit.score for hit in hits] == pytest.approx(expected, abs=1e-5)


def test_a_model_of_several_numbers_a_pair_is_refused(tmp_path):
    cross = saved(tmp_path / "two", BertForSequenceClassification, num_labels=2)
    with pytest.raises(InvalidRequestError, match="gives 2 numbers a pair"):
        SentenceTransformersReranker(cross, device="cpu").scores("tea", ["cat"])
