"""Embedders made of functions from a list of texts to a list of vectors."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from operator import index
from typing import Any, ClassVar

from lance_context_core._util.calls import is_async
from lance_context_core.embedders._protocol import VectorArray
from lance_context_core.embedders._vectors import (
    checked_vector,
    checked_vectors,
    no_vectors,
    shortened,
)
from lance_context_core.errors import EmbeddingError, InvalidRequestError


class _Functions:
    """The shared part of the two classes: the functions, and their model and dimension."""

    _takes_coroutines: ClassVar[bool]

    def __init__(
        self,
        fn: Callable[[list[str]], Any],
        *,
        model: str,
        dimension: int | None = None,
        query_fn: Callable[[str], Any] | None = None,
    ) -> None:
        self.model = checked_model(model)
        self.dimension = checked_dimension(dimension)
        self._fn = fn
        self._query_fn = query_fn
        for name, function in (("fn", fn), ("query_fn", query_fn)):
            if function is not None and not callable(function):
                raise InvalidRequestError(
                    f"{name}={shortened(function)} cannot be called: pass a function"
                )
            if is_async(function) and not self._takes_coroutines:
                raise InvalidRequestError(
                    f"{name}={shortened(function)} is asynchronous: use AsyncCallableEmbedder"
                )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r}, dimension={self.dimension})"


class CallableEmbedder(_Functions):
    """An `Embedder` made of a function from a list of texts to as many vectors.

    Vectors may be lists, numpy arrays, or one array of two dimensions. Without `query_fn`, which
    takes one text and returns one vector, a query is embedded like a document. Both are called in
    several threads at once. Pickles if its functions do.
    """

    _takes_coroutines = False

    def embed_documents(self, texts: Sequence[str]) -> VectorArray:
        """See `Embedder.embed_documents`. Raises EmbeddingError for invalid vectors."""
        if not texts:
            return no_vectors(self.dimension)
        raw = _immediate(self._fn(list(texts)), model=self.model)
        return checked_vectors(raw, texts, model=self.model, dimension=self.dimension)

    def embed_query(self, text: str) -> VectorArray:
        """See `Embedder.embed_query`. Raises EmbeddingError for an invalid vector."""
        if self._query_fn is None:
            vector: VectorArray = self.embed_documents([text])[0]
            return vector
        raw = _immediate(self._query_fn(text), model=self.model)
        return checked_vector(raw, text, model=self.model, dimension=self.dimension)


class AsyncCallableEmbedder(_Functions):
    """The `AsyncEmbedder` made of functions that return awaitables; else like `CallableEmbedder`."""

    _takes_coroutines = True

    async def aembed_documents(self, texts: Sequence[str]) -> VectorArray:
        """See `Embedder.embed_documents`. Raises EmbeddingError for invalid vectors."""
        if not texts:
            return no_vectors(self.dimension)
        raw = await _awaitable(self._fn(list(texts)), model=self.model)
        return checked_vectors(raw, texts, model=self.model, dimension=self.dimension)

    async def aembed_query(self, text: str) -> VectorArray:
        """See `Embedder.embed_query`. Raises EmbeddingError for an invalid vector."""
        if self._query_fn is None:
            vector: VectorArray = (await self.aembed_documents([text]))[0]
            return vector
        raw = await _awaitable(self._query_fn(text), model=self.model)
        return checked_vector(raw, text, model=self.model, dimension=self.dimension)


def checked_model(model: object) -> str:
    """Returns `model`; raises InvalidRequestError unless it is a name."""
    if not isinstance(model, str) or not model.strip():
        raise InvalidRequestError(
            f"model={shortened(model)} is not a name: pass the one that the vectors are known by"
        )
    return model


def checked_dimension(dimension: int | None) -> int | None:
    """Returns `dimension` as an int; raises InvalidRequestError unless it is positive or None."""
    if dimension is None:
        return None
    try:
        number = 0 if isinstance(dimension, bool) else index(dimension)
    except TypeError:
        number = 0
    if number <= 0:
        raise InvalidRequestError(
            f"dimension={shortened(dimension)} is not a positive integer: "
            "pass the length of the vectors, or None if it is not known"
        )
    return number


def _immediate(raw: Any, *, model: str) -> Any:
    """Returns `raw`; raises for a coroutine, which a worker thread has no loop to await on."""
    if not inspect.isawaitable(raw):
        return raw
    if inspect.iscoroutine(raw):
        raw.close()
    raise EmbeddingError(
        f"embedder {model!r} returned {type(raw).__name__}, where vectors were expected: "
        "use AsyncCallableEmbedder"
    )


def _awaitable(raw: Any, *, model: str) -> Awaitable[Any]:
    if inspect.isawaitable(raw):
        return raw
    raise EmbeddingError(
        f"embedder {model!r} returned {type(raw).__name__}, where an awaitable was expected: "
        "use CallableEmbedder"
    )
