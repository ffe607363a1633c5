"""Embedders by a name: the one place that knows which names there are."""

from collections.abc import Callable
from functools import partial
from typing import Any

from lance_context_core.embedders._fastembed import FastEmbedEmbedder
from lance_context_core.embedders._local import LocalEmbedder
from lance_context_core.embedders._model2vec import Model2VecEmbedder
from lance_context_core.embedders._openai import OpenAIEmbedder
from lance_context_core.embedders._protocol import Embedder
from lance_context_core.embedders._sentence_transformers import SentenceTransformersEmbedder
from lance_context_core.embedders._vectors import shortened
from lance_context_core.errors import InvalidRequestError

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
