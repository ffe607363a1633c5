"""What the vector store keeps, and how it lives: nodes in and out, deletion, restarts, indexes."""

import asyncio
import pickle
import subprocess
import sys
import threading

import pytest
from adapters.llama_index.doubles import node
from adapters.llama_index.filter_cases import every, leaf
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core import Document as SourceDocument
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.memory import VectorMemoryBlock
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import (
    ImageDocument,
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.vector_stores.lance_context import LanceContextVectorStore as LeafVectorStore
from llama_index_lance_context import LanceContextDocumentStore, LanceContextVectorStore

from lance_context_core import ContextStore, Document, InvalidRequestError
from lance_context_core._loop import StoreLoop
from lance_context_core.errors import DimensionMismatchError


@pytest.fixture
def empty(store):
    return LanceContextVectorStore(store)


def near(one, k=100, **fields):
    return VectorStoreQuery(query_embedding=one.embedding, similarity_top_k=k, **fields)


def ids(nodes):
    return [one.node_id for one in nodes]


def commits(store, collection="default"):
    """The number of the collection's version: each commit makes one."""
    return asyncio.run(store.aio.vectors(collection)._table.version())


# Nodes in and out

RELATED = {
    NodeRelationship.SOURCE: RelatedNodeInfo(node_id="d", hash="h", metadata={"b": 1, "a": [2]}),
    NodeRelationship.NEXT: RelatedNodeInfo(node_id="n2"),
    NodeRelationship.CHILD: [RelatedNodeInfo(node_id="c1"), RelatedNodeInfo(node_id="c2")],
}
VECTOR = [0.5, -1.0, 0.0]
SOME = {"zebra": 1, "apple": {"y": [1, None], "x": 2.5}, "flag": True, "none": None}
NODES = {
    "text": TextNode(text='It\'s 100% "text"\n', metadata=SOME, embedding=VECTOR),
    "relationships": TextNode(text="a", relationships=RELATED, embedding=VECTOR),
    "settings": TextNode(
        text="a",
        start_char_idx=1,
        end_char_idx=2,
        excluded_llm_metadata_keys=["x"],
        excluded_embed_metadata_keys=["y"],
        metadata_template="{key}={value}",
        metadata_separator=";",
        text_template="{content}/{metadata_str}",
        mimetype="text/markdown",
        embedding=VECTOR,
    ),
    "no text": TextNode(embedding=VECTOR),
    "image": ImageNode(
        text="a cat",
        image="aGVsbG8=",
        image_path="cat.png",
        image_url="https://example.org/cat.png",
        text_embedding=[1.0],
        embedding=VECTOR,
    ),
    "index": IndexNode(text="a summary", index_id="other", embedding=VECTOR),
    "index of a node": IndexNode(
        text="s", index_id="o", obj=TextNode(text="it", id_="it"), embedding=VECTOR
    ),
    "multimodal": Node(
        text_resource=MediaResource(text="caption", mimetype="text/markdown"),
        image_resource=MediaResource(data=b"\x89PNG\r\n", mimetype="image/png"),
        audio_resource=MediaResource(url="https://example.org/a.mp3"),
        video_resource=MediaResource(path="v.mp4"),
        metadata=SOME,
        embedding=VECTOR,
    ),
    "multimodal without text": Node(image_resource=MediaResource(data=b"hello"), embedding=VECTOR),
    "multimodal with a text elsewhere": Node(
        text_resource=MediaResource(path="a.txt"), embedding=VECTOR
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_a_node_comes_back_as_it_was(empty, name):
    given_node = NODES[name]
    before = given_node.model_copy(deep=True)
    assert empty.add([given_node]) == [given_node.node_id]
    (found,) = empty.get_nodes([given_node.node_id])
    assert given_node == before
    assert found == given_node
    assert type(found) is type(given_node)
    assert found.hash == given_node.hash
    assert list(found.metadata) == list(given_node.metadata)


@pytest.mark.parametrize("name", NODES)
def test_a_query_finds_the_node_as_it_was_but_for_its_embedding(empty, name):
    empty.add([NODES[name]])
    (found,) = empty.query(near(NODES[name])).nodes
    assert found == NODES[name].model_copy(update={"embedding": None})


def test_a_document_comes_back_as_a_text_node(empty):
    made = SourceDocument(text="whole", doc_id="d", metadata={"b": 1, "a": 2}, embedding=VECTOR)
    empty.add([made])
    (found,) = empty.get_nodes()
    assert type(found) is TextNode
    assert (found.id_, found.text, found.metadata) == ("d", "whole", {"b": 1, "a": 2})


def test_a_document_without_a_text_comes_back_without_one(empty):
    empty.add([SourceDocument(text_resource=None, doc_id="d", embedding=VECTOR)])
    (found,) = empty.get_nodes()
    assert (found.id_, found.text) == ("d", "")


def test_an_image_document_keeps_its_image(empty):
    made = ImageDocument(image="aGVsbG8=", text="caption", embedding=VECTOR)
    empty.add([made])
    (found,) = empty.get_nodes()
    assert found.image_resource == made.image_resource
    assert found.get_content() == "caption"


names = st.text(max_size=8).filter(lambda one: one.isprintable())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def in_memory():
    with LanceContextVectorStore("memory://") as made:
        yield made


@settings(max_examples=50)
@given(id=names.filter(bool), text=names, metadata=st.dictionaries(names, json_values, max_size=4))
def test_whatever_is_in_a_node_comes_back_and_goes_away(in_memory, id, text, metadata):
    made = TextNode(id_=id, text=text, metadata=metadata, embedding=VECTOR)
    in_memory.add([made])
    assert in_memory.get_nodes([id]) == [made]
    assert str(in_memory.get_nodes()) == str([made])
    in_memory.delete_nodes([id])
    assert in_memory.get_nodes() == []


@pytest.mark.defect(13, 14, 15)
def test_what_one_batch_has_in_its_metadata_binds_no_other(empty):
    batches = [{"a": None}, {"a": "text"}, {"a": 1}, {"a": 1.7}, {"a": [1]}, {"b": {"c": 1}}]
    for i, metadata in enumerate(batches):
        empty.add([node(f"word{i}", id=str(i), metadata=metadata)])
    assert [one.metadata for one in empty.get_nodes()] == batches
    assert ids(empty.get_nodes(filters=every(leaf("a", "==", 1.7)))) == ["3"]


@pytest.mark.defect(12)
def test_a_node_that_exists_is_replaced(empty):
    empty.add([node("old words", id="a", metadata={"n": 1})])
    empty.add([node("new words", id="a", metadata={"m": 2})])
    assert [(one.text, one.metadata) for one in empty.get_nodes()] == [("new words", {"m": 2})]
    assert empty.query(near(node("old words"))).ids == ["a"]


def test_of_nodes_with_one_id_in_one_call_the_last_is_kept(empty):
    assert empty.add([node("one", id="a"), node("b", id="b"), node("two", id="a")]) == [
        *("a", "b", "a")
    ]
    assert {one.node_id: one.text for one in empty.get_nodes()} == {"a": "two", "b": "b"}


def test_adding_is_one_commit(empty, store):
    empty.add([node("the first one makes the table")])
    before = commits(store)
    empty.add([node(f"word{i}", id=str(i)) for i in range(20)])
    assert commits(store) == before + 1


def test_adding_nothing_writes_nothing(empty):
    assert empty.add([]) == []
    assert empty.get_nodes() == []


def test_vectors_of_another_length_are_refused_before_anything_is_written(empty):
    empty.add([TextNode(text="a", embedding=[1.0, 2.0])])
    with pytest.raises(DimensionMismatchError):
        empty.add([TextNode(text="b", embedding=[1.0, 2.0, 3.0])])
    with pytest.raises(DimensionMismatchError):
        empty.query(VectorStoreQuery(query_embedding=[1.0, 2.0, 3.0]))
    assert [one.text for one in empty.get_nodes()] == ["a"]


@pytest.mark.parametrize("metadata", [{"a": object()}, {"a": "\ud800"}, {"_llama_index": 1}])
def test_metadata_that_cannot_be_kept_is_refused_before_anything_is_written(empty, metadata):
    with pytest.raises(InvalidRequestError):
        empty.add([node("good"), node("bad", metadata=metadata)])
    assert empty.get_nodes() == []


def test_a_node_without_an_embedding_is_embedded_by_the_store(embedding_store):
    made = LanceContextVectorStore(embedding_store)
    made.add([TextNode(id_="a", text="ginger tea"), TextNode(id_="b", text="carrot cake")])
    found = made.query(VectorStoreQuery(query_str="carrot", similarity_top_k=1))
    assert found.ids == ["b"]


def test_other_frameworks_read_what_was_added(empty, store):
    empty.add([node("ginger tea", id="tea", metadata={"color": "red"})])
    (hit,) = store.vectors().search("ginger", mode="text", filter={"color": "red"})
    assert (hit.record.id, hit.record.text) == ("tea", "ginger tea")


def test_what_other_frameworks_wrote_is_found(empty, store):
    vector = node("ginger tea").embedding
    document = Document(
        id="tea", text="ginger tea", embedding=vector, metadata={"color": "red", "doc_id": "d"}
    )
    store.vectors().upsert([document])
    found = empty.query(near(node("tea"), filters=every(leaf("color", "==", "red"))))
    assert found.nodes == [
        TextNode(id_="tea", text="ginger tea", metadata={"color": "red", "doc_id": "d"})
    ]
    assert ids(empty.get_nodes(filters=every(leaf("doc_id", "==", "d")))) == ["tea"]


def test_what_another_framework_changed_is_read(empty, store):
    empty.add([node("old", id="a", source="d", metadata={"n": 1})])
    (document,) = store.vectors().get(["a"], include_embedding=True)
    changed = {**document.metadata, "n": 2}
    store.vectors().upsert(
        [Document(id="a", text="new", embedding=document.embedding, metadata=changed)]
    )
    (found,) = empty.get_nodes()
    assert (found.text, found.metadata, found.ref_doc_id) == ("new", {"n": 2}, "d")


# Getting and deleting


@pytest.fixture
def filled(empty):
    """Six nodes of three documents."""
    empty.add(
        [
            node(f"word{i} common", id=f"n{i}", source=f"it's {i % 3}", metadata={"i": i})
            for i in range(6)
        ]
    )
    return empty


def test_nodes_come_in_the_order_of_their_ids(filled):
    assert ids(filled.get_nodes(["n4", "gone", "n1"])) == ["n4", "n1"]
    assert ids(filled.get_nodes(["n4", "n1", "n0"], every(leaf("i", ">", 0)))) == ["n4", "n1"]
    assert ids(filled.get_nodes()) == ["n0", "n1", "n2", "n3", "n4", "n5"]
    assert filled.get_nodes([]) == []


@pytest.mark.defect(9)
def test_a_document_is_deleted_with_all_its_nodes_in_one_commit(filled, store):
    before = commits(store)
    filled.delete("it's 1")
    assert commits(store) == before + 1
    assert ids(filled.get_nodes()) == ["n0", "n2", "n3", "n5"]
    asyncio.run(filled.adelete("it's 0"))
    assert ids(filled.get_nodes()) == ["n2", "n5"]


def test_the_nodes_of_no_document_are_not_deleted_with_one_that_is_called_none(empty):
    empty.add([node("word", id="a")])
    empty.delete("None")
    assert ids(empty.get_nodes()) == ["a"]


@pytest.mark.defect(9)
@pytest.mark.parametrize("id", ["x' OR '1'='1", 'a"b', "a;DROP TABLE t", "%", "\\"])
def test_odd_ids_are_ids(empty, id):
    empty.add([node("a", id=id, source=id), node("b", id="other", source="other")])
    assert ids(empty.get_nodes([id])) == [id]
    assert empty.query(near(node("a"), node_ids=[id])).ids == [id]
    assert empty.query(near(node("a"), doc_ids=[id])).ids == [id]
    empty.delete(id)
    assert ids(empty.get_nodes()) == ["other"]
    empty.add([node("a", id=id)])
    empty.delete_nodes([id])
    assert ids(empty.get_nodes()) == ["other"]


@pytest.mark.defect(10)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_nodes_are_deleted_by_id_by_filter_or_by_both(filled, kind):
    def delete(*arguments, **keywords):
        if kind == "sync":
            filled.delete_nodes(*arguments, **keywords)
        else:
            asyncio.run(filled.adelete_nodes(*arguments, **keywords))
        return ids(filled.get_nodes())

    assert delete(["n0", "gone"]) == ["n1", "n2", "n3", "n4", "n5"]
    assert delete(["n1", "n2"], every(leaf("i", ">", 1))) == ["n1", "n3", "n4", "n5"]
    assert delete(filters=every(leaf("i", ">", 4))) == ["n1", "n3", "n4"]
    assert delete([]) == ["n1", "n3", "n4"]
    assert delete([], every(leaf("i", ">", 0))) == ["n1", "n3", "n4"]
    with pytest.raises(InvalidRequestError, match="delete what"):
        delete()
    with pytest.raises(InvalidRequestError, match="matches everything"):
        delete(filters=every())
    assert len(filled.get_nodes()) == 3


@pytest.mark.defect(11)
def test_clearing_deletes_all_nodes_of_this_collection_alone(filled, store):
    other = LanceContextVectorStore(store, collection="other")
    other.add([node("elsewhere")])
    filled.clear()
    assert filled.get_nodes() == []
    assert len(other.get_nodes()) == 1
    asyncio.run(other.aclear())
    assert other.get_nodes() == []


@pytest.mark.defect(8)
async def test_where_nothing_is_all_is_empty(empty):
    query = near(node("a"))
    for found in (empty.query(query), await empty.aquery(query)):
        assert (found.nodes, found.similarities, found.ids) == ([], [], [])
    assert empty.get_nodes() == empty.get_nodes(["a"]) == await empty.aget_nodes() == []
    empty.delete("d")
    await empty.adelete("d")
    empty.delete_nodes(["a"])
    await empty.adelete_nodes(["a"], every(leaf("n", "==", 1)))
    empty.clear()
    await empty.aclear()
    assert empty.get_nodes() == []


@pytest.mark.defect(7)
@pytest.mark.parametrize("mode", ["default", "text_search", "hybrid", "mmr"])
async def test_what_nothing_matches_is_an_empty_answer(filled, mode):
    unknown = every(leaf("i", ">", 100))
    query = near(node("common"), query_str="common", mode=mode, filters=unknown)
    for found in (filled.query(query), await filled.aquery(query)):
        assert (found.nodes, found.similarities, found.ids) == ([], [], [])


@pytest.mark.defect(20)
def test_a_query_after_an_add_writes_nothing_and_finds_what_was_added(filled, store):
    for i in range(3):
        filled.add([node(f"added{i}", id=f"a{i}")])
        before = commits(store)
        for mode in ("default", "text_search", "hybrid"):
            query = near(node(f"added{i}"), 1, query_str=f"added{i}", mode=mode)
            assert filled.query(query).ids == [f"a{i}"]
        assert commits(store) == before


# The life of a store


def test_nodes_are_there_after_a_restart(tmp_path):
    made = node("word", id="a", source="d", metadata={"n": 1})
    with LanceContextVectorStore(tmp_path / "store") as first:
        first.add([made])
        first.persist("ignored")
    with LanceContextVectorStore(tmp_path / "store") as second:
        assert second.get_nodes() == [made]
        assert second.query(near(made)).ids == ["a"]


@pytest.mark.defect(17)
def test_two_stores_on_one_uri_add_up(tmp_path):
    uri = str(tmp_path / "store")
    with LanceContextVectorStore(uri) as first, LanceContextVectorStore(uri) as second:
        first.add([node(f"a{i}") for i in range(5)])
        second.add([node(f"b{i}") for i in range(5)])
        assert len(first.get_nodes()) == len(second.get_nodes()) == 10
        assert len(first.query(near(node("a0"))).ids) == 10


@pytest.mark.defect(18)
def test_a_reader_sees_what_another_process_writes(tmp_path):
    program = """
import sys
from llama_index.core.schema import TextNode
from llama_index_lance_context import LanceContextVectorStore
with LanceContextVectorStore(sys.argv[1]) as store:
    for line in sys.stdin:
        store.add([TextNode(id_=line.strip(), text="word", embedding=[1.0, 0.0])])
        print("written", flush=True)
"""
    with (
        LanceContextVectorStore(tmp_path / "store") as reader,
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "store")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as writer,
    ):
        for n in range(3):
            assert len(reader.query(near(TextNode(embedding=[1.0, 0.0]))).ids) == n
            words = VectorStoreQuery(query_str="word", mode="text_search", similarity_top_k=9)
            assert len(reader.query(words).ids) == n
            writer.stdin.write(f"n{n}\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "written\n"
        writer.stdin.close()
        assert writer.wait(timeout=300) == 0


def test_an_open_store_stays_open_and_a_uri_is_closed(tmp_path, store):
    with LanceContextVectorStore(store):
        pass
    assert store.vectors().count() == 0
    with LanceContextVectorStore(tmp_path / "own") as made:
        made.add([node("a")])
    with pytest.raises(RuntimeError, match="closed"):
        made.get_nodes()


def test_a_store_that_has_a_uri_is_the_same_in_other_processes(tmp_path):
    with LanceContextVectorStore(tmp_path / "store", collection="c") as made:
        made.add([node("a", id="a")])
        copies = [
            pickle.loads(pickle.dumps(made)),  # noqa: S301 - what has just been pickled
            LanceContextVectorStore.from_dict(made.to_dict()),
            LanceContextVectorStore.from_json(made.to_json()),
        ]
        for copy in copies:
            with copy:
                assert ids(copy.get_nodes()) == ["a"]


@pytest.mark.parametrize("send", [pickle.dumps, LanceContextVectorStore.to_dict])
def test_a_store_that_has_none_is_not_sent_anywhere(store, send):
    """It may be in a scope, which its URI does not say."""
    with pytest.raises(ValueError, match="pass the URI"):
        send(LanceContextVectorStore(store.scope(tenant="acme")))
    with pytest.raises(ValueError, match="pass the URI"):
        send(LanceContextVectorStore("memory://"))


def test_a_scope_isolates(store):
    ours = LanceContextVectorStore(store.scope(tenant="a"))
    theirs = LanceContextVectorStore(store.scope(tenant="b"))
    ours.add([node("secret", id="n")])
    assert theirs.get_nodes() == []
    assert theirs.query(near(node("secret"))).ids == []
    theirs.clear()
    assert ids(ours.get_nodes()) == ["n"]


def test_it_is_where_llama_index_looks_for_it():
    assert LeafVectorStore is LanceContextVectorStore
    assert LanceContextVectorStore.class_name() == "LanceContextVectorStore"


def test_the_client_is_the_collection(filled):
    assert filled.client.count() == 6


# Event loops


async def test_the_asynchronous_methods_do_what_the_blocking_ones_do(empty):
    nodes = [node(f"word{i}", id=str(i), source="d") for i in range(3)]
    assert await empty.async_add(nodes) == ["0", "1", "2"]
    assert await empty.aget_nodes(["2", "0"]) == empty.get_nodes(["2", "0"])
    assert await empty.aquery(near(nodes[1])) == empty.query(near(nodes[1]))
    await empty.adelete("d")
    assert await empty.aget_nodes() == []


@pytest.mark.defect(21)
async def test_the_asynchronous_methods_do_not_block_the_event_loop(empty, monkeypatch):
    blocked = []
    run = StoreLoop.run

    def watched(self, work):
        if threading.current_thread() is threading.main_thread():
            blocked.append(work)
        return run(self, work)

    monkeypatch.setattr(StoreLoop, "run", watched)
    made = node("word", id="a", source="d")
    await empty.async_add([made])
    for mode in ("default", "text_search", "hybrid", "mmr"):
        await empty.aquery(near(made, query_str="word", mode=mode))
    await empty.aget_nodes()
    await empty.aget_nodes(["a"], every(leaf("n", "==", 1)))
    await empty.adelete("d")
    await empty.adelete_nodes(["a"])
    await empty.aclear()
    assert blocked == []


def test_one_store_serves_several_event_loops_at_once(empty):
    def work(name):
        async def main():
            await empty.async_add([node(name, id=name)])
            return (await empty.aquery(near(node(name), 1))).ids

        return asyncio.run(main())

    found = {}
    threads = [
        threading.Thread(target=lambda n=f"word{i}": found.update({n: work(n)})) for i in range(4)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == {f"word{i}": [f"word{i}"] for i in range(4)}


# What LlamaIndex builds on it


@pytest.fixture
def index(empty, embed_model):
    documents = [SourceDocument(text=f"word{i} story", doc_id=f"it's {i}") for i in range(3)]
    storage = StorageContext.from_defaults(vector_store=empty)
    return VectorStoreIndex.from_documents(
        documents, storage_context=storage, embed_model=embed_model
    )


def retrieved(index, text, **how):
    return [one.text for one in index.as_retriever(**how).retrieve(text)]


def test_an_index_is_updated_by_document(index, empty):
    index.update_ref_doc(SourceDocument(text="other story", doc_id="it's 1"))
    assert retrieved(index, "other", similarity_top_k=1) == ["other story"]
    assert sorted(one.text for one in empty.get_nodes()) == [
        *("other story", "word0 story", "word2 story")
    ]


def test_an_index_forgets_a_document(index, empty):
    index.delete_ref_doc("it's 0", delete_from_docstore=True)
    assert sorted(one.text for one in empty.get_nodes()) == ["word1 story", "word2 story"]


def test_an_index_is_refreshed(empty, embed_model):
    storage = StorageContext.from_defaults(vector_store=empty)
    index = VectorStoreIndex.from_documents(
        [SourceDocument(text="old", doc_id="d"), SourceDocument(text="same", doc_id="e")],
        storage_context=storage,
        embed_model=embed_model,
        store_nodes_override=True,
    )
    renewed = [SourceDocument(text="new", doc_id="d"), SourceDocument(text="same", doc_id="e")]
    assert index.refresh_ref_docs(renewed) == [True, False]
    assert sorted(one.text for one in empty.get_nodes()) == ["new", "same"]


async def test_an_index_is_filled_and_asked_asynchronously(empty, embed_model):
    index = VectorStoreIndex.from_vector_store(empty, embed_model=embed_model)
    await index.ainsert(SourceDocument(text="ginger tea", doc_id="d"))
    found = await index.as_retriever().aretrieve("tea")
    assert [one.text for one in found] == ["ginger tea"]
    assert isinstance(found[0], NodeWithScore)
    await index.adelete_ref_doc("d")
    assert await empty.aget_nodes() == []


@pytest.mark.parametrize("mode", ["default", "text_search", "sparse", "hybrid", "mmr"])
def test_an_index_is_asked_in_every_mode(index, mode):
    how = {"similarity_top_k": 1, "vector_store_query_mode": mode}
    assert retrieved(index, "word2", **how) == ["word2 story"]


def test_an_index_is_there_after_a_restart(tmp_path, embed_model):
    with LanceContextVectorStore(tmp_path / "store") as first:
        index = VectorStoreIndex.from_vector_store(first, embed_model=embed_model)
        index.insert(SourceDocument(text="ginger tea"))
    with LanceContextVectorStore(tmp_path / "store") as second:
        index = VectorStoreIndex.from_vector_store(second, embed_model=embed_model)
        assert retrieved(index, "tea") == ["ginger tea"]


@pytest.mark.parametrize(
    ("strategy", "left"),
    [
        (DocstoreStrategy.UPSERTS, ["a", "new b", "c"]),
        (DocstoreStrategy.UPSERTS_AND_DELETE, ["a", "new b"]),
    ],
)
def test_a_pipeline_renews_what_changed(empty, embed_model, strategy, left):
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(), embed_model],
        vector_store=empty,
        docstore=SimpleDocumentStore(),
        docstore_strategy=strategy,
    )
    texts = {"1": "a", "2": "b", "3": "c"}
    pipeline.run(documents=[SourceDocument(text=t, doc_id=i) for i, t in texts.items()])
    texts = {"1": "a", "2": "new b"}
    pipeline.run(documents=[SourceDocument(text=t, doc_id=i) for i, t in texts.items()])
    assert sorted(one.text for one in empty.get_nodes()) == sorted(left)


@pytest.mark.defect(23)
async def test_a_memory_block_begins_with_an_empty_store(empty, embed_model):
    block = VectorMemoryBlock(vector_store=empty, embed_model=embed_model)
    said = [ChatMessage(role="user", content="Is there tea?")]
    assert await block.aget(said, session_id="s") == ""
    await block.aput(said, session_id="s", from_short_term_memory=True)
    assert "Is there tea?" in await block.aget(said, session_id="s")


def test_it_can_have_its_store_looked_after(tmp_path):
    with ContextStore.open(tmp_path, journal=None) as store:
        kept = LanceContextVectorStore(store)
        kept.add([node("a")])
        kept.add([node("b")])
        done = {one.table: one for one in kept.maintain()}["vectors.default"]
        assert (done.fragments_removed, done.fragments_added) == (2, 1)
        again = {one.table: one for one in asyncio.run(kept.amaintain(only_due=True))}
        assert again["vectors.default"].skipped == "nothing is due"


def test_documents_can_have_their_store_looked_after(tmp_path):
    with ContextStore.open(tmp_path, journal=None) as store:
        kept = LanceContextDocumentStore(store)
        kept.add_documents([node("a")])
        kept.add_documents([node("b")])
        done = {one.table: one for one in kept.maintain()}["kv.llama_index_docstore"]
        assert done.fragments_removed > done.fragments_added


def test_declared_fields_answer_as_the_metadata(tmp_path):
    nodes = [TextNode(id_=f"n{page}", text="tea", metadata={"page": page}) for page in range(3)]
    with ContextStore.open(tmp_path / "fields") as opened:
        made = LanceContextVectorStore(opened, fields={"page": int})
        made.add(nodes)
        opened.flush()
        filters = every(leaf("page", ">=", 1))
        assert [one.node_id for one in made.get_nodes(filters=filters)] == ["n1", "n2"]
        assert opened.vectors(fields={"page": int}).count(filter={"page": 1}) == 1
        with pytest.raises(InvalidRequestError, match="'page'"):
            made.add([TextNode(id_="x", text="tea", metadata={"page": "one"})])
