"""Cross-encoders by ONNX, on the processor, without torch: those of fastembed."""

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from lance_context_core._util.checks import check_count, shown
from lance_context_core._util.extras import Loaded, importing, require
from lance_context_core.embedders._fastembed import checked_place
from lance_context_core.embedders._folders import Source, onnx_file, source_of
from lance_context_core.errors import InvalidRequestError
from lance_context_core.rerankers._texts import TextReranker, sigmoid


class FastEmbedReranker(TextReranker):
    """A cross-encoder of fastembed, which the extra `fastembed` installs without a model.

    `model` is one of the names that fastembed lists, downloaded to `cache_dir` at the first search
    unless it was before; or a folder with an ONNX model of one output and its tokenizer. Scores are
    the sigmoid of what the model gives. `batch_size` texts are read at once, each with the question.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] = "Xenova/ms-marco-MiniLM-L-6-v2",
        *,
        batch_size: int = 32,
        threads: int | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        require("fastembed", extra="fastembed", by="FastEmbedReranker")
        self._batch_size = check_count(batch_size, "batch_size")
        source = source_of(model)
        _check_known(source)
        self.model = source.name
        self._loaded = Loaded(partial(_load, source, *checked_place(cache_dir, threads)))

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `TextReranker.scores`."""
        encoder = self._loaded.get()
        return sigmoid(list(encoder.rerank(query, list(texts), batch_size=self._batch_size)))

    def __repr__(self) -> str:
        return f"FastEmbedReranker({self.model!r})"


def _check_known(source: Source) -> None:
    if source.folder is not None:
        onnx_file(source.folder)
        return
    known = [one["model"] for one in _library().list_supported_models()]
    if source.given.lower() not in {one.lower() for one in known}:
        raise InvalidRequestError(
            f"model={shown(source.given)} is none of fastembed's cross-encoders: there are "
            f"{', '.join(sorted(known))}; or give a folder"
        )


def _load(source: Source, cache_dir: str | None, threads: int | None) -> Any:
    encoder = _library()
    if source.folder is None:
        return encoder(source.given, cache_dir=cache_dir, threads=threads)
    # It takes models by their names alone: a folder is made known by its path.
    if source.given not in {one["model"] for one in encoder.list_supported_models()}:
        from fastembed.common.model_description import ModelSource

        encoder.add_custom_model(
            model=source.given,
            sources=ModelSource(hf=source.given),
            model_file=onnx_file(source.folder),
        )
    return encoder(source.given, threads=threads, specific_model_path=source.given)


def _library() -> Any:
    with importing("fastembed", extra="fastembed", by="FastEmbedReranker"):
        from fastembed.rerank.cross_encoder import TextCrossEncoder
    return TextCrossEncoder
