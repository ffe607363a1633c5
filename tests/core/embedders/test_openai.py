"""Embeddings of a service that speaks as OpenAI does: what is asked, what comes back, what fails."""

import asyncio
import base64
import pickle
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest
from core.services import Service, failing

from lance_context_core import AsyncContextStore, ContextStore, as_embedder
from lance_context_core.embedders import OpenAIEmbedder, Prompts
from lance_context_core.embedders._service import EmbeddingService
from lance_context_core.errors import EmbeddingError, InvalidRequestError


def vector_of(text):
    return [float(len(text)), float(sum(map(ord, text))), 1.0]


def embeddings(request):
    texts = request.body["input"]
    data = [{"index": n, "embedding": vector_of(text)} for n, text in enumerate(texts)]
    return {"object": "list", "data": data}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def service():
    with Service(embeddings) as running:
        yield running


@pytest.fixture
def embedder(service):
    made = OpenAIEmbedder("m", base_url=service.url)
    yield made
    made.close()


def answering(rows):
    return {"data": [{"index": n, "embedding": row} for n, row in enumerate(rows)]}


# What is asked


def test_a_text_and_a_question_are_sent_to_the_service(service, embedder):
    assert embedder.embed_documents(["a", "bb"]).tolist() == [vector_of("a"), vector_of("bb")]
    assert embedder.embed_query("c").tolist() == vector_of("c")
    assert [one.path for one in service.requests] == ["/v1/embeddings"] * 2
    assert [one.body["input"] for one in service.requests] == [["a", "bb"], ["c"]]
    assert service.requests[0].body["model"] == "m"
    assert "dimensions" not in service.requests[0].body
    assert embedder.embed_documents([]).shape == (0, 0)
    assert len(service.requests) == 2


