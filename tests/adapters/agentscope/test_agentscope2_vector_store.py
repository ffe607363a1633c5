"""Collections of the store as the vector store of knowledge bases of agentscope 2.x."""

import asyncio
import inspect
import math

import pytest
from adapters.agentscope.agentscope2_doubles import (
    DIMENSIONS,
    IMAGE,
    WordEmbedding,
    chunk,
    dumps,
    vector_of,
)
from agentscope.message import DataBlock
from agentscope.rag import KnowledgeBase, VectorRecord, VectorStoreBase
from agentscope_lance_context import LanceContextVectorStore

from lance_context_core import AsyncContextStore, Document, InvalidRequestError, NotFoundError
from lance_context_core.errors import DimensionMismatchError

TEXTS = ["green tea takes five minutes", "carrot cake takes ninety minutes", "cats sleep"]
NAME = 'it\'s "knowledge"; --'


def knowledge(store, **options):
    return KnowledgeBase("recipes", "What to cook", WordEmbedding(), store, NAME, **options)


def record(document_id, content, index=0, **metadata):
    words = content if isinstance(content, str) else "an image"
    made = chunk(content, index, 3, **metadata)
    return VectorRecord(vector=vector_of(words), document_id=document_id, chunk=made)


async def filled(store, records, name=NAME):
    await store.create_collection(name, DIMENSIONS)
    await store.insert(name, records)


def found_in(results):
    return [(one.document_id, one.chunk.chunk_index) for one in results]


async def test_a_knowledge_base_is_there_after_a_restart(tmp_path):
    async with LanceContextVectorStore(tmp_path) as store:
        base = knowledge(store)
        assert await base.search(["tea"]) == []
        for n, text in enumerate(TEXTS):
            told = await base.insert_document(
                [chunk(text, page=n)], f"d'{n}", document_metadata={"by": "Ada"}
            )
            assert told == f"d'{n}"
    async with LanceContextVectorStore(tmp_path) as store:
        base = knowledge(store)
        (found,) = await base.search(["green tea", "tea"], top_k=1)
        assert (found.document_id, found.chunk.content.text) == ("d'0", TEXTS[0])
        assert found.chunk.metadata == {"page": 0, "by": "Ada"}
        assert found.score == pytest.approx(2 / math.sqrt(2 * 5), abs=1e-6)
        listed = await base.list_documents()
        assert [(one.document_id, one.source, one.chunk_count) for one in listed] == [
            (f"d'{n}", "a.txt", 1) for n in range(3)
        ]
        await base.delete_document("d'0")
        assert [one.document_id for one in await base.list_documents()] == ["d'1", "d'2"]
        assert "d'0" not in dict(found_in(await base.search(["green tea"])))


async def test_tenants_in_one_collection_are_apart_in_all_that_a_knowledge_base_does(tmp_path):
    async with LanceContextVectorStore(tmp_path) as store:
        tenants = {name: {"tenant.id": name} for name in ("ada", "a'da", "bob")}
        bases = {name: knowledge(store, metadata_filter=one) for name, one in tenants.items()}
        for name, base in bases.items():
            chunks = [chunk(f"{text} {name}", n, 3) for n, text in enumerate(TEXTS)]
            await base.insert_document(chunks, f"of {name}")
        for name, base in bases.items():
            results = await base.search([TEXTS[0]], top_k=9)
            assert sorted(found_in(results)) == [(f"of {name}", n) for n in range(3)]
            assert [one.document_id for one in await base.list_documents()] == [f"of {name}"]
            mine = {"metadata_filter": tenants[name]}
            assert len(await store.list_chunks(NAME, f"of {name}", **mine)) == 3
            assert await store.list_chunks(NAME, "of nobody", **mine) == []
        assert await store.list_chunks(NAME, "of bob", metadata_filter=tenants["ada"]) == []
        # The newest release hands its filter to this as well.
        await store.delete(NAME, "of bob", tenants["ada"])
        assert len(await bases["bob"].search(["tea"])) == 3
        await store.delete(NAME, "of bob", tenants["bob"])
        assert await bases["bob"].search(["tea"]) == []
        assert len(await bases["ada"].search(["tea"])) == 3


