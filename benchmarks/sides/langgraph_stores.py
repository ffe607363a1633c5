"""LangGraph's stores: the adapter's, and that on SQLite without syncing; items without an index."""

import sqlite3
from pathlib import Path
from typing import Any

from langchain_lance_context import LanceContextStore
from langgraph.store.base import BaseStore
from langgraph.store.sqlite import SqliteStore

from benchmarks.sides.measuring import timed
from benchmarks.sides.protocol import serve
from lance_context_core import ContextStore

_NAMESPACE = ("users", "ada")
_STORES: list[BaseStore] = []


def start(*, store: str, folder: str) -> None:
    """Open the one of that name."""
    if store == "lance":
        _STORES.append(LanceContextStore(ContextStore.open(folder)))
        return
    Path(folder).mkdir()
    # As its own `from_conn_string` does it.
    connection = sqlite3.connect(
        f"{folder}/items.db", check_same_thread=False, isolation_level=None
    )
    items = SqliteStore(connection)
    items.setup()
    connection.execute("PRAGMA synchronous = OFF")
    _STORES.append(items)


def put(*, start: int, count: int) -> list[float]:
    """The seconds of each of so many new items."""

    def kept(number: int) -> float:
        return timed(lambda: _STORES[0].put(_NAMESPACE, f"k{number}", _value(number)))[0]

    return [kept(number) for number in range(start, start + count)]


def get(*, numbers: list[int]) -> list[float]:
    """The seconds of each look-up of an item."""

    def found(number: int) -> float:
        seconds, item = timed(lambda: _STORES[0].get(_NAMESPACE, f"k{number}"))
        assert item is not None
        assert item.value == _value(number)
        return seconds

    return [found(number) for number in numbers]


def _value(number: int) -> dict[str, Any]:
    return {"number": number, "text": f"item {number}: " + "word " * 40}


if __name__ == "__main__":
    serve({"start": start, "put": put, "get": get})
