"""Embedders and the service that calls them: order, batches, caching, checks, threads, loops."""

import asyncio
import gc
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lancedb.embeddings import TextEmbeddingFunction

from lance_context_core.embedders import (
    AsyncCallableEmbedder,
    AsyncEmbedder,
    CallableEmbedder,
    Embedder,
    LocalEmbedder,
    as_embedder,
)
from lance_context_core.embedders._service import EmbeddingService, VectorCache
from lance_context_core.errors import EmbeddingError, InvalidRequestError

HOSTILE = ["a", "A", "a ", "'; DROP TABLE x; --", "x.y", "nul\0", "\ud83d", "\N{DOG FACE}", "é", "e\u0301"]  # fmt: skip
texts_from_a_small_pool = st.lists(st.sampled_from(HOSTILE), max_size=30)


def vector_of(text):
    """Three numbers that tell the pool's texts apart."""
    return [float(len(text)), float(sum(map(ord, text))), 1.0]


def vectors_of(texts):
    return [vector_of(text) for text in texts]


def upside_down(text):
    return [-number for number in vector_of(text)]


class Recorder:
    """An embedder that remembers the batches and queries it was called with."""

    model = "recorder"
    dimension = 3

    def __init__(self):
        self.batches = []
        self.queries = []

    def embed_documents(self, texts):
        self.batches.append(list(texts))
        return np.array(vectors_of(texts), dtype=np.float32)

    def embed_query(self, text):
        self.queries.append(text)
        return np.array(upside_down(text), dtype=np.float32)


class AsyncRecorder(Recorder):
    async def aembed_documents(self, texts):
        await asyncio.sleep(0)
        return super().embed_documents(texts)

    async def aembed_query(self, text):
        await asyncio.sleep(0)
        return super().embed_query(text)

    embed_documents = embed_query = None


def documents(embedder, texts, **options):
    return asyncio.run(EmbeddingService(embedder, **options).embed_documents(texts))


def returning(raw, **options):
    return EmbeddingService(CallableEmbedder(lambda _: raw, model="m", **options))


# Order, batches and duplicates


