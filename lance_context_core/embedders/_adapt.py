"""Whatever a caller has that embeds, as an embedder of the store."""

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
from lance_context_core.embedders._fastembed import FastEmbedEmbedder
from lance_context_core.embedders._local import LocalEmbedder, Model2VecEmbedder
from lance_context_core.embedders._openai import OpenAIEmbedder
from lance_context_core.embedders._protocol import AsyncEmbedder, Embedder
from lance_context_core.embedders._sentence_transformers import SentenceTransformersEmbedder
from lance_context_core.embedders._vectors import shortened
from lance_context_core.errors import EmbeddingError, InvalidRequestError

# Embedders by a name: the one place that knows which names there are.

_KINDS: dict[str, Callable[..., Embedder]] = {
    "fastembed": FastEmbedEmbedder,
    "model2vec": Model2VecEmbedder,
    "sentence-transformers": SentenceTransformersEmbedder,
    "openai": OpenAIEmbedder,
}
_SHORTENS = ("model2vec", "sentence-transformers", "openai")
"""Those that can be asked for shorter vectors than the model's."""


def embedder_of(name: str, *, dimension: int | None = None) -> Embedder:
    """The embedder that `name` means: "local", or KIND:MODEL.

    Raises InvalidRequestError for a name that means none, and what the kind raises.
    """
    if name == "local":
        return LocalEmbedder()
    kind, _, model = name.partition(":")
    make: Callable[..., Any] | None = _KINDS.get(kind)
    if make is None:
        raise InvalidRequestError(
            f'embedder={shortened(name)} is not known by name: there are "local", '
            + ", ".join(f'"{one}:MODEL"' for one in _KINDS)
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
"""What the store embeds with; `as_embedder` makes one of whatever you have."""

_MODEL_ATTRIBUTES = ("model", "model_name", "model_id", "name")
_NOT_A_MODEL = ("", "unknown")
"""`unknown` is what LlamaIndex's base class says of itself."""


def as_embedder(
    value: Any, *, model: str | None = None, dimension: int | None = None
) -> AnyEmbedder:
    """An embedder made of `value`, without calling it.

    - a name: "local", or "fastembed:MODEL", "model2vec:MODEL", "sentence-transformers:MODEL",
      "openai:MODEL", where MODEL may be a folder on the disk, except of the last;
    - an `Embedder` or `AsyncEmbedder`: itself;
    - a LanceDB EmbeddingFunction, from `get_registry().get(name).create()`; its own retries are not
      used, since they would repeat any failure, a programming error too, for minutes;
    - a LangChain `Embeddings`, a LlamaIndex `BaseEmbedding`, or anything with their methods. Where
      they offer coroutines too, the blocking methods are used, in worker threads: their clients
      often belong to one event loop;
    - an embedding model of AgentScope, which is awaited on the loop that asks;
    - a provider of lance-context, or anything with its `embed_texts`;
    - a function from a list of texts to a list of vectors, or a coroutine function: `model` is
      required.

    The model's name is `model`; else the attribute `model`, `model_name`, `model_id` or `name` of
    the value; else the qualified name of its class, which cannot tell two models of one class apart.
    `dimension` asks a model that can for shorter vectors, and is checked of any other.
    Raises InvalidRequestError for anything else, and MissingExtraError for a name without its extra.
    """
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
            f"embedder={shortened(value)} is a function, which does not say what model it is: "
            'pass its name too, as in as_embedder(function, model="my-model-v1")'
        )
    make = AsyncCallableEmbedder if is_async(documents) else CallableEmbedder
    return make(documents, model=model or _model_of(value), dimension=dimension, query_fn=query)


def _is_native(value: object) -> bool:
    # Frameworks have `model` too, sometimes the model itself, but not `dimension`.
    return isinstance(value, Embedder | AsyncEmbedder) and isinstance(value.model, str)


def _renamed(embedder: AnyEmbedder, *, model: str | None, dimension: int | None) -> AnyEmbedder:
    """`embedder` itself, or an embedder that says what the caller says of it."""
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
    """How `value` embeds documents and a query; None if it does not.

    Functions come last: LlamaIndex's embeddings can be called too, with nodes.
    """
    if _has(value, "compute_source_embeddings", "compute_query_embeddings"):
        # `ndims()` is not asked: it loads the model, or calls the service, for some functions.
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
    """Whether it is called with texts, is awaited, and says what model of how many dimensions it is."""
    dimensions = getattr(value, "dimensions", None)
    return is_async(value) and type(dimensions) is int and not isinstance(value, type)


async def _answered(model: Any, texts: list[str]) -> Any:
    """The vectors in what a model of AgentScope answers."""
    answer = await model(texts)
    return getattr(answer, "embeddings", answer)


def _has(value: object, *methods: str) -> bool:
    return all(callable(getattr(value, method, None)) for method in methods)


def _only(function: Callable[[str], Any], text: str) -> Any:
    """The vector of one query; LanceDB's functions return a list of it."""
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
