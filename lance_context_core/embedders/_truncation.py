"""Telling that a model reads only the beginning of a text."""

import warnings
from collections.abc import Callable, Sequence

from lance_context_core.errors import TruncatedTextWarning


class Truncation:
    """What is said of texts that are longer than a model reads: once for each embedder."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._is_told = False

    def look(
        self, texts: Sequence[str], max_tokens: int | None, n_tokens: Callable[[str], int]
    ) -> None:
        """Warn of the first text of more than `max_tokens`; None if the model reads all there is."""
        if self._is_told or max_tokens is None:
            return
        for text in texts:
            # A token is a byte at least: most texts are short enough without being counted.
            if len(text) * 4 <= max_tokens or len(text.encode()) <= max_tokens:
                continue
            if (n := n_tokens(text)) > max_tokens:
                self._is_told = True
                warnings.warn(
                    f"{self._model!r} reads the first {max_tokens} tokens of a text, and one has "
                    f"about {n}: what comes later has no part in its vector; cut long texts into passages "
                    "(store.documents does), or take a model that reads more",
                    TruncatedTextWarning,
                    stacklevel=2,
                )
                return
