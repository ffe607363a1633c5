"""What no class can do anything with: a clear error or nothing at all, and never half of it."""

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from adapters.langchain.conftest import WordEmbeddings
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, ToolMessage
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
)
from langgraph.checkpoint.base import empty_checkpoint

from lance_context_core import AsyncContextStore, ContextStore, EmbeddingError, InvalidRequestError
from lance_context_core.errors import DimensionMismatchError, FilterError, StoreClosedError

# About our own code, whatever the release of the framework.
pytestmark = pytest.mark.one_release

HOSTILE = ["it's", 'a "b"', "' OR '1'='1", "x'; DROP TABLE records; --", "%", "*", "a\\", "ö"]
THREAD = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
CHECKPOINT = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c"}}


def documents(store):
    return LanceContextVectorStore(store, WordEmbeddings())


def items(store):
    return LanceContextStore(store, index={"dims": 64, "embed": WordEmbeddings()})


def bytes_(store):
    return LanceContextByteStore(store)


def records(store):
    return LanceContextRecordManager("docs", store)


def cache(store):
    return LanceContextSemanticCache(store, WordEmbeddings())


def history(store):
    return LanceContextChatMessageHistory(store, "monday")


def retriever(store):
    return LanceContextRetriever(store=store)


# A store that is closed

SYNCHRONOUS = {
    documents: {
        "add_texts": (["a"],),
        "add_documents": ([Document("a")],),
        "delete": (["a"],),
        "get_by_ids": (["a"],),
        "similarity_search": ("a",),
        "similarity_search_with_score": ("a",),
        "similarity_search_by_vector": ([1.0] * 64,),
        "similarity_search_by_vector_with_score": ([1.0] * 64,),
        "similarity_search_with_score_by_vector": ([1.0] * 64,),
        "count": (),
        "delete_collection": (),
        "max_marginal_relevance_search": ("a",),
        "max_marginal_relevance_search_by_vector": ([1.0] * 64,),
    },
    retriever: {"invoke": ("a",)},
    history: {"add_messages": ([HumanMessage("a")],), "clear": ()},
    LanceContextSaver: {
        "get_tuple": (THREAD,),
        "put": (THREAD, empty_checkpoint(), {}, {}),
        "put_writes": (CHECKPOINT, [("c", 1)], "task"),
        "delete_thread": ("t",),
        "delete_threads": (datetime.now(UTC),),
        "threads": (),
        "delete_for_runs": (["r"],),
        "copy_thread": ("t", "u"),
        "prune": (["t"],),
    },
    items: {
        "get": (("a",), "k"),
        "put": (("a",), "k", {}),
        "delete": (("a",), "k"),
        "search": (("a",),),
        "list_namespaces": (),
        "sweep_ttl": (),
    },
    bytes_: {"mget": (["a"],), "mset": ([("a", b"")],), "mdelete": (["a"],)},
    records: {
        "get_time": (),
        "update": (["a"],),
        "exists": (["a"],),
        "list_keys": (),
        "delete_keys": (["a"],),
    },
    cache: {
        "lookup": ("a", "model"),
        "update": ("a", "model", [Generation(text="b")]),
        "clear": (),
    },
}
CALLS = [
    pytest.param(make, name, args, id=f"{make.__name__}-{name}")
    for make, calls in SYNCHRONOUS.items()
    for name, args in calls.items()
]


@pytest.mark.parametrize(("make", "name", "args"), CALLS)
def test_a_closed_store_says_so(tmp_path, make, name, args):
    store = ContextStore.open(tmp_path)
    made = make(store)
    store.close()
    with pytest.raises(StoreClosedError, match="closed"):
        getattr(made, name)(*args)


@pytest.mark.parametrize(("make", "name", "args"), CALLS)
async def test_a_closed_store_says_so_asynchronously(tmp_path, make, name, args):
    store = await AsyncContextStore.open(tmp_path)
    made = make(store)
    await store.close()
    with pytest.raises(StoreClosedError, match="closed"):
        await getattr(made, f"a{name}")(*args)


