"""Coordination of agents: locks, tasks, plans, templates, and checkpoints.

This module has the names that a program imports; `ContextStore` returns the other objects, whose
types are in `results`.
"""

from lance_context_core.coordination.checkpoints import FileContext, FileExcerpt
from lance_context_core.coordination.conversations import (
    Conversation,
    conversation,
    current_conversation,
)

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    "conversation",
    "current_conversation",
    "Conversation",
    "FileContext",
    "FileExcerpt",
]
