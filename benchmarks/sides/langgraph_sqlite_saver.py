"""LangGraph's checkpointer on SQLite."""

import sqlite3

from langgraph.checkpoint.sqlite import SqliteSaver

from benchmarks.sides.conversations import operations
from benchmarks.sides.langgraph_threads import LangGraphThreads
from benchmarks.sides.protocol import serve


class Sqlite(LangGraphThreads):
    """Connected as its own `from_conn_string` does it."""

    def _open(self, folder: str) -> None:
        connection = sqlite3.connect(f"{folder}/threads.db", check_same_thread=False)
        self._compile(SqliteSaver(connection))


if __name__ == "__main__":
    serve(operations(Sqlite, "langgraph-checkpoint-sqlite", "langgraph"))
