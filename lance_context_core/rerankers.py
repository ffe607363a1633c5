"""Rerankers that score a question and a text together: cross-encoders."""

import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lance_context_core._util.checks import check_count, check_name, shown
from lance_context_core._util.extras import Loaded, importing, require
from lance_context_core._util.http import JsonService, ServiceError, checked_headers
from lance_context_core.embedders._fastembed import checked_place
from lance_context_core.embedders._local import Source, onnx_file, source_of
from lance_context_core.embedders._protocol import batches, well_formed
from lance_context_core.errors import InvalidRequestError, RerankingError

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    "FastEmbedReranker",
    "SentenceTransformersReranker",
    "EndpointReranker",
    "TextReranker",
]


# From the tables that a search hands to a reranker to texts, and back to scores.


class TextReranker(ABC):
    """A reranker that scores texts from any channel: subclasses only write `scores`.

    It is a `Reranker` in every mode of a search. A text of several records is scored once.
    """

    @abstractmethod
    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float | None]:
        """How well each text fits, in [0, 1], in the order of `texts`; None drops one.

        Called in worker threads, from several at once; there is at least one text, and none twice.
        """

    def rerank_hybrid(
        self, query: str, vector_results: pa.Table, fts_results: pa.Table
    ) -> pa.Table:
        """See `Reranker.rerank_hybrid`."""
        return self._ranked(query, vector_results, fts_results)

    def rerank_vector(self, query: str, vector_results: pa.Table) -> pa.Table:
        """See `Reranker`: for a search by vector alone."""
        return self._ranked(query, vector_results)

    def rerank_fts(self, query: str, fts_results: pa.Table) -> pa.Table:
        """See `Reranker`: for a search by words alone."""
        return self._ranked(query, fts_results)

    def _ranked(self, query: str, *found: pa.Table) -> pa.Table:
        """The rows with their scores. Raises RerankingError for invalid scores."""
        texts: dict[int, str] = {}
        for rows in found:
            given = (well_formed(text) for text in rows["text"].to_pylist())
            texts.update(zip(rows["_rowid"].to_pylist(), given, strict=True))
        distinct = list(dict.fromkeys(texts.values()))
        scores = list(self.scores(well_formed(query), distinct)) if distinct else []
        if len(scores) != len(distinct):
            raise RerankingError(f"{self!r} gave {len(scores)} scores for {len(distinct)} texts")
        by_text = {
            text: _number(score, self)
            for text, score in zip(distinct, scores, strict=True)
            if score is not None
        }
        kept = [row_id for row_id, text in texts.items() if text in by_text]
        return pa.table(
            {
                "_rowid": pa.array(kept, pa.uint64()),
                "_relevance_score": pa.array([by_text[texts[one]] for one in kept], pa.float64()),
            }
        )


def sigmoid(logits: Sequence[float]) -> list[float]:
    """1 / (1 + e^-x) of each, without overflow."""
    given = np.asarray(logits, dtype=np.float64)
    return [float(one) for one in 0.5 * (1.0 + np.tanh(0.5 * given))]


def _number(score: float, of: TextReranker) -> float:
    try:
        number = float(score)
    except (TypeError, ValueError) as error:
        raise RerankingError(f"{of!r} gave the score {score!r:.60}: no number") from error
    if not math.isfinite(number):
        raise RerankingError(f"{of!r} gave the score {number}: it must be finite")
    return number


# Rerankers of a service: whatever has a `/rerank` as Cohere and Jina have it.

_CHARS_AT_ONCE = 400_000
_LISTS, _SCORES = ("results", "data"), ("relevance_score", "score")


