"""What all classes share: errors in CrewAI's classes, the scope of a user, embedders."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.rag.core.base_embeddings_provider import BaseEmbeddingsProvider
from crewai.rag.embeddings.factory import build_embedder

from lance_context_core import AsyncContextStore, ContextStoreError, as_embedder
from lance_context_core.adapting import Handle
from lance_context_core.errors import DimensionMismatchError, StorageError

NAME = "crewai"
"""The collection of vectors, and the set of key-value items."""


@contextmanager
def memory_errors() -> Iterator[None]:
    """Raises CrewAI's error for a vector of another length, and no RuntimeError.

    CrewAI saves in the background, and takes a RuntimeError there for the end of the process: it
    drops the memory without a word. Such errors of the store are raised as StorageError.
    """
    try:
        yield
    except DimensionMismatchError as error:
        if error.stored is None or error.given is None:
            raise
        raise EmbeddingDimensionMismatchError(error.stored, error.given) from error
    except ContextStoreError as error:
        if not isinstance(error, RuntimeError):
            raise
        raise StorageError(f"{type(error).__name__}: {error}") from error


def embedder_of(given: Any) -> Any:
    """An embedder of the store, made of CrewAI's configuration, a function of texts, or one of ours."""
    if isinstance(given, Mapping | BaseEmbeddingsProvider):
        made: Any = given
        given = build_embedder(made)
    if given is None or isinstance(given, str) or not callable(given):
        return given
    embed = given
    return as_embedder(
        lambda texts: [list(map(float, one)) for one in embed(texts)],
        model=str(getattr(given, "model_name", None) or type(given).__name__),
    )


def of_user(handle: Handle, user_id: str | None) -> AsyncContextStore:
    """The part of the store that belongs to a user; all of it for None."""
    return handle.aio if user_id is None else handle.aio.scope(user_id=user_id)
