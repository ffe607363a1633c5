"""A memory that manages itself, from synchronous code."""

from lance_context_core.knowledge.builders import Model
from lance_context_core.knowledge.managed import AsyncManagedMemory
from lance_context_core.knowledge.protocols import Extractor
from lance_context_core.sync.knowledge import Knowledge
from lance_context_core.sync.store import ContextStore


class ManagedMemory(Knowledge):
    """`store.knowledge`, made in a model's words; `AsyncManagedMemory` is the asynchronous one."""

    def __init__(
        self,
        store: ContextStore,
        *,
        model: Model | None = None,
        model_name: str = "model",
        extractor: Extractor | None = None,
    ) -> None:
        """The memory of a store, or of a scope of it. Raises InvalidRequestError as `using` does."""
        made = AsyncManagedMemory(
            store.aio, model=model, model_name=model_name, extractor=extractor
        )
        super().__init__(made)
