"""Checks the vectors that an embedder returns."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lance_context_core.embedders._protocol import VectorArray
from lance_context_core.errors import EmbeddingError

_SHOWN_CHARS = 60
_SHORTEST, _LONGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


def checked_vectors(
    raw: Any, texts: Sequence[str], *, model: str, dimension: int | None
) -> VectorArray:
    """Returns `raw` as a new C-contiguous float32 array of shape (len(texts), d).

    `d` is `dimension` if given; there is at least one text. Rows of zeros pass. Raises
    EmbeddingError, naming the result, if the count or the dimension differs, if a row is absent,
    not numeric or not finite, or if a row is so long or so short that its squared length has no
    float32: the engine's cosine is wrong then.
    """
    came = f"embedder {model!r} returned"
    array = _as_array(raw, texts, came=came)
    if array.dtype.kind not in "fiu":
        raise EmbeddingError(
            f"{came} {type(raw).__name__} of {array.dtype}, where numbers were expected"
        )
    if array.ndim != 2 or len(array) != len(texts) or array.shape[1] == 0:
        raise EmbeddingError(
            f"{came} an array of shape {array.shape} for {len(texts)} text(s), "
            f"where ({len(texts)}, {dimension or 'dimension'}) was expected"
        )
    if dimension is not None and array.shape[1] != dimension:
        raise EmbeddingError(
            f"{came} vectors of length {array.shape[1]}, but its dimension is {dimension}"
        )
    with np.errstate(over="ignore"):  # beyond float32 becomes infinite, and is refused below
        vectors = np.array(array, dtype=np.float32, order="C")
    _check_lengths(array, vectors, texts, came=came)
    return vectors


def checked_vector(raw: Any, text: str, *, model: str, dimension: int | None) -> VectorArray:
    """Returns `raw` as a new float32 array of shape (d,), under the rules of `checked_vectors`."""
    is_plain = type(raw) is np.ndarray and raw.dtype == np.float32 and raw.shape == (dimension,)
    if is_plain and _SHORTEST <= float(np.dot(raw, raw)) <= _LONGEST:
        copy: VectorArray = raw.copy()  # The usual form; others get a specific error.
        return copy
    one = raw[None] if isinstance(raw, np.ndarray) and raw.ndim == 1 else [raw]
    vector: VectorArray = checked_vectors(one, [text], model=model, dimension=dimension)[0]
    return vector


def no_vectors(dimension: int | None) -> VectorArray:
    """Returns the result for no texts: shape (0, dimension), with 0 for an unknown dimension."""
    return np.empty((0, dimension or 0), dtype=np.float32)


def shortened(value: object) -> str:
    """Returns `value` as shown in an error message."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"


def _as_array(raw: Any, texts: Sequence[str], *, came: str) -> np.ndarray[Any, Any]:
    """Converts `raw` to one array, a list row by row: numpy would not name the invalid row."""
    try:
        if not isinstance(raw, list | tuple):
            return np.asarray(raw)
        rows = [np.asarray(row) for row in raw]
    except Exception as error:  # torch raises RuntimeError or TypeError, others any error
        raise EmbeddingError(
            f"{came} {type(raw).__name__}, which cannot be read as an array: {error}"
        ) from error
    if len(rows) != len(texts):
        raise EmbeddingError(f"{came} a list of {len(rows)} for {len(texts)} text(s)")
    for value, row, text in zip(raw, rows, texts, strict=True):
        if value is None:
            raise EmbeddingError(f"{came} None for {shortened(text)}")
        if row.shape != rows[0].shape:
            raise EmbeddingError(
                f"{came} rows of different shapes: {rows[0].shape} for {shortened(texts[0])}, "
                f"{row.shape} for {shortened(text)}"
            )
    return np.stack(rows)


def _check_lengths(
    array: np.ndarray[Any, Any], vectors: VectorArray, texts: Sequence[str], *, came: str
) -> None:
    """Raises for the first nonzero row whose length cosine cannot divide by."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", vectors, vectors)
    sound = np.isfinite(squares) & (squares >= _SHORTEST)
    if sound.all():
        return
    for position in map(int, np.flatnonzero(~sound)):
        row = array[position]
        if not np.isfinite(row).all():
            raise EmbeddingError(f"{came} NaN or infinity for {shortened(texts[position])}")
        if row.any():
            raise EmbeddingError(
                f"{came} a vector whose length lies outside float32 for "
                f"{shortened(texts[position])}: largest number {np.abs(row).max():.3g}"
            )
