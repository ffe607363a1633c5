"""Everything that an index needs, in one store."""

import os
import subprocess
import sys

import pytest
from llama_index.core import (
    Document,
    SummaryIndex,
    VectorStoreIndex,
    load_index_from_storage,
    load_indices_from_storage,
)
from llama_index.core.graph_stores.types import EntityNode, Relation
from llama_index.core.schema import ImageNode, IndexNode, TextNode
from llama_index_lance_context import storage_context
from llama_index_lance_context.vector_stores import LanceContextVectorStore

BUILD = """
import sys
from adapters.llama_index.doubles import WordEmbedding
from llama_index.core import Document, VectorStoreIndex
from llama_index_lance_context import storage_context

with storage_context(sys.argv[1]) as context:
    documents = [Document(text="green tea"), Document(text="black coffee")]
    index = VectorStoreIndex.from_documents(
        documents, storage_context=context, embed_model=WordEmbedding()
    )
    index.set_index_id("drinks")
"""


def found(index, question, k=1):
    return [
        hit.node.get_content() for hit in index.as_retriever(similarity_top_k=k).retrieve(question)
    ]


@pytest.mark.defect(36)
def test_after_a_restart_a_refresh_inserts_what_has_changed_alone(tmp_path, embed_model):
    def texts(vectors):
        return sorted(one.text for one in vectors.get_nodes())

    said = [Document(text=text, doc_id=text[0]) for text in ("green tea", "black coffee")]
    with storage_context(tmp_path / "s") as context:
        VectorStoreIndex.from_documents(said, storage_context=context, embed_model=embed_model)
    with storage_context(tmp_path / "s") as context:
        index = load_index_from_storage(context, embed_model=embed_model)
        assert index.refresh_ref_docs(said) == [False, False]
        said[0] = Document(text="grey tea", doc_id="g")
        assert index.refresh_ref_docs(said) == [True, False]
        assert texts(context.vector_store) == ["black coffee", "grey tea"]
        # What the documentation warns of, which is not up to the vector store.
        other = VectorStoreIndex.from_vector_store(context.vector_store, embed_model=embed_model)
        assert other.refresh_ref_docs(said) == [True, True]
        assert texts(context.vector_store) == ["black coffee"] * 2 + ["grey tea"] * 2


def test_an_index_is_loaded_after_a_restart(tmp_path, embed_model):
    uri = str(tmp_path / "s")
    subprocess.run([sys.executable, "-c", BUILD, uri], check=True, timeout=300, env=_environment())
    with storage_context(uri) as context:
        index = load_index_from_storage(context, index_id="drinks", embed_model=embed_model)
        assert found(index, "tea") == ["green tea"]
        index.insert(Document(text="white wine"))
    with storage_context(uri) as context:
        index = load_index_from_storage(context, embed_model=embed_model)
        assert found(index, "wine") == ["white wine"]


def test_an_index_that_keeps_its_nodes_in_the_document_store_is_loaded(store):
    nodes = [TextNode(text=f"n{i}", id_=f"n{i}") for i in range(5)]
    SummaryIndex(nodes, storage_context=storage_context(store)).set_index_id("list")
    index = load_index_from_storage(storage_context(store), index_id="list")
    assert found(index, "anything") == [f"n{i}" for i in range(5)]


def test_several_indexes_share_the_stores(store, embed_model):
    context = storage_context(store)
    nodes = [
        TextNode(text="green tea", id_="a"),
        IndexNode(text="black tea", index_id="i", id_="b"),
    ]
    SummaryIndex(nodes[:1], storage_context=context)
    VectorStoreIndex(nodes, storage_context=context, embed_model=embed_model)
    loaded = load_indices_from_storage(storage_context(store), embed_model=embed_model)
    assert sorted(type(one).__name__ for one in loaded) == ["SummaryIndex", "VectorStoreIndex"]


def test_images_and_the_graph_are_apart_from_the_vectors(store):
    context = storage_context(store)
    context.vector_stores["image"].add([ImageNode(text="a cup", id_="image", embedding=[1.0, 0.0])])
    context.vector_store.add([TextNode(text="tea", id_="text", embedding=[1.0, 0.0, 0.0])])
    context.property_graph_store.upsert_nodes([EntityNode(name="tea"), EntityNode(name="cup")])
    context.property_graph_store.upsert_relations(
        [Relation(source_id="tea", target_id="cup", label="in")]
    )
    again = storage_context(store)
    assert [one.node_id for one in again.vector_store.get_nodes()] == ["text"]
    assert [one.node_id for one in again.vector_stores["image"].get_nodes()] == ["image"]
    assert len(again.property_graph_store.get_triplets(entity_names=["tea"])) == 1


def test_names_keep_applications_apart(store):
    for name in ("one", "other"):
        context = storage_context(store, name=name)
        context.docstore.add_documents([TextNode(text=name, id_="a")])
        context.vector_store.add([TextNode(text=name, id_="a", embedding=[1.0])])
        SummaryIndex([], storage_context=context).set_index_id("i")
    one = storage_context(store, name="one")
    assert [node.text for node in one.docstore.docs.values()] == ["one"]
    assert [node.text for node in one.vector_store.get_nodes()] == ["one"]
    assert len(one.index_store.index_structs()) == 1


def test_persisting_writes_nothing_elsewhere(store, tmp_path):
    storage_context(store).persist(persist_dir=tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


def test_a_handed_over_store_stays_open(store):
    with storage_context(store) as context:
        context.docstore.add_documents([TextNode(text="a", id_="a")])
    assert storage_context(store).docstore.document_exists("a")


def test_a_store_that_was_given_by_its_uri_is_closed(tmp_path):
    with storage_context(tmp_path / "s") as context:
        context.docstore.add_documents([TextNode(text="a", id_="a")])
    with pytest.raises(RuntimeError, match="closed"):
        context.docstore.document_exists("a")


def test_the_vector_store_of_the_context_is_the_collection_of_that_name(store):
    storage_context(store, name="mine").vector_store.add([TextNode(text="a", embedding=[1.0])])
    assert len(LanceContextVectorStore(store, collection="mine").get_nodes()) == 1


def _environment():
    """That of this process, in which another one finds the doubles of the tests, too."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
