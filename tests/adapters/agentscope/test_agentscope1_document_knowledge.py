"""The documents of the store as a knowledge base of agents of agentscope 1.x."""

import pytest
from adapters.agentscope.agentscope1_doubles import text
from agentscope.rag import DocMetadata, Document, KnowledgeBase
from agentscope_lance_context import LanceContextDocumentKnowledge

from lance_context_core import ContextStore, DocumentScope, InvalidRequestError

GUIDE = b"# Tea\n\nGreen tea takes five minutes.\n\n# Cake\n\nCarrot cake takes ninety minutes.\n"


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(tmp_path / "store") as opened:
        yield opened


def told(found):
    return [one.metadata.content["text"] for one in found]


async def test_an_agent_finds_a_file_that_another_program_added_and_sees_where_it_stands(store):
    file = store.documents.add(GUIDE, name="guide.md")
    n_chunks = len(store.documents.chunks(file.id))
    knowledge = LanceContextDocumentKnowledge(store)
    assert isinstance(knowledge, KnowledgeBase)
    (found,) = await knowledge.retrieve("how long does carrot cake take", limit=1)
    assert told([found])[0].startswith("[guide.md")
    assert "Carrot cake takes ninety minutes." in told([found])[0]
    assert (found.metadata.doc_id, found.metadata.total_chunks) == (file.id, n_chunks)
    assert 0 < found.score <= 1
    answer = await knowledge.retrieve_knowledge("carrot cake", limit=1)
    assert "Carrot cake takes ninety minutes." in answer.content[0]["text"]
    plain = LanceContextDocumentKnowledge(store, is_cited=False)
    (bare,) = await plain.retrieve("carrot cake", limit=1)
    assert bare.metadata.content["text"] in GUIDE.decode()


async def test_a_threshold_a_limit_of_nought_and_a_blank_query_find_less(store):
    store.documents.add(GUIDE, name="guide.md")
    knowledge = LanceContextDocumentKnowledge(store)
    (best,) = await knowledge.retrieve("carrot cake", limit=1)
    assert await knowledge.retrieve("carrot cake", score_threshold=best.score) != []
    assert await knowledge.retrieve("carrot cake", score_threshold=1.01) == []
    assert await knowledge.retrieve("carrot cake", limit=0) == []
    assert await knowledge.retrieve(" ") == []


async def test_only_the_documents_of_its_scope_type_and_filter_are_found(store):
    own = DocumentScope(project_id="kitchen")
    store.documents.add(b"tea of the kitchen", name="a.txt", scope=own, metadata={"by": "Ada"})
    store.documents.add(
        b"tea of the garden", name="b.txt", scope=DocumentScope(project_id="garden")
    )
    store.documents.add(b"tea,of\nthe,table\n", name="c.csv", scope=own)

    async def names(**options):
        found = await LanceContextDocumentKnowledge(store, **options).retrieve("tea", limit=9)
        return sorted(one.split(",")[0].strip("[]").split("]")[0] for one in told(found))

    assert await names() == ["a.txt", "b.txt", "c.csv"]
    assert await names(scope=own) == ["a.txt", "c.csv"]
    assert await names(scope=own, type="csv") == ["c.csv"]
    assert await names(filter={"metadata.by": "Ada"}) == ["a.txt"]


def read(content, doc_id, chunk_id):
    said = text(content) if isinstance(content, str) else content
    return Document(DocMetadata(content=said, doc_id=doc_id, chunk_id=chunk_id, total_chunks=2))


async def test_what_readers_have_cut_is_one_document_of_passages_as_they_are(store):
    knowledge = LanceContextDocumentKnowledge(store, is_cited=False)
    given = [read("Boil it.", "tea", 1), read("Warm the pot.", "tea", 0), read("Sift", "cake", 0)]
    for _ in range(2):
        await knowledge.add_documents(given)
    cake, tea = sorted(store.documents.list(), key=lambda one: one.name)
    assert (cake.name, tea.name) == ("cake", "tea")
    passages = store.documents.chunks(tea.id)
    assert [one.text for one in passages] == ["Warm the pot.", "Boil it."]
    (found,) = await knowledge.retrieve("warm the pot", limit=1)
    assert told([found]) == ["Warm the pot."]
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    with pytest.raises(InvalidRequestError, match=r"store\.images"):
        await knowledge.add_documents([read("Stir", "soup", 0), read(image, "soup", 1)])
    assert store.documents.count() == 2