def test_a_name_and_the_environment_are_enough(service, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", service.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    with ContextStore.open("memory://", embedder="openai:m") as store:
        store.memory.add(["tea is served"])
        assert store.memory.search("tea", mode="vector")[0].record.text == "tea is served"
    assert service.requests[0].headers["authorization"] == "Bearer sk-from-the-environment"


def test_both_faces_embed_beside_the_event_loop(service):
    async def main():
        embedder = OpenAIEmbedder("m", base_url=service.url, dimension=3)
        async with AsyncContextStore.open("memory://", embedder=embedder) as store:
            await store.memory.add(["tea"])
            return (await store.memory.search("tea", mode="vector"))[0].record.text

    assert asyncio.run(main()) == "tea"
    assert service.requests[0].body["dimensions"] == 3


def test_a_key_stays_out_of_what_is_shown(service):
    embedder = OpenAIEmbedder("m", base_url=service.url, api_key="sk-secret")
    service.failures += [failing(401, "wrong key")]
    with pytest.raises(EmbeddingError, match="401: wrong key") as caught:
        embedder.embed_query("a")
    assert "sk-secret" not in f"{embedder!r}{caught.value}"
    with pytest.raises(InvalidRequestError) as caught:
        OpenAIEmbedder("m", base_url=service.url, api_key="sk-secret\nX: y")
    assert "sk-secret" not in str(caught.value)


def test_headers_a_query_and_further_fields_are_sent_along(service):
    embedder = OpenAIEmbedder(
        "m",
        base_url=f"{service.url}/deployments/mine/?api-version=2024-10-21",
        api_key="not sent",
        headers={"api-key": "azure"},
        extra_body={"user": "ann", "encoding_format": "base64"},
    )
    service.answer = lambda request: answering(
        [base64.b64encode(np.array([1, 2], "<f4").tobytes()).decode()]
    )
    assert embedder.embed_query("a").tolist() == [1.0, 2.0]
    request = service.requests[0]
    assert request.path == "/v1/deployments/mine/embeddings?api-version=2024-10-21"
    assert (request.body["user"], request.headers["api-key"]) == ("ann", "azure")
    assert "authorization" not in request.headers


def test_texts_go_in_batches_bounded_in_number_and_in_length(service, monkeypatch):
    monkeypatch.setattr("lance_context_core.embedders._openai._CHARS_AT_ONCE", 10)
    embedder = OpenAIEmbedder("m", base_url=service.url, batch_size=3)
    texts = ["x" * n for n in (1, 1, 1, 1, 8, 9, 30, 1)]
    assert embedder.embed_documents(texts).tolist() == [vector_of(text) for text in texts]
    sent = [[len(text) for text in one.body["input"]] for one in service.requests]
    assert sent == [[1, 1, 1], [1, 8], [9], [30], [1]]


def test_a_store_sends_as_many_texts_at_once_as_the_embedder_takes(service):
    embedder = OpenAIEmbedder("m", base_url=service.url, batch_size=100)
    texts = [f"text {n}" for n in range(250)]
    asyncio.run(EmbeddingService(embedder).embed_documents(texts))
    assert [len(one.body["input"]) for one in service.requests] == [100, 100, 50]


def test_a_text_that_was_embedded_lately_is_not_sent_again(service, embedder):
    async def main():
        kept = EmbeddingService(embedder)
        for _ in range(3):
            await kept.embed_documents(["a", "b"])
            await kept.embed_query("a")

    asyncio.run(main())
    assert [one.body["input"] for one in service.requests] == [["a", "b"], ["a"]]


def test_prompts_are_put_before_texts_and_questions(service):
    known = OpenAIEmbedder("nomic-embed-text", base_url=service.url)
    known.embed_documents(["a"])
    known.embed_query("a")
    own = OpenAIEmbedder("m", base_url=service.url, prompts=Prompts(query="Q ", document="D "))
    own.embed_documents(["a"])
    own.embed_query("a")
    sent = [one.body["input"] for one in service.requests]
    assert sent == [["search_document: a"], ["search_query: a"], ["D a"], ["Q a"]]
    assert (known.model, own.model) == ("nomic-embed-text", "m+'D '")


def test_half_an_emoji_is_sent_as_the_replacement_character(service, embedder):
    embedder.embed_query("a \ud83d")
    assert service.requests[0].body["input"] == ["a \ufffd"]


def test_the_length_of_vectors_is_known_before_the_first_text():
    assert OpenAIEmbedder("text-embedding-3-large", api_key="k").dimension == 3072
    assert OpenAIEmbedder("text-embedding-3-large", api_key="k", dimension=256).dimension == 256


def test_a_name_with_a_dimension_asks_for_vectors_of_that_length(service, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", service.url)
    assert as_embedder("openai:m", dimension=3).embed_query("a").tolist() == vector_of("a")
    assert service.requests[0].body["dimensions"] == 3


def test_an_embedder_pickles_for_another_process(service, embedder):
    embedder.embed_query("a")
    again = pickle.loads(pickle.dumps(embedder))  # noqa: S301 - our own
    assert again.embed_query("a").tolist() == vector_of("a")


# Connections


def test_connections_are_kept_and_opened_again_where_the_service_has_closed_them(service, embedder):
    for text in "abc":
        embedder.embed_query(text)
    assert [one.connection for one in service.requests] == [0, 0, 0]
    service.failures += [lambda _: (200, {"Connection": "close"}, b'{"data": []}')]
    with pytest.raises(EmbeddingError):
        embedder.embed_query("d")
    embedder.embed_query("e")
    assert [one.connection for one in service.requests][-2:] == [0, 1]


def test_a_kept_connection_that_turns_out_closed_is_no_failure(service, embedder, pauses):
    embedder.embed_query("a")
    service.failures += [None]
    assert embedder.embed_query("b").tolist() == vector_of("b")
    assert pauses == []
    assert [one.connection for one in service.requests] == [0, 0, 1]


def test_threads_that_ask_at_once_have_a_connection_each(service, embedder):
    both = threading.Barrier(2, timeout=60)

    def together(request):
        both.wait()
        return embeddings(request)

    service.answer = together
    threads = [threading.Thread(target=embedder.embed_query, args=(text,)) for text in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.connection for one in service.requests) == [0, 1]


def test_a_proxy_of_the_environment_is_asked_in_the_service_s_place(service, monkeypatch):
    monkeypatch.setenv("http_proxy", service.url.replace("http://", "http://ann:p%40ss@"))
    embedder = OpenAIEmbedder("m", base_url="http://elsewhere.invalid/v1")
    assert embedder.embed_query("a").tolist() == vector_of("a")
    [request] = service.requests
    assert request.path == "http://elsewhere.invalid/v1/embeddings"
    given = request.headers["proxy-authorization"].removeprefix("Basic ")
    assert base64.b64decode(given) == b"ann:p@ss"


# What fails


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again_after_pauses_that_grow(service, embedder, pauses, status):
    service.failures += [failing(status)] * 3
    assert embedder.embed_query("a").tolist() == vector_of("a")
    assert len(service.requests) == 4
    for pause, most in zip(pauses, (0.5, 1, 2), strict=True):
        assert most / 2 <= pause <= most


def test_tries_end_with_what_the_service_said_last(service, embedder, pauses):
    service.failures += [failing(500, f"try {n}") for n in range(9)]
    with pytest.raises(EmbeddingError, match=r"500: try 4 \(tried 5 times\)"):
        embedder.embed_query("a")
    assert len(pauses) == 4


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413, 422])
def test_what_will_not_pass_is_not_tried_again(service, embedder, pauses, status):
    service.failures += [failing(status, "because", Location="http://elsewhere")]
    with pytest.raises(EmbeddingError, match=f"{status}: because"):
        embedder.embed_query("a")
    assert (len(service.requests), pauses) == (1, [])


