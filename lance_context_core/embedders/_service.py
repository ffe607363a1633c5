"""Calls an embedder for the store: off the event loop, in batches, cached, checked."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np

from lance_context_core._util.checks import check_count
from lance_context_core._util.lru import Recent
from lance_context_core._util.workers import Workers
from lance_context_core.embedders._adapt import AnyEmbedder
from lance_context_core.embedders._callable import checked_dimension, checked_model
from lance_context_core.embedders._protocol import AsyncEmbedder, Embedder, VectorArray
from lance_context_core.embedders._vectors import (
    checked_vector,
    checked_vectors,
    no_vectors,
    shortened,
)
from lance_context_core.errors import ContextStoreError, EmbeddingError, InvalidRequestError

T = TypeVar("T")

_BATCH_SIZE, _MAX_CONCURRENCY = 64, 4
"""The defaults for an embedder without these attributes."""

_ENTRY_BYTES = 300
"""The overhead of an entry: the array object, the digest and the place in the dict."""


class EmbeddingService:
    """Embeds for any number of event loops and threads at once.

    An `Embedder` runs in worker threads of this service, at most `max_concurrency` of them: 1 for a
    model that only one thread may use. An `AsyncEmbedder` is awaited on the caller's loop. A call
    sends its batches of at most `batch_size` texts one after the other. Both default to the
    embedder's attributes of these names. Documents and queries each have a cache
    of `cache_bytes`, keyed by the exact text; 0 turns both off.

    Cancelling a call abandons it: the batch that a worker thread has begun runs to its end.
    The threads end with the service itself; there is nothing to close.
    """

    def __init__(
        self,
        embedder: AnyEmbedder,
        *,
        batch_size: int | None = None,
        max_concurrency: int | None = None,
        cache_bytes: int = 16 * 2**20,
    ) -> None:
        if batch_size is None:
            batch_size = getattr(embedder, "batch_size", None) or _BATCH_SIZE
        if max_concurrency is None:
            max_concurrency = getattr(embedder, "max_concurrency", None) or _MAX_CONCURRENCY
        for name, value, least in (
            ("batch_size", batch_size, 1),
            ("max_concurrency", max_concurrency, 1),
            ("cache_bytes", cache_bytes, 0),
        ):
            check_count(value, name, least=least)
        # Inspecting a protocol's members takes longer than embedding a short text.
        self._awaited: AsyncEmbedder | None = None
        self._called: Embedder | None = None
        if isinstance(embedder, AsyncEmbedder):
            self._awaited = embedder
        else:
            self._called = embedder
        self._model = checked_model(embedder.model)
        self.vector_weight: float | None = getattr(embedder, "vector_weight", None)
        """The weight of its vectors in hybrid search; None for the default."""
        self.n_candidates: int | None = getattr(embedder, "n_candidates", None)
        """The candidates of each channel with these vectors; None for the default."""
        self._dimension = checked_dimension(embedder.dimension)
        self._batch_size = batch_size
        self._documents = VectorCache(cache_bytes)
        self._queries = VectorCache(cache_bytes)
        self._lock = threading.Lock()
        # Not the loop's default executor: an application may have filled that one with threads
        # that wait for the store.
        self._workers = Workers(max_concurrency, "lance-context-embed")

    @property
    def model(self) -> str:
        """The embedder's name when the service was created."""
        return self._model

    @property
    def batch_size(self) -> int:
        """The most texts that the embedder gets at once."""
        return self._batch_size

    @property
    def dimension(self) -> int | None:
        """The length of the vectors; None if unknown before the first call."""
        return self._dimension

    async def embed_documents(self, texts: Sequence[str]) -> VectorArray:
        """Returns vectors of shape (len(texts), dimension), float32, C-contiguous, in order.

        Not normalised. Each distinct text is sent to the embedder once. A row of zeros means that
        the model found no direction in the text: cosine is undefined there, store no vector. For no
        texts, the shape is (0, dimension), with 0 for an unknown dimension.

        Raises InvalidRequestError, before the embedder is called, for a text that is blank or not
        a string; EmbeddingError, from the cause, if the embedder fails or returns anything but one
        finite vector of the expected dimension per text. Batches that succeeded stay in the cache.
        """
        texts = _texts(texts)
        distinct = dict.fromkeys(texts)
        vectors = self._documents.get_many(distinct)
        for batch in _batches([text for text in distinct if text not in vectors], self._batch_size):
            vectors.update(await self._documents_of(batch))
        if not vectors:
            return no_vectors(self._dimension)
        return np.stack([vectors[text] for text in texts])

    async def embed_query(self, text: str) -> VectorArray:
        """Returns the vector to search with, of shape (dimension,), float32; the caller's own copy.

        Under the same rules as `embed_documents`; zeros mean that it cannot find anything.
        """
        known = self._queries.get_many([_text(text)])
        vector = known[text] if text in known else await self._query_of(text)
        return vector.copy()

    async def _documents_of(self, batch: list[str]) -> dict[str, VectorArray]:
        """Returns the vectors of one batch, which are then in the cache."""

        def keep(raw: Any) -> dict[str, VectorArray]:
            matrix = checked_vectors(raw, batch, model=self._model, dimension=self._dimension)
            self._learn_dimension(matrix.shape[1])
            vectors = dict(zip(batch, matrix, strict=True))
            self._documents.put_many(vectors)
            return vectors

        if self._awaited is not None:
            with _Failures(self._model, n_texts=len(batch)):
                raw = await self._awaited.aembed_documents(list(batch))
            return keep(raw)
        assert self._called is not None
        embed = self._called.embed_documents
        if len(batch) == 1 and self._is_instant(batch[0]):
            with _Failures(self._model, n_texts=1):
                raw = embed(list(batch))
            return keep(raw)
        return await self._in_worker(embed, list(batch), keep=keep, n_texts=len(batch))

    async def _query_of(self, text: str) -> VectorArray:
        """Returns the vector of one query, which is then in the cache."""

        def keep(raw: Any) -> VectorArray:
            vector = checked_vector(raw, text, model=self._model, dimension=self._dimension)
            self._learn_dimension(len(vector))
            self._queries.put_many({text: vector})
            return vector

        if self._awaited is not None:
            with _Failures(self._model, n_texts=1):
                raw = await self._awaited.aembed_query(text)
            return keep(raw)
        assert self._called is not None
        embed = self._called.embed_query
        if self._is_instant(text):
            with _Failures(self._model, n_texts=1):
                raw = embed(text)
            return keep(raw)
        return await self._in_worker(embed, text, keep=keep, n_texts=1)

    def _is_instant(self, text: str) -> bool:
        """Whether embedding a text is faster than handing it to another thread."""
        is_instant: Callable[[str], bool] | None = getattr(self._called, "is_instant", None)
        return is_instant is not None and is_instant(text)

    async def _in_worker(
        self, embed: Callable[[Any], Any], argument: Any, *, keep: Callable[[Any], T], n_texts: int
    ) -> T:
        """Runs `keep(embed(argument))` in a worker thread, to its end even if the caller is cancelled."""

        def work() -> T:
            with _Failures(self._model, n_texts=n_texts):
                raw = embed(argument)
            return keep(raw)

        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._workers, context.run, work)

    def _learn_dimension(self, dimension: int) -> None:
        """Fixes the dimension at the first vectors; concurrent first calls must agree."""
        with self._lock:
            if self._dimension is None:
                self._dimension = dimension
        if dimension != self._dimension:
            raise EmbeddingError(
                f"embedder {self._model!r} returned vectors of length {dimension}, "
                f"after others of length {self._dimension}"
            )


