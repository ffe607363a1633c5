"""The one memory of lance-context, in CrewAI's own classes."""

from crewai_lance_context.flow_persistence import LanceFlowPersistence
from crewai_lance_context.importing import ImportedMemories, import_memories
from crewai_lance_context.installing import Installed, install
from crewai_lance_context.knowledge_storage import LanceKnowledgeStorage
from crewai_lance_context.memory_storage import LanceMemoryStorage
from crewai_lance_context.recall import LanceRecallTool

__version__ = "0.1.0"

__all__ = [
    "ImportedMemories",
    "Installed",
    "LanceFlowPersistence",
    "LanceKnowledgeStorage",
    "LanceMemoryStorage",
    "LanceRecallTool",
    "import_memories",
    "install",
]