def test_a_closed_store_has_nothing_to_be_read(tmp_path):
    store = ContextStore.open(tmp_path)
    conversation, saver, kv = history(store), LanceContextSaver(store), bytes_(store)
    store.close()
    with pytest.raises(StoreClosedError):
        _ = conversation.messages
    with pytest.raises(StoreClosedError):
        list(saver.list(None))
    with pytest.raises(StoreClosedError):
        list(kv.yield_keys())


# Filters


BAD_FILTERS = [{"a": {"$near": 1}}, {"$xor": [{"a": 1}]}, {"a": {"$gt": 1, "$bad": 2}}]


@pytest.mark.parametrize("filter_", BAD_FILTERS)
@pytest.mark.parametrize("is_empty", [True, False])
def test_an_unknown_operator_is_refused(store, filter_, is_empty):
    if not is_empty:
        documents(store).add_texts(["tea"], [{"a": 1}])
        history(store).add_messages([HumanMessage("tea")])
        items(store).put(("a",), "k", {"a": 1})
    for call in (
        lambda: documents(store).similarity_search("tea", filter=filter_),
        lambda: documents(store).delete(filter=filter_),
        lambda: documents(store).delete(["x"], filter=filter_),
        lambda: retriever(store).invoke("tea", filter=filter_),
        lambda: LanceContextRetriever(store=store, filter=filter_).invoke("tea"),
    ):
        with pytest.raises(FilterError):
            call()
    with pytest.raises(ValueError, match=r"\$"):
        items(store).search(("a",), filter=filter_)
    n_left = 0 if is_empty else 1
    assert store.vectors().count() == n_left


# Vectors


class Short(WordEmbeddings):
    def __init__(self):
        super().__init__(dimension=3)


class Uneven(WordEmbeddings):
    """Its last vector is shorter than the others."""

    def embed_documents(self, texts):
        *most, last = super().embed_documents(texts)
        return [*most, last[:3]]


def test_vectors_of_another_length_are_refused_before_anything_is_written(store):
    documents(store).add_texts(["ginger tea"], ids=["1"])
    short = LanceContextVectorStore(store, Short())
    with pytest.raises(DimensionMismatchError):
        short.add_texts(["carrot cake", "soup"])
    for search in (short.similarity_search, short.max_marginal_relevance_search):
        with pytest.raises(DimensionMismatchError):
            search("tea")
    with pytest.raises(DimensionMismatchError):
        LanceContextRetriever(store=store, collection="default", embedding=Short()).invoke("tea")
    for uneven in (Uneven(), Uneven(dimension=65)):
        with pytest.raises((InvalidRequestError, EmbeddingError)):
            LanceContextVectorStore(store, uneven).add_texts(["soup", "bread"], ids=["1", "2"])
    assert [(one.id, one.text) for one in store.vectors().list()] == [("1", "ginger tea")]


def test_the_first_vectors_of_a_collection_have_one_length(store):
    with pytest.raises(EmbeddingError, match="different shapes"):
        LanceContextVectorStore(store, Uneven()).add_texts(["soup", "bread"])
    assert store.vectors().count() == 0
    assert documents(store).add_texts(["soup"], ids=["1"]) == ["1"]


@pytest.mark.parametrize("vector", [[], [float("nan")] * 64, [float("inf")] * 64, ["a"] * 64, None])
def test_what_is_no_vector_is_refused(store, vector):
    filled = documents(store)
    filled.add_texts(["ginger tea"])
    with pytest.raises(InvalidRequestError):
        filled.similarity_search_by_vector(vector)


