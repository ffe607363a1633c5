"""The asynchronous methods await the store: nothing blocks the event loop, or is left to a thread."""

import asyncio
import concurrent.futures
import inspect
import itertools
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from adapters.langchain.conftest import WordEmbeddings
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import Generation
from langchain_lance_context import (
    LanceContextByteStore,
    LanceContextChatMessageHistory,
    LanceContextRecordManager,
    LanceContextRetriever,
    LanceContextSaver,
    LanceContextSemanticCache,
    LanceContextStore,
    LanceContextVectorStore,
    chat_message_histories,
)
from langchain_lance_context._messages import to_canonical
from langgraph.checkpoint.base import empty_checkpoint

from lance_context_core import AsyncContextStore

FRAMEWORKS = ("langchain", "langgraph")


class BlockingEmbeddings(WordEmbeddings):
    """Embeddings that note in which threads they are called."""

    def __init__(self):
        super().__init__()
        self.threads = set()

    def embed_documents(self, texts):
        self.threads.add(threading.get_ident())
        return super().embed_documents(texts)

    def embed_query(self, text):
        self.threads.add(threading.get_ident())
        return super().embed_query(text)


class AwaitedEmbeddings(BlockingEmbeddings):
    """Embeddings that can be awaited too, so that the framework needs no thread for them."""

    async def aembed_documents(self, texts):
        return WordEmbeddings.embed_documents(self, texts)

    async def aembed_query(self, text):
        return WordEmbeddings.embed_query(self, text)


# What is called of each class


async def call_vector_store(store, embedding):
    documents = await LanceContextVectorStore.afrom_texts(["tea"], embedding, store=store)
    ids = await documents.aadd_texts(["ginger tea", "ginger soup"])
    await documents.aadd_documents([Document("carrot cake")])
    await documents.aget_by_ids(ids)
    near = await embedding.aembed_query("tea")
    await documents.asimilarity_search("tea")
    await documents.asimilarity_search("tea", mode="hybrid")
    await documents.asimilarity_search_with_score("tea", filter={"a": 1})
    await documents.asimilarity_search_by_vector(near)
    await documents.amax_marginal_relevance_search("tea")
    await documents.amax_marginal_relevance_search_by_vector(near)
    await documents.asimilarity_search_with_relevance_scores("tea")
    await documents.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.1}
    ).ainvoke("tea")
    await documents.asimilarity_search_by_vector_with_score(near)
    await documents.asimilarity_search_with_score_by_vector(near, filter={"id": "a"})
    await documents.adelete(ids)
    assert await documents.acount(filter={"a": None}) == 2
    await documents.adelete_collection()
    await documents.aclose()


async def call_retriever(store, embedding):
    await store.history.append("", to_canonical(HumanMessage("ginger tea")), session_id="s")
    await LanceContextVectorStore(store, embedding).aadd_texts(["ginger tea"])
    for retriever in (
        LanceContextRetriever(store=store),
        LanceContextRetriever(store=store, collection="default", embedding=embedding),
    ):
        assert await retriever.ainvoke("tea")
        await retriever.aclose()


async def call_history(store, embedding):
    history = LanceContextChatMessageHistory(store, "monday")
    await history.aadd_messages([HumanMessage("Is there tea?"), AIMessage("Yes.")])
    assert len(await history.aget_messages()) == 2
    await history.aclear()
    await history.aclose()


async def call_saver(store, embedding):
    saver = LanceContextSaver(store, keep_last=2)
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    for n in range(4):
        checkpoint = empty_checkpoint() | {"channel_values": {"messages": [HumanMessage("hi")] * n}}
        checkpoint["channel_versions"] = {"messages": f"{n:032}.0"}
        versions = checkpoint["channel_versions"]
        config = await saver.aput(config, checkpoint, {"run_id": "r"}, versions)
        await saver.aput_writes(config, [("messages", HumanMessage("hi"))], "task")
    assert await saver.aget_tuple(config)
    assert [one async for one in saver.alist(None)]
    await saver.aget_delta_channel_history(config=config, channels=["messages"])
    await saver.acopy_thread("t", "u")
    await saver.aprune(["t"])
    await saver.adelete_for_runs(["r"])
    await saver.adelete_thread("t")
    await saver.aput_writes(config, [("messages", HumanMessage("late"))], "task")
    await saver.aput({"configurable": {"thread_id": "v"}}, empty_checkpoint(), {}, {})
    assert [one.thread_id for one in await saver.athreads(filter={"step": None})] == ["v"]
    await saver.adelete_threads(datetime.now(UTC) + timedelta(days=1))
    await saver.aclose()


