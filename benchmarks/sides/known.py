"""An embedder for this project's store: it gives the vectors that texts are known by."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.sides.conversations import Rows


class Known:
    """Embeds nothing, so that no model is timed."""

    model = "known"
    dimension = 384

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """What is known of each text."""
        return np.array([self._rows.vector_of(text) for text in texts], dtype=np.float32)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """What is known of a text."""
        return np.array(self._rows.vector_of(text), dtype=np.float32)