# Ids


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_id_deletes_itself_alone(store, name):
    documents(store).add_texts(["a", "b"], ids=["kept", name])
    documents(store).delete([name])
    assert [one.id for one in documents(store).get_by_ids(["kept", name])] == ["kept"]

    bytes_(store).mset([("kept", b"1"), (name, b"2")])
    bytes_(store).mdelete([name])
    assert list(bytes_(store).yield_keys()) == ["kept"]

    records(store).update(["kept", name], group_ids=["kept", name])
    assert records(store).list_keys(group_ids=[name]) == [name]
    records(store).delete_keys([name])
    assert records(store).list_keys() == ["kept"]

    items(store).put(("kept",), "kept", {"a": 1})
    items(store).put((name,), name, {"a": name})
    assert [one.key for one in items(store).search((), filter={"a": name})] == [name]
    items(store).delete((name,), name)
    assert items(store).list_namespaces() == [("kept",)]

    other = LanceContextChatMessageHistory(store, name)
    history(store).add_messages([HumanMessage("kept", id="kept")])
    other.add_messages([HumanMessage("b", id=name)])
    other.clear()
    assert [one.content for one in history(store).messages] == ["kept"]


WITH_NONE = [
    lambda store: documents(store).get_by_ids(["a", None]),
    lambda store: documents(store).delete(["a", None]),
    lambda store: documents(store).get_by_ids([1]),
    lambda store: documents(store).add_texts(["x", "y"], ids=["a", 1]),
    lambda store: bytes_(store).mget(["a", None]),
    lambda store: bytes_(store).mdelete(["a", None]),
    lambda store: records(store).exists(["a", None]),
    lambda store: records(store).update(["a", None]),
    lambda store: records(store).delete_keys(["a", None]),
    lambda store: history(store).add_messages([HumanMessage("a"), None]),
]


def test_none_among_ids_is_refused(store):
    fill(store)
    before = contents(store)
    for call in WITH_NONE:
        with pytest.raises(ValueError, match=r"."):
            call(store)
    assert contents(store) == before


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("a", id="a\0b"),
        HumanMessage("a", name="a\0b"),
        ChatMessage("a", role="a\0b"),
        ToolMessage("a", tool_call_id="a\0b"),
        AIMessage("", tool_calls=[{"name": "brew", "args": {}, "id": "a\0b"}]),
        AIMessage("a", response_metadata={"callback": print}),
    ],
)
def test_a_message_that_cannot_be_stored_is_refused_with_those_beside_it(store, message):
    with pytest.raises(InvalidRequestError):
        history(store).add_messages([HumanMessage("before"), message, HumanMessage("after")])
    assert history(store).messages == []


def test_half_an_emoji_is_replaced_as_by_the_checkpointer(store):
    cut = "cut \ud83d emoji"
    given = [
        HumanMessage(cut),
        AIMessage("", tool_calls=[{"name": "brew", "args": {"tea": [cut]}, "id": "1"}]),
        ToolMessage([{"type": "text", "text": cut}], tool_call_id="1"),
        HumanMessage("ä 🍵 stay as they are"),
    ]
    history(store).add_messages(given)
    serde = LanceContextSaver(store).serde
    assert history(store).messages == serde.loads_typed(serde.dumps_typed(given))


# Nothing, and what is read once


def fill(store):
    documents(store).add_texts(["tea"], ids=["a"])
    bytes_(store).mset([("a", b"1")])
    records(store).update(["a"])
    items(store).put(("a",), "k", {"text": "tea"})
    history(store).add_messages([HumanMessage("tea")])
    saver = LanceContextSaver(store)
    checkpoint = empty_checkpoint()
    checkpoint["id"] = "c"
    saver.put(THREAD, checkpoint, {"run_id": "r"}, {})
    saver.put_writes(CHECKPOINT, [("c", 1)], "task")


def contents(store):
    """All that the classes have written, as each of them reads it."""
    return (
        documents(store).get_by_ids(["a"]),
        store.vectors().count(),
        list(bytes_(store).yield_keys()),
        records(store).list_keys(),
        [(one.namespace, one.key, one.value) for one in items(store).search(())],
        history(store).messages,
        list(LanceContextSaver(store).list(None)),
    )


