"""Factories that `langgraph.json` names, for `langgraph dev` and LangGraph's Agent Server.

    {
        "checkpointer": {"path": "langchain_lance_context.serving.checkpointer"},
        "store": {"path": "langchain_lance_context.serving.store"}
    }

Both open the store at the path or URI in the environment variable `LANCE_CONTEXT_STORE`. A factory of
your own, with an index or a retention, is an `asynccontextmanager` of the same few lines.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lance_context_core import InvalidRequestError
from langchain_lance_context.checkpointers import LanceContextSaver
from langchain_lance_context.stores import LanceContextStore

PLACE = "LANCE_CONTEXT_STORE"
"""The environment variable with the path or URI of the store."""


@asynccontextmanager
async def checkpointer() -> AsyncIterator[LanceContextSaver]:
    """Yields the checkpointer of the environment's store, and closes it afterwards.

    Raises InvalidRequestError if `LANCE_CONTEXT_STORE` is not set.
    """
    async with LanceContextSaver.from_conn_string(_place()) as saver:
        yield saver


@asynccontextmanager
async def store() -> AsyncIterator[LanceContextStore]:
    """Yields the long-term memory of the environment's store, and closes it afterwards.

    Items are found by filters, not by meaning: an index needs a factory of your own. Raises
    InvalidRequestError if `LANCE_CONTEXT_STORE` is not set.
    """
    async with LanceContextStore.from_conn_string(_place()) as memory:
        yield memory


def _place() -> str:
    place = os.environ.get(PLACE)
    if not place:
        raise InvalidRequestError(
            f"the environment variable {PLACE} is not set: set it to the path or URI of the store"
        )
    return place
