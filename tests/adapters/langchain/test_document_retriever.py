"""What loaders have read, in the store's documents, and found there with citations."""

from datetime import date

import pytest
from langchain_core.documents import Document
from langchain_lance_context import LanceContextDocumentRetriever

from lance_context_core import ContextStore, DocumentScope, InvalidRequestError
from lance_context_core._loop import StoreLoop
from lance_context_core.documents import TextChunker

PAGES = [
    Document("Ginger tea is hot.", metadata={"source": "/books/cook.pdf", "page": 0, "by": "Ada"}),
    Document("", metadata={"source": "/books/cook.pdf", "page": 1, "by": "Ada"}),
    Document(
        "Carrot cake is sweet.", metadata={"source": "/books/cook.pdf", "page": 2, "by": "Ada"}
    ),
]


class Sentences:
    """As LangChain's splitters are: what it returns is stripped."""

    def split_text(self, text):
        return [one.strip() for one in text.split(".")]


class Sections:
    """As LangChain's splitters by heading are."""

    def split_text(self, text):
        return [Document(one) for one in text.split("\n\n")]


def cited(documents):
    return {one.page_content: one.metadata["lance_context"]["citation"] for one in documents}


def test_the_pages_of_a_loader_are_one_file_and_are_cited(store):
    retriever = LanceContextDocumentRetriever(store=store, k=9)
    (added,) = retriever.add_documents(iter(PAGES))
    assert (added.name, added.type, added.uri) == ("cook.pdf", "pdf", "/books/cook.pdf")
    assert (added.n_pages, added.n_chunks) == (3, 2)
    assert store.documents.list() == [added]
    (found,) = retriever.invoke("carrot cake")
    facts = found.metadata.pop("lance_context")
    assert found.metadata == {"source": "/books/cook.pdf", "by": "Ada"}
    text = store.documents.text(added.id)
    assert text[facts["start"] : facts["end"]] == found.page_content == "Carrot cake is sweet."
    assert 0 < facts.pop("score") <= 1
    assert facts == {
        "citation": "cook.pdf, p. 3",
        "document_id": added.id,
        "name": "cook.pdf",
        "type": "pdf",
        "uri": "/books/cook.pdf",
        "page": 3,
        "start": facts["start"],
        "end": facts["end"],
        "channels": ["text"],
    }


def test_adding_again_adds_nothing(store):
    retriever = LanceContextDocumentRetriever(store=store)
    assert retriever.add_documents(PAGES) == retriever.add_documents(PAGES)
    assert store.documents.count() == 1


@pytest.mark.parametrize(
    ("metadata", "first_page", "page"),
    [
        ({"page": 4, "page_label": "iv"}, 0, 5),
        ({"page": 4}, 1, 4),
        ({"page": 0}, 1, None),
        ({"page_number": 4}, 0, 4),
        ({"page": "4"}, 0, None),
        ({}, 0, None),
    ],
)
def test_a_page_is_counted_from_one(store, metadata, first_page, page):
    retriever = LanceContextDocumentRetriever(store=store, first_page=first_page)
    retriever.add_documents([Document("tea", metadata=metadata)])
    (found,) = retriever.invoke("tea")
    assert found.metadata["lance_context"].get("page") == page


def test_rows_are_the_lines_of_one_file(store):
    retriever = LanceContextDocumentRetriever(store=store, splitter=Sections())
    rows = [
        Document(f"tea: {tea}", metadata={"source": "c.csv", "row": n})
        for n, tea in enumerate(["green", "black"])
    ]
    (added,) = retriever.add_documents(rows)
    assert (added.name, added.type) == ("c.csv", "csv")
    assert cited(retriever.invoke("black")) == {"tea: black": "c.csv, row 3"}


def test_what_differs_in_its_metadata_is_a_file_of_its_own(store):
    retriever = LanceContextDocumentRetriever(store=store)
    given = [
        Document("Tea", metadata={"source": "https://example.org/tea/?all=1#top", "n": 1}),
        Document("Cake", metadata={"source": "https://example.org/tea/?all=1#top", "n": 2}),
        Document("Soup"),
        Document("Rice"),
        Document("Bread", metadata={"read": date(2026, 1, 2)}),
    ]
    added = retriever.add_documents(given)
    assert [one.name for one in added] == ["tea", "tea", *["untitled"] * 3]
    (found,) = retriever.invoke("bread")
    assert found.metadata.pop("lance_context")["citation"] == "untitled"
    assert found.metadata == {"read": date(2026, 1, 2)}
    assert [one.page_content for one in retriever.invoke("cake", filter={"n": 2})] == ["Cake"]
    assert retriever.invoke("cake", filter={"n": 1}) == []


