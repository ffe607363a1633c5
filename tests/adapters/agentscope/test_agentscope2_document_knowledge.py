"""The documents of the store as a knowledge base of agents of agentscope 2.x."""

import inspect

import pytest
from adapters.agentscope.agentscope2_doubles import IMAGE, chunk
from agentscope.message import DataBlock, TextBlock
from agentscope.rag import KnowledgeBase
from agentscope_lance_context import LanceContextDocumentKnowledgeBase

from lance_context_core import ContextStore, DocumentScope, InvalidRequestError

GUIDE = b"# Tea\n\nGreen tea takes five minutes.\n\n# Cake\n\nCarrot cake takes ninety minutes.\n"


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(tmp_path / "store") as opened:
        yield opened


async def test_it_is_called_as_agentscopes_own():
    for name in ("search", "insert_document", "delete_document", "list_documents"):
        theirs = inspect.signature(getattr(KnowledgeBase, name)).parameters
        ours = inspect.signature(getattr(LanceContextDocumentKnowledgeBase, name)).parameters
        assert list(ours) == list(theirs)
        assert [one.default for one in ours.values()] == [one.default for one in theirs.values()]


async def test_an_agent_finds_a_file_that_another_program_added_and_its_citation(store):
    file = store.documents.add(GUIDE, name="guide.md", metadata={"by": "Ada"})
    base = LanceContextDocumentKnowledgeBase(store, name="cook", description="What to cook")
    assert isinstance(base, KnowledgeBase)
    (found,) = await base.search(["how long does carrot cake take"], top_k=1)
    (hit,) = store.documents.search("how long does carrot cake take", limit=1)
    assert found.chunk.content.text == hit.record.text
    assert (found.chunk.source, found.document_id) == (hit.record.citation, file.id)
    assert (found.chunk.chunk_index, found.score) == (hit.record.position, hit.score)
    assert found.chunk.total_chunks == file.n_chunks
    facts = found.chunk.metadata.pop("lance_context")
    assert found.chunk.metadata == {"by": "Ada"}
    assert GUIDE.decode()[facts["start"] : facts["end"]] == found.chunk.content.text


async def test_several_queries_find_each_passage_once_by_its_best_score(store):
    for number in range(3):
        store.documents.add(f"tea number {number}".encode(), name=f"{number}.txt")
    base = LanceContextDocumentKnowledgeBase(store)
    image = DataBlock(source=IMAGE)
    found = await base.search(["tea number 1", image, TextBlock(text="tea"), " "], top_k=9)
    assert sorted(one.chunk.source for one in found) == ["0.txt", "1.txt", "2.txt"]
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    alone = {
        one.chunk.source: one.score
        for query in ("tea", "tea number 1")
        for one in await base.search([query], top_k=9)
    }
    assert found[0].chunk.source == "1.txt"
    assert all(one.score >= alone[one.chunk.source] - 1e-9 for one in found)
    assert [one.chunk.source for one in await base.search(["tea number 1"], top_k=1)] == ["1.txt"]
    assert await base.search(["tea"], score_threshold=1.01) == []
    assert await base.search([image]) == await base.search([]) == []


@pytest.mark.parametrize("document_id", [None, "it's mine"], ids=["its own id", "an id given"])
async def test_what_parsers_have_cut_is_a_document_until_it_is_deleted(store, document_id):
    base = LanceContextDocumentKnowledgeBase(store)
    chunks = [
        chunk("Warm the pot.", 0, 2, page=1, by="Ada"),
        chunk("Boil it.", 1, 2, page=2, by="Ada"),
    ]
    about = {"lang": "en"}
    told = await base.insert_document(chunks, document_id, about)
    assert told == await base.insert_document(chunks, document_id, about)
    assert document_id in (None, told)
    (listed,) = await base.list_documents()
    assert (listed.document_id, listed.source, listed.chunk_count) == (told, "a.txt", 2)
    assert listed.metadata == {"lang": "en", "by": "Ada"}
    (file,) = store.documents.list()
    passages = [(one.text, one.page) for one in store.documents.chunks(file.id)]
    assert passages == [("Warm the pot.", 1), ("Boil it.", 2)]
    (found,) = await base.search(["boil it"], top_k=1)
    assert (found.document_id, found.chunk.source) == (told, "a.txt, p. 2")
    await base.delete_document("another")
    assert store.documents.count() == 1
    await base.delete_document(told)
    assert (store.documents.count(), await base.search(["boil"])) == (0, [])


async def test_a_base_neither_finds_nor_deletes_what_is_outside_of_its_scope(store):
    kitchen, garden = DocumentScope(project_id="kitchen"), DocumentScope(project_id="garden")
    base = LanceContextDocumentKnowledgeBase(store, scope=kitchen)
    other = LanceContextDocumentKnowledgeBase(store, scope=garden)
    told = await base.insert_document([chunk("tea of the kitchen")])
    hidden = await other.insert_document([chunk("tea of the garden")], "theirs")
    assert [one.document_id for one in await base.search(["tea"])] == [told]
    assert [one.document_id for one in await base.list_documents()] == [told]
    for id in (hidden, store.documents.list(scope=garden)[0].id):
        await base.delete_document(id)
    assert [one.document_id for one in await other.list_documents()] == ["theirs"]


@pytest.mark.parametrize(
    "chunks",
    [[], [chunk(" ")], [chunk("tea"), chunk(DataBlock(source=IMAGE))]],
    ids=["none", "a blank one", "a picture"],
)
async def test_what_has_no_text_is_refused_and_nothing_is_written(store, chunks):
    with pytest.raises(InvalidRequestError, match=r"store\.images"):
        await LanceContextDocumentKnowledgeBase(store).insert_document(chunks)
    assert store.documents.count() == 0
