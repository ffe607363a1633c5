"""The packaged transformer itself: tests/core/embedders/test_e5.py has what needs no weights."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lance_context_core import ContextStore
from lance_context_core.embedders import E5Embedder
from lance_context_core.errors import TruncatedTextWarning

TEXTS = ["Der Hund schläft im Garten.", "我上周末和家人去爬山了。", "The train to Oslo was late."]
QUESTIONS = ["where is the dog?", "周末谁去爬山了", "Wann kam der Zug an?"]


def test_a_question_in_another_language_finds_the_text(tmp_path):
    with ContextStore.open(tmp_path / "store", embedder="e5") as store:
        store.memory.add(TEXTS)
        for question, text in zip(QUESTIONS, TEXTS, strict=True):
            assert store.memory.search(question, mode="vector")[0].record.text == text


def test_questions_and_texts_are_embedded_as_the_model_was_trained():
    embedder = E5Embedder()
    question = embedder.embed_query("the train")
    text = embedder.embed_documents(["the train"])[0]
    assert np.linalg.norm(question) == pytest.approx(1, abs=1e-3)
    assert 0.8 < question @ text < 0.999  # The same, but for the prefix.


def test_a_batch_has_the_vectors_of_its_texts_from_any_thread():
    embedder = E5Embedder()
    alone = [embedder.embed_documents([text])[0] for text in TEXTS]
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(embedder.embed_documents, [TEXTS] * 8):
            np.testing.assert_allclose(found, alone, atol=1e-5)


def test_one_thread_computes_a_call():
    code = """
import os
from lance_context_core.embedders import E5Embedder
before = len(os.listdir("/proc/self/task"))
E5Embedder().embed_documents(["The train to Oslo was late."] * 4)
print(len(os.listdir("/proc/self/task")) - before, "OMP_NUM_THREADS" in os.environ)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False"]


def test_only_the_beginning_of_a_long_text_is_read():
    embedder = E5Embedder(max_tokens=40)
    start = "The train to Oslo was late again this morning. "
    with pytest.warns(TruncatedTextWarning, match="first 40 tokens"):
        one, other = embedder.embed_documents([start * 4 + "dogs " * 99, start * 4 + "cats " * 99])
    np.testing.assert_allclose(one, other, atol=1e-5)
