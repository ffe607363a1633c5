"""Models of sentence-transformers, run by torch, on a GPU if available."""

import json
import os
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from lance_context_core._util.checks import check_count
from lance_context_core._util.extras import Loaded, importing, require
from lance_context_core.embedders._callable import checked_dimension
from lance_context_core.embedders._local import Source, pooled_dimension, source_of
from lance_context_core.embedders._prompts import Prompts, chosen
from lance_context_core.embedders._protocol import Truncation, VectorArray, well_formed
from lance_context_core.embedders._vectors import checked_vectors, no_vectors

_encoding = threading.Lock()
"""A tokenizer of transformers must not be set up by one thread while another one uses it."""


class SentenceTransformersEmbedder:
    """A model of sentence-transformers, which the extra of that name installs, with torch.

    `model` is a folder, or a name in the Hugging Face hub, whose model is downloaded at the first
    call unless it is cached. `device` is torch's, such as "cpu" or "cuda"; by default the best
    available. `dimension` truncates vectors to so many numbers. `options` are further arguments of
    `SentenceTransformer`, such as `trust_remote_code`. The prompts default to those of the model's
    configuration. Raises MissingExtraError, at construction, without the extra.
    """

    max_concurrency = 1

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        dimension: int | None = None,
        prompts: Prompts | None = None,
        device: str | None = None,
        batch_size: int = 64,
        **options: Any,
    ) -> None:
        package, extra = "sentence_transformers", "sentence-transformers"
        require(package, extra=extra, by="SentenceTransformersEmbedder")
        source = source_of(model)
        self._prompts, self.model = chosen(source.name, source.folder, prompts)
        self.dimension = checked_dimension(dimension) or _dimension_of(source)
        self.batch_size = check_count(batch_size, "batch_size")
        given = {"device": device, "truncate_dim": dimension, **options}
        self._loaded = Loaded(partial(_load, source, given))
        self._truncation = Truncation(self.model)

    def embed_documents(self, texts: Sequence[str]) -> VectorArray:
        """See `Embedder.embed_documents`."""
        return self._embedded("encode_document", texts, self._prompts.document)

    def embed_query(self, text: str) -> VectorArray:
        """See `Embedder.embed_query`."""
        vector: VectorArray = self._embedded("encode_query", [text], self._prompts.query)[0]
        return vector

    def __repr__(self) -> str:
        return f"SentenceTransformersEmbedder({self.model!r})"

    def _embedded(self, method: str, texts: Sequence[str], prompt: str) -> VectorArray:
        if not texts:
            return no_vectors(self.dimension)
        model = self._loaded.get()
        given = [well_formed(text) for text in texts]
        with _encoding:
            if callable(
                model.tokenizer
            ):  # that of a static model is not transformers', and has no limit
                self._truncation.look(given, model.max_seq_length, partial(_n_tokens, model))
            rows = getattr(model, method)(
                given, prompt=prompt, batch_size=self.batch_size, show_progress_bar=False
            )
        return checked_vectors(rows, texts, model=self.model, dimension=self.dimension)


def _dimension_of(source: Source) -> int | None:
    """Returns the folder's dimension, unless a layer after the pooling changes it."""
    path = None if source.folder is None else source.folder / "modules.json"
    if source.folder is None or path is None or not path.is_file():
        return None
    modules = [one["type"].rpartition(".")[2] for one in json.loads(path.read_text("utf-8"))]
    is_pooled = set(modules) <= {"Transformer", "Pooling", "Normalize"}
    return pooled_dimension(source.folder) if is_pooled else None


def _load(source: Source, options: dict[str, Any]) -> Any:
    package, extra = "sentence_transformers", "sentence-transformers"
    with importing(package, extra=extra, by="SentenceTransformersEmbedder"):
        from sentence_transformers import SentenceTransformer
    return SentenceTransformer(source.given, **options)


def _n_tokens(model: Any, text: str) -> int:
    return len(model.tokenizer(text, truncation=False, verbose=False)["input_ids"])
