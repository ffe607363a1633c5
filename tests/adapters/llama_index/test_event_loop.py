"""Many nodes, in one answer or in a hundred, leave the event loop to others while they are made."""

import asyncio

import pytest
from adapters.llama_index.doubles import node
from core.conformance.rounds import MOST_IN_A_ROUND, Rounds
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index_lance_context import (
    LanceContextDocumentStore,
    LanceContextRetriever,
    LanceContextVectorStore,
    _node_log,
    retrievers,
    vector_stores,
)

N = 300
NODES = [node(f"word{i}", id=f"{i}", source=f"d{i}") for i in range(N)]
IDS = [one.node_id for one in NODES]


async def _query(store, mode="default"):
    vectors = LanceContextVectorStore(store)
    await vectors.async_add(NODES[:10])
    query = VectorStoreQuery(
        query_embedding=NODES[0].embedding, query_str="word0", mode=mode, similarity_top_k=10
    )
    answers = await asyncio.gather(*(vectors.aquery(query) for _ in range(N)))
    assert all(one == answers[0] for one in answers)


async def _query_by_words(store):
    await _query(store, "text_search")


async def _query_by_both(store):
    await _query(store, "hybrid")


async def _query_diversely(store):
    await _query(store, "mmr")


async def _retrieve_nodes(store):
    await LanceContextVectorStore(store).async_add(NODES[:10])
    retriever = LanceContextRetriever(store, collection="default", mode="text")
    await asyncio.gather(*(retriever.aretrieve("word1") for _ in range(N)))


async def _retrieve_records(store):
    await store.aio.memory.add(["tea", "green tea"], user_id="ada")
    retriever = LanceContextRetriever(store, user_id="ada", mode="text")
    await asyncio.gather(*(retriever.aretrieve("tea") for _ in range(N)))


async def _get_nodes(store):
    vectors = LanceContextVectorStore(store)
    await vectors.async_add(NODES)
    assert [one.node_id for one in await vectors.aget_nodes(IDS[::-1])] == IDS[::-1]


async def _get_all_nodes(store):
    vectors = LanceContextVectorStore(store)
    await vectors.async_add(NODES)
    assert [one.node_id for one in await vectors.aget_nodes()] == IDS


async def _get_documents(store):
    documents = LanceContextDocumentStore(store)
    await documents.async_add_documents(NODES)
    assert [one.node_id for one in await documents.aget_nodes(IDS[::-1])] == IDS[::-1]


async def _get_each_document(store):
    documents = LanceContextDocumentStore(store)
    await documents.async_add_documents(NODES)
    await asyncio.gather(*map(documents.aget_document, IDS))


async def _look_into_documents(store):
    documents = LanceContextDocumentStore(store)
    await documents.async_add_documents(NODES)
    assert len(await documents.aget_all_ref_doc_info()) == N


@pytest.mark.parametrize(
    ("work", "module", "convert"),
    [
        (_query, vector_stores, "to_node"),
        (_query_by_words, vector_stores, "to_node"),
        (_query_by_both, vector_stores, "to_node"),
        (_query_diversely, vector_stores, "to_node"),
        (_retrieve_nodes, retrievers, "_from_document"),
        (_retrieve_records, retrievers, "_from_record"),
        (_get_nodes, vector_stores, "to_node"),
        (_get_all_nodes, vector_stores, "to_node"),
        (_get_documents, _node_log, "node_from_json"),
        (_get_each_document, _node_log, "node_from_json"),
        (_look_into_documents, _node_log, "decode"),
    ],
)
@pytest.mark.defect(21)
async def test_the_event_loop_comes_round_while_many_nodes_are_made(
    store, monkeypatch, work, module, convert
):
    async with Rounds() as rounds:
        monkeypatch.setattr(module, convert, rounds.noting(getattr(module, convert)))
        await work(store)
    assert sum(rounds.noted.values()) >= N
    assert max(rounds.noted.values()) <= MOST_IN_A_ROUND
