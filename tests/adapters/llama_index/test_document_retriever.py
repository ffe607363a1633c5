"""What readers have read, in the store's documents, and found there with citations."""

import asyncio
import pickle
from datetime import date

import pytest
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    MarkdownNodeParser,
    SentenceWindowNodeParser,
    TokenTextSplitter,
)
from llama_index.core.schema import Document, MetadataMode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llama_index_lance_context import LanceContextDocumentRetriever

from lance_context_core import ContextStore, DocumentScope, InvalidRequestError
from lance_context_core._loop import StoreLoop
from lance_context_core.documents import TextChunker

BOOK = {"file_path": "/books/cook.pdf", "file_name": "cook.pdf", "by": "Ada"}
PAGES = [
    Document(text="Ginger tea is hot.", metadata={**BOOK, "page_label": "1"}),
    Document(text="", metadata={**BOOK, "page_label": "2"}),
    Document(text="Carrot cake is sweet.", metadata={**BOOK, "page_label": "3"}),
]


def cited(found):
    return {one.text: one.node.metadata["lance_context"]["citation"] for one in found}


def test_the_pages_of_a_reader_are_one_file_and_are_cited(store):
    retriever = LanceContextDocumentRetriever(store, similarity_top_k=9)
    (added,) = retriever.add_documents(iter(PAGES))
    assert (added.name, added.type, added.uri) == ("cook.pdf", "pdf", "/books/cook.pdf")
    assert (added.n_pages, added.n_chunks) == (3, 2)
    (found,) = retriever.retrieve("carrot cake")
    node = found.node
    assert 0 < found.score <= 1
    assert (node.node_id, node.ref_doc_id) == (f"{added.id}:1", added.id)
    text = store.documents.text(added.id)
    assert text[node.start_char_idx : node.end_char_idx] == node.text == "Carrot cake is sweet."
    assert "lance_context" not in node.get_content(MetadataMode.LLM)
    facts = node.metadata.pop("lance_context")
    assert node.metadata == BOOK
    assert facts == {
        "citation": "cook.pdf, p. 3",
        "document_id": added.id,
        "name": "cook.pdf",
        "type": "pdf",
        "uri": "/books/cook.pdf",
        "page": 3,
        "start": node.start_char_idx,
        "end": node.end_char_idx,
    }


def test_adding_again_adds_nothing(store):
    retriever = LanceContextDocumentRetriever(store)
    assert retriever.add_documents(PAGES) == retriever.add_documents(PAGES)
    assert store.documents.count() == 1


@pytest.mark.parametrize(
    ("metadata", "citation"),
    [
        ({"page_label": "4"}, "untitled, p. 4"),
        ({"page_label": "iv"}, "untitled, p. iv"),
        ({"page_number": 4}, "untitled, p. 4"),
        ({"file_path": "a/b.pdf", "source": "4"}, "b.pdf, p. 4"),
        ({"source": "b.md"}, "b.md"),
        ({"url": "https://example.org/tea/?all=1"}, "tea"),
        ({"page_label": ""}, "untitled"),
        ({}, "untitled"),
    ],
)
def test_a_reader_says_the_page_in_its_own_way(store, metadata, citation):
    retriever = LanceContextDocumentRetriever(store)
    retriever.add_documents([Document(text="tea", metadata=metadata)])
    assert cited(retriever.retrieve("tea")) == {"tea": citation}


def test_what_differs_in_its_metadata_is_a_file_of_its_own(store):
    retriever = LanceContextDocumentRetriever(store)
    given = [
        Document(text="Tea", metadata={"source": "a.md", "n": 1}),
        Document(text="Cake", metadata={"source": "a.md", "n": 2}),
        Document(text="Bread", metadata={"read": date(2026, 1, 2)}),
    ]
    assert [one.name for one in retriever.add_documents(given)] == ["a.md", "a.md", "untitled"]
    (found,) = retriever.retrieve("bread")
    del found.node.metadata["lance_context"]
    assert found.node.metadata == {"read": date(2026, 1, 2)}


@pytest.mark.parametrize(
    ("parser", "expected"),
    [
        (MarkdownNodeParser(), ["# A\n\nTea is hot.", "## B\n\nTea is cheap. Cake."]),
        (
            SentenceWindowNodeParser(sentence_splitter=lambda text: text.split("\n\n")),
            ["# A", "Tea is hot.", "## B", "Tea is cheap. Cake."],
        ),
        (
            TokenTextSplitter(chunk_size=7, chunk_overlap=0, tokenizer=str.split),
            ["# A\n\nTea is", "hot.\n\n## B\n\nTea is", "cheap. Cake."],
        ),
        (
            TextChunker(target=18, most=18, least=0, overlap=0),
            ["# A\n\nTea is hot.", "## B", "Tea is cheap.", "Cake."],
        ),
    ],
    ids=["by headings", "by sentences", "by tokens", "the store's own"],
)
def test_a_node_parser_takes_the_place_of_the_chunker(store, parser, expected):
    retriever = LanceContextDocumentRetriever(store, node_parser=parser)
    text = "# A\n\nTea is hot.\n\n## B\n\nTea is cheap. Cake."
    (added,) = retriever.add_documents([Document(text=text)])
    assert [one.text for one in store.documents.chunks(added.id)] == expected