def test_a_service_is_waited_for_as_long_as_it_asks(service, embedder, pauses):
    soon = format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True)
    service.failures += [
        failing(429, Retry_After="7"),
        failing(429, retry_after_ms="1500"),
        failing(503, Retry_After=soon),
        failing(503, Retry_After="whenever"),
    ]
    embedder.embed_query("a")
    assert pauses[:3] == [7.0, 1.5, 0.0]
    assert 2 <= pauses[3] <= 4


def test_a_service_that_asks_for_too_long_is_not_waited_for(service, embedder, pauses):
    service.failures += [failing(429, "quota", Retry_After="3600")]
    with pytest.raises(EmbeddingError, match="429: quota; it asks to wait for 3600 seconds"):
        embedder.embed_query("a")
    assert pauses == []


def test_a_service_that_is_silent_is_asked_again(service, pauses):
    embedder = OpenAIEmbedder("m", base_url=service.url, timeout_seconds=0.2, max_retries=1)
    let_go = threading.Event()
    service.answer = lambda _: (let_go.wait(60), None)[1]
    try:
        with pytest.raises(EmbeddingError, match=r"did not answer: TimeoutError.*tried 2 times"):
            embedder.embed_query("a")
    finally:
        let_go.set()
    assert len(pauses) == 1


def test_a_service_that_is_not_there_is_named(pauses):
    with Service(embeddings) as gone:
        pass
    embedder = OpenAIEmbedder("m", base_url=gone.url, max_retries=1)
    with pytest.raises(EmbeddingError, match=rf"{gone.url} did not answer: ConnectionRefused"):
        embedder.embed_query("a")


