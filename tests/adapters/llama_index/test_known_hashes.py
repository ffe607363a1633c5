"""Hashes that are asked for one after the other, as pipelines do: few reads, and none of the past."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest
from core.conformance.doubles import ManualClock
from llama_index.core import Document
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.schema import TransformComponent
from llama_index_lance_context import LanceContextDocumentStore, LanceContextVectorStore
from llama_index_lance_context._known_hashes import KnownHashes

from lance_context_core import ContextStore
from lance_context_core.storage.table import Table

# About our own code, whatever the release of the framework.
pytestmark = pytest.mark.one_release

N = 400
DOCUMENTS = [Document(text=f"text {n}", id_=f"d{n}") for n in range(N)]
IDS = [one.id_ for one in DOCUMENTS]
HASHES = {one.id_: one.hash for one in DOCUMENTS}
ITEMS = "llama_index_docstore"


class Embedded(TransformComponent):
    def __call__(self, nodes, **_):
        for one in nodes:
            one.embedding = [1.0, 0.5]
        return nodes


@pytest.fixture
def docs(store):
    made = LanceContextDocumentStore(store)
    made.add_documents(DOCUMENTS)
    return made


@pytest.fixture
def reads(monkeypatch):
    """How often the engine was asked for rows, by how."""
    counted = Counter()

    def counting(name):
        read = getattr(Table, name)

        def called(self, *args, **kwargs):
            counted[name] += 1
            return read(self, *args, **kwargs)

        monkeypatch.setattr(Table, name, called)

    for name in ("find", "slice", "take", "count"):
        counting(name)
    return counted


def test_many_hashes_are_read_together(docs, reads):
    assert {id: docs.get_document_hash(id) for id in IDS} == HASHES
    assert reads.total() <= 4
    reads.clear()
    assert docs.get_document_hash("unknown") is None
    assert asyncio.run(docs.aget_document_hash("d7")) == HASHES["d7"]
    assert reads.total() == 0


def test_one_hash_is_one_read(docs, reads):
    assert docs.get_document_hash("d7") == HASHES["d7"]
    assert reads == {"find": 1}


@pytest.mark.parametrize(
    "strategy", [DocstoreStrategy.UPSERTS, DocstoreStrategy.UPSERTS_AND_DELETE]
)
@pytest.mark.parametrize("is_awaited", [False, True])
def test_unchanged_documents_are_ingested_again_with_a_few_reads(
    store, reads, strategy, is_awaited
):
    pipeline = IngestionPipeline(
        transformations=[Embedded()],
        docstore=LanceContextDocumentStore(store),
        vector_store=LanceContextVectorStore(store),
        docstore_strategy=strategy,
        disable_cache=True,
    )

    def ingest(documents):
        if is_awaited:
            return asyncio.run(pipeline.arun(documents=documents))
        return pipeline.run(documents=documents)

    assert len(ingest(DOCUMENTS)) == N
    reads.clear()
    assert ingest(DOCUMENTS) == []
    assert reads.total() <= 10
    changed = Document(text="other", id_="d7")
    again = ingest([*DOCUMENTS[:7], changed, *DOCUMENTS[8:]])
    assert [one.ref_doc_id or one.id_ for one in again] == ["d7"]


def test_what_is_written_is_seen_at_once(docs, store, tmp_path):
    for id in IDS[:5]:
        docs.get_document_hash(id)
    docs.set_document_hash("d1", "set")
    assert docs.get_document_hash("d1") == "set"
    docs.delete_document("d2")
    assert docs.get_document_hash("d2") is None
    for id in IDS[:5]:
        docs.get_document_hash(id)
    # As another process would do it: another store, another handle of the table.
    with ContextStore.open(tmp_path / "store") as other:
        others = LanceContextDocumentStore(other)
        others.add_documents([Document(text="new", id_="d2"), Document(text="new", id_="d3")])
        assert docs.get_document_hash("d3") == others.docs["d3"].hash
        assert docs.get_document_hash("d2") == others.docs["d2"].hash
        others.delete_document("d4")
        assert docs.get_document_hash("d4") is None


def test_a_hash_that_expires_is_gone_without_a_write():
    clock = ManualClock()
    with ContextStore.open("memory://", clock=clock) as store:
        docs = LanceContextDocumentStore(store)
        docs.add_documents(DOCUMENTS)
        soon = clock.now() + timedelta(seconds=1)
        assert store.kv(ITEMS).touch([(("docstore", "nodes"), "d1")], expires_at=soon) == 1
        assert [docs.get_document_hash("d1") for _ in range(5)] == [HASHES["d1"]] * 5
        clock.advance(seconds=2)
        assert docs.get_document_hash("d1") is None


def test_other_namespaces_are_none_of_its_business(store):
    one = LanceContextDocumentStore(store, namespace="one")
    other = LanceContextDocumentStore(store, namespace="other")
    one.set_document_hashes({"a": "1"})
    other.set_document_hashes({"a": "2", "b": "3"})
    for _ in range(4):
        assert (one.get_document_hash("a"), other.get_document_hash("a")) == ("1", "2")
        assert (one.get_document_hash("b"), other.get_document_hash("b")) == (None, "3")


# When all are read


@pytest.mark.parametrize(("n_items", "n_questions"), [(10, 2), (3_000, 6), (100_000, 200)])
def test_the_more_there_are_the_more_must_be_asked_for_first(n_items, n_questions):
    known = KnownHashes()
    asked = 0
    while not known.should_read_all(1):
        asked += 1
        if known.ask(1):
            known.count(1, n_items)
    assert asked == n_questions


def test_hashes_beyond_all_bounds_are_looked_up_one_by_one():
    known = KnownHashes()
    for _ in range(10_000):
        if known.ask(1):
            known.count(1, 250_001)
    assert not known.should_read_all(1)


def test_a_new_version_begins_anew():
    known = KnownHashes()
    known.keep(1, {"a": "x"})
    assert known.at(1) == {"a": "x"}
    assert known.at(2) is None
    known.ask(1)
    assert known.ask(1)
    assert not known.ask(2)
    assert known.ask(2)


def test_hashes_go_from_memory_when_a_store_ends():
    known = KnownHashes()
    known.keep(1, {"a": "x"})
    with ContextStore.open("memory://"):
        pass
    assert known.at(1) is None
