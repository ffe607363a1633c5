"""What the store asks of an embedder, asynchronous or not."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

VectorArray: TypeAlias = npt.NDArray[np.float32]
"""One vector of shape (dimension,), or several of shape (n, dimension)."""


class _Described(Protocol):
    @property
    def model(self) -> str:
        """A stable name, recorded in the table; an embedder of another name is refused there."""

    @property
    def dimension(self) -> int | None:
        """The length of the vectors; None if it is known only after the first call."""


@runtime_checkable
class Embedder(_Described, Protocol):
    """Turns texts into vectors; called in worker threads, from several of them at once.

    Any object with these members is one; there is nothing to inherit. A row of zeros says that the
    model found nothing in a text that has a direction. It may have `batch_size`, how many texts a call
    takes at most (else 64), and `max_concurrency`, in how many threads it is called (else 4).
    """

    def embed_documents(self, texts: Sequence[str]) -> VectorArray:
        """Vectors of shape (len(texts), dimension), float32, in the order of `texts`, not normalised."""

    def embed_query(self, text: str) -> VectorArray:
        """The vector to search with, of shape (dimension,), float32, not normalised."""


@runtime_checkable
class AsyncEmbedder(_Described, Protocol):
    """The asynchronous counterpart of `Embedder`; of an object that is both, the coroutines are used.

    One object is awaited on several event loops, at the same time and one after the other: a client
    that belongs to one loop must not be kept.
    """

    async def aembed_documents(self, texts: Sequence[str]) -> VectorArray:
        """See `Embedder.embed_documents`."""

    async def aembed_query(self, text: str) -> VectorArray:
        """See `Embedder.embed_query`."""