async def call_store(store, embedding):
    items = LanceContextStore(store, index={"dims": 64, "embed": embedding, "fields": ["text"]})
    await items.aput(("a",), "k", {"text": "ginger tea"}, ttl=5)
    assert await items.aget(("a",), "k")
    assert await items.asearch(("a",), query="tea")
    assert await items.asearch(("a",), filter={"text": "ginger tea"})
    assert await items.alist_namespaces()
    await items.asweep_ttl()
    await items.adelete(("a",), "k")
    await items.aclose()


async def call_cache(store, embedding):
    cache = LanceContextSemanticCache(store, embedding)
    await cache.aupdate("Is there tea?", "model", [Generation(text="Yes.")])
    assert await cache.alookup("Is there tea?", "model")
    assert await cache.alookup("Is there any soup?", "model") is None
    await cache.aclear()
    await cache.aclose()


async def call_record_manager(store, embedding):
    records = LanceContextRecordManager("docs", store)
    await records.acreate_schema()
    await records.aupdate(["a", "b"], group_ids=["x", "y"], time_at_least=await records.aget_time())
    assert await records.aexists(["a"]) == [True]
    assert await records.alist_keys(group_ids=["y"]) == ["b"]
    await records.adelete_keys(["a"])
    await records.aclose()


async def call_byte_store(store, embedding):
    kv = LanceContextByteStore(store)
    await kv.amset([("a", b"1"), ("b", b"2")])
    assert await kv.amget(["a", "c"]) == [b"1", None]
    assert [key async for key in kv.ayield_keys()] == ["a", "b"]
    await kv.amdelete(["a"])
    await kv.aclose()


CALLS = {
    LanceContextVectorStore: call_vector_store,
    LanceContextRetriever: call_retriever,
    LanceContextChatMessageHistory: call_history,
    LanceContextSaver: call_saver,
    LanceContextStore: call_store,
    LanceContextSemanticCache: call_cache,
    LanceContextRecordManager: call_record_manager,
    LanceContextByteStore: call_byte_store,
}
each_class = pytest.mark.parametrize("cls", CALLS)


# What would block


BLOCKING = {
    *("open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.scandir", "os.walk"),
    *("shutil.rmtree", "socket.connect", "sqlite3.connect", "subprocess.Popen"),
}
"""The audit events of what waits for a disk or for others."""


class Watch:
    """What the interpreter is asked to do by one thread; there is one, since no hook can be removed."""

    thread = None
    seen: list[str]

    @classmethod
    def hook(cls, event, args):
        if cls.thread is not None and event in BLOCKING and threading.get_ident() == cls.thread:
            cls.seen.append(f"{event}{args!r:.200}")


sys.addaudithook(Watch.hook)


@contextmanager
def watched(monkeypatch):
    """The calls in this thread that block it, and what of the frameworks hands work to threads."""
    with monkeypatch.context() as patched:
        thread = Watch.thread = threading.get_ident()
        seen = Watch.seen = []
        result = concurrent.futures.Future.result
        run_in_executor = asyncio.BaseEventLoop.run_in_executor
        sleep = time.sleep

        def slept(seconds):
            if threading.get_ident() == thread:
                seen.append("time.sleep")
            sleep(seconds)

        def waited(future, timeout=None):
            if threading.get_ident() == thread and not future.done():
                seen.append("a future is waited for")
            return result(future, timeout)

        def handed(loop, executor, work, *args):
            caller = sys._getframe(1).f_globals["__name__"]
            if caller.startswith(FRAMEWORKS):
                seen.append(f"{caller} takes a thread")
            return run_in_executor(loop, executor, work, *args)

        patched.setattr(time, "sleep", slept)
        patched.setattr(concurrent.futures.Future, "result", waited)
        patched.setattr(asyncio.BaseEventLoop, "run_in_executor", handed)
        try:
            yield seen
        finally:
            Watch.thread = None


