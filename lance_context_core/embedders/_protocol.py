"""The protocols of embedders, blocking and asynchronous."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from lance_context_core.errors import TruncatedTextWarning

VectorArray: TypeAlias = npt.NDArray[np.float32]
"""One vector of shape (dimension,), or several of shape (n, dimension)."""


class _Described(Protocol):
    @property
    def model(self) -> str:
        """A stable name, recorded in the table; the table refuses an embedder of another name."""

    @property
    def dimension(self) -> int | None:
        """The length of the vectors; None if unknown before the first call."""


@runtime_checkable
class Embedder(_Described, Protocol):
    """Turns texts into vectors; called in worker threads, from several of them at once.

    Any object with these members qualifies, without inheritance. A row of zeros means that the
    model found no direction in a text. Optional: `batch_size`, the most texts a call (64 by
    default), and `max_concurrency`, the number of threads that call it (4 by default); and, for
    hybrid searches that name no others, `vector_weight`, that of `Convex`, and `n_candidates`.
    """

    def embed_documents(self, texts: Sequence[str]) -> VectorArray:
        """Returns vectors of shape (len(texts), dimension), float32, in order, not normalised."""

    def embed_query(self, text: str) -> VectorArray:
        """Returns the vector to search with, of shape (dimension,), float32, not normalised."""


@runtime_checkable
class AsyncEmbedder(_Described, Protocol):
    """The asynchronous `Embedder`; for an object that is both, the coroutines are used.

    One object is awaited on several event loops, at the same time and one after the other: it must
    not keep a client that belongs to one loop.
    """

    async def aembed_documents(self, texts: Sequence[str]) -> VectorArray:
        """See `Embedder.embed_documents`."""

    async def aembed_query(self, text: str) -> VectorArray:
        """See `Embedder.embed_query`."""


# Batches of texts: bounded in number and in length.


def batches(texts: Sequence[str], *, max_texts: int, max_chars: int) -> Iterator[list[str]]:
    """Yields `texts` in order; one that is longer than `max_chars` is a batch of its own."""
    batch: list[str] = []
    n_chars = 0
    for text in texts:
        if batch and (len(batch) == max_texts or n_chars + len(text) > max_chars):
            yield batch
            batch, n_chars = [], 0
        batch.append(text)
        n_chars += len(text)
    if batch:
        yield batch


def well_formed(text: str) -> str:
    """Replaces unpaired surrogates in `text`: tokenizers refuse them, and half an emoji is common."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# Warning that a model reads only the beginning of a text.


class Truncation:
    """Warns of texts longer than a model reads: once for each embedder."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._is_told = False

    def look(
        self, texts: Sequence[str], max_tokens: int | None, n_tokens: Callable[[str], int]
    ) -> None:
        """Warns of the first text of more than `max_tokens`; None if the model has no limit."""
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
