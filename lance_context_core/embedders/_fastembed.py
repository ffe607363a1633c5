"""Transformer models of fastembed: ONNX, on the CPU, without torch."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lance_context_core._util.checks import check_count, shown
from lance_context_core._util.extras import Loaded, importing, require
from lance_context_core.embedders._callable import checked_dimension
from lance_context_core.embedders._local import (
    Source,
    configuration,
    onnx_file,
    pooled_dimension,
    source_of,
)
from lance_context_core.embedders._prompts import Prompts, chosen
from lance_context_core.embedders._protocol import Truncation, VectorArray, well_formed
from lance_context_core.embedders._vectors import checked_vectors, no_vectors
from lance_context_core.errors import InvalidRequestError


class FastEmbedEmbedder:
    """A model of fastembed, which the extra `fastembed` installs without a model.

    `model` is a name that fastembed lists, downloaded to `cache_dir` at the first call
    unless it is cached; or a folder with an ONNX model, its tokenizer, and optionally the
    sentence-transformers file `1_Pooling/config.json`, which sets the pooling: by default the mean.
    `threads` are those of one call; by default as many as there are processors.

    Raises MissingExtraError, at construction, without the extra, and InvalidRequestError for a name
    that fastembed does not know.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] = "BAAI/bge-small-en-v1.5",
        *,
        prompts: Prompts | None = None,
        batch_size: int = 64,
        threads: int | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        require("fastembed", extra="fastembed", by="FastEmbedEmbedder")
        source = source_of(model)
        self._prompts, self.model = chosen(source.name, source.folder, prompts)
        self.dimension = checked_dimension(_dimension_of(source))
        self.batch_size = check_count(batch_size, "batch_size")
        self._loaded = Loaded(partial(_load, source, *checked_place(cache_dir, threads)))
        self._truncation = Truncation(self.model)

    def embed_documents(self, texts: Sequence[str]) -> VectorArray:
        """See `Embedder.embed_documents`."""
        if not texts:
            return no_vectors(self.dimension)
        given = self._given(texts, self._prompts.document)
        rows = list(self._loaded.get().passage_embed(given, batch_size=self.batch_size))
        return checked_vectors(rows, texts, model=self.model, dimension=self.dimension)

    def embed_query(self, text: str) -> VectorArray:
        """See `Embedder.embed_query`."""
        given = self._given([text], self._prompts.query)
        rows = list(self._loaded.get().query_embed(given))
        vector: VectorArray = checked_vectors(
            rows, [text], model=self.model, dimension=self.dimension
        )[0]
        return vector

    def __repr__(self) -> str:
        return f"FastEmbedEmbedder({self.model!r})"

    def _given(self, texts: Sequence[str], prompt: str) -> list[str]:
        given = [f"{prompt}{well_formed(text)}" for text in texts]
        tokenizer = getattr(self._loaded.get().model, "tokenizer", None)
        limit = getattr(tokenizer, "truncation", None)
        if limit:
            self._truncation.look(given, limit["max_length"], partial(_n_tokens, tokenizer))
        return given


def checked_place(
    cache_dir: str | os.PathLike[str] | None, threads: int | None
) -> tuple[str | None, int | None]:
    """Returns fastembed's download folder and number of threads, in its format."""
    if threads is not None:
        check_count(threads, "threads")
    return None if cache_dir is None else os.fspath(cache_dir), threads


def _library() -> Any:
    with importing("fastembed", extra="fastembed", by="FastEmbedEmbedder"):
        import fastembed
    return fastembed


def _dimension_of(source: Source) -> int:
    if source.folder is not None:
        onnx_file(source.folder)
        own = pooled_dimension(source.folder)
        own = own or configuration(source.folder, "config.json").get("hidden_size")
        if not isinstance(own, int):
            raise InvalidRequestError(
                f"model={shown(source.given)}: its config.json has no hidden_size, so the length of "
                "its vectors is not known; give a folder as sentence-transformers or optimum write it"
            )
        return own
    models = _library().TextEmbedding.list_supported_models()
    known = {one["model"].lower(): one["dim"] for one in models}
    if (found := known.get(source.given.lower())) is None:
        listed = ", ".join(sorted(one["model"] for one in models))
        raise InvalidRequestError(
            f"model={shown(source.given)} is not a model of fastembed: use one of {listed}; or give a folder"
        )
    return int(found)


def _load(source: Source, cache_dir: str | None, threads: int | None) -> Any:
    embedding = _library().TextEmbedding
    if source.folder is None:
        return embedding(source.given, cache_dir=cache_dir, threads=threads)
    _register(source, source.folder)
    return embedding(source.given, threads=threads, specific_model_path=source.given)


def _register(source: Source, folder: Path) -> None:
    """Registers a folder with fastembed, which accepts models by name only."""
    from fastembed.common.model_description import ModelSource, PoolingType

    embedding = _library().TextEmbedding
    known = {one["model"] for one in embedding.list_supported_models()}
    if source.given in known:
        return
    pooling = configuration(folder, "1_Pooling/config.json")
    is_cls = pooling.get("pooling_mode_cls_token") or pooling.get("pooling_mode") == "cls"
    is_last = pooling.get("pooling_mode_lasttoken") or pooling.get("pooling_mode") == "lasttoken"
    embedding.add_custom_model(
        model=source.given,
        pooling=PoolingType.CLS
        if is_cls
        else PoolingType.LAST_TOKEN
        if is_last
        else PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(hf=source.given),
        dim=_dimension_of(source),
        model_file=onnx_file(folder),
    )


def _n_tokens(tokenizer: Any, text: str) -> int:
    found = tokenizer.encode(text)
    return sum(sum(part.attention_mask) for part in (found, *found.overflowing))