def test_an_answer_that_breaks_off_is_asked_for_again(service, embedder, pauses):
    service.failures += [(200, {"Content-Length": "99", "Connection": "close"}, b"{"), None]
    assert embedder.embed_query("a").tolist() == vector_of("a")
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param((200, {}, b"<html>hi</html>"), "not JSON: <html>", id="no JSON"),
        pytest.param([], "where data was expected", id="no object"),
        pytest.param({"error": "x"}, "where data was expected", id="no data"),
        pytest.param({"data": ["x"]}, "where data was expected", id="no objects in it"),
        pytest.param(answering([[1.0]]), "for the texts .* of 2", id="too few"),
        pytest.param(answering([[1.0]] * 3), "for the texts .* of 2", id="too many"),
        pytest.param(
            {"data": [{"index": 0, "embedding": [1.0]}] * 2}, "for the texts", id="one twice"
        ),
        pytest.param(
            {"data": [{"index": n, "embedding": [1.0]} for n in (0, "1")]},
            "for the texts",
            id="an index that is a text",
        ),
        pytest.param(answering([[1.0], [1.0, 2.0]]), "different shapes", id="two lengths"),
        pytest.param(answering([[1.0], [float("nan")]]), "NaN", id="NaN"),
        pytest.param(answering([[1.0], None]), "None for 'b'", id="an absent vector"),
        pytest.param(answering([[1.0], ["x"]]), "numbers were expected", id="a text in a vector"),
        pytest.param(answering([[1.0], "AAA"]), "base64", id="broken base64"),
    ],
)
def test_an_answer_that_is_not_vectors_is_refused(service, embedder, pauses, answer, problem):
    service.failures += [answer]
    with pytest.raises(EmbeddingError, match=problem):
        embedder.embed_documents(["a", "b"])
    assert len(service.requests) == 1


def test_vectors_may_come_in_any_order(service, embedder):
    service.answer = lambda request: {"data": embeddings(request)["data"][::-1]}
    texts = ["a", "bb", "ccc"]
    assert embedder.embed_documents(texts).tolist() == [vector_of(text) for text in texts]


def test_a_dimension_that_the_service_does_not_keep_to_is_refused(service):
    embedder = OpenAIEmbedder("m", base_url=service.url, dimension=2)
    with pytest.raises(EmbeddingError, match="length 3, but its dimension is 2"):
        embedder.embed_query("a")


def test_nothing_is_written_when_the_service_fails(service, embedder, pauses):
    service.answer = failing(500)
    with ContextStore.open("memory://", embedder=embedder) as store:
        with pytest.raises(EmbeddingError, match="500"):
            store.memory.add(["x"])
        assert store.memory.list().total == 0


# What is refused at once


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param({"model": ""}, "model=''", id="no model"),
        pytest.param({"base_url": "localhost:80"}, "base_url=", id="no scheme"),
        pytest.param({"base_url": "http://h:x"}, "base_url=", id="no port"),
        pytest.param({"base_url": "file:///etc/passwd"}, "base_url=", id="another scheme"),
        pytest.param({"dimension": 0}, "dimension=0", id="no dimension"),
        pytest.param({"batch_size": 0}, "batch_size=0", id="no batch"),
        pytest.param({"max_concurrency": True}, "max_concurrency=True", id="a truth for a count"),
        pytest.param({"timeout_seconds": 0}, "timeout_seconds=0", id="no time"),
        pytest.param({"max_retries": -1}, "max_retries=-1", id="fewer tries than one"),
        pytest.param({"headers": ["x"]}, "headers is not a mapping", id="a list of headers"),
        pytest.param({"headers": {"x": "a\nb"}}, "headers\\['x'\\]", id="a header of two lines"),
        pytest.param({"extra_body": {"input": 1}}, "extra_body=", id="another input"),
        pytest.param({"prompts": "query: "}, "prompts='query: '", id="prompts as a text"),
    ],
)
def test_wrong_arguments_are_named(arguments, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        OpenAIEmbedder(**{"model": "m", "api_key": "k", **arguments})


def test_openai_itself_needs_a_key():
    with pytest.raises(InvalidRequestError, match="set OPENAI_API_KEY"):
        as_embedder("openai:text-embedding-3-small")
