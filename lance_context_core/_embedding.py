"""Vectors for rows before a write: given by the caller, or computed from the texts."""

import warnings
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from lance_context_core._progress import tell
from lance_context_core._resources import Resources
from lance_context_core.embedders._service import EmbeddingService
from lance_context_core.errors import (
    DimensionMismatchError,
    InvalidRequestError,
    NotEmbeddedWarning,
)
from lance_context_core.storage.table import Table
from lance_context_core.types import Progress

_TOLD_TEXTS = 1_000

_NOT_EMBEDDED = "not embedded"
"""Warnings issued once for each table."""


async def embedded(
    table: Table,
    resources: Resources,
    *,
    given: Sequence[Any],
    texts: Sequence[str | None],
    even_if_deferred: bool = False,
    progress: Callable[[Progress], object] | None = None,
) -> list[np.ndarray | None]:
    """One vector per row: the given one, else one computed from its text, else none.

    Checks everything before anything is written; then adds the vector column if it is missing.
    """
    vectors = _as_vectors(given)
    lengths = {len(vector) for vector in vectors if vector is not None}
    if len(lengths) > 1:
        raise DimensionMismatchError(
            f"embeddings of lengths {sorted(lengths)} in one call: one table holds one length"
        )
    embeddings, model = resources.embeddings, None
    if resources.defer_embedding and not even_if_deferred:
        embeddings = None
    missing = {
        index: text
        for index, (vector, text) in enumerate(zip(vectors, texts, strict=True))
        if vector is None and text is not None
    }
    if missing and resources.embeddings is None:
        await _warn_once(table, resources)
    if not lengths and (embeddings is None or not missing):
        return vectors
    for length in lengths:
        await table.vectors.require_room(dimension=length)
    if missing and embeddings is not None:
        model = embeddings.model
        # Before time is spent on vectors that the table would refuse.
        await table.vectors.require_room(model=model)
        made = await _made(embeddings, list(missing.values()), progress)
        for index, vector in zip(missing, made, strict=True):
            # Zeros say that the model found no direction in the text: cosine is undefined for them.
            vectors[index] = vector if vector.any() else None
    for vector in vectors:
        if vector is not None:
            await table.vectors.ensure(len(vector), model)
            break
    return vectors


async def _made(
    embeddings: EmbeddingService,
    texts: list[str],
    progress: Callable[[Progress], object] | None,
) -> np.ndarray:
    """The vectors of the texts, in order; in batches if progress is reported."""
    if progress is None:
        return await embeddings.embed_documents(texts)
    made = []
    for start in range(0, len(texts), _TOLD_TEXTS):
        made.append(await embeddings.embed_documents(texts[start : start + _TOLD_TEXTS]))
        n_done = min(start + _TOLD_TEXTS, len(texts))
        await tell(progress, Progress(n_done=n_done, n_total=len(texts), what="texts"))
    return np.concatenate(made)


async def needs_texts(table: Table, resources: Resources) -> bool:
    """Whether texts are needed: for an embedder, or for the warning that they get no vectors."""
    if resources.embeddings is not None:
        return True
    is_told = (_NOT_EMBEDDED, table.name) in resources.warned
    return not is_told and await table.vectors.model() is not None


async def _warn_once(table: Table, resources: Resources) -> None:
    """Warn that texts get no vectors, where a model has made some before."""
    about = (_NOT_EMBEDDED, table.name)
    if about in resources.warned or (model := await table.vectors.model()) is None:
        return
    resources.warned.add(about)
    warnings.warn(
        f"the vectors in {table.label} were made by {model!r}, and the store is open without an "
        "embedder: what is written now will be found by its words alone; open the store with that "
        "embedder, and embed_pending() gives vectors to what lacks them",
        NotEmbeddedWarning,
        stacklevel=2,
    )


def as_vector(value: Any, where: str) -> np.ndarray:
    """`value` as a vector of finite 32-bit floats; raises InvalidRequestError for anything else."""
    try:
        given = np.asarray(_floats(value))
        is_numeric = given.dtype.kind in "fiuO"  # texts and booleans would become numbers, too
        with np.errstate(over="ignore"):  # what becomes infinite is refused below
            vector = given.astype(np.float32, copy=False) if is_numeric else given
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidRequestError(f"{where} must be a sequence of numbers: {error}") from error
    if not is_numeric:
        raise InvalidRequestError(f"{where} must be a sequence of numbers, not of {given.dtype}")
    if vector.ndim != 1 or len(vector) == 0:
        raise InvalidRequestError(
            f"{where} must be one non-empty row of numbers, not of shape {vector.shape}"
        )
    if not np.isfinite(vector).all():
        raise InvalidRequestError(f"{where} holds a number that is NaN or infinite")
    return vector


def _as_vectors(given: Sequence[Any]) -> list[np.ndarray | None]:
    """Each as a vector, and None as None."""
    if all(vector is None for vector in given):
        return [None] * len(given)
    if (rows := _together(given)) is not None:
        return list(rows)
    return [
        None
        if vector is None
        else as_vector(vector, "embedding" if len(given) == 1 else f"embedding of record {index}")
        for index, vector in enumerate(given)
    ]


def _together(given: Sequence[Any]) -> np.ndarray | None:
    """Lists of Python floats as the rows of a matrix, in half the time of one by one.

    None if one has another type or length, or a value that `as_vector` refuses.
    """
    length = len(given[0]) if given and _is_floats(given[0]) else 0
    if not all(_is_floats(one) and len(one) == length for one in given) or not length:
        return None
    numbers = array("f")
    try:
        for one in given:
            numbers.fromlist(one)
    except (TypeError, OverflowError):
        return None
    rows = np.frombuffer(numbers, np.float32).reshape(-1, length)
    return rows if np.isfinite(rows).all() else None


def _floats(value: Any) -> Any:
    """A list of Python's floats in a third of the time that numpy takes; anything else as it is."""
    if _is_floats(value):
        with suppress(TypeError):
            return array("f", value)
    return value


def _is_floats(value: Any) -> bool:
    """Whether it looks like a list of Python's floats."""
    return type(value) is list and bool(value) and type(value[0]) is float
