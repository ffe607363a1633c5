"""Agents that work together: locks, tasks, plans, templates, and where each agent stands.

Here is what a program says of itself; `ContextStore` hands out the rest, and `results` names it.
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