FILTERS = [
    {},
    {"n": 1},
    {"n": True},
    {"n": None},
    {"n": 1, "a.b": "x"},
    {"a.b": "x"},
    {"a": {"b": "x"}},
    {"l": [1, "it's"]},
    {"' OR 1=1 --": 1},
    {"agentscope_chunk": 1},
]
METADATA = [
    {},
    {"n": 1},
    {"n": True, "a.b": "x"},
    {"n": None},
    {"a": {"b": "x"}, "l": [1, "it's"]},
    {"n": 1, "a.b": "x", "' OR 1=1 --": 1},
]


def matches(metadata, wanted):
    """As the framework says it: each key has that value."""
    return all(
        metadata.get(key) == value
        and isinstance(metadata.get(key), bool) == isinstance(value, bool)
        for key, value in wanted.items()
    )


async def test_no_filter_is_ignored_by_any_method(tmp_path):
    async with LanceContextVectorStore(tmp_path) as store:
        for number, wanted in enumerate(FILTERS):
            name = f"c{number}"
            given = [record("d", f"tea {n}", n, **one) for n, one in enumerate(METADATA)]
            await filled(store, given, name)
            expected = [n for n, one in enumerate(METADATA) if matches(one, wanted)]
            results = await store.search(name, vector_of("tea"), 99, wanted)
            assert sorted(one.chunk.chunk_index for one in results) == expected
            chunks = await store.list_chunks(name, "d", metadata_filter=wanted)
            assert dumps(chunks) == dumps(given[n].chunk for n in expected)
            counts = [one.chunk_count for one in await store.list_documents(name, wanted)]
            assert counts == ([len(expected)] if expected else [])
            await store.delete(name, "d", wanted)
            left = await store.list_chunks(name, "d")
            assert [one.chunk_index for one in left] == [
                n for n in range(len(METADATA)) if n not in expected
            ]


async def test_a_record_replaces_that_of_the_same_place_and_reads_back_equal(tmp_path):
    async with LanceContextVectorStore(tmp_path) as store:
        image = DataBlock(source=IMAGE, name="a.png")
        await filled(store, [record("d", "old"), record("d", "twice", 1), record("d", "new", 1)])
        given = [record("d", "tea", page=1), record("d", "", 1), record("d\0", image, source="'")]
        for _ in range(2):
            await store.insert(NAME, given)
        chunks = [*await store.list_chunks(NAME, "d"), *await store.list_chunks(NAME, "d\0")]
        assert dumps(chunks) == dumps(one.chunk for one in given)
        assert len(await store.search(NAME, vector_of("x"), 99)) == 3


async def test_the_chunks_of_a_document_come_page_by_page_in_order(tmp_path):
    async with LanceContextVectorStore(tmp_path) as store:
        given = [record("d", f"text {n}", n) for n in (3, 0, 4, 1, 2)]
        await filled(store, [*given, record("other", "text", 0)])

        async def page(**options):
            return [one.chunk_index for one in await store.list_chunks(NAME, "d", **options)]

        assert await page() == [0, 1, 2, 3, 4]
        assert await page(limit=2) == [0, 1]
        assert await page(offset=2, limit=2) == [2, 3]
        assert await page(offset=4, limit=2) == [4]
        assert await page(offset=5) == await page(limit=0) == await page(limit=-1) == []
        with pytest.raises(InvalidRequestError, match="offset"):
            await page(offset=-1)


