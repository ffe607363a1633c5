"""The document store."""

import asyncio
import pickle
from datetime import UTC, datetime

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from llama_index.core.schema import (
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index_lance_context import LanceContextDocumentStore

from lance_context_core import AsyncKeyValues, ContextStore, InvalidRequestError
from lance_context_core._loop import store_loop

HOSTILE = 'a\'; DROP TABLE "x" --%_\\'
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def docs(store):
    return LanceContextDocumentStore(store)


def of(source, text, id=None, **fields):
    """A node of the document `source`."""
    node = TextNode(text=text, id_=id or text, **fields)
    node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=source)
    return node


def n_commits(store, work):
    items = store.kv("llama_index_docstore")
    before = items.version()
    work()
    return items.version() - before


NODES = [
    TextNode(text="tea", id_="text", metadata={"z": 1, "a": [1, {"b": None}]}, embedding=[0.5, 1]),
    Document(text="tea", id_="document", metadata={"at": datetime(2024, 1, 2, tzinfo=UTC)}),
    ImageNode(image="aGk=", text="a cup", id_="image node"),
    ImageDocument(image="aGk=", id_="image document"),
    IndexNode(text="tea", index_id="i", id_="index node"),
    Node(
        id_="node",
        text_resource=MediaResource(text="tea"),
        image_resource=MediaResource(data=PNG, mimetype="image/png"),
    ),
    of("d", "a chunk", id="chunk", excluded_embed_metadata_keys=["a"], start_char_idx=3),
    TextNode(text="", id_=HOSTILE, metadata={HOSTILE: HOSTILE}),
]


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.node_id)
def test_a_node_reads_back_equal(docs, node):
    docs.add_documents([node])
    read = docs.get_document(node.node_id)
    assert read == node
    assert type(read) is type(node)
    # LlamaIndex hashes the metadata in its order.
    assert read.hash == node.hash


def test_an_empty_store_is_empty(docs):
    assert docs.docs == {}
    assert docs.get_document("a", raise_error=False) is None
    assert docs.document_exists("a") is False
    assert docs.get_document_hash("a") is None
    assert docs.get_all_document_hashes() == {}
    assert docs.get_ref_doc_info("a") is None
    assert docs.get_all_ref_doc_info() == {}
    docs.delete_document("a", raise_error=False)
    docs.delete_ref_doc("a", raise_error=False)
    docs.add_documents([])


@pytest.mark.parametrize("method", ["get_document", "delete_document", "delete_ref_doc"])
def test_what_is_not_there_is_an_error_if_it_is_required(docs, method):
    with pytest.raises(ValueError, match="'a' not found"):
        getattr(docs, method)("a")
    with pytest.raises(ValueError, match="'a' not found"):
        asyncio.run(getattr(docs, f"a{method}")("a"))


def test_nodes_come_in_the_order_in_which_they_were_asked_for(docs):
    docs.add_documents([TextNode(text=one, id_=one) for one in "abc"])
    assert [one.text for one in docs.get_nodes(["c", "a"])] == ["c", "a"]
    assert [one.text for one in docs.get_nodes(["c", "x"], raise_error=False)] == ["c"]
    with pytest.raises(ValueError, match="'x' not found"):
        docs.get_nodes(["c", "x"])


def test_adding_many_nodes_is_one_commit(docs, store):
    docs.add_documents([of("d", "first")])
    nodes = [of("d", f"n{i}") for i in range(100)]
    assert n_commits(store, lambda: docs.add_documents(nodes)) == 1


def test_a_new_node_is_one_transaction_in_the_thread_of_the_caller(docs, store, monkeypatch):
    docs.add_documents([of("d", "first")])
    docs.add_documents([of("d", "second")])  # By now the items are known.
    hops = []
    monkeypatch.setattr(store_loop, "run", hops.append)
    docs.add_documents([of("d", "third"), of("d", "fourth")])
    monkeypatch.undo()
    assert not hops
    assert docs.get_ref_doc_info("d").node_ids == ["first", "second", "third", "fourth"]


def test_a_node_that_is_written_again_by_itself_keeps_its_place_and_loses_the_hash_that_was_set(
    docs,
):
    docs.add_documents([of("d", one) for one in ("first", "second", "third")])
    docs.set_document_hash("second", "set")
    docs.add_documents([of("d", "other", id="second")])
    assert docs.get_ref_doc_info("d").node_ids == ["first", "second", "third"]
    assert docs.get_document("second").text == "other"
    assert docs.get_document_hash("second") == docs.get_document("second").hash


def test_a_new_node_takes_the_place_of_a_hash_that_was_set_before_it_came(docs):
    docs.add_documents([of("d", "first")])
    docs.set_document_hash("second", "set")
    docs.add_documents([of("d", "second")])
    assert docs.get_document_hash("second") == docs.get_document("second").hash


