"""The local model: its vectors, its threads, and what it leaves alone."""

import asyncio
import json
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.embedders import LocalEmbedder, as_embedder
from lance_context_core.embedders._local import _load, _load_once
from lance_context_core.embedders._service import EmbeddingService
from lance_context_core.errors import MissingExtraError


@pytest.fixture(scope="module")
def fresh_process():
    """What a new interpreter did while it used the local embedder for the first time."""
    code = """
import json, logging, sys
events = []
sys.addaudithook(lambda event, args: event.startswith("socket.") and events.append(event))
from lance_context_core.embedders import LocalEmbedder
embedder = LocalEmbedder()
early = "wordllama" in sys.modules
embedder.embed_documents(["hello"])
root = logging.getLogger()
print(json.dumps({"events": events, "handlers": len(root.handlers), "level": root.level,
                  "early": early}))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_the_local_embedder_opens_no_connection(fresh_process, monkeypatch):
    connecting = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}
    assert connecting.isdisjoint(fresh_process["events"])

    def refuse(*args, **kwargs):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    _load_once.cache_clear()
    assert LocalEmbedder().embed_query("hello").shape == (256,)


def test_the_local_model_is_loaded_at_the_first_call_only(fresh_process):
    assert fresh_process["early"] is False


def test_the_local_embedder_leaves_the_root_logger_alone(fresh_process):
    assert (fresh_process["handlers"], fresh_process["level"]) == (0, 30)


def test_related_sentences_are_closer_than_unrelated_ones():
    groups = [
        ["The dog chased the cat across the garden.", "A puppy ran after a kitten in the yard."],
        ["Interest rates rose and the bank raised mortgages.", "The loan became more expensive."],
        ["She plays the violin in an orchestra.", "He studied the piano and music at school."],
    ]
    sentences = [sentence for group in groups for sentence in group]
    vectors = LocalEmbedder().embed_documents(sentences)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = unit @ unit.T - 2 * np.eye(len(unit))
    assert cosine.argmax(axis=1).tolist() == [1, 0, 3, 2, 5, 4]


def test_a_local_vector_is_what_the_package_itself_computes():
    import wordllama

    package = wordllama.WordLlama.load(
        cache_dir=wordllama.__path__[0], dim=256, disable_download=True
    )
    texts = ["hello", "", "  ", "the the the cat", "\N{DOG FACE} naïve", "\0", "word " * 500]
    ours = LocalEmbedder().embed_documents([text.upper() for text in texts])
    np.testing.assert_allclose(ours, package.embed(texts), atol=1e-5)
    assert not ours[1].any()


@given(st.text(max_size=40))
def test_a_text_and_a_question_have_one_vector_however_they_are_written(text):
    embedder = LocalEmbedder()
    expected = embedder.embed_documents([text.lower()])[0]
    assert (embedder.embed_documents([text])[0] == expected).all()
    assert (embedder.embed_query(text) == expected).all()


def test_a_name_is_as_near_in_a_question_without_capitals():
    caroline, other = LocalEmbedder().embed_documents(["CAROLINE moved", "The weather is fine"])
    query = LocalEmbedder().embed_query("caroline")
    assert query @ caroline / np.linalg.norm(caroline) > query @ other / np.linalg.norm(other)


def test_the_name_of_the_model_tells_it_from_the_bare_weights():
    assert LocalEmbedder().model == "wordllama-l2-supercat-256-lower"


def test_a_local_vector_does_not_depend_on_the_texts_beside_it():
    texts = [f"sentence {i} " * (1 + i % 40) for i in range(600)]
    embedder = LocalEmbedder()
    together = embedder.embed_documents(texts)
    assert together.shape == (600, 256)
    assert all((together[i] == embedder.embed_query(texts[i])).all() for i in range(600))


def test_long_texts_are_not_tokenized_all_at_once(monkeypatch):
    monkeypatch.setattr("lance_context_core.embedders._local._CHARS_AT_ONCE", 100)
    sizes = []
    encode = type(_load()).tokens

    def tokens(model, texts):
        sizes.append([len(text) for text in texts])
        return encode(model, texts)

    monkeypatch.setattr(type(_load()), "tokens", tokens)
    LocalEmbedder().embed_documents(["x" * n for n in (50, 50, 1, 300, 99, 1)])
    assert sizes == [[50, 50], [1], [300], [99, 1]]


def test_half_an_emoji_is_embedded_like_the_replacement_character():
    first, second, whole, dog = LocalEmbedder().embed_documents(
        ["a \ud83d b", "a \ufffd b", "\ud83d\udc36", "\N{DOG FACE}"]
    )
    assert (first == second).all()
    assert (whole == dog).all()


def test_the_local_embedder_pickles_without_its_model():
    embedder = LocalEmbedder()
    before = embedder.embed_query("hello")
    pickled = pickle.dumps(embedder)
    assert len(pickled) < 200
    assert (pickle.loads(pickled).embed_query("hello") == before).all()  # noqa: S301


def test_threads_that_ask_at_once_load_the_local_model_once():
    _load_once.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        models = set(map(id, pool.map(lambda _: _load(), range(8))))
    assert len(models) == 1
    assert _load_once.cache_info().misses == 1


def test_a_short_question_is_instant_once_the_model_is_there():
    embedder = LocalEmbedder()
    embedder.embed_query("kite")
    assert embedder.is_instant("what happened to the kite?")
    assert not embedder.is_instant("kite " * 1_000)


def test_a_missing_extra_is_named_with_the_command_that_brings_it(monkeypatch):
    embedder = LocalEmbedder()
    _load_once.cache_clear()
    monkeypatch.setitem(sys.modules, "wordllama", None)
    command = r"pip install 'lance-context-core\[local\]'"
    with pytest.raises(MissingExtraError, match=command):
        LocalEmbedder()
    with pytest.raises(MissingExtraError, match=command):
        as_embedder("local")
    with pytest.raises(MissingExtraError, match=command):  # unpickled where the extra is missing
        asyncio.run(EmbeddingService(embedder).embed_documents(["a"]))
