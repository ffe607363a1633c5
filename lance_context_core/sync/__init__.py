"""The blocking API: each object waits for the asynchronous one behind it, on a loop of the store's own.

It may be called from any thread, also from one that runs an event loop, such as a notebook's.
"""

from lance_context_core.sync.store import Context, ContextStore, ManagedMemory
from lance_context_core.sync.stores import (
    Checkpoints,
    Documents,
    Graph,
    History,
    InformationTables,
    Jobs,
    KeyValues,
    Knowledge,
    Lock,
    Locks,
    Memory,
    Plans,
    Sessions,
    ShortTermState,
    Statements,
    TaskBoard,
    TaskStore,
    Templates,
    TieredMemory,
    Vectors,
    Windows,
)

__all__ = [
    "Checkpoints",
    "Context",
    "ContextStore",
    "Documents",
    "Graph",
    "History",
    "InformationTables",
    "Jobs",
    "KeyValues",
    "Knowledge",
    "Lock",
    "Locks",
    "ManagedMemory",
    "Memory",
    "Plans",
    "Sessions",
    "ShortTermState",
    "Statements",
    "TaskBoard",
    "TaskStore",
    "Templates",
    "TieredMemory",
    "Vectors",
    "Windows",
]
