"""The local embedder, used without the store, so that a peer gets vectors of the same model."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Vectors of shape (len(texts), 256), normalised. Needs the `local` extra."""
    vectors = np.asarray(_model().embed(list(texts), norm=True), dtype=np.float32)
    assert vectors.shape[0] == len(texts)
    return vectors


@cache
def _model() -> Any:
    import wordllama

    # The model is inside the wheel; elsewhere it would be looked for on the network.
    folder = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
