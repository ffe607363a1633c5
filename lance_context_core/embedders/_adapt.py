"""Wraps embedding objects and functions of other libraries as embedders of the store."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from lance_context_core._util.calls import is_async
from lance_context_core.embedders._callable import (
    AsyncCallableEmbedder,
    CallableEmbedder,
    checked_dimension,
    checked_model,
)
from lance_context_core.embedders._e5 import E5Embedder
from lance_context_core.embedders._fastembed import FastEmbedEmbedder
from lance_context_core.embedders._local import LocalEmbedder, Model2VecEmbedder
from lance_context_core.embedders._openai import OpenAIEmbedder
from lance_context_core.embedders._protocol import AsyncEmbedder, Embedder
from lance_context_core.embedders._sentence_transformers import SentenceTransformersEmbedder
from lance_context_core.embedders._vectors import shortened
from lance_context_core.errors import EmbeddingError, InvalidRequestError

# Embedders by name: the only list of the names.

_PACKAGED: dict[str, Callable[[], Embedder]] = {"local": LocalEmbedder, "e5": E5Embedder}
"""Those whose package has the weights."""
_KINDS: dict[str, Callable[..., Embedder]] = {
    "fastembed": FastEmbedEmbedder,
    "model2vec": Model2VecEmbedder,
    "sentence-transformers": SentenceTransformersEmbedder,
    "openai": OpenAIEmbedder,
}
_SHORTENS = ("model2vec", "sentence-transformers", "openai")
"""The kinds whose vectors can be shortened."""


def embedder_of(name: str, *, dimension: int | None = None) -> Embedder:
    """Returns the embedder of a `name`: "local", "e5", or KIND:MODEL.

    Raises InvalidRequestError for an unknown name, and the errors of the kind.
    """
    if name in _PACKAGED:
        return _PACKAGED[name]()
    kind, _, model = name.partition(":")
    make: Callable[..., Any] | None = _KINDS.get(kind)
    if make is None:
        raise InvalidRequestError(
            f"embedder={shortened(name)} is unknown: use one of "
            + ", ".join([f'"{one}"' for one in _PACKAGED] + [f'"{one}:MODEL"' for one in _KINDS])
            + "; or pass an object"
        )
    if not model.strip():
        raise InvalidRequestError(f'embedder={shortened(name)} names no model: pass "{kind}:MODEL"')
    if dimension is not None and kind in _SHORTENS:
        make = partial(make, dimension=dimension)
    made: Embedder = make(model)
    if dimension is not None and made.dimension not in {None, dimension}:
        raise InvalidRequestError(
            f"dimension={dimension}: {name} makes vectors of length {made.dimension}, and no others"
        )
    return made


AnyEmbedder: TypeAlias = Embedder | AsyncEmbedder
"""An embedder of the store, or an object that `as_embedder` converts."""

_MODEL_ATTRIBUTES = ("model", "model_name", "model_id", "name")
_NOT_A_MODEL = ("", "unknown")
"""`unknown` is the default of LlamaIndex's base class."""


def as_embedder(
    value: Any, *, model: str | None = None, dimension: int | None = None
) -> AnyEmbedder:
    """Returns an embedder made of `value`, without calling it."""
    if model is not None:
        checked_model(model)
    dimension = checked_dimension(dimension)
    if isinstance(value, str):
        value = embedder_of(value, dimension=dimension)
    if isinstance(value, type):
        raise InvalidRequestError(
            f"embedder={value.__qualname__} is a class: pass an instance of it"
        )
    if _is_native(value):
        return _renamed(value, model=model, dimension=dimension)
    functions = _functions(value)
    if functions is None:
        raise InvalidRequestError(
            f"embedder={shortened(value)} has no methods that embed: pass an object with "
            "embed_documents and embed_query, or a function together with its model's name"
        )
    documents, query = functions
    if _is_agentscope(value) and dimension is None:
        dimension = value.dimensions
    if documents is value and model is None:
        raise InvalidRequestError(
            f"embedder={shortened(value)} is a function without a model name: "
            'pass its name too, as in as_embedder(function, model="my-model-v1")'
        )
    make = AsyncCallableEmbedder if is_async(documents) else CallableEmbedder
    return make(documents, model=model or _model_of(value), dimension=dimension, query_fn=query)


def _is_native(value: object) -> bool:
    # Frameworks have `model` too, sometimes the model itself, but not `dimension`.
    return isinstance(value, Embedder | AsyncEmbedder) and isinstance(value.model, str)


def _renamed(embedder: AnyEmbedder, *, model: str | None, dimension: int | None) -> AnyEmbedder:
    """Returns `embedder` itself, or a copy with the caller's model name and dimension."""
    if model in {None, embedder.model} and dimension in {None, embedder.dimension}:
        return embedder
    name, length = model or embedder.model, dimension or checked_dimension(embedder.dimension)
    if isinstance(embedder, AsyncEmbedder):
        return AsyncCallableEmbedder(
            embedder.aembed_documents, model=name, dimension=length, query_fn=embedder.aembed_query
        )
    return CallableEmbedder(
        embedder.embed_documents, model=name, dimension=length, query_fn=embedder.embed_query
    )


def _functions(
    value: Any,
) -> tuple[Callable[[list[str]], Any], Callable[[str], Any] | None] | None:
    """Returns the functions of `value` that embed documents and a query; None if it has none.

    Functions come last: LlamaIndex's embeddings can be called too, with nodes.
    """
    if _has(value, "compute_source_embeddings", "compute_query_embeddings"):
        # `ndims()` is not called: it loads the model, or calls the service, for some functions.
        return value.compute_source_embeddings, partial(_only, value.compute_query_embeddings)
    for documents, query in (
        ("embed_documents", "embed_query"),
        ("aembed_documents", "aembed_query"),
        ("get_text_embedding_batch", "get_query_embedding"),
    ):
        if _has(value, documents, query):
            return getattr(value, documents), getattr(value, query)
    if _has(value, "embed_texts"):
        return value.embed_texts, None
    if _is_agentscope(value):
        return partial(_answered, value), None
    return (value, None) if callable(value) else None


def _is_agentscope(value: Any) -> bool:
    """Whether it is called with texts, is awaited, and has a model name and dimensions."""
    dimensions = getattr(value, "dimensions", None)
    return is_async(value) and type(dimensions) is int and not isinstance(value, type)


async def _answered(model: Any, texts: list[str]) -> Any:
    """Returns the vectors in an answer of AgentScope's model."""
    answer = await model(texts)
    return getattr(answer, "embeddings", answer)


def _has(value: object, *methods: str) -> bool:
    return all(callable(getattr(value, method, None)) for method in methods)


def _only(function: Callable[[str], Any], text: str) -> Any:
    """Returns the vector of one query; LanceDB's functions return a list of it."""
    vectors = function(text)
    if len(vectors) != 1:
        raise EmbeddingError(f"{len(vectors)} vectors were returned for the query {text!r:.60}")
    return vectors[0]


def _model_of(value: object) -> str:
    for attribute in _MODEL_ATTRIBUTES:
        name = getattr(value, attribute, None)
        if isinstance(name, str) and name.strip() not in _NOT_A_MODEL:
            return name
    return f"{type(value).__module__}.{type(value).__qualname__}"
