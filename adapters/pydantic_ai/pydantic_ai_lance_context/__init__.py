"""The one memory of lance-context, in Pydantic AI's own classes."""

from pydantic_ai_lance_context.conversations import LanceConversationStore
from pydantic_ai_lance_context.message_history import LanceMessageHistory
from pydantic_ai_lance_context.recall import LanceRecall

__version__ = "0.1.0"

__all__ = ["LanceConversationStore", "LanceMessageHistory", "LanceRecall"]
