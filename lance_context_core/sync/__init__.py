"""The blocking API: each object waits for the asynchronous one behind it, on a loop of the store's own.

It may be called from any thread, also from one that runs an event loop, such as a notebook's.
"""

from lance_context_core.sync.checkpoints import Checkpoints
from lance_context_core.sync.context import Context
from lance_context_core.sync.documents import Documents
from lance_context_core.sync.graph import Graph, Statements
from lance_context_core.sync.history import History
from lance_context_core.sync.information import InformationTables
from lance_context_core.sync.keyvalues import KeyValues
from lance_context_core.sync.knowledge import Jobs, Knowledge
from lance_context_core.sync.locks import Lock, Locks
from lance_context_core.sync.managed import ManagedMemory
from lance_context_core.sync.memory import Memory
from lance_context_core.sync.plans import Plans
from lance_context_core.sync.sessions import Sessions
from lance_context_core.sync.state import ShortTermState
from lance_context_core.sync.store import ContextStore
from lance_context_core.sync.tasks import TaskBoard, TaskStore
from lance_context_core.sync.templates import Templates
from lance_context_core.sync.tiers import TieredMemory
from lance_context_core.sync.vectors import Vectors
from lance_context_core.sync.windows import Windows

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