@pytest.mark.parametrize(
    ("splitter", "expected"),
    [
        (Sentences(), ["Tea is hot", "Tea is\ncheap"]),
        (Sections(), ["Tea is hot. Tea is\ncheap."]),
        (TextChunker(target=12, most=12, least=0, overlap=0), ["Tea is hot.", "Tea is", "cheap."]),
    ],
)
def test_a_splitter_takes_the_place_of_the_chunker(store, splitter, expected):
    retriever = LanceContextDocumentRetriever(store=store, splitter=splitter)
    (added,) = retriever.add_documents([Document("Tea is hot. Tea is\ncheap.")])
    assert [one.text for one in store.documents.chunks(added.id)] == expected


def test_a_scope_and_a_type_narrow_what_is_found(store):
    shop, talk = DocumentScope(project_id="shop"), DocumentScope(conversation_id="monday")
    retriever = LanceContextDocumentRetriever(store=store, scope=shop, k=9)
    retriever.add_documents([Document("tea in the shop", metadata={"source": "a.md"})])
    retriever.add_documents([Document("tea of monday", metadata={"source": "b.txt"})], scope=talk)
    store.documents.add(b"tea for all", name="c.txt")
    assert set(cited(retriever.invoke("tea"))) == {"tea in the shop", "tea for all"}
    narrow = LanceContextDocumentRetriever(store=store, type="markdown")
    assert cited(narrow.invoke("tea")) == {"tea in the shop": "a.md"}
    one = LanceContextDocumentRetriever(store=store, filter={"name": "b.txt"})
    assert set(cited(one.invoke("tea"))) == {"tea of monday"}
    assert one.invoke("tea", filter={"type": "markdown"}) == []


def test_nothing_is_found_outside_of_the_scope_of_the_store(store):
    LanceContextDocumentRetriever(store=store, user_id="ada").add_documents([Document("tea")])
    assert LanceContextDocumentRetriever(store=store, user_id="ben").invoke("tea") == []
    assert len(LanceContextDocumentRetriever(store=store, user_id="ada").invoke("tea")) == 1


def test_it_finds_what_the_store_finds_in_its_order(embedding_store):
    retriever = LanceContextDocumentRetriever(store=embedding_store, k=9)
    retriever.add_documents(PAGES)
    for mode in ("hybrid", "vector", "text"):
        hits = embedding_store.documents.search("is hot", limit=1, mode=mode)
        found = retriever.invoke("is hot", k=1, mode=mode)
        assert [one.id for one in found] == [hit.record.id for hit in hits]
        assert found[0].metadata["lance_context"]["score"] == hits[0].score


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["tea"], r"documents\[0\] is a str"),
        ([Document("tea", metadata={"file": object()})], r"the metadata of documents\[0\]"),
    ],
)
def test_what_cannot_be_kept_is_refused(store, given, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        LanceContextDocumentRetriever(store=store).add_documents(given)
    assert store.documents.count() == 0


def test_what_splits_nothing_is_refused(store):
    retriever = LanceContextDocumentRetriever(store=store, splitter="sentences")
    with pytest.raises(InvalidRequestError, match="splitter='sentences'"):
        retriever.add_documents(PAGES)


def test_a_retriever_closes_the_store_that_it_opened(tmp_path):
    with ContextStore.open(tmp_path) as store:
        store.documents.add(b"ginger tea", name="a.txt")
    with LanceContextDocumentRetriever(store=str(tmp_path)) as retriever:
        assert cited(retriever.invoke("ginger")) == {"ginger tea": "a.txt"}
    with pytest.raises(RuntimeError, match="closed"):
        retriever.invoke("ginger")


async def test_asking_asynchronously_blocks_no_loop(store, monkeypatch):
    monkeypatch.setattr(StoreLoop, "run", lambda *_: pytest.fail("a blocking call"))
    retriever = LanceContextDocumentRetriever(store=store.aio)
    await retriever.aadd_documents(PAGES)
    assert cited(await retriever.ainvoke("carrot")) == {"Carrot cake is sweet.": "cook.pdf, p. 3"}
