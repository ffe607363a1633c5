"""Search engines besides LanceDB: PostgreSQL, Milvus, a table in memory, or your own."""

from lance_context_core.engines._memory import MemoryEngine
from lance_context_core.engines._milvus import MilvusEngine
from lance_context_core.engines._options import SearchEngines
from lance_context_core.engines._postgres import PostgresEngine
from lance_context_core.engines._protocol import (
    FIELDS,
    EngineChannel,
    EngineHits,
    EngineRow,
    EngineState,
    SearchEngine,
)

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # Options
    "SearchEngines",
    # Engines
    "PostgresEngine",
    "MilvusEngine",
    "MemoryEngine",
    # Custom engines
    "SearchEngine",
    "EngineChannel",
    "EngineRow",
    "EngineState",
    "EngineHits",
    "FIELDS",
]
