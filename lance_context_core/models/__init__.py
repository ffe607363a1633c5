"""A language model, as the store asks one: any that a program has, and what is made of its answers."""

from lance_context_core.models.calling import FunctionModel, Said, ask
from lance_context_core.models.reading import FAULTS, REPAIRS, Answer, read_answer
from lance_context_core.models.values import Completion, LanguageModel, ModelRequest

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # What a model is
    "LanguageModel",
    "ModelRequest",
    "Completion",
    "FunctionModel",
    "Said",
    # Asking one
    "ask",
    "read_answer",
    "Answer",
    "FAULTS",
    "REPAIRS",
]
