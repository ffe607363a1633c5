"""Filters of documents by metadata keys that the store's own columns share their names with; keywords."""

import asyncio
from datetime import UTC, datetime

import pytest
from langchain_lance_context import (
    LanceContextDocumentRetriever,
    LanceContextRetriever,
    LanceContextVectorStore,
)

from lance_context_core import ContextStore, Document, Field
from lance_context_core.errors import FilterError

METADATAS = {
    "tea": {"id": "T-1", "text": "hot", "written_by": "ada"},
    "soup": {"id": 7, "text": "warm", "n": 1},
    "cake": {"n": 2},
    "none": {"id": None, "text": None},
}
DEFAULTS = {"id": lambda name: name, "text": lambda name: f"{name} text"}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with ContextStore.open(tmp_path_factory.mktemp("keys")) as opened:
        made = LanceContextVectorStore(opened, mode="text")
        opened.vectors().add(
            [
                Document(id=name, text=f"{name} text", metadata=one, embedding=[1.0, 0.5])
                for name, one in METADATAS.items()
            ]
        )
        yield made


def named(documents):
    return sorted(one.id for one in documents)


def own(name, key):
    """What a document has under a name: the metadata's, else the document's own."""
    value = METADATAS[name].get(key)
    return DEFAULTS[key](name) if value is None and key in DEFAULTS else value


def those(test):
    return sorted(name for name in METADATAS if test(name))


CASES = [
    pytest.param({"id": "T-1"}, ["tea"], id="a text of the metadata"),
    pytest.param({"id": 7}, ["soup"], id="a number of the metadata"),
    pytest.param({"id": "tea"}, [], id="the own id of a document whose metadata has another"),
    pytest.param({"id": "cake"}, ["cake"], id="the own id of a document whose metadata has none"),
    pytest.param({"id": {"$in": ["T-1", "cake", 7]}}, ["cake", "soup", "tea"], id="in a list"),
    pytest.param(
        {"id": {"$ne": "T-1"}}, those(lambda name: own(name, "id") != "T-1"), id="not equal"
    ),
    pytest.param({"text": {"$contains": "o"}}, ["none", "tea"], id="contains"),
    pytest.param({"text": {"$text": "TEXT"}}, ["cake", "none"], id="own texts"),
    pytest.param({"text": {"$exists": True}}, ["soup", "tea"], id="exists"),
    pytest.param({"text": None}, ["cake", "none"], id="absent"),
    pytest.param({"written_by": "ada"}, ["tea"], id="written_by"),
    pytest.param({"written_by": {"$exists": False}}, ["cake", "none", "soup"], id="no author"),
    pytest.param({"id": {"$gt": "S", "$lt": "d"}}, ["cake", "tea"], id="between"),
    pytest.param({"$or": [{"id": 7}, {"n": 2}]}, ["cake", "soup"], id="or"),
    pytest.param({"$not": {"id": 7}}, ["cake", "none", "tea"], id="not"),
    pytest.param({"$not": [{"id": 7}, {"text": "hot"}]}, ["cake", "none"], id="none of"),
    pytest.param({"$and": [{"id": 7}, {"n": 1}]}, ["soup"], id="and"),
    pytest.param({"$and": [Field("id").eq("tea"), {"text": "hot"}]}, ["tea"], id="the column"),
    pytest.param(Field("id").eq("tea"), ["tea"], id="the column alone"),
    pytest.param({"metadata.id": "cake"}, [], id="the key alone"),
    pytest.param("id = 'T-1'", ["tea"], id="SQL"),
    pytest.param("id = 'cake' OR metadata.id = 7", ["cake", "soup"], id="SQL with both"),
    pytest.param({}, sorted(METADATAS), id="nothing"),
    pytest.param({"$and": [{}, {"n": 1}]}, ["soup"], id="nothing and something"),
]


@pytest.mark.parametrize(("filter", "expected"), CASES)
def test_a_name_is_a_key_of_the_metadata_before_it_is_the_documents_own(kept, filter, expected):
    assert named(kept.similarity_search("text", k=9, filter=filter)) == expected
    assert named(asyncio.run(kept.asimilarity_search("text", k=9, filter=filter))) == expected
    near = kept.similarity_search_by_vector([1.0, 0.5], k=9, filter=filter)
    assert named(near) == expected
    assert kept.count(filter=filter) == len(expected)
    assert asyncio.run(kept.acount(filter=filter)) == len(expected)
    retriever = kept.as_retriever(search_kwargs={"filter": filter, "k": 9})
    assert named(retriever.invoke("text")) == expected


@pytest.mark.parametrize(("filter", "expected"), CASES)
def test_a_retriever_of_a_collection_reads_filters_in_the_same_way(kept, filter, expected):
    of_all = LanceContextRetriever(
        store=kept._handle.aio, collection="default", mode="text", k=9, filter=filter
    )
    assert named(of_all.invoke("text")) == expected
    assert named(of_all.invoke("text", filter={"n": 1})) == [n for n in expected if n == "soup"]


def test_documents_are_deleted_by_the_keys_that_they_are_found_by(store):
    made = LanceContextVectorStore(store)
    store.vectors().add(
        [
            Document(id="x", text="a", embedding=[1.0], metadata={"id": "y"}),
            Document(id="y", text="b", embedding=[1.0]),
            Document(id="z", text="c", embedding=[1.0], metadata={"id": "v"}),
        ]
    )
    made.delete(filter={"id": "z"})
    assert made.count() == 3
    made.delete(filter={"id": "y"})
    assert named(made.get_by_ids(["x", "y", "z"])) == ["z"]