def test_a_node_is_not_overwritten_if_that_is_not_allowed(docs):
    docs.add_documents([TextNode(text="old", id_="a")])
    with pytest.raises(ValueError, match="already exists"):
        docs.add_documents(
            [TextNode(text="new", id_=one) for one in ("b", "a")], allow_update=False
        )
    assert {id: node.text for id, node in docs.docs.items()} == {"a": "old"}


def test_a_node_that_comes_at_the_same_moment_is_not_overwritten(docs, monkeypatch):
    look = AsyncKeyValues.get

    async def overtaken(self, keys, **kwargs):
        found = await look(self, keys, **kwargs)
        monkeypatch.setattr(AsyncKeyValues, "get", look)
        await docs.async_add_documents([TextNode(text="first", id_="a")])
        return found

    monkeypatch.setattr(AsyncKeyValues, "get", overtaken)
    with pytest.raises(ValueError, match="already exists"):
        docs.add_documents(
            [TextNode(text="second", id_=one) for one in ("b", "a")], allow_update=False
        )
    assert {id: node.text for id, node in docs.docs.items()} == {"a": "first"}


def test_of_a_batch_with_something_that_cannot_be_stored_nothing_is_written(docs):
    with pytest.raises(InvalidRequestError, match="node 'b'"):
        docs.add_documents([TextNode(id_="a"), TextNode(id_="b", metadata={"x": object()})])
    assert docs.docs == {}


# Documents


def test_a_document_has_its_nodes_in_the_order_in_which_they_were_added(docs):
    docs.add_documents([of("d", "z", metadata={"from": "z"}), of("d", "a"), of("e", "m")])
    docs.add_documents([of("d", "b"), of("d", "z", metadata={"from": "z"})])
    info = docs.get_ref_doc_info("d")
    assert (info.node_ids, info.metadata) == (["z", "a", "b"], {"from": "z"})
    assert {id: one.node_ids for id, one in docs.get_all_ref_doc_info().items()} == {
        "d": ["z", "a", "b"],
        "e": ["m"],
    }


def test_deleting_a_document_is_one_commit(docs, store):
    docs.add_documents([Document(text="d", id_="d"), *[of("d", f"n{i}") for i in range(100)]])
    docs.add_documents([of("e", "stays")])
    docs.set_document_hash("d", "hash")
    assert n_commits(store, lambda: docs.delete_ref_doc("d")) == 1
    assert list(docs.docs) == ["stays"]
    assert docs.get_ref_doc_info("d") is None
    assert docs.get_document_hash("d") is None


@pytest.mark.defect(32)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_deleted_node_is_no_more_among_those_of_its_document(docs, is_async):
    docs.add_documents([of("d", "a"), of("d", "b")])
    docs.set_document_hash("d", "hash")

    def delete(id):
        if is_async:
            asyncio.run(docs.adelete_document(id))
        else:
            docs.delete_document(id)

    delete("a")
    assert docs.get_ref_doc_info("d").node_ids == ["b"]
    assert docs.get_document_hash("d") == "hash"
    delete("b")
    assert docs.get_ref_doc_info("d") is None
    # Else a refresh would take the document for one that is there.
    assert docs.get_document_hash("d") is None


def test_a_node_that_moves_to_another_document_leaves_the_first(docs):
    docs.add_documents([of("d", "a")])
    docs.add_documents([of("e", "a")])
    assert docs.get_ref_doc_info("d") is None
    assert docs.get_ref_doc_info("e").node_ids == ["a"]


# Hashes


def test_setting_a_hash_leaves_the_node_to_its_document(docs):
    node = of("d", "a")
    docs.add_documents([node])
    assert docs.get_document_hash("a") == node.hash
    docs.set_document_hash("a", "new")
    assert docs.get_document_hash("a") == "new"
    assert docs.get_ref_doc_info("d").node_ids == ["a"]
    assert docs.get_document("a") == node
    docs.add_documents([node])
    assert docs.get_document_hash("a") == node.hash


def test_a_hash_may_be_set_for_what_is_not_there(docs):
    docs.set_document_hashes({"a": "1", HOSTILE: "2"})
    assert docs.get_all_document_hashes() == {"1": "a", "2": HOSTILE}
    assert docs.document_exists("a") is False
    docs.delete_document("a")
    assert docs.get_all_document_hashes() == {"2": HOSTILE}


def test_without_the_text_what_is_known_of_a_node_stays(docs):
    docs.add_documents([of("d", "a")], store_text=False)
    assert docs.document_exists("a") is False
    assert docs.get_document_hash("a") == of("d", "a").hash
    assert docs.get_ref_doc_info("d").node_ids == ["a"]
    docs.add_documents([of("d", "a")])
    docs.add_documents([of("d", "a")], store_text=False)
    assert docs.document_exists("a") is True


