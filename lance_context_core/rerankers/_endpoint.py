"""Rerankers of a service: whatever has a `/rerank` as Cohere and Jina have it."""

from collections.abc import Mapping, Sequence
from typing import Any

from lance_context_core._util.checks import check_count, check_name, shown
from lance_context_core._util.http import JsonService, ServiceError, checked_headers
from lance_context_core.embedders._batches import batches
from lance_context_core.errors import InvalidRequestError, RerankingError
from lance_context_core.rerankers._texts import TextReranker

_CHARS_AT_ONCE = 400_000
_LISTS, _SCORES = ("results", "data"), ("relevance_score", "score")


class EndpointReranker(TextReranker):
    """Reranks by a service's `/rerank`: of Cohere, Jina, Voyage, vLLM, LiteLLM, Infinity or TEI.

    `base_url` is what stands before `/rerank`. `documents_as` is what the service calls the texts:
    `texts` for TEI, `documents` for all others. `extra_body` is sent with each request, `headers` too.
    A search waits for it, so it is given up sooner than an embedder's: after `timeout_seconds` of
    silence, and tried again `max_retries` times where that may help. Raises RerankingError for what
    is no answer; `SearchOptions.on_reranker_error` says what becomes of the search.
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
        """See `TextReranker.scores`; what the service leaves out of its answer is dropped."""
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
    """The results, under whatever name they come."""
    if isinstance(answer, Mapping):
        answer = next((answer[name] for name in _LISTS if name in answer), None)
    if not isinstance(answer, list) or not all(isinstance(one, Mapping) for one in answer):
        raise RerankingError(
            f"reranker {model!r} returned {shown(answer)}, where results were expected"
        )
    return answer