NOTHING = [
    (lambda store: documents(store).add_texts([]), []),
    (lambda store: documents(store).add_documents([]), []),
    (lambda store: documents(store).get_by_ids([]), []),
    (lambda store: documents(store).delete([]), True),
    (lambda store: documents(store).delete([], filter={}), True),
    (lambda store: bytes_(store).mset([]), None),
    (lambda store: bytes_(store).mdelete([]), None),
    (lambda store: bytes_(store).mget([]), []),
    (lambda store: records(store).update([]), None),
    (lambda store: records(store).exists([]), []),
    (lambda store: records(store).delete_keys([]), None),
    (lambda store: items(store).batch([]), []),
    (lambda store: LanceContextSaver(store).put_writes(CHECKPOINT, [], "task"), None),
    (lambda store: LanceContextSaver(store).prune([]), None),
    (lambda store: LanceContextSaver(store).delete_for_runs([]), None),
    (lambda store: history(store).add_messages([]), None),
]


@pytest.mark.parametrize("is_empty", [True, False])
def test_an_empty_list_changes_nothing(store, is_empty):
    if not is_empty:
        fill(store)
    before = contents(store)
    assert [call(store) for call, _ in NOTHING] == [answer for _, answer in NOTHING]
    assert contents(store) == before


def test_a_generator_is_as_good_as_a_list(store):
    fill(store)
    documents(store).add_documents(Document(text, id=text) for text in "bc")
    assert len(documents(store).get_by_ids(one for one in "abc")) == 3
    documents(store).delete(one for one in "ab")
    assert [one.id for one in documents(store).get_by_ids(one for one in "abc")] == ["c"]
    history(store).add_messages(HumanMessage(text) for text in "xy")
    assert [one.content for one in history(store).messages] == ["tea", "x", "y"]
    asyncio.run(history(store).aadd_messages(HumanMessage(text) for text in "z"))
    assert len(history(store).messages) == 4
    LanceContextSaver(store).put_writes(CHECKPOINT, ((c, 1) for c in "de"), "other")
    (found,) = LanceContextSaver(store).list(None)
    assert [channel for _, channel, _ in found.pending_writes] == ["d", "e", "c"]
    LanceContextSaver(store).prune((one for one in "t"), strategy="delete")
    assert list(LanceContextSaver(store).list(None)) == []


@pytest.mark.parametrize("text", ["abc", b"abc", None, 7])
def test_what_is_not_many_is_refused_where_many_are_expected(store, text):
    for call in (
        documents(store).add_texts,
        documents(store).add_documents,
        documents(store).get_by_ids,
        bytes_(store).mget,
        records(store).exists,
        history(store).add_messages,
    ):
        with pytest.raises(ValueError, match=r"."):
            call(text)
    with pytest.raises(InvalidRequestError):
        documents(store).add_texts(["x", "y", "z"], ids=text if text is not None else 0)
    with pytest.raises(InvalidRequestError):
        documents(store).delete(text if text is not None else 0)
    assert store.vectors().count() == 0


NO_IDS = [
    ("t", "_ids is 't'.*pass a list"),
    (b"t", "_ids is .*pass a list"),
    (None, "_ids is None.*pass a list"),
    (7, "_ids is 7.*pass a list"),
    ({"t": 1}, "_ids is .*pass a list"),
    (["t", None], r"_ids\[1\] must be a str, not None"),
    (["t", ""], r"_ids\[1\] is empty"),
    (["t", "a\0b"], r"_ids\[1\] holds a NUL"),
    (["t", ["t"]], r"_ids\[1\] must be a str"),
    (["t", True], r"_ids\[1\] must be a str"),
]