async def warm_up(call, embedding):
    """Import what is imported by a first call, which does block."""
    async with AsyncContextStore.open("memory://") as store:
        await call(store, embedding)


@each_class
async def test_nothing_blocks_the_loop_or_takes_a_thread(cls, tmp_path, monkeypatch):
    embedding = AwaitedEmbeddings()
    await warm_up(CALLS[cls], embedding)
    with watched(monkeypatch) as seen:
        async with AsyncContextStore.open(tmp_path) as store:
            await CALLS[cls](store, embedding)
    assert seen == []
    assert threading.get_ident() not in embedding.threads


def waited_for(byte_store):
    """Ask the store from the loop, until it is not so quick that there is nothing to wait for."""
    while not Watch.seen:
        byte_store.mget(["a"])


@pytest.mark.parametrize(
    ("blocking", "said"),
    [
        (lambda store: time.sleep(0), "time.sleep"),
        (lambda store: open(__file__, "rb").close(), "open"),  # noqa: PTH123 - as libraries do
        (lambda store: waited_for(LanceContextByteStore(store)), "a future"),
    ],
)
async def test_the_watch_sees_what_blocks(tmp_path, monkeypatch, blocking, said):
    async with AsyncContextStore.open(tmp_path) as store:
        with watched(monkeypatch) as seen:
            blocking(store)
    assert len(seen) == 1
    assert seen[0].startswith(said)


@each_class
async def test_every_asynchronous_method_is_watched(cls, tmp_path, monkeypatch):
    """Those of the class itself; one that is added must be called above."""
    called = set()

    def noting(name, method):
        def call(*args, **kwargs):
            called.add(name)
            return method(*args, **kwargs)

        return call

    own = {
        name: member
        for name, member in vars(cls).items()
        if inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)
    }
    for name, member in own.items():
        monkeypatch.setattr(cls, name, noting(name, member))
    async with AsyncContextStore.open(tmp_path) as store:
        await CALLS[cls](store, AwaitedEmbeddings())
    assert set(own) <= called


@each_class
async def test_embeddings_that_block_are_called_elsewhere(cls, tmp_path):
    embedding = BlockingEmbeddings()
    async with AsyncContextStore.open(tmp_path, embedder=embedding) as store:
        await CALLS[cls](store, embedding)
    assert threading.get_ident() not in embedding.threads


async def test_a_stores_own_embedder_is_called_elsewhere(tmp_path):
    embedding = BlockingEmbeddings()
    async with AsyncContextStore.open(tmp_path, embedder=embedding) as store:
        await LanceContextVectorStore(store).aadd_texts(["ginger tea"])
        assert await LanceContextVectorStore(store).asimilarity_search("tea")
        assert await LanceContextRetriever(store=store).ainvoke("tea") == []
    assert embedding.threads
    assert threading.get_ident() not in embedding.threads


# Many messages


async def test_many_messages_are_converted_a_few_at_a_time(store, monkeypatch):
    """In between, whatever else is to be done on the loop has its turn."""
    turns = itertools.count()
    turn = next(turns)
    converted = Counter()

    async def tick():
        nonlocal turn
        while True:
            turn = next(turns)
            await asyncio.sleep(0)

    def counted(convert):
        def call(message):
            converted[turn] += 1
            return convert(message)

        return call

    for name in ("to_canonical", "from_canonical"):
        convert = counted(getattr(chat_message_histories, name))
        monkeypatch.setattr(chat_message_histories, name, convert)
    ticking = asyncio.create_task(tick())
    said = [HumanMessage(f"Is there tea number {n}?") for n in range(400)]
    history = LanceContextChatMessageHistory(store, "monday")
    await history.aadd_messages(said)
    assert await history.aget_messages() == said
    ticking.cancel()
    assert converted.total() == 2 * len(said)
    assert max(converted.values()) <= 50
