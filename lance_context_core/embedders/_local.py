"""The embedder that needs no network and no service: a static model inside an installed package."""

import logging
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lance_context_core._util.extras import importing, require
from lance_context_core._util.frozen import frozen
from lance_context_core.embedders._batches import batches, well_formed
from lance_context_core.embedders._protocol import VectorArray

_TEXTS_AT_ONCE = 256
_CHARS_AT_ONCE = 1_000_000
_INSTANT_CHARS = 1_000
_loading = threading.Lock()


class LocalEmbedder:
    """wordllama's 256-d static model, which the extra `local` installs with its weights.

    A text's vector is the mean of the vectors of its tokens, whatever the texts beside it. Texts are
    lower-cased first: a word has tokens of its own for each way to write it, and "Vase" would be
    nearly a stranger to "vase". Tokens take about 100 bytes per character while they are counted,
    for a million characters at a time or for one longer text. The model is loaded at the first call,
    once per process: about a second, 33 MB. It never opens a connection. Raises MissingExtraError,
    at construction, without the extra.
    """

    model = "wordllama-l2-supercat-256-lower"
    """Not the bare name of the weights: whoever embeds with them as they are gets other vectors."""
    dimension = 256

    def __init__(self) -> None:
        require("wordllama", extra="local", by="LocalEmbedder")

    def embed_documents(self, texts: Sequence[str]) -> VectorArray:
        """See `Embedder.embed_documents`. A text without tokens, such as an empty one, is zeros."""
        model = _load()
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        rows = iter(vectors)
        for batch in batches(texts, max_texts=_TEXTS_AT_ONCE, max_chars=_CHARS_AT_ONCE):
            for tokens in model.tokens([well_formed(text).lower() for text in batch]):
                next(rows)[:] = model.mean(tokens)
        return vectors

    def embed_query(self, text: str) -> VectorArray:
        """See `Embedder.embed_query`; a query is embedded like a document."""
        model = _load()
        encoded = model.tokenizer.encode(well_formed(text).lower(), add_special_tokens=False)
        return model.mean(encoded.ids)

    def is_instant(self, text: str) -> bool:
        """Whether a text is embedded sooner than it is handed to another thread."""
        return len(text) <= _INSTANT_CHARS and _load_once.cache_info().currsize > 0

    def __repr__(self) -> str:
        return "LocalEmbedder()"


@frozen
class _Model:
    matrix: VectorArray
    """Of shape (vocabulary, dimension)."""
    tokenizer: Any

    def tokens(self, texts: list[str]) -> list[list[int]]:
        encoded = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encoded]

    def mean(self, tokens: list[int]) -> VectorArray:
        # wordllama's own pooling pads every text to the longest of its batch: one long document
        # among short texts takes gigabytes. Counting first bounds the rows by the vocabulary.
        counts = dict.fromkeys(sorted(tokens), 0)
        for id in tokens:
            counts[id] += 1
        times = np.array([*counts.values()], np.float32)
        total: VectorArray = times @ self.matrix.take(np.array([*counts], np.intp), axis=0)
        return total / np.float32(max(len(tokens), 1))


def _load() -> _Model:
    """The model of this process; threads that ask at the same time wait for one load."""
    with _loading:
        return _load_once()


@cache
def _load_once() -> _Model:
    # Importing wordllama calls logging.basicConfig, which would take the root logger away from
    # the application; it leaves a logger alone that has a handler.
    guard = logging.NullHandler()
    logging.getLogger().addHandler(guard)
    try:
        with importing("wordllama", extra="local", by="LocalEmbedder"):
            import wordllama
    finally:
        logging.getLogger().removeHandler(guard)
    inference = wordllama.WordLlama.load(
        cache_dir=Path(wordllama.__file__).parent,
        dim=LocalEmbedder.dimension,
        disable_download=True,
    )
    inference.tokenizer.no_padding()
    return _Model(inference.embedding, inference.tokenizer)