@given(
    texts=texts_from_a_small_pool,
    batch_size=st.integers(1, 7),
    cache_bytes=st.sampled_from([0, 700, 10**6]),
    kind=st.sampled_from([Recorder, AsyncRecorder]),
)
def test_vectors_come_in_the_order_of_the_texts(texts, batch_size, cache_bytes, kind):
    embedder = kind()
    vectors = documents(embedder, texts, batch_size=batch_size, cache_bytes=cache_bytes)
    assert vectors.tolist() == vectors_of(texts)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    assert vectors.shape == (len(texts), 3)
    sent = [text for batch in embedder.batches for text in batch]
    assert sorted(sent) == sorted(set(texts))
    assert all(len(batch) <= batch_size for batch in embedder.batches)
    assert len(embedder.batches) == -(-len(set(texts)) // batch_size)


@pytest.mark.parametrize("kind", [Recorder, AsyncRecorder])
def test_a_text_is_embedded_once_as_a_document_and_once_as_a_query(kind):
    async def main():
        service = EmbeddingService(embedder := kind())
        for _ in range(2):
            assert (await service.embed_documents(["a", "b"])).tolist() == vectors_of("ab")
            assert (await service.embed_query("a")).tolist() == upside_down("a")
        await service.embed_documents(["b", "c"])
        assert embedder.batches == [["a", "b"], ["c"]]
        assert embedder.queries == ["a"]

    asyncio.run(main())


def test_a_cache_of_no_bytes_embeds_every_time():
    async def main():
        service = EmbeddingService(embedder := Recorder(), cache_bytes=0)
        for _ in range(2):
            await service.embed_documents(["a"])
            await service.embed_query("a")
        assert embedder.batches == [["a"], ["a"]]
        assert embedder.queries == ["a", "a"]

    asyncio.run(main())


def test_no_texts_are_no_vectors_and_no_call():
    embedder = Recorder()
    assert documents(embedder, []).shape == (0, 3)
    assert embedder.batches == []
    assert documents(CallableEmbedder(vectors_of, model="m"), []).shape == (0, 0)


def test_what_a_caller_does_to_a_vector_stays_with_the_caller():
    async def main():
        service = EmbeddingService(Recorder())
        for _ in range(2):
            documents, query = await service.embed_documents(["a"]), await service.embed_query("a")
            assert documents.tolist() == vectors_of("a")
            assert query.tolist() == upside_down("a")
            documents[:] = query[:] = 7

    asyncio.run(main())


def test_an_embedder_may_reuse_its_output_buffer_and_empty_its_input():
    buffer = np.zeros((1, 3), dtype=np.float32)

    def embed(texts):
        buffer[:] = vectors_of(texts)
        texts.clear()
        return buffer

    texts = ["a", "bb", "ccc"]
    embedder = Recorder()
    embedder.embed_documents = embed
    assert documents(embedder, texts, batch_size=1).tolist() == vectors_of(texts)


# The cache


@given(
    operations=st.lists(
        st.tuples(st.sampled_from(["put", "get"]), st.sampled_from(HOSTILE)), max_size=60
    ),
    room=st.integers(0, 4),
)
def test_the_cache_holds_the_most_recently_used(operations, room):
    entry = VectorCache(10**6)
    entry.put_many({"x": np.zeros(3, np.float32)})
    cache = VectorCache(entry.n_bytes * room)
    recent = []  # the oldest first
    for operation, text in operations:
        found = cache.get_many([text])
        assert set(found) == ({text} if text in recent else set())
        if operation == "put":
            cache.put_many({text: np.array(vector_of(text), np.float32)})
        if text in recent or operation == "put":
            recent = [*(other for other in recent if other != text), text][-room:] if room else []
    assert cache.n_bytes == len(recent) * entry.n_bytes
    assert {text: found.tolist() for text, found in cache.get_many(HOSTILE).items()} == {
        text: vector_of(text) for text in recent
    }


def test_a_cached_row_does_not_keep_its_batch_in_memory():
    cache = VectorCache(10**6)
    cache.put_many({"a": np.zeros((1000, 3), np.float32)[0]})
    assert cache.get_many(["a"])["a"].base is None


# What comes back is checked


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (None, "NoneType"),
        ([[1, 2]], "list of 1 for 2"),
        ([[1, 2], [3, 4], [5, 6]], "list of 3 for 2"),
        ([1.0, 2.0], r"shape \(2,\)"),
        ([[1, 2], [3]], r"\(2,\) for 'a', \(1,\) for 'b'"),
        ([[1, 2], None], "None for 'b'"),
        ([[1, 2], [3, None]], "object"),
        ([["1", "2"], ["3", "4"]], "numbers were expected"),
        ([[1j, 2], [3, 4]], "complex"),
        ([[True, False], [True, True]], "bool"),
        ([[], []], r"shape \(2, 0\)"),
        ([[[1, 2]], [[3, 4]]], r"shape \(2, 1, 2\)"),
        (np.ones((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.ones((3, 2)), r"shape \(3, 2\)"),
        ([[1, 2], [3, float("nan")]], "NaN or infinity for 'b'"),
        ([[float("-inf"), 2], [3, 4]], "NaN or infinity for 'a'"),
        ([[1, 2], [3, 1e39]], "outside float32 for 'b'"),
        ([[1, 2], [1e20, 0]], "outside float32 for 'b'"),
        ([[1, 2], [1e-25, 0]], "outside float32 for 'b'"),
        ([[1, 2], [1e-300, 0]], "outside float32 for 'b'"),
        ({"a": [1, 2], "b": [3, 4]}, "dict"),
        ((vector for vector in ([1, 2], [3, 4])), "generator"),
    ],
)
def test_what_is_not_one_finite_vector_per_text_is_refused(raw, says):
    with pytest.raises(EmbeddingError, match=f"'m' returned.*{says}"):
        asyncio.run(returning(raw).embed_documents(["a", "b"]))


@pytest.mark.parametrize(
    "raw",
    [
        ((1, 2), (3, 4)),
        [np.array([1, 2]), np.array([3, 4])],
        np.array([[1, 2], [3, 4]], dtype=np.float16),
        np.array([[1, 3], [2, 4]], order="F").T,
        np.array([[1, 2], [3, 4]], dtype=np.int8),
    ],
)
def test_vectors_may_come_as_lists_and_as_arrays_of_any_number_type(raw):
    vectors = asyncio.run(returning(raw).embed_documents(["a", "b"]))
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    assert vectors.tolist() == [[1, 2], [3, 4]]


def test_a_row_of_zeros_passes_and_is_the_caller_s_to_leave_out():
    async def main():
        service = EmbeddingService(
            CallableEmbedder(lambda texts: [[0.0, 0.0] for _ in texts], model="m")
        )
        assert (await service.embed_documents(["a", "b"])).tolist() == [[0, 0], [0, 0]]
        assert (await service.embed_query("a")).tolist() == [0, 0]

    asyncio.run(main())


def test_a_wrong_query_vector_is_refused():
    embedder = CallableEmbedder(vectors_of, model="m", query_fn=lambda text: [vector_of(text)])
    with pytest.raises(EmbeddingError, match=r"shape \(1, 1, 3\)"):
        asyncio.run(EmbeddingService(embedder).embed_query("a"))


def test_another_dimension_than_the_declared_one_is_refused():
    with pytest.raises(EmbeddingError, match="length 2, but its dimension is 3"):
        asyncio.run(returning([[1, 2]], dimension=3).embed_documents(["a"]))


@pytest.mark.parametrize("first", ["documents", "query"])
def test_an_unknown_dimension_is_fixed_by_the_first_vectors(first):
    async def main():
        service = EmbeddingService(
            CallableEmbedder(lambda texts: [[1.0] * len(text) for text in texts], model="m")
        )
        assert service.dimension is None
        await (
            service.embed_query("four") if first == "query" else service.embed_documents(["four"])
        )
        assert service.dimension == 4
        assert (await service.embed_documents([])).shape == (0, 4)
        with pytest.raises(EmbeddingError, match="length 3"):
            await service.embed_documents(["one"])
        with pytest.raises(EmbeddingError, match="length 3"):
            await service.embed_query("one")
        assert (await service.embed_documents(["five"])).shape == (1, 4)

    asyncio.run(main())


@pytest.mark.parametrize("texts", ["a string", [b"bytes"], [None], ["a", ""], [" \n\t"], ["a", 1]])
def test_what_is_not_text_never_reaches_the_embedder(texts):
    embedder = Recorder()
    with pytest.raises(InvalidRequestError, match="texts"):
        documents(embedder, texts)
    if isinstance(texts, list):
        with pytest.raises(InvalidRequestError, match="text="):
            asyncio.run(EmbeddingService(embedder).embed_query(texts[-1]))
    assert embedder.batches == embedder.queries == []


# Failures


def failing_once(error):
    failures = [error]

    def embed(texts):
        if failures:
            raise failures.pop()
        return vectors_of(texts)

    async def aembed(texts):
        return embed(texts)

    return embed, aembed


@pytest.mark.parametrize("which", [0, 1], ids=["sync", "async"])
@pytest.mark.parametrize("error", [TimeoutError("too slow"), StopIteration(), KeyError("x")])
def test_a_failure_of_the_embedder_is_an_embedding_error_and_is_not_remembered(which, error):
    async def main():
        service = EmbeddingService(as_embedder(failing_once(error)[which], model="flaky"))
        with pytest.raises(EmbeddingError, match="'flaky' failed on 1 text") as caught:
            await service.embed_documents(["a"])
        cause = caught.value.__cause__
        assert error in {cause, cause.__cause__}  # a coroutine wraps StopIteration
        assert (await service.embed_documents(["a"])).tolist() == vectors_of("a")

    asyncio.run(main())


def test_batches_that_succeeded_before_a_failure_are_not_embedded_again():
    calls = []

    def embed(texts):
        calls.append(texts)
        if len(calls) == 2:
            raise OSError
        return vectors_of(texts)

    async def main():
        service = EmbeddingService(CallableEmbedder(embed, model="m"), batch_size=2)
        with pytest.raises(EmbeddingError):
            await service.embed_documents(["a", "b", "c"])
        assert (await service.embed_documents(["a", "b", "c"])).tolist() == vectors_of("abc")
        assert calls == [["a", "b"], ["c"], ["c"]]

    asyncio.run(main())


# Threads and loops


def test_the_event_loop_runs_while_a_blocking_embedder_works():
    ticked = threading.Event()
    answers = []

    def embed(texts):
        answers.append(ticked.wait(timeout=300))
        return vectors_of(texts)

    async def heartbeat():
        for _ in range(5):
            await asyncio.sleep(0)
        ticked.set()

    async def main():
        service = EmbeddingService(CallableEmbedder(embed, model="m"))
        await asyncio.gather(service.embed_documents(["a"]), heartbeat())
        ticked.clear()
        await asyncio.gather(service.embed_query("a"), heartbeat())

    asyncio.run(main())
    assert answers == [True, True]


def test_a_text_that_is_embedded_in_no_time_goes_to_no_other_thread():
    threads = []

    class Quick:
        model, dimension = "quick", None

        def is_instant(self, text):
            return len(text) < 5

        def embed_documents(self, texts):
            threads.append(threading.current_thread())
            return vectors_of(texts)

        def embed_query(self, text):
            threads.append(threading.current_thread())
            return np.array(vectors_of([text])[0])

    async def main():
        service = EmbeddingService(Quick())
        await service.embed_query("a")
        await service.embed_query("a" * 5)
        await service.embed_documents(["a"])
        await service.embed_documents(["a" * 5])
        await service.embed_documents(["b", "c"])  # Nobody has said how long two take.

    asyncio.run(main())
    is_here = [one is threading.main_thread() for one in threads]
    assert is_here == [True, False, True, False, False]


def test_a_cancelled_call_leaves_right_vectors_and_no_broken_ones():
    started, go = threading.Event(), threading.Event()
    calls = []

    def embed(texts):
        calls.append(texts)
        started.set()
        assert go.wait(timeout=300)
        return vectors_of(texts)

    async def main():
        service = EmbeddingService(CallableEmbedder(embed, model="m"), max_concurrency=1)
        task = asyncio.create_task(service.embed_documents(["a", "b"]))
        await asyncio.to_thread(started.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        assert (await service.embed_documents(["c"])).tolist() == vectors_of("c")
        assert (await service.embed_documents(["b", "a"])).tolist() == vectors_of("ba")
        assert calls == [["a", "b"], ["c"]]  # the abandoned batch was finished and kept

    asyncio.run(main())


def test_a_cancelled_call_of_an_asynchronous_embedder_is_cancelled_there_too():
    ends = []
    begun = threading.Event()

    async def aembed(texts):
        if not ends:
            begun.set()
            try:
                await asyncio.sleep(600)
            finally:
                ends.append("cancelled")
        return vectors_of(texts)

    async def main():
        service = EmbeddingService(AsyncCallableEmbedder(aembed, model="m"))
        call = asyncio.create_task(service.embed_documents(["a"]))
        await asyncio.to_thread(begun.wait)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert ends == ["cancelled"]
        assert (await service.embed_documents(["a"])).tolist() == vectors_of("a")

    asyncio.run(main())


@pytest.mark.parametrize("kind", [Recorder, AsyncRecorder])
def test_one_service_serves_several_threads_and_loops_at_once(kind):
    service = EmbeddingService(kind(), batch_size=2, cache_bytes=1500)
    together = threading.Barrier(6)

    async def many(seed):
        together.wait(timeout=300)
        rng = np.random.default_rng(seed)
        for _ in range(15):
            drawn = [[HOSTILE[i] for i in rng.integers(0, len(HOSTILE), 8)] for _ in range(3)]
            results = await asyncio.gather(*(service.embed_documents(texts) for texts in drawn))
            assert [result.tolist() for result in results] == [vectors_of(texts) for texts in drawn]
            assert (await service.embed_query(drawn[0][0])).tolist() == upside_down(drawn[0][0])
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(lambda seed: asyncio.run(many(seed)), range(6)))


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_worker_threads_than_allowed_are_in_the_embedder(limit):
    inside, lock, most = [0], threading.Lock(), [0]
    full = threading.Barrier(limit)

    def embed(texts):
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        full.wait(timeout=300)  # passes only if `limit` calls do run at the same time
        with lock:
            inside[0] -= 1
        return vectors_of(texts)

    async def main():
        service = EmbeddingService(CallableEmbedder(embed, model="m"), max_concurrency=limit)
        await asyncio.gather(*(service.embed_documents([str(i)]) for i in range(3 * limit)))

    asyncio.run(main())
    assert most == [limit]


def test_worker_threads_end_with_the_service():
    def ours():
        return [t for t in threading.enumerate() if t.name.startswith("lance-context-embed")]

    service = EmbeddingService(Recorder())
    before = set(ours())
    asyncio.run(service.embed_documents(["a"]))
    (thread,) = set(ours()) - before
    del service
    gc.collect()
    thread.join(timeout=300)
    assert not thread.is_alive()


def test_a_blocking_embedder_sees_the_context_of_its_caller():
    request = ContextVar("request", default="none")
    seen = []

    def embed(texts):
        seen.append(request.get())
        return vectors_of(texts)

    async def main():
        request.set("r1")
        await EmbeddingService(CallableEmbedder(embed, model="m")).embed_documents(["a"])

    asyncio.run(main())
    assert seen == ["r1"]


@pytest.mark.parametrize(
    "options", [{"batch_size": 0}, {"max_concurrency": 0}, {"cache_bytes": -1}]
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(InvalidRequestError, match=next(iter(options))):
        EmbeddingService(Recorder(), **options)


# What may be handed to the store


class LangChainLike:
    def __init__(self, **attributes):
        vars(self).update(attributes)

    def embed_documents(self, texts):
        return vectors_of(texts)

    def embed_query(self, text):
        return upside_down(text)

    async def aembed_documents(self, texts):
        raise AssertionError("the client belongs to another loop")

    aembed_query = aembed_documents


class OnlyAsyncLangChainLike:
    model = "lc"

    async def aembed_documents(self, texts):
        return vectors_of(texts)

    async def aembed_query(self, text):
        return upside_down(text)


class LlamaIndexLike:
    def __init__(self, model_name):
        self.model_name = model_name

    def __call__(self, nodes):
        raise AssertionError("takes nodes, not texts")

    def get_text_embedding_batch(self, texts, show_progress=False):  # noqa: FBT002
        return vectors_of(texts)

    def get_query_embedding(self, query):
        return upside_down(query)


class Registered(TextEmbeddingFunction):
    name: str = "registered-v1"

    def ndims(self):
        raise AssertionError("may load the model, or call the service")

    def generate_embeddings(self, texts):
        return [np.array(vector_of(text)) for text in texts]

    def compute_query_embeddings(self, query, *args, **kwargs):
        return [np.array(upside_down(query))]


class AgentScopeLike:
    def __init__(self, **attributes):
        vars(self).update(attributes, dimensions=3)

    async def __call__(self, inputs, **kwargs):
        return SimpleNamespace(embeddings=vectors_of(inputs), usage=None)


@pytest.mark.parametrize("attribute", ["model", "model_name"])
def test_a_model_of_agentscope_is_awaited_and_its_answer_opened(attribute):
    embedder = as_embedder(AgentScopeLike(**{attribute: "text-embedding-v4"}))
    assert (embedder.model, embedder.dimension) == ("text-embedding-v4", 3)
    assert documents(embedder, ["a", "b"]).tolist() == vectors_of("ab")
    assert asyncio.run(embedder.aembed_query("a")).tolist() == vector_of("a")


@pytest.mark.parametrize(
    ("value", "model"),
    [
        (Recorder(), "recorder"),
        (AsyncRecorder(), "recorder"),
        (LangChainLike(model="text-embedding-3-small"), "text-embedding-3-small"),
        (LangChainLike(model=object(), model_name="bge"), "bge"),
        (LangChainLike(model=None, model_id="titan", dimension=3), "titan"),
        (LangChainLike(), f"{__name__}.LangChainLike"),
        (OnlyAsyncLangChainLike(), "lc"),
        (LlamaIndexLike("bge-small"), "bge-small"),
        (LlamaIndexLike("unknown"), f"{__name__}.LlamaIndexLike"),
        (Registered.create(), "registered-v1"),
        (Registered.create(name="other"), "other"),
    ],
)
def test_what_embeds_is_accepted_under_the_name_of_its_model(value, model):
    embedder = as_embedder(value)
    assert isinstance(embedder, Embedder | AsyncEmbedder)
    service = EmbeddingService(embedder)
    assert service.model == model
    assert EmbeddingService(as_embedder(value, model="mine", dimension=3)).model == "mine"

    async def main(service):
        assert (await service.embed_documents(["a", "b"])).tolist() == vectors_of("ab")
        assert (await service.embed_query("a")).tolist() == upside_down("a")
        assert service.dimension == 3

    asyncio.run(main(service))
    asyncio.run(main(EmbeddingService(as_embedder(value, model="mine"))))


async def coroutine_function(texts):
    return vectors_of(texts)


class AsyncCall:
    async def __call__(self, texts):
        return vectors_of(texts)


@pytest.mark.parametrize(
    "function", [vectors_of, coroutine_function, AsyncCall(), partial(coroutine_function)]
)
def test_a_function_needs_the_name_of_its_model(function):
    with pytest.raises(InvalidRequestError, match="name"):
        as_embedder(function)
    embedder = as_embedder(function, model="mine-v1", dimension=3)
    assert (embedder.model, embedder.dimension) == ("mine-v1", 3)
    assert documents(embedder, ["b", "a"]).tolist() == vectors_of("ba")


def test_an_embedder_of_the_store_is_taken_as_it_is():
    embedder = Recorder()
    assert as_embedder(embedder) is embedder
    assert as_embedder(embedder, model="recorder", dimension=3) is embedder
    assert isinstance(as_embedder("local"), LocalEmbedder)


@pytest.mark.parametrize("value", [None, 3, "openai", object(), LangChainLike, []])
def test_what_does_not_embed_is_refused(value):
    with pytest.raises(InvalidRequestError, match="embedder="):
        as_embedder(value, model="m")


@pytest.mark.parametrize("model", ["", "  ", None, 3])
def test_an_embedder_without_a_model_s_name_is_refused(model):
    with pytest.raises(InvalidRequestError, match="model="):
        CallableEmbedder(vectors_of, model=model)
    embedder = Recorder()
    embedder.model = model
    with pytest.raises(InvalidRequestError, match="model="):
        EmbeddingService(embedder)


@pytest.mark.parametrize("dimension", [0, -1, 2.5, "3", True])
def test_a_dimension_that_is_none_is_refused(dimension):
    with pytest.raises(InvalidRequestError, match="dimension="):
        CallableEmbedder(vectors_of, model="m", dimension=dimension)


def test_an_asynchronous_function_in_the_wrong_class_is_refused():
    with pytest.raises(InvalidRequestError, match="AsyncCallableEmbedder"):
        CallableEmbedder(coroutine_function, model="m")
    with pytest.raises(InvalidRequestError, match=r"query_fn=.*AsyncCallableEmbedder"):
        CallableEmbedder(vectors_of, model="m", query_fn=coroutine_function)
    with pytest.raises(EmbeddingError, match="AsyncCallableEmbedder"):
        documents(CallableEmbedder(lambda _: coroutine_function([]), model="m"), ["a"])
    with pytest.raises(EmbeddingError, match="use CallableEmbedder"):
        documents(AsyncCallableEmbedder(vectors_of, model="m"), ["a"])
    with pytest.raises(InvalidRequestError, match="cannot be called"):
        AsyncCallableEmbedder(vectors_of, model="m", query_fn=3)


def test_an_embedder_made_of_module_functions_pickles():
    embedder = CallableEmbedder(len, model="m", dimension=3, query_fn=len)
    again = pickle.loads(pickle.dumps(embedder))  # noqa: S301
    assert vars(again) == vars(embedder)
    assert repr(again) == "CallableEmbedder(model='m', dimension=3)"
