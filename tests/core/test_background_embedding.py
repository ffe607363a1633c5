"""`defer_embedding="background"`: a write waits for no embedder, and vectors follow it."""

import logging
import threading
import time

import numpy as np
import pytest

from lance_context_core import ContextStore, Document, Message
from lance_context_core.errors import InvalidRequestError


class Gated:
    """Embeds once its gate is open; records the texts of each call."""

    model, dimension, batch_size = "gated", 2, 4

    def __init__(self):
        self.gate, self.calls, self.error = threading.Event(), [], None

    def embed_documents(self, texts):
        assert self.gate.wait(20)
        self.calls.append(list(texts))
        if self.error is not None:
            raise self.error
        return np.array([[len(text), 1] for text in texts], np.float32)

    def embed_query(self, text):
        return np.array([len(text), 1], np.float32)


@pytest.fixture
def embedder():
    made = Gated()
    yield made
    made.gate.set()


@pytest.fixture(params=["directory", "memory://"])
def place(request, tmp_path):
    return tmp_path / "store" if request.param == "directory" else request.param


def until(is_so):
    """Wait for the background, which has no event to wait for."""
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end, "it did not happen in 20 seconds"
        time.sleep(0.01)


def near(store, n):
    return lambda: len(store.search("x", mode="vector", limit=100)) == n


def test_a_write_returns_before_its_text_is_embedded_and_its_vector_follows(embedder, place):
    with ContextStore.open(place, embedder=embedder, defer_embedding="background") as store:
        for number in range(10):
            store.history.append("", Message.user(f"turn {number}"), session_id="s")
        assert embedder.calls == []
        assert store.search("x", mode="vector") == []
        assert len(store.search("turn", mode="text", limit=100)) == 10
        embedder.gate.set()
        until(near(store, 10))
        texts = [text for call in embedder.calls for text in call]
        assert sorted(texts) == sorted(f"turn {number}" for number in range(10))  # Each once.
        assert max(map(len, embedder.calls)) <= embedder.batch_size
        assert [one.text for one in store.history.get_messages("", session_id="s")] == [
            f"turn {number}" for number in range(10)
        ]


def test_documents_and_memories_get_vectors_too(embedder, tmp_path):
    embedder.gate.set()
    with ContextStore.open(tmp_path, embedder=embedder, defer_embedding="background") as store:
        store.memory.add(["one"], user_id="ann")
        store.vectors("notes").add([Document(text="two"), Document(text="three")])
        until(lambda: len(store.memory.search("x", user_id="ann", mode="vector")) == 1)
        until(lambda: len(store.vectors("notes").search("x", mode="vector")) == 2)


def test_what_fails_is_logged_and_embedded_after_the_next_write(embedder, tmp_path, caplog):
    embedder.gate.set()
    embedder.error = TimeoutError("no answer")
    with ContextStore.open(tmp_path, embedder=embedder, defer_embedding="background") as store:
        with caplog.at_level(logging.WARNING):
            store.memory.add(["one"])
            until(lambda: "no answer" in caplog.text)
        embedder.error = None
        store.memory.add(["two"])
        until(near(store, 2))


def test_what_a_closed_store_left_is_embedded_when_it_is_written_to_again(embedder, tmp_path):
    with ContextStore.open(tmp_path, embedder=embedder, defer_embedding=True) as store:
        store.memory.add(["one", "two"])
    embedder.gate.set()
    with ContextStore.open(tmp_path, embedder=embedder, defer_embedding="background") as store:
        assert store.search("x", mode="vector") == []
        store.memory.add(["three"])
        until(near(store, 3))


def test_closing_waits_for_the_batch_in_progress_and_no_longer(embedder, tmp_path):
    store = ContextStore.open(tmp_path, embedder=embedder, defer_embedding="background")
    store.memory.add([f"memory {number}" for number in range(20)])
    embedder.gate.set()
    until(lambda: embedder.calls)
    store.close()
    n_calls = len(embedder.calls)
    with ContextStore.open(tmp_path, embedder=embedder) as again:
        n_embedded = sum(map(len, embedder.calls))
        assert len(again.search("x", mode="vector", limit=100)) == n_embedded
        assert again.embed_pending() == 20 - n_embedded
    assert n_calls < 5


def test_without_the_background_nothing_is_embedded_until_it_is_asked_for(embedder, tmp_path):
    embedder.gate.set()
    with ContextStore.open(tmp_path, embedder=embedder, defer_embedding=True) as store:
        store.memory.add(["one"])
        time.sleep(0.2)
        assert embedder.calls == []
        assert store.embed_pending() == 1


@pytest.mark.parametrize("given", ["foreground", 1, None])
def test_another_way_to_defer_is_refused(given, tmp_path):
    with pytest.raises(InvalidRequestError, match=r'defer_embedding=.* or "background"'):
        ContextStore.open(tmp_path, defer_embedding=given)
