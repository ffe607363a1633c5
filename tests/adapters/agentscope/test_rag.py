"""A collection of the store as AgentScope's retrieval service."""

import asyncio

import pytest
from adapters.agentscope.samples import MESSAGES, said, texts
from adapters.llama_index.doubles import WordEmbedding
from agentscope_lance_context import LanceContextRAGService
from agentscope_runtime.engine.services.context_manager import create_context_manager
from agentscope_runtime.engine.services.rag_service import (
    LangChainRAGService,
    LlamaIndexRAGService,
    RAGService,
)
from core.conformance.doubles import WordVectors
from langchain_core.documents import Document as LangChainDocument
from langchain_lance_context import LanceContextVectorStore
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index_lance_context import LanceContextVectorStore as LlamaIndexVectorStore

from lance_context_core import AsyncContextStore, ContextStore, Document, InvalidRequestError

RECIPES = ["ginger tea", "green tea with lemon", "carrot cake"]


def with_rag(where, use, **options):
    """What `use` returns of a service that lives for this call."""

    async def main():
        service = LanceContextRAGService(where, "recipes", **options)
        try:
            return await use(service)
        finally:
            await service.stop()

    return asyncio.run(main())


@pytest.fixture
def recipes(tmp_path):
    """Where a store is that has recipes."""
    where = tmp_path / "store"
    with_rag(where, lambda service: service.add_docs(RECIPES), embedder=WordVectors())
    return where


def test_it_is_what_agentscope_calls_one(tmp_path):
    assert isinstance(LanceContextRAGService(tmp_path), RAGService)


@pytest.mark.parametrize("mode", [None, "vector", "hybrid", "text"])
def test_the_best_texts_are_retrieved(recipes, mode):
    async def use(service):
        return await service.retrieve("ginger tea", k=2), await service.retrieve("carrot cake")

    best, one = with_rag(recipes, use, embedder=WordVectors(), mode=mode)
    assert best == RECIPES[:2]
    assert one == ["carrot cake"]


def test_without_an_embedder_words_are_retrieved_by(recipes):
    assert with_rag(recipes, lambda service: service.retrieve("cake", k=5)) == ["carrot cake"]


@pytest.mark.parametrize(("query", "k"), [("", 5), (" ", 5), (None, 5), ("tea", 0), ("tea", -1)])
def test_nothing_is_retrieved_for_nothing(recipes, query, k):
    assert with_rag(recipes, lambda service: service.retrieve(query, k)) == []


def test_documents_of_every_kind_are_added(recipes):
    async def use(service):
        ids = await service.add_docs(
            [
                Document(id="d1", text="rye bread"),
                LangChainDocument("rye cookies", id="d2", metadata={"minutes": 5}),
            ]
        )
        await service.add_docs("rye soup")
        await service.add_docs(LangChainDocument("rye toast"))
        return ids

    assert with_rag(recipes, use, embedder=WordVectors()) == ["d1", "d2"]
    found = with_rag(recipes, lambda service: service.retrieve("rye", k=9))
    assert sorted(found) == ["rye bread", "rye cookies", "rye soup", "rye toast"]
    quick = {"minutes": {"$lt": 10}}
    assert with_rag(recipes, lambda service: service.retrieve("rye", k=9), filter=quick) == [
        "rye cookies"
    ]


def test_what_is_no_document_is_refused_before_anything_is_added(recipes):
    async def use(service):
        with pytest.raises(InvalidRequestError, match="docs"):
            await service.add_docs(["rye bread", 7])
        return await service.retrieve("rye", k=9)

    assert with_rag(recipes, use) == []


def test_the_question_is_the_first_text_of_a_message(tmp_path):
    async def use(service):
        return [
            await service.get_query_text(message)
            for message in (said("tea"), MESSAGES["no content"], MESSAGES["reasoning"], None)
        ]

    assert with_rag(tmp_path, use) == ["tea", "", "", ""]


def test_what_is_retrieved_is_composed_before_the_last_message(recipes, restarts):
    async def main():
        async with create_context_manager(
            session_history_service=restarts.history(),
            memory_service=restarts.memory(),
            rag_service=LanceContextRAGService(recipes, "recipes"),
        ) as manager:
            assert (await manager.health_check())["rag"]
            session = await manager.compose_session(user_id="u1", session_id="s1")
            await manager.compose_context(session, request_input=[said("cake")])
            return [
                (one.role, text)
                for one, text in zip(session.messages, texts(session.messages), strict=True)
            ]

    assert asyncio.run(main()) == [("system", "carrot cake"), ("user", "cake")]


def over_langchain(store):
    """AgentScope's own service over our vector store for LangChain."""
    recipes = LanceContextVectorStore(store, collection="recipes")
    return LangChainRAGService(vectorstore=recipes, embedding=object())


def over_llama_index(store):
    """AgentScope's own service over our vector store for LlamaIndex, which needs its vectors."""
    recipes = LlamaIndexVectorStore(store, collection="recipes")
    index = VectorStoreIndex.from_vector_store(recipes, embed_model=WordEmbedding())
    return LlamaIndexRAGService(vectorstore=index, embedding=object())


@pytest.mark.parametrize("made", [over_langchain, over_llama_index])
def test_agentscopes_own_services_retrieve_from_our_stores_after_a_restart(restarts, made):
    with ContextStore.open(restarts.where, embedder=WordVectors()) as store:
        if made is over_langchain:
            LanceContextVectorStore(store, collection="recipes").add_texts(RECIPES)
        else:
            VectorStoreIndex(
                [TextNode(text=text) for text in RECIPES],
                storage_context=StorageContext.from_defaults(
                    vector_store=LlamaIndexVectorStore(store, collection="recipes")
                ),
                embed_model=WordEmbedding(),
            )

    async def main(store):
        async with create_context_manager(
            session_history_service=restarts.history(),
            memory_service=restarts.memory(),
            rag_service=made(store),
        ) as manager:
            session = await manager.compose_session(user_id="u1", session_id="s1")
            await manager.compose_context(session, request_input=[said("carrot cake")])
            return await manager.rag.retrieve("carrot cake", k=1), texts(session.messages)

    with ContextStore.open(restarts.where, embedder=WordVectors()) as store:
        best, (retrieved, asked) = asyncio.run(main(store))
    assert best == ["carrot cake"]
    assert retrieved.splitlines()[0] == "carrot cake"
    assert sorted(retrieved.splitlines()) == sorted(RECIPES)
    assert asked == "carrot cake"


def test_a_store_that_was_handed_over_stays_open(recipes):
    async def main():
        async with await AsyncContextStore.open(recipes) as store:
            service = LanceContextRAGService(store, "recipes")
            await service.stop()
            return await service.retrieve("cake")

    assert asyncio.run(main()) == ["carrot cake"]


@pytest.mark.usefixtures("each_write_commits")
def test_it_can_have_its_store_looked_after(recipes):
    with_rag(recipes, lambda service: service.add_docs("soup"), embedder=WordVectors())
    tables = with_rag(recipes, lambda service: service.maintain())
    done = {one.table: one for one in tables}["vectors.recipes"]
    assert (done.fragments_removed, done.fragments_added) == (2, 1)