def test_a_parser_that_cuts_more_than_once_is_refused(store):
    levels = {
        str(size): TokenTextSplitter(chunk_size=size, chunk_overlap=0, tokenizer=str.split)
        for size in (8, 4)
    }
    parser = HierarchicalNodeParser.from_defaults(
        node_parser_ids=list(levels), node_parser_map=levels
    )
    retriever = LanceContextDocumentRetriever(store, node_parser=parser)
    with pytest.raises(InvalidRequestError, match="cut returned"):
        retriever.add_documents([Document(text="one two three four five six seven eight")])
    assert store.documents.count() == 0


def test_scopes_types_and_filters_narrow_what_is_found(store):
    shop = DocumentScope(project_id="shop")
    retriever = LanceContextDocumentRetriever(store, scope=shop, similarity_top_k=9)
    retriever.add_documents([Document(text="tea in the shop", metadata={"source": "a.md", "n": 1})])
    retriever.add_documents(
        [Document(text="tea of monday", metadata={"n": 2})],
        scope=DocumentScope(conversation_id="monday"),
    )
    store.documents.add(b"tea for all", name="c.txt")
    assert set(cited(retriever.retrieve("tea"))) == {"tea in the shop", "tea for all"}
    narrow = LanceContextDocumentRetriever(store, type="markdown")
    assert set(cited(narrow.retrieve("tea"))) == {"tea in the shop"}
    for filters in (
        {"n": 2},
        MetadataFilters(filters=[MetadataFilter(key="n", value=2)]),
    ):
        one = LanceContextDocumentRetriever(store, filters=filters)
        assert set(cited(one.retrieve("tea"))) == {"tea of monday"}


def test_nothing_is_found_outside_of_the_scope_of_the_store(store):
    LanceContextDocumentRetriever(store, user_id="ada").add_documents([Document(text="tea")])
    assert LanceContextDocumentRetriever(store, user_id="ben").retrieve("tea") == []
    assert len(LanceContextDocumentRetriever(store, user_id="ada").retrieve("tea")) == 1


@pytest.mark.parametrize("mode", ["hybrid", "vector", "text"])
def test_it_finds_what_the_store_finds_in_its_order(embedding_store, mode):
    retriever = LanceContextDocumentRetriever(embedding_store, mode=mode)
    retriever.add_documents(PAGES)
    hits = embedding_store.documents.search("is hot", limit=4, mode=mode)
    found = retriever.retrieve("is hot")
    assert [(one.node_id, one.score) for one in found] == [
        (hit.record.id, hit.score) for hit in hits
    ]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["tea"], r"documents\[0\] is a str"),
        ([Document(text="tea", metadata={"f": object()})], r"the metadata of documents\[0\]"),
    ],
)
def test_what_cannot_be_kept_is_refused(store, given, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        LanceContextDocumentRetriever(store).add_documents(given)
    assert store.documents.count() == 0


def test_what_parses_nothing_is_refused(store):
    with pytest.raises(InvalidRequestError, match="node_parser='sentences'"):
        LanceContextDocumentRetriever(store, node_parser="sentences")


def test_a_retriever_closes_the_store_that_it_opened(tmp_path):
    with ContextStore.open(tmp_path) as store:
        store.documents.add(b"ginger tea", name="a.txt")
    with LanceContextDocumentRetriever(uri=str(tmp_path)) as retriever:
        assert cited(retriever.retrieve("ginger")) == {"ginger tea": "a.txt"}
    with pytest.raises(RuntimeError, match="closed"):
        retriever.retrieve("ginger")


def test_a_retriever_that_was_given_a_uri_can_be_sent_elsewhere(tmp_path):
    with LanceContextDocumentRetriever(
        str(tmp_path), node_parser=MarkdownNodeParser(), user_id="ada"
    ) as retriever:
        retriever.add_documents(PAGES)
        with pickle.loads(pickle.dumps(retriever)) as sent:  # noqa: S301 - made here
            (found,) = cited(sent.retrieve("carrot")).values()
    assert found == "cook.pdf, p. 3"


def test_asking_asynchronously_blocks_no_loop(store, monkeypatch):
    monkeypatch.setattr(StoreLoop, "run", lambda *_: pytest.fail("a blocking call"))
    retriever = LanceContextDocumentRetriever(store.aio)

    async def asked():
        await retriever.aadd_documents(PAGES)
        return await retriever.aretrieve("carrot")

    assert cited(asyncio.run(asked())) == {"Carrot cake is sweet.": "cook.pdf, p. 3"}
