"""Traces a search as a retriever run, for LangSmith and other tracers of LangChain."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from langchain_core.callbacks import AsyncCallbackManager, CallbackManager
from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig, ensure_config

from lance_context_core import ContextRecord
from lance_context_core.results import SearchHit
from langchain_lance_context._documents import from_record_hit

_Found = TypeVar("_Found")


def run_of_retriever(
    config: RunnableConfig,
    query: str,
    search: Callable[[], _Found],
    *,
    name: str,
    shown: Callable[[_Found], Sequence[Document]],
) -> _Found:
    """Runs `search` as a child of `config`'s run, and traces the documents `shown`."""
    manager = CallbackManager.configure(config.get("callbacks"), **_inherited(config))
    run = manager.on_retriever_start({}, query, name=name)
    try:
        found = search()
    except BaseException as error:
        run.on_retriever_error(error)
        raise
    run.on_retriever_end(shown(found))
    return found


async def arun_of_retriever(
    config: RunnableConfig,
    query: str,
    search: Callable[[], Awaitable[_Found]],
    *,
    name: str,
    shown: Callable[[_Found], Sequence[Document]],
) -> _Found:
    """See `run_of_retriever`."""
    manager = AsyncCallbackManager.configure(config.get("callbacks"), **_inherited(config))
    run = await manager.on_retriever_start({}, query, name=name)
    try:
        found = await search()
    except BaseException as error:
        await run.on_retriever_error(error)
        raise
    await run.on_retriever_end(shown(found))
    return found


def of_tool(config: RunnableConfig) -> RunnableConfig:
    """The config of a tool's run, called in its context: the tool gets its caller's config."""
    callbacks = ensure_config().get("callbacks")
    return config if callbacks is None else {**config, "callbacks": callbacks}


def of_records(hits: Sequence[SearchHit[ContextRecord]]) -> list[Document]:
    """Records as documents, as `LanceContextRetriever` returns them."""
    return [from_record_hit(one) for one in hits]


def _inherited(config: RunnableConfig) -> dict[str, Any]:
    return {
        "inheritable_tags": config.get("tags"),
        "inheritable_metadata": config.get("metadata"),
    }
