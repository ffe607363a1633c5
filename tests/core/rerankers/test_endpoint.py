"""Rerankers of a service: what is asked, in which shapes scores come back, and what fails."""

import pickle

import pytest
from core.services import Service, failing

from lance_context_core import ContextStore
from lance_context_core.errors import InvalidRequestError, NotRerankedWarning, RerankingError
from lance_context_core.rerankers import EndpointReranker
from lance_context_core.settings import SearchOptions

TEXTS = ["a", "bbb", "cc"]


def ranked(request, *, under="results", score="relevance_score"):
    """Longer texts are better; the best come first, as services have it."""
    texts = request.body.get("documents") or request.body["texts"]
    rows = [{"index": n, score: len(text) / 10} for n, text in enumerate(texts)]
    rows.sort(key=lambda row: -row[score])
    return rows if under is None else {under: rows}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def service():
    with Service(ranked) as running:
        yield running


@pytest.fixture
def reranker(service):
    return EndpointReranker("m", base_url=service.url, api_key="sk-secret")


def test_texts_are_scored_in_their_order(service, reranker):
    assert reranker.scores("q", TEXTS) == [0.1, 0.3, 0.2]
    [request] = service.requests
    assert request.path == "/v1/rerank"
    assert request.body == {"model": "m", "query": "q", "documents": TEXTS}
    assert request.headers["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in repr(reranker)


@pytest.mark.parametrize(
    ("under", "score"),
    [("results", "relevance_score"), ("data", "relevance_score"), (None, "score")],
)
def test_the_shapes_of_the_field_are_understood(service, under, score):
    service.answer = lambda request: ranked(request, under=under, score=score)
    reranker = EndpointReranker(
        "m", base_url=service.url, documents_as="texts", extra_body={"truncate": True}
    )
    assert reranker.scores("q", TEXTS) == [0.1, 0.3, 0.2]
    assert service.requests[0].body["truncate"] is True


def test_what_the_service_leaves_out_is_dropped(service, reranker):
    service.answer = lambda request: {"results": ranked(request)["results"][:2]}
    assert reranker.scores("q", TEXTS) == [None, 0.3, 0.2]


def test_many_texts_go_in_batches(service):
    reranker = EndpointReranker("m", base_url=service.url, batch_size=2)
    assert reranker.scores("q", ["a" * n for n in range(1, 6)]) == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert [len(one.body["documents"]) for one in service.requests] == [2, 2, 1]


def test_a_reranker_pickles_for_another_process(reranker):
    again = pickle.loads(pickle.dumps(reranker))  # noqa: S301 - our own
    assert again.scores("q", TEXTS) == [0.1, 0.3, 0.2]


def test_a_search_is_ordered_by_the_service(service, reranker):
    with ContextStore.open("memory://") as store:
        store.memory.add(["tea", "tea and milk", "tea or coffee, in a cup"])
        hits = store.memory.search("tea", options=SearchOptions(reranker=reranker))
    assert [hit.record.text for hit in hits][-1] == "tea"
    assert [hit.score for hit in hits] == [1.0, pytest.approx(9 / 20), 0.0]  # beyond 1: stretched


@pytest.mark.parametrize(
    ("answer", "problem", "n_requests"),
    [
        pytest.param(failing(500, "busy"), r"500: busy \(tried 2 times\)", 2, id="busy"),
        pytest.param(failing(401, "key"), "401: key", 1, id="a wrong key"),
        pytest.param((200, {}, b"<html>"), "not JSON", 1, id="no JSON"),
        pytest.param({"error": 1}, "results were expected", 1, id="no results"),
        pytest.param({"results": ["x"]}, "results were expected", 1, id="no objects"),
        pytest.param({"results": [{"index": 3, "score": 1}]}, "text 3 of 3", 1, id="a fourth"),
        pytest.param({"results": [{"index": -1, "score": 1}]}, "text -1", 1, id="a negative one"),
        pytest.param({"results": [{"score": 1}]}, "text None of 3", 1, id="no index"),
        pytest.param(
            {"results": [{"index": 0, "score": 1}] * 2}, "scored the text 0", 1, id="one twice"
        ),
        pytest.param({"results": [{"index": 0}]}, "gave the score None", 1, id="no score"),
        pytest.param(
            {"results": [{"index": 0, "score": "1"}]}, "gave the score '1'", 1, id="a text"
        ),
    ],
)
def test_what_is_no_answer_is_raised_or_gone_without(
    service, reranker, pauses, answer, problem, n_requests
):
    service.answer = answer
    with pytest.raises(RerankingError, match=problem):
        reranker.scores("q", TEXTS)
    assert len(service.requests) == n_requests
    with ContextStore.open("memory://") as store:
        store.memory.add(["tea", "tea time", "no tea"])
        with pytest.raises(RerankingError):
            store.memory.search("tea", options=SearchOptions(reranker=reranker))
        options = SearchOptions(reranker=reranker, on_reranker_error="ignore")
        with pytest.warns(NotRerankedWarning, match=problem):
            assert len(store.memory.search("tea", options=options)) == 3


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"model": ""}, "model is empty"),
        ({"base_url": "api.cohere.com"}, "base_url="),
        ({"batch_size": 0}, "batch_size=0"),
        ({"timeout_seconds": -1}, "timeout_seconds=-1"),
        ({"documents_as": ""}, "documents_as is empty"),
        ({"extra_body": "x"}, "extra_body='x'"),
        ({"headers": {"x": 1}}, "headers"),
    ],
)
def test_wrong_arguments_are_named(arguments, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        EndpointReranker(**{"model": "m", "base_url": "http://h/v1", **arguments})
