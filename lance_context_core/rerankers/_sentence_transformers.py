"""Cross-encoders of sentence-transformers: whatever torch runs, on a graphics card where there is one."""

import os
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from lance_context_core._util.checks import check_count
from lance_context_core._util.extras import Loaded, importing, require
from lance_context_core.embedders._folders import Source, source_of
from lance_context_core.errors import InvalidRequestError
from lance_context_core.rerankers._texts import TextReranker, sigmoid

_PACKAGE, _EXTRA = "sentence_transformers", "sentence-transformers"
_reading = threading.Lock()
"""A tokenizer of transformers must not be set up by one thread while another one uses it."""


class SentenceTransformersReranker(TextReranker):
    """A cross-encoder of sentence-transformers, which the extra of that name installs, with torch.

    `model` is a folder, or a name in the Hugging Face hub, whose model is downloaded at the first
    search unless it was before; it must give one number a pair, of which the sigmoid is the score.
    `device` is torch's, such as "cpu" or "cuda"; `options` are further arguments of `CrossEncoder`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        device: str | None = None,
        batch_size: int = 32,
        **options: Any,
    ) -> None:
        require(_PACKAGE, extra=_EXTRA, by="SentenceTransformersReranker")
        source = source_of(model)
        self.model = source.name
        self._batch_size = check_count(batch_size, "batch_size")
        self._loaded = Loaded(partial(_load, source, {"device": device, **options}))

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `TextReranker.scores`."""
        encoder = self._loaded.get()
        pairs = [(query, text) for text in texts]
        with _reading:
            logits = encoder.predict(
                pairs,
                batch_size=self._batch_size,
                activation_fn=_unchanged,
                show_progress_bar=False,
            )
        return sigmoid(logits)

    def __repr__(self) -> str:
        return f"SentenceTransformersReranker({self.model!r})"


def _load(source: Source, options: dict[str, Any]) -> Any:
    with importing(_PACKAGE, extra=_EXTRA, by="SentenceTransformersReranker"):
        from sentence_transformers import CrossEncoder
    encoder = CrossEncoder(source.given, **options)
    if encoder.num_labels != 1:
        raise InvalidRequestError(
            f"model={source.given!r} gives {encoder.num_labels} numbers a pair: a reranker gives one"
        )
    return encoder


def _unchanged(logits: Any) -> Any:
    """In place of the model's own activation: some come with a sigmoid, some without."""
    return logits
