"""Ingestion pipelines and indexes over the document store, the cache and the vector store."""

import asyncio
import os
from typing import ClassVar

import pytest
from adapters.llama_index.doubles import WordEmbedding
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.ingestion import DocstoreStrategy, IngestionCache, IngestionPipeline
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.schema import TransformComponent
from llama_index_lance_context import (
    LanceContextDocumentStore,
    LanceContextKVStore,
    LanceContextVectorStore,
    storage_context,
)

UPSERTS, ONLY, DELETING = (
    DocstoreStrategy.UPSERTS,
    DocstoreStrategy.DUPLICATES_ONLY,
    DocstoreStrategy.UPSERTS_AND_DELETE,
)


class Embedded(TransformComponent):
    """Embeds, and says in which process."""

    def __call__(self, nodes, **_):
        for node in nodes:
            node.embedding = WordEmbedding().get_text_embedding(node.text)
            node.metadata["process"] = os.getpid()
        return nodes


def splitter():
    return TokenTextSplitter(chunk_size=4, chunk_overlap=0, tokenizer=str.split)


def pipeline(store, strategy=UPSERTS, **fields):
    return IngestionPipeline(
        **{
            "transformations": [splitter(), WordEmbedding()],
            "docstore": LanceContextDocumentStore(store),
            "vector_store": LanceContextVectorStore(store),
            "cache": IngestionCache(cache=LanceContextKVStore(store)),
            "docstore_strategy": strategy,
            **fields,
        }
    )


def document(id, text=None):
    return Document(id_=id, text=text or f"{id} has five words here")


def sources(store):
    """The documents from which there are nodes in the vector store; each node is there once."""
    found = [(one.ref_doc_id, one.text) for one in LanceContextVectorStore(store).get_nodes()]
    assert len(found) == len(set(found))
    return sorted({id for id, _ in found})


@pytest.fixture(params=["run", "arun"])
def ingest(request):
    """Run a pipeline in either way; returns the ids of the documents that it has worked on."""

    def call(one, documents):
        nodes = getattr(one, request.param)(documents=documents)
        nodes = asyncio.run(nodes) if request.param == "arun" else nodes
        return sorted({node.ref_doc_id for node in nodes})

    return call


@pytest.mark.defect(22)
def test_upserts_work_on_what_is_new_or_has_changed(store, ingest):
    assert ingest(pipeline(store), [document("a"), document("b")]) == ["a", "b"]
    assert ingest(pipeline(store), [document("a"), document("b")]) == []
    assert ingest(pipeline(store), [document("a", "new"), document("c")]) == ["a", "c"]
    assert sources(store) == ["a", "b", "c"]
    assert sorted(LanceContextDocumentStore(store).docs) == ["a", "b", "c"]


@pytest.mark.defect(22)
def test_upserts_and_delete_remove_what_is_gone(store, ingest):
    assert ingest(pipeline(store, DELETING), [document("a"), document("b")]) == ["a", "b"]
    assert ingest(pipeline(store, DELETING), [document("b"), document("c")]) == ["c"]
    assert sources(store) == ["b", "c"]
    assert sorted(LanceContextDocumentStore(store).docs) == ["b", "c"]


def test_upserts_and_delete_remove_what_was_kept_without_its_text(store):
    pipeline(store, DELETING).run(documents=[document("a"), document("b")], store_doc_text=False)
    pipeline(store, DELETING).run(documents=[document("b")], store_doc_text=False)
    assert sources(store) == ["b"]


def test_duplicates_only_work_on_texts_that_are_new(store, ingest):
    assert ingest(pipeline(store, ONLY), [document("a"), document("b")]) == ["a", "b"]
    again = Document(id_="c", text=document("a").text)
    assert ingest(pipeline(store, ONLY), [again, document("d")]) == ["d"]
    assert sources(store) == ["a", "b", "d"]


def test_the_cache_saves_the_second_run_the_work(store):
    first, second = (
        pipeline(store, docstore=None, vector_store=None, transformations=[splitter(), Counted()])
        for _ in range(2)
    )
    Counted.n_calls = 0
    nodes = first.run(documents=[document("a")])
    assert second.run(documents=[document("a")]) == nodes
    assert Counted.n_calls == 1


class Counted(TransformComponent):
    """Does nothing, and counts how often."""

    n_calls: ClassVar = 0

    def __call__(self, nodes, **_):
        Counted.n_calls += 1
        return nodes


def test_workers_in_several_processes_share_the_cache(tmp_path):
    uri = str(tmp_path / "s")
    documents = [document(f"d{i}") for i in range(4)]
    fields = {"docstore": None, "vector_store": None, "transformations": [splitter(), Embedded()]}
    with LanceContextKVStore(uri) as kv:
        one = pipeline(uri, cache=IngestionCache(cache=kv), **fields)
        first = one.run(documents=documents, num_workers=2)
        assert os.getpid() not in {node.metadata["process"] for node in first}
        # What each of the workers was given, and what it wrote down.
        second = [*one.run(documents=documents[:2]), *one.run(documents=documents[2:])]
        assert second == first


@pytest.mark.defect(22)
def test_a_document_of_an_index_is_updated_refreshed_and_deleted(store, embed_model):
    context = storage_context(store)
    index = VectorStoreIndex([], storage_context=context, embed_model=embed_model)

    def texts():
        return sorted(node.text for node in context.vector_store.get_nodes())

    documents = [document("a", "green tea"), document("b", "black coffee")]
    assert index.refresh_ref_docs(documents) == [True, True]
    assert index.refresh_ref_docs(documents) == [False, False]
    documents[0] = document("a", "white tea")
    assert index.refresh_ref_docs(documents) == [True, False]
    assert texts() == ["black coffee", "white tea"]
    index.update_ref_doc(document("b", "no coffee"))
    assert texts() == ["no coffee", "white tea"]
    index.delete_ref_doc("a", delete_from_docstore=True)
    assert texts() == ["no coffee"]