def test_what_is_no_list_of_ids_is_refused_before_anything_is_removed(store):
    fill(store)
    saver = LanceContextSaver(store)
    for name in ("None", "True"):
        place = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        saver.put(place, empty_checkpoint(), {"run_id": name}, {})
    before = contents(store)
    for ids, said in NO_IDS:
        with pytest.raises(InvalidRequestError, match=f"thread{said}"):
            saver.prune(ids, strategy="delete")
        with pytest.raises(InvalidRequestError, match=f"run{said}"):
            saver.delete_for_runs(ids)
        with pytest.raises(InvalidRequestError, match=said.replace("_ids", "channels")):
            saver.get_delta_channel_history(config=THREAD, channels=ids)
    for id in (None, "", "a\0b", True, ["t"], b"t"):
        with pytest.raises(InvalidRequestError, match=r"^thread_id"):
            saver.delete_thread(id)
        with pytest.raises(InvalidRequestError, match=r"^source_thread_id"):
            saver.copy_thread(id, "u")
        with pytest.raises(InvalidRequestError, match=r"^target_thread_id"):
            saver.copy_thread("t", id)
    assert contents(store) == before


@pytest.mark.parametrize("id", [7, UUID(int=7)])
def test_threads_and_runs_may_go_by_numbers(store, id):
    saver = LanceContextSaver(store)
    for thread in (id, "u"):
        place = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        saver.put(place, empty_checkpoint(), {"run_id": str(id)}, {})
    saver.prune([id], strategy="delete")
    (left,) = saver.list(None)
    assert left.config["configurable"]["thread_id"] == "u"
    saver.delete_for_runs([id])
    assert list(saver.list(None)) == []


def test_what_is_no_pair_is_named(store):
    fill(store)
    before = contents(store)
    for bad in (None, "b", ("b", 1, 2), (None, 1)):
        with pytest.raises(InvalidRequestError, match=r"writes\[1\] is .*pair"):
            LanceContextSaver(store).put_writes(CHECKPOINT, [("c", 1), bad], "task")
        with pytest.raises(InvalidRequestError, match=r"key_value_pairs\[1\] is .*pair"):
            bytes_(store).mset([("c", b"1"), bad])
    with pytest.raises(InvalidRequestError, match="writes is None"):
        LanceContextSaver(store).put_writes(CHECKPOINT, None, "task")
    assert contents(store) == before


def test_a_group_is_a_text_or_nothing(store):
    for group in (7, True, ["x"], b"x"):
        with pytest.raises(InvalidRequestError, match=r"group_ids\[1\]="):
            records(store).update(["a", "b"], group_ids=["x", group])
        with pytest.raises(InvalidRequestError, match=r"group_ids\[1\]="):
            records(store).list_keys(group_ids=[None, group])
    assert records(store).list_keys() == []


# What is not there


def test_what_nobody_wrote_is_empty_and_can_be_deleted(store):
    for vectors in (
        documents(store),
        LanceContextVectorStore(store, WordEmbeddings(), mode="hybrid"),
    ):
        assert vectors.similarity_search("tea", filter={"a": 1}) == []
        assert vectors.similarity_search("tea", mode="text") == []
        assert vectors.similarity_search_with_relevance_scores("tea") == []
        assert vectors.max_marginal_relevance_search("tea") == []
        assert vectors.similarity_search_by_vector([1.0] * 64) == []
        assert vectors.get_by_ids(["a"]) == []
        assert vectors.delete(["a"]) is True
        assert vectors.delete(filter={"a": 1}) is True
        assert vectors.delete() is True
    assert retriever(store).invoke("tea") == []
    assert history(store).messages == []
    history(store).clear()
    assert items(store).get(("nobody",), "k") is None
    assert items(store).search(("nobody",), query="tea") == []
    assert items(store).list_namespaces(prefix=("nobody",)) == []
    items(store).delete(("nobody",), "k")
    assert LanceContextByteStore(store, namespace=("nobody",)).mget(["a"]) == [None]
    assert records(store).list_keys() == []
    assert cache(store).lookup("a", "model") is None
    cache(store).clear()
    saver = LanceContextSaver(store)
    assert saver.get_tuple(THREAD) is None
    assert list(saver.list(THREAD)) == []
    saver.delete_thread("t")
    saver.copy_thread("t", "u")
    saver.prune(["t"])
    assert list(saver.list(None)) == []


