"""Language models: the interface, adapters for clients, and parsing of answers."""

from lance_context_core.models.answers import FAULTS, REPAIRS, Answer, read_answer
from lance_context_core.models.asking import (
    Completion,
    FunctionModel,
    LanguageModel,
    ModelRequest,
    Said,
    ask,
)
from lance_context_core.models.services import AnthropicModel, OpenAIModel

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # What a model is
    "LanguageModel",
    "ModelRequest",
    "Completion",
    "FunctionModel",
    "OpenAIModel",
    "AnthropicModel",
    "Said",
    # Asking one
    "ask",
    "read_answer",
    "Answer",
    "FAULTS",
    "REPAIRS",
]
