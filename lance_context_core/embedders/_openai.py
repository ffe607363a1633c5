"""Embeddings of OpenAI, and of services with the same API."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lance_context_core._util.checks import check_count, shown
from lance_context_core._util.http import JsonService, ServiceError, openai_service
from lance_context_core.embedders._callable import checked_dimension, checked_model
from lance_context_core.embedders._prompts import Prompted, Prompts, chosen
from lance_context_core.embedders._protocol import VectorArray, batches, well_formed
from lance_context_core.embedders._vectors import checked_vectors, no_vectors
from lance_context_core.errors import EmbeddingError, InvalidRequestError

_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
_CHARS_AT_ONCE = 400_000
"""A request may have 300,000 tokens; some scripts take nearly one a character, most a third."""


class OpenAIEmbedder(Prompted):
    """Embeds with OpenAI, or a compatible `/embeddings` service: vLLM, Ollama, LM Studio, and others.

    Without `base_url` the service is that of OPENAI_BASE_URL in the environment, else OpenAI's own;
    without `api_key` the key is that of OPENAI_API_KEY, which only OpenAI's own service requires.
    `dimension` requests shorter vectors. `extra_body` and `headers` are sent with each request;
    a query in `base_url` stays. Network and temporary errors (429, 5xx) are retried
    `max_retries` times, after the delay that the service requests; `timeout_seconds` is the longest
    silence.

    Needs no package: it uses the standard library's client. Raises InvalidRequestError, at
    construction, for a missing key and for invalid arguments.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        dimension: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        prompts: Prompts | None = None,
        headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        batch_size: int = 256,
        max_concurrency: int = 16,
        timeout_seconds: float = 60.0,
        max_retries: int = 4,
    ) -> None:
        name = checked_model(model)
        self._prompts, self.model = chosen(name, None, prompts)
        self.dimension = checked_dimension(dimension) or _DIMENSIONS.get(name)
        self.batch_size = check_count(batch_size, "batch_size")
        self.max_concurrency = check_count(max_concurrency, "max_concurrency")
        self._body: dict[str, Any] = {"model": name, "encoding_format": "float"}
        if dimension is not None and dimension != _DIMENSIONS.get(name):
            self._body["dimensions"] = self.dimension
        self._body |= _checked_body(extra_body)
        url, said = openai_service(
            base_url,
            api_key,
            headers,
            missing=f"embedder 'openai:{name}' has no key: set OPENAI_API_KEY, or pass "
            "OpenAIEmbedder(api_key=...); for another service give base_url, or OPENAI_BASE_URL",
        )
        self._service = JsonService(
            url, headers=said, timeout_seconds=timeout_seconds, max_retries=max_retries
        )
        self._url = url

    def close(self) -> None:
        """Closes the idle connections, as the end of the object does, too."""
        self._service.close()

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.model!r}, base_url={self._url!r})"

    def _embedded(self, texts: Sequence[str], prompt: str) -> VectorArray:
        given = [f"{prompt}{well_formed(text)}" for text in texts]
        found = [
            self._asked(batch)
            for batch in batches(given, max_texts=self.batch_size, max_chars=_CHARS_AT_ONCE)
        ]
        return np.concatenate(found) if found else no_vectors(self.dimension)

    def _asked(self, batch: list[str]) -> VectorArray:
        try:
            answer = self._service.post("/embeddings", {**self._body, "input": batch})
        except ServiceError as error:
            raise EmbeddingError(
                f"embedder {self.model!r} failed on {len(batch)} text(s): {error}"
            ) from error
        rows = _rows(answer, n=len(batch), model=self.model)
        return checked_vectors(rows, batch, model=self.model, dimension=self.dimension)


def _rows(answer: Any, *, n: int, model: str) -> list[Any]:
    """Returns the vectors in the order of the texts: a service may number and reorder them."""
    data = answer.get("data") if isinstance(answer, Mapping) else None
    if not isinstance(data, list) or not all(isinstance(one, Mapping) for one in data):
        raise EmbeddingError(
            f"embedder {model!r} returned {shown(answer)}, where data was expected"
        )
    places = [one.get("index", place) for place, one in enumerate(data)]
    if sorted(place for place in places if type(place) is int) != list(range(n)) or len(data) != n:
        raise EmbeddingError(
            f"embedder {model!r} returned vectors for the texts {shown(places)} of {n}"
        )
    rows: list[Any] = [None] * n
    for place, one in zip(places, data, strict=True):
        rows[place] = _numbers(one.get("embedding"))
    return rows


def _numbers(embedding: Any) -> Any:
    """Returns a vector: numbers, or the bytes of 32-bit floats in base64."""
    if not isinstance(embedding, str):
        return embedding
    try:
        return np.frombuffer(b64decode(embedding, validate=True), dtype="<f4")
    except ValueError as error:
        raise EmbeddingError(f"a vector in base64 cannot be read: {error}") from error


def _checked_body(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    if extra is None:
        return {}
    if not isinstance(extra, Mapping) or {"input", "model"} & set(extra):
        raise InvalidRequestError(
            f"extra_body={shown(extra)}: pass the fields to send in addition to the model and the input"
        )
    return dict(extra)
