"""Sessions of the OpenAI Agents SDK over the one memory of lance-context."""

from openai_agents_lance_context.sessions import LanceContextSession, LanceSession

__version__ = "0.1.0"

__all__ = ["LanceContextSession", "LanceSession"]
