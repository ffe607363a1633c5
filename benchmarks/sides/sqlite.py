"""SQLite from the standard library: a table, the vector as a blob, one transaction a turn."""

import sqlite3
import time
from pathlib import Path

import numpy as np
from pyarrow import feather

from benchmarks.sides.protocol import serve

_OPEN: dict[str, sqlite3.Connection] = {}
_TABLE = """
CREATE TABLE IF NOT EXISTS turns (
    number INTEGER PRIMARY KEY, session_id TEXT NOT NULL, role TEXT NOT NULL,
    content TEXT NOT NULL, vector BLOB NOT NULL
)
"""
_INSERT = "INSERT INTO turns (session_id, role, content, vector) VALUES (?, 'user', ?, ?)"


def append(*, uri: str, corpus: str, start: int, count: int, synchronous: str) -> list[float]:
    """Add turns one after the other; `synchronous` is SQLite's word. Returns the seconds of each."""
    if uri not in _OPEN:
        Path(uri).mkdir()
        _OPEN[uri] = sqlite3.connect(f"{uri}/turns.db", isolation_level=None)
        _OPEN[uri].execute("PRAGMA journal_mode = WAL")
        _OPEN[uri].execute(f"PRAGMA synchronous = {synchronous}")
        _OPEN[uri].execute(_TABLE)
        _OPEN[uri].execute("CREATE INDEX by_session ON turns (session_id, number)")
    table = feather.read_table(corpus, columns=["session_id", "text", "vector"])
    numbers = [number % table.num_rows for number in range(start, start + count)]
    seconds = []
    for row in table.take(numbers).to_pylist():
        began = time.perf_counter()
        vector = np.asarray(row["vector"], dtype=np.float32).tobytes()
        # Without a transaction around it a statement is one of its own.
        _OPEN[uri].execute(_INSERT, (row["session_id"], row["text"], vector))
        seconds.append(time.perf_counter() - began)
    return seconds


if __name__ == "__main__":
    serve({"append": append})
