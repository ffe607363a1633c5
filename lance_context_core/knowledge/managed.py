"""A memory that manages itself, in one line: the knowledge of a store, made in a model's words."""

from dataclasses import fields
from typing import Protocol

from lance_context_core.knowledge.builders import Model
from lance_context_core.knowledge.knowledge import AsyncKnowledge
from lance_context_core.knowledge.protocols import Extractor


class HasKnowledge(Protocol):
    """A store, or a scope of one: what has knowledge."""

    @property
    def knowledge(self) -> AsyncKnowledge:
        """What is known of what was said in it."""
        ...


class AsyncManagedMemory(AsyncKnowledge):
    """`store.knowledge`, made by an extractor and in a model's words: both may be left out.

    It has the verbs of `AsyncKnowledge` and no others, and keeps what it makes where that does: several
    of one store share all of it.
    """

    __slots__ = ()

    def __init__(
        self,
        store: HasKnowledge,
        *,
        model: Model | None = None,
        model_name: str = "model",
        extractor: Extractor | None = None,
    ) -> None:
        """The memory of a store, or of a scope of it. Raises InvalidRequestError as `using` does."""
        made = store.knowledge.using(model=model, model_name=model_name, extractor=extractor)
        for one in fields(made):
            object.__setattr__(self, one.name, getattr(made, one.name))