class VectorCache:
    """A least recently used cache of vectors by text, up to `max_bytes`; thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._vectors: Recent[bytes, VectorArray] = Recent(max_bytes, size_of=_size)

    @property
    def n_bytes(self) -> int:
        """The approximate bytes of the vectors and their entries."""
        return self._vectors.size

    def get_many(self, texts: Iterable[str]) -> dict[str, VectorArray]:
        """Returns the cached vectors, by text; read-only arrays."""
        if not self._max_bytes:
            return {}
        found = {text: self._vectors.get(_digest(text)) for text in texts}
        return {text: vector for text, vector in found.items() if vector is not None}

    def put_many(self, vectors: Mapping[str, VectorArray]) -> None:
        """Caches copies: a row of a batch would keep the whole batch in memory."""
        if not self._max_bytes:
            return
        for text, vector in vectors.items():
            copy = vector.copy()
            copy.flags.writeable = False
            self._vectors.put(_digest(text), copy)


class _Failures:
    """Converts an embedder's exceptions to EmbeddingError; this package's errors pass.

    Not a `contextmanager`: that one lets a StopIteration through when a RuntimeError is raised from
    it, and a future cannot carry a StopIteration: the caller would wait forever.
    """

    def __init__(self, model: str, *, n_texts: int) -> None:
        self._message = f"embedder {model!r} failed on {n_texts} text(s)"

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, ContextStoreError):
            raise EmbeddingError(f"{self._message}: {type(error).__name__}: {error}") from error


def _batches(texts: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(texts), size):
        yield texts[start : start + size]


def _size(vector: VectorArray) -> int:
    return vector.nbytes + _ENTRY_BYTES


def _digest(text: str) -> bytes:
    """Returns 128 bits: the text may be long, and Python's 64-bit hash can be made to collide."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _texts(texts: Sequence[str]) -> list[str]:
    """Returns `texts` as a list; raises InvalidRequestError for a bare string, or an item as `_text`."""
    if isinstance(texts, str):
        raise InvalidRequestError(
            f"texts={shortened(texts)} is one string, where a list of them belongs: pass [text]"
        )
    for position, text in enumerate(texts):
        _text(text, name=f"texts[{position}]")
    return list(texts)


def _text(text: str, *, name: str = "text") -> str:
    """Returns `text`; raises InvalidRequestError unless it is a nonblank string."""
    if not isinstance(text, str):
        raise InvalidRequestError(f"{name}={shortened(text)} is not a string: embed its text")
    if not text or text.isspace():
        raise InvalidRequestError(
            f"{name}={shortened(text)} has nothing to embed: leave it without a vector"
        )
    return text