def test_what_is_no_document_is_named(store):
    with pytest.raises(InvalidRequestError, match=r"documents\[1\] is a str"):
        documents(store).add_documents([Document("a"), "b"])
    with pytest.raises(InvalidRequestError, match=r"documents\[1\]"):
        documents(store).add_texts(["a", None])
    assert store.vectors().count() == 0


@pytest.mark.parametrize("namespace", [(), ("",), ("a.b",), ("a\0",), ("langgraph",), "ab", (1,)])
def test_an_item_needs_a_namespace_that_can_be_one(store, namespace):
    with pytest.raises(ValueError, match=r"."):
        items(store).put(namespace, "k", {})
    assert items(store).list_namespaces() == []


# Times to live, and numbers


@pytest.mark.parametrize("amount", [0, -1, -0.5])
def test_a_time_to_live_is_more_than_nothing(store, amount):
    duration = timedelta(minutes=amount)
    for call in (
        lambda: items(store).put(("a",), "k", {}, ttl=amount),
        lambda: LanceContextStore(store, ttl={"default_ttl": amount}),
        lambda: LanceContextSemanticCache(store, WordEmbeddings(), ttl=duration),
        lambda: LanceContextSaver(store, keep_for=duration),
    ):
        with pytest.raises(ValueError, match=r"."):
            call()
    assert items(store).search(()) == []


@pytest.mark.parametrize("k", [-1, 1.5, "3", None, True])
def test_a_number_of_documents_is_one(store, k):
    fill(store)
    with pytest.raises(InvalidRequestError):
        documents(store).similarity_search("tea", k)
    with pytest.raises(InvalidRequestError):
        documents(store).max_marginal_relevance_search("tea", k)


def test_no_documents_are_asked_for_and_none_come(store):
    fill(store)
    assert documents(store).similarity_search("tea", k=0) == []
    assert LanceContextRetriever(store=store, k=0).invoke("tea") == []


@pytest.mark.parametrize("lambda_mult", [-0.1, 1.1, float("nan"), "1"])
def test_diversity_is_a_share(store, lambda_mult):
    fill(store)
    with pytest.raises(InvalidRequestError):
        documents(store).max_marginal_relevance_search("tea", lambda_mult=lambda_mult)


@pytest.mark.parametrize("query", [None, 1, b"tea", ["tea"]])
def test_a_question_is_a_text(store, query):
    fill(store)
    for search in (
        documents(store).similarity_search,
        documents(store).max_marginal_relevance_search,
    ):
        with pytest.raises(InvalidRequestError):
            search(query)


def test_every_method_of_a_class_is_tried_on_a_closed_store():
    """But for those that say what they are of, open, close, or are read as they are taken."""
    besides = {
        "asimilarity_search_with_relevance_scores",  # of the framework, over the one with scores
        *("close", "aclose", "from_texts", "afrom_texts", "create_schema", "acreate_schema"),
        *("list", "alist", "yield_keys", "ayield_keys", "aget_messages"),
        *("batch", "abatch", "setup", "start_ttl_sweeper", "stop_ttl_sweeper"),
        *("get_delta_channel_history", "aget_delta_channel_history", "get_next_version"),
        *("model_post_init", "with_allowlist"),
    }
    classes = {
        documents: LanceContextVectorStore,
        history: LanceContextChatMessageHistory,
        items: LanceContextStore,
        bytes_: LanceContextByteStore,
        records: LanceContextRecordManager,
        cache: LanceContextSemanticCache,
        LanceContextSaver: LanceContextSaver,
    }
    for make, cls in classes.items():
        tried = {prefix + name for name in SYNCHRONOUS[make] for prefix in ("", "a")}
        own = {
            name
            for name, member in vars(cls).items()
            if inspect.isfunction(member) and not name.startswith("_")
        }
        assert own - tried <= besides, cls