async def test_many_chunks_are_counted_once_each(tmp_path, monkeypatch):
    monkeypatch.setattr("agentscope_lance_context.agentscope2.vector_store._PAGE", 50)
    async with LanceContextVectorStore(tmp_path) as store:
        await filled(store, [record(f"d{n % 7}", "text", n // 7) for n in range(230)])
        counts = {one.document_id: one.chunk_count for one in await store.list_documents(NAME)}
        assert counts == {f"d{n}": len(range(n, 230, 7)) for n in range(7)}


async def test_collections_are_made_once_and_removed_with_all_they_have(tmp_path):
    async with LanceContextVectorStore(tmp_path) as store:
        assert not await store.has_collection(NAME)
        await store.delete_collection(NAME)
        await asyncio.gather(*(store.create_collection(NAME, DIMENSIONS) for _ in range(5)))
        assert await store.has_collection(NAME)
        with pytest.raises(DimensionMismatchError, match=str(DIMENSIONS)):
            await store.create_collection(NAME, 3)
        await store.insert(NAME, [record("d", "tea")])
        await store.create_collection(NAME, DIMENSIONS)
        assert len(await store.search(NAME, vector_of("tea"))) == 1
        await store.delete_collection(NAME)
        assert not await store.has_collection(NAME)
        assert await store.search(NAME, vector_of("tea")) == []
        # Another length is another collection.
        await store.create_collection(NAME, 2)
        short = VectorRecord(vector=[1, 2], document_id="d", chunk=chunk("tea"))
        await store.insert(NAME, [short])
        assert found_in(await store.search(NAME, [1, 2])) == [("d", 0)]


async def test_bad_records_are_refused_and_none_of_a_call_is_written(tmp_path):
    async with LanceContextVectorStore(tmp_path) as store:
        with pytest.raises(NotFoundError, match="create it first"):
            await store.insert(NAME, [record("d", "tea")])
        await store.create_collection(NAME, DIMENSIONS)
        short = VectorRecord(vector=[1.0], document_id="d", chunk=chunk("tea"))
        nan = VectorRecord(vector=[math.nan] * DIMENSIONS, document_id="d", chunk=chunk("tea"))
        unstorable = record("d", "tea", a=object())
        taken = record("d", "tea", agentscope_chunk=1)
        for wrong in (short, nan, unstorable, taken):
            with pytest.raises(InvalidRequestError):
                await store.insert(NAME, [record("d", "tea", 1), wrong])
        for name in ("", "a\0", None, 7):
            with pytest.raises(InvalidRequestError):
                await store.create_collection(name, 3)
        for dimensions in (0, -1, True, "3"):
            with pytest.raises(InvalidRequestError, match="dimensions"):
                await store.create_collection("other", dimensions)
        await store.insert(NAME, [])
        await store.insert("absent", [])
        assert await store.search(NAME, vector_of("tea"), 0) == []
        assert await store.search(NAME, vector_of("tea"), 5) == []
        assert not await store.has_collection("other")


async def test_what_one_framework_adds_the_others_find(tmp_path, embedder):
    async with await AsyncContextStore.open(tmp_path, embedder=embedder) as store:
        ours = LanceContextVectorStore(store)
        assert ours.get_client() is store
        await store.vectors(NAME).upsert(
            [Document(id="other", text="carrot cake", metadata={"a": 1, "source": "b.txt"})]
        )
        assert await ours.has_collection(NAME)
        (vector,) = embedder.embed_documents(["green tea"])
        told = VectorRecord(
            vector=vector.tolist(), document_id="d", chunk=chunk("green tea", page=1)
        )
        await ours.insert(NAME, [told])
        (hit,) = await store.vectors(NAME).search("green tea", filter={"page": 1})
        assert hit.record.text == "green tea"
        (foreign,) = await ours.list_chunks(NAME, "other")
        assert (foreign.content.text, foreign.source) == ("carrot cake", "b.txt")
        assert foreign.metadata == {"a": 1, "source": "b.txt"}
        listed = [one.document_id for one in await ours.list_documents(NAME)]
        assert listed == ["other", "d"]
        await ours.delete(NAME, "other")
        assert [one.document_id for one in await ours.list_documents(NAME)] == ["d"]


def test_every_method_of_the_base_is_there_and_takes_what_it_takes():
    for name, base in inspect.getmembers(VectorStoreBase, inspect.isfunction):
        if name.startswith("__"):
            continue
        own = getattr(LanceContextVectorStore, name)
        assert own is not base
        taken = inspect.signature(own).parameters
        assert set(inspect.signature(base).parameters) <= set(taken)
    assert "metadata_filter" in inspect.signature(LanceContextVectorStore.delete).parameters


@pytest.mark.usefixtures("each_write_commits")
async def test_it_can_have_its_store_looked_after(tmp_path):
    async with LanceContextVectorStore(tmp_path) as kept:
        await filled(kept, [record("a", "tea")], "recipes")
        await kept.insert("recipes", [record("b", "cake")])
        done = {one.table: one for one in await kept.maintain()}["vectors.recipes"]
        assert done.fragments_removed > done.fragments_added