# Kinds of methods, namespaces, processes


def test_the_asynchronous_methods_do_the_same(docs):
    async def main():
        await docs.async_add_documents([of("d", "a"), of("d", "b")])
        await docs.aset_document_hashes({"a": "1"})
        await docs.aset_document_hash("b", "2")
        assert await docs.aget_document("a") == of("d", "a")
        assert await docs.adocument_exists("a")
        assert [one.text for one in await docs.aget_nodes(["b", "a"])] == ["b", "a"]
        assert await docs.aget_document_hash("a") == "1"
        assert await docs.aget_all_document_hashes() == {"1": "a", "2": "b"}
        assert (await docs.aget_ref_doc_info("d")).node_ids == ["a", "b"]
        assert list(await docs.aget_all_ref_doc_info()) == ["d"]
        assert await docs.aref_doc_exists("d")
        await docs.adelete_document("a")
        await docs.adelete_ref_doc("d")

    asyncio.run(main())
    assert docs.docs == {}


def test_namespaces_are_apart(store):
    one, other = (LanceContextDocumentStore(store, namespace=name) for name in ("a", "b"))
    one.add_documents([of("d", "n")])
    other.add_documents([of("d", "m")])
    one.delete_ref_doc("d")
    assert (list(one.docs), list(other.docs)) == ([], ["m"])


def test_given_by_its_uri_it_can_be_sent_to_another_process(tmp_path):
    with LanceContextDocumentStore(tmp_path / "s", namespace="mine") as docs:
        docs.add_documents([of("d", "a")])
        with pickle.loads(pickle.dumps(docs)) as copy:  # noqa: S301 - what has just been pickled
            assert list(copy.docs) == ["a"]


def test_persisting_writes_nothing_elsewhere(docs, tmp_path):
    docs.persist(str(tmp_path / "docstore.json"))
    assert not (tmp_path / "docstore.json").exists()


# Against LlamaIndex's own


class AsSimple(RuleBasedStateMachine):
    """The same calls of LlamaIndex's document store in RAM have the same results.

    Except that it forgets to which document a node belongs when a hash is set for it, so that here
    hashes are set for documents alone.
    """

    ids = st.sampled_from(["a", "b'", "c", "d"])
    sources = st.sampled_from(["X", "Y'"])

    def __init__(self):
        super().__init__()
        self.store = ContextStore.open("memory://")
        self.docs = LanceContextDocumentStore(self.store)
        self.simple = SimpleDocumentStore()
        self.n = 0

    def teardown(self):
        self.store.close()

    def both(self, call):
        results = []
        for one in (self.docs, self.simple):
            try:
                results.append(call(one))
            except ValueError:
                results.append("a ValueError")
        assert results[0] == results[1]

    @rule(ids=st.lists(ids, unique=True), source=sources, allow=st.booleans())
    def add(self, ids, source, allow):
        known = self.simple.docs
        # A node that changes its document stays with both in the simple one.
        ids = [id for id in ids if id not in known or known[id].ref_doc_id == source]
        if not allow:
            # What stands before a node that it refuses, the simple one counts to its document.
            ids.sort(key=lambda one: one not in known)
        self.n += 1
        nodes = [of(source, f"{id} {self.n}", id=id) for id in ids]
        self.both(lambda one: one.add_documents(nodes, allow_update=allow))

    @rule(source=sources)
    def add_document(self, source):
        self.both(lambda one: one.add_documents([Document(text=source, id_=source)]))

    @rule(id=ids)
    def delete(self, id):
        self.both(lambda one: one.delete_document(id))

    @rule(source=sources)
    def delete_document(self, source):
        def delete(one):
            if not one.ref_doc_exists(source):
                raise ValueError
            one.delete_ref_doc(source)

        self.both(delete)

    @rule(source=sources, hash=st.sampled_from(["1", "2"]))
    def set_hash(self, source, hash):
        self.both(lambda one: one.set_document_hash(source, f"{source} {hash}"))

    @invariant()
    def the_same_is_read(self):
        self.both(lambda one: one.docs)
        self.both(lambda one: one.get_all_document_hashes())
        for source in ("X", "Y'"):
            self.both(
                lambda one, source=source: getattr(one.get_ref_doc_info(source), "node_ids", 0)
            )
            self.both(lambda one, source=source: one.get_document_hash(source))
            self.both(lambda one, source=source: one.document_exists(source))


TestAsSimple = AsSimple.TestCase
TestAsSimple.settings = settings(max_examples=4, stateful_step_count=6, deadline=None)
