"""Collections of the store as vector databases of knowledge bases of agentscope 1.x."""

import math

import pytest
from adapters.agentscope.agentscope1_doubles import WordEmbedding, text, vector_of
from agentscope.rag import DocMetadata, Document, SimpleKnowledge
from agentscope_lance_context import LanceContextVDBStore

from lance_context_core import AsyncContextStore, InvalidRequestError
from lance_context_core import Document as CoreDocument
from lance_context_core.errors import DimensionMismatchError

TEXTS = ["green tea takes five minutes", "carrot cake takes ninety minutes", "cats sleep"]
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}


def chunk(content, doc_id="d", chunk_id=0, total=1, vector=None):
    said = text(content) if isinstance(content, str) else content
    metadata = DocMetadata(content=said, doc_id=doc_id, chunk_id=chunk_id, total_chunks=total)
    return Document(metadata=metadata, embedding=vector)


def chunks():
    return [chunk(one, f"it's d{n // 2}", n % 2, 2, vector_of(one)) for n, one in enumerate(TEXTS)]


def cosine(one, other):
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.hypot(*one) / math.hypot(*other)


def told(found):
    return [one.metadata.content.get("text") for one in found]


async def test_a_knowledge_base_answers_after_a_restart(tmp_path):
    async with LanceContextVDBStore(tmp_path, "it's knowledge") as store:
        knowledge = SimpleKnowledge(store, WordEmbedding())
        await knowledge.add_documents([chunk(one, f"d{n}") for n, one in enumerate(TEXTS)])
    async with LanceContextVDBStore(tmp_path, "it's knowledge") as store:
        knowledge = SimpleKnowledge(store, WordEmbedding())
        (found,) = await knowledge.retrieve("green tea", limit=1)
        assert (told([found]), found.metadata.doc_id) == ([TEXTS[0]], "d0")
        expected = cosine(vector_of("green tea"), vector_of(TEXTS[0]))
        assert found.score == pytest.approx(expected, abs=1e-6)
        assert len(await knowledge.retrieve("green tea", score_threshold=expected - 1e-3)) == 1
        assert await knowledge.retrieve("green tea", score_threshold=expected + 1e-3) == []
        answer = await knowledge.retrieve_knowledge("green tea", limit=1)
        assert TEXTS[0] in answer.content[0]["text"]


async def test_chunks_read_back_equal_and_adding_them_again_changes_nothing(tmp_path):
    async with LanceContextVDBStore(tmp_path) as store:
        given = [*chunks(), chunk(IMAGE, "d'2", 0, 1, vector_of("an image"))]
        for _ in range(2):
            await store.add([*given, given[0]])
        found = await store.search(vector_of("x"), limit=100)
        assert len(found) == len(given)
        by_place = {(one.metadata.doc_id, one.metadata.chunk_id): one for one in found}
        for one in given:
            other = by_place[one.metadata.doc_id, one.metadata.chunk_id]
            assert other.metadata == one.metadata
            assert cosine(other.embedding, one.embedding) == pytest.approx(1)


async def test_a_filter_leaves_as_many_as_are_asked_for(tmp_path):
    async with LanceContextVDBStore(tmp_path) as store:
        await store.add(chunks())
        found = await store.search(vector_of(TEXTS[0]), 1, filter={"doc_id": "it's d1"})
        assert told(found) == [TEXTS[2]]
        assert await store.search(vector_of("tea"), 5, filter={"doc_id": "' OR 1=1"}) == []
        assert await store.search(vector_of("tea"), limit=0) == []
        with pytest.raises(TypeError):
            await store.search(vector_of("tea"), 5, where="unknown words are no filter")


async def test_chunks_are_deleted_by_id_by_document_and_by_filter(tmp_path):
    async with LanceContextVDBStore(tmp_path) as store:
        await store.add(chunks())
        (found,) = await store.search(vector_of(TEXTS[1]), 1)
        assert await store.delete(found.id, doc_id="it's d1") == 0
        assert await store.delete(found.id) == 1
        assert await store.delete(doc_id="it's d0", filter={"chunk_id": 1}) == 0
        assert await store.delete(doc_id="it's d0", filter={"chunk_id": 0}) == 1
        assert told(await store.search(vector_of("x"), 5)) == [TEXTS[2]]
        assert await store.delete([]) == 0
        with pytest.raises(InvalidRequestError, match="delete what"):
            await store.delete()


async def test_bad_chunks_are_refused_and_none_of_a_call_is_written(tmp_path):
    async with LanceContextVDBStore(tmp_path) as store:
        await store.add([])
        with pytest.raises(InvalidRequestError, match="embedding"):
            await store.add([*chunks(), chunk("no vector")])
        assert await store.search(vector_of("tea"), 5) == []
        await store.add(chunks()[:1])
        with pytest.raises(DimensionMismatchError):
            await store.add([*chunks(), chunk("short", vector=[1.0, 2.0])])
        with pytest.raises(InvalidRequestError):
            await store.add([chunk("nan", vector=[math.nan, *vector_of("x")[1:]])])
        assert told(await store.search(vector_of("tea"), 5)) == TEXTS[:1]


async def test_what_one_framework_adds_the_others_find(tmp_path, embedder):
    async with await AsyncContextStore.open(tmp_path, embedder=embedder) as store:
        ours = LanceContextVDBStore(store, "shared")
        assert ours.get_client() is store
        (vector,) = embedder.embed_documents(["green tea"])
        await ours.add([chunk("green tea", "d'1", vector=vector.tolist())])
        await store.vectors("shared").upsert(
            [CoreDocument(id="other", text="carrot cake", metadata={"a": 1})]
        )
        (hit, _) = await store.vectors("shared").search("green tea")
        assert (hit.record.text, hit.record.metadata["doc_id"]) == ("green tea", "d'1")
        (vector,) = embedder.embed_documents(["carrot cake"])
        found = (await ours.search(vector.tolist(), 1))[0]
        assert (found.metadata.doc_id, told([found])) == ("other", ["carrot cake"])
        assert (found.metadata.chunk_id, found.metadata.total_chunks) == (0, 1)


@pytest.mark.usefixtures("each_write_commits")
async def test_it_can_have_its_store_looked_after(tmp_path):
    async with LanceContextVDBStore(tmp_path) as kept:
        for one in chunks():
            await kept.add([one])
        done = {one.table: one for one in await kept.maintain()}["vectors.default"]
        assert done.fragments_removed > done.fragments_added
