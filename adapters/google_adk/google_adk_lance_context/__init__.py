"""The one memory of lance-context, in the services of Google's Agent Development Kit (ADK)."""

from google_adk_lance_context.artifacts import LanceArtifactService
from google_adk_lance_context.memories import LanceMemoryService
from google_adk_lance_context.services import (
    lance_artifact_service,
    lance_memory_service,
    lance_session_service,
    register_lance_services,
)
from google_adk_lance_context.sessions import LanceSessionService

__version__ = "0.1.0"

__all__ = [
    "LanceArtifactService",
    "LanceMemoryService",
    "LanceSessionService",
    "lance_artifact_service",
    "lance_memory_service",
    "lance_session_service",
    "register_lance_services",
]
