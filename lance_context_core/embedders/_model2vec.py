"""Static models of model2vec: as fast as the local one, in the size and language of your choice."""

import json
import os
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lance_context_core._util.extras import Loaded, importing, require
from lance_context_core.embedders._batches import batches, well_formed
from lance_context_core.embedders._callable import checked_dimension
from lance_context_core.embedders._folders import Source, source_of
from lance_context_core.embedders._prompts import Prompted, Prompts, chosen
from lance_context_core.embedders._protocol import VectorArray
from lance_context_core.embedders._vectors import checked_vectors, no_vectors

_TEXTS_AT_ONCE = 256
_CHARS_AT_ONCE = 1_000_000
_encoding = threading.Lock()
"""model2vec sets its tokenizer up anew in each call: only one thread may be in it."""


class Model2VecEmbedder(Prompted):
    """A static model of model2vec, which the extra `model2vec` installs without a model.

    `model` is a folder, or a name such as `minishlab/potion-base-8M`, whose model is downloaded at the
    first call unless it was before. A text's vector is made of all its tokens, however long it is;
    that of a text without tokens that the model knows is zeros.
    `dimension` keeps so many of a vector's first numbers. Raises MissingExtraError, at construction,
    without the extra.
    """

    max_concurrency = 1

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        dimension: int | None = None,
        prompts: Prompts | None = None,
    ) -> None:
        require("model2vec", extra="model2vec", by="Model2VecEmbedder")
        source = source_of(model)
        self._prompts, self.model = chosen(source.name, source.folder, prompts)
        self.dimension = checked_dimension(dimension) or _dimension_of(source.folder)
        self._loaded = Loaded(partial(_load, source, checked_dimension(dimension)))

    def __repr__(self) -> str:
        return f"Model2VecEmbedder({self.model!r})"

    def _embedded(self, texts: Sequence[str], prompt: str) -> VectorArray:
        if not texts:
            return no_vectors(self.dimension)
        model, rows = self._loaded.get(), []
        given = [f"{prompt}{well_formed(text)}" for text in texts]
        for batch in batches(given, max_texts=_TEXTS_AT_ONCE, max_chars=_CHARS_AT_ONCE):
            with _encoding:
                rows += list(model.encode(batch, max_length=None, use_multiprocessing=False))
        return checked_vectors(rows, texts, model=self.model, dimension=self.dimension)


def _load(source: Source, dimension: int | None) -> Any:
    with importing("model2vec", extra="model2vec", by="Model2VecEmbedder"):
        from model2vec import StaticModel
    return StaticModel.from_pretrained(source.given, dimensionality=dimension, force_download=False)


def _dimension_of(folder: Path | None) -> int | None:
    """The width of the matrix, as the head of the file says it: nothing is loaded."""
    path = None if folder is None else folder / "model.safetensors"
    if path is None or not path.is_file():
        return None
    with path.open("rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    shape = head.get("embeddings", {}).get("shape")
    return int(shape[1]) if shape else None