@pytest.mark.parametrize(
    "filter", [{"$near": 1}, {"a": {"$near": 1}}, {"$or": {"a": 1}}, {1: 2}, {"a": {}}], ids=str
)
def test_a_filter_that_is_not_understood_is_refused_as_by_the_store(kept, filter):
    with pytest.raises(FilterError):
        kept.similarity_search("text", filter=filter)


# Keywords


CALLS = {
    "a search": lambda one: one.similarity_search("a", where=1),
    "a search with scores": lambda one: one.similarity_search_with_score("a", where=1),
    "relevance": lambda one: one.similarity_search_with_relevance_scores("a", where=1),
    "a search by vector": lambda one: one.similarity_search_by_vector([1.0], where=1),
    "diversity": lambda one: one.max_marginal_relevance_search("a", where=1),
    "a retriever": lambda one: one.as_retriever(search_kwargs={"where": 1}).invoke("a"),
    "asynchronous": lambda one: asyncio.run(one.asimilarity_search("a", where=1)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_unknown_keyword_of_a_search_is_answered_with_those_there_are(kept, call):
    with pytest.raises(TypeError, match=r"'where'.* takes filter, .*options$") as refused:
        call(kept)
    assert "_" not in str(refused.value)


OTHERS = {
    "adding texts": (lambda one: one.add_texts(["a"], where=1), "takes ids, batch_size"),
    "adding documents": (lambda one: one.add_documents([], where=1), "takes ids, batch_size"),
    "deleting": (lambda one: one.delete(["a"], where=1), "takes no others"),
    "making": (lambda one: one.from_texts([], None, where=1), "takes collection, mode"),
    "adding later": (lambda one: asyncio.run(one.aadd_texts(["a"], where=1)), "takes ids"),
    "deleting later": (lambda one: asyncio.run(one.adelete(["a"], where=1)), "takes no others"),
    "making later": (
        lambda one: asyncio.run(one.afrom_texts([], None, where=1)),
        "takes collection, mode",
    ),
    "a retriever of records": (
        lambda one: LanceContextRetriever(store=one._handle.aio).invoke("a", where=1),
        "takes k, filter, mode",
    ),
    "a retriever of files": (
        lambda one: LanceContextDocumentRetriever(store=one._handle.aio).invoke("a", where=1),
        "takes k, filter, mode",
    ),
}


@pytest.mark.parametrize(("call", "takes"), OTHERS.values(), ids=OTHERS)
def test_any_other_unknown_keyword_is_answered_so_too(kept, call, takes):
    with pytest.raises(TypeError, match=f"'where'.*{takes}"):
        call(kept)


# What other vector stores have


@pytest.fixture(params=["sync", "async"])
def call(request, store, embedding):
    made = LanceContextVectorStore(store, embedding, collection="c")

    def called(method, *args, **kwargs):
        if request.param == "sync":
            return getattr(made, method)(*args, **kwargs)
        return asyncio.run(getattr(made, f"a{method}")(*args, **kwargs))

    return called


@pytest.mark.parametrize(
    "method", ["similarity_search_by_vector_with_score", "similarity_search_with_score_by_vector"]
)
def test_a_search_by_vector_has_the_scores_of_one_by_text(call, embedding, method):
    call("add_texts", ["ginger tea", "carrot cake"], [{"n": 1}, {"n": 2}], ids=["tea", "cake"])
    vector = embedding.embed_query("ginger cake")
    found = call(method, vector, k=2)
    assert found == call("similarity_search_with_score", "ginger cake", k=2)
    assert [document.id for document, _ in call(method, vector, filter={"n": 2})] == ["cake"]
    assert [document for document, _ in found] == call("similarity_search_by_vector", vector, k=2)


def test_documents_are_counted_and_a_collection_is_deleted(call, store):
    assert call("count") == 0
    call("add_texts", ["a", "b", "c"], [{"n": 1}, {"n": 2}, {"n": 2}])
    assert (call("count"), call("count", filter={"n": 2})) == (3, 2)
    store.vectors("d").add([])
    assert call("delete_collection") == 3
    assert call("count") == 0
    assert store.vectors("c").list_collections() == []
    call("add_texts", ["a"])
    assert call("count") == 1


def test_declared_fields_answer_as_the_metadata(tmp_path):
    day = datetime(2026, 1, 2, tzinfo=UTC)
    fields = {"page": int, "since": datetime}
    with ContextStore.open(tmp_path / "fields") as opened:
        made = LanceContextVectorStore(opened, mode="text", fields=fields)
        made.add_texts(["tea", "tea"], [{"page": 1, "since": day}, {"page": 2}], ids=["a", "b"])
        opened.flush()
        for filter, ids in (({"page": 2}, ["b"]), ({"since": {"$lte": day}}, ["a"])):
            assert named(made.similarity_search("tea", filter=filter)) == ids
        with pytest.raises(ValueError, match="has it as int"):
            opened.vectors(fields={"page": str})
        with pytest.raises(ValueError, match="'page'"):
            made.add_texts(["tea"], [{"page": "one"}])