class EndpointReranker(TextReranker):
    """Reranks by a service's `/rerank`: of Cohere, Jina, Voyage, vLLM, LiteLLM, Infinity or TEI.

    `base_url` is the URL before `/rerank`. `documents_as` is the service's name of the texts:
    `texts` for TEI, `documents` for all others. `extra_body` is sent with each request, `headers` too.
    A search waits for it, so its timeout is shorter than an embedder's: `timeout_seconds` of
    silence; temporary failures are retried `max_retries` times. Raises RerankingError for an invalid
    answer; `SearchOptions.on_reranker_error` decides how the search continues.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        documents_as: str = "documents",
        extra_body: Mapping[str, Any] | None = None,
        batch_size: int = 256,
        timeout_seconds: float = 10.0,
        max_retries: int = 1,
    ) -> None:
        self.model = check_name(model, "model")
        self._documents_as = check_name(documents_as, "documents_as")
        self._batch_size = check_count(batch_size, "batch_size")
        if not isinstance(extra_body, Mapping | None):
            raise InvalidRequestError(f"extra_body={shown(extra_body)}: give names and values")
        self._body = {"model": self.model, **(extra_body or {})}
        said = checked_headers(headers)
        if api_key:
            said = checked_headers({"Authorization": f"Bearer {api_key}", **said})
        self._service = JsonService(
            base_url, headers=said, timeout_seconds=timeout_seconds, max_retries=max_retries
        )
        self._url = base_url

    def scores(self, query: str, texts: Sequence[str]) -> list[float | None]:
        """See `TextReranker.scores`; texts missing in the service's answer are dropped."""
        return [
            score
            for batch in batches(texts, max_texts=self._batch_size, max_chars=_CHARS_AT_ONCE)
            for score in self._asked(query, batch)
        ]

    def close(self) -> None:
        """Close the idle connections, which the end of the object does, too."""
        self._service.close()

    def __repr__(self) -> str:
        return f"EndpointReranker({self.model!r}, base_url={self._url!r})"

    def _asked(self, query: str, batch: list[str]) -> list[float | None]:
        body = {**self._body, "query": query, self._documents_as: batch}
        try:
            answer = self._service.post("/rerank", body)
        except ServiceError as error:
            raise RerankingError(f"reranker {self.model!r} failed: {error}") from error
        scores: list[float | None] = [None] * len(batch)
        for one in _listed(answer, self.model):
            place = one.get("index")
            score = next((one[name] for name in _SCORES if name in one), None)
            if type(place) is not int or not 0 <= place < len(batch) or scores[place] is not None:
                raise RerankingError(
                    f"reranker {self.model!r} scored the text {shown(place)} of {len(batch)}"
                )
            if isinstance(score, bool) or not isinstance(score, int | float):
                raise RerankingError(f"reranker {self.model!r} gave the score {shown(score)}")
            scores[place] = float(score)
        return scores


def _listed(answer: Any, model: str) -> list[Mapping[str, Any]]:
    """The results, under any of the known names."""
    if isinstance(answer, Mapping):
        answer = next((answer[name] for name in _LISTS if name in answer), None)
    if not isinstance(answer, list) or not all(isinstance(one, Mapping) for one in answer):
        raise RerankingError(
            f"reranker {model!r} returned {shown(answer)}, where results were expected"
        )
    return answer


# Cross-encoders by ONNX, on the processor, without torch: those of fastembed.


class FastEmbedReranker(TextReranker):
    """A cross-encoder of fastembed, which the extra `fastembed` installs without a model.

    `model` is one of the names that fastembed lists, downloaded to `cache_dir` at the first search
    unless it was before; or a folder with an ONNX model of one output and its tokenizer. Scores are
    the sigmoid of the model's output. Scores `batch_size` texts at once, each with the question.
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
            f"model={shown(source.given)} is not a cross-encoder of fastembed: use one of "
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


# Cross-encoders of sentence-transformers: whatever torch runs, on a graphics card where there is one.

_PACKAGE, _EXTRA = "sentence_transformers", "sentence-transformers"
_reading = threading.Lock()
"""A tokenizer of transformers must not be set up by one thread while another one uses it."""


class SentenceTransformersReranker(TextReranker):
    """A cross-encoder of sentence-transformers, which the extra of that name installs, with torch.

    `model` is a folder, or a name in the Hugging Face hub, whose model is downloaded at the first
    search unless it was before; it must give one number a pair, of which the sigmoid is the score.
    `device` is torch's, such as "cpu" or "cuda"; `options` are further arguments of `CrossEncoder`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        device: str | None = None,
        batch_size: int = 32,
        **options: Any,
    ) -> None:
        require(_PACKAGE, extra=_EXTRA, by="SentenceTransformersReranker")
        source = source_of(model)
        self.model = source.name
        self._batch_size = check_count(batch_size, "batch_size")
        self._loaded = Loaded(partial(_load_cross_encoder, source, {"device": device, **options}))

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `TextReranker.scores`."""
        encoder = self._loaded.get()
        pairs = [(query, text) for text in texts]
        with _reading:
            logits = encoder.predict(
                pairs,
                batch_size=self._batch_size,
                activation_fn=_unchanged,
                show_progress_bar=False,
            )
        return sigmoid(logits)

    def __repr__(self) -> str:
        return f"SentenceTransformersReranker({self.model!r})"


def _load_cross_encoder(source: Source, options: dict[str, Any]) -> Any:
    with importing(_PACKAGE, extra=_EXTRA, by="SentenceTransformersReranker"):
        from sentence_transformers import CrossEncoder
    encoder = CrossEncoder(source.given, **options)
    if encoder.num_labels != 1:
        raise InvalidRequestError(
            f"model={source.given!r} gives {encoder.num_labels} numbers a pair: a reranker gives one"
        )
    return encoder


def _unchanged(logits: Any) -> Any:
    """In place of the model's own activation: some come with a sigmoid, some without."""
    return logits
