"""Managed memory: the knowledge of a store in one object, with an optional model."""

import asyncio
import builtins
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol, Self

from lance_context_core._opening import opened
from lance_context_core._resources import Resources
from lance_context_core._util.checks import shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import FilterLike
from lance_context_core.knowledge import mem0
from lance_context_core.knowledge.builders import Model
from lance_context_core.knowledge.knowledge import AsyncKnowledge
from lance_context_core.knowledge.protocols import Extractor
from lance_context_core.knowledge.rules import NoteExtractor
from lance_context_core.knowledge.types import Added
from lance_context_core.scope import Scope
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord


class HasKnowledge(Protocol):
    """A store, or a scope of one, that has knowledge."""

    @property
    def knowledge(self) -> AsyncKnowledge:
        """The knowledge of its conversations."""
        ...


class AsyncManagedMemory(AsyncKnowledge):
    """`store.knowledge` as one object, with an optional extractor and model.

    It has the verbs of `AsyncKnowledge`, and writes to the same place: several of one store share
    all of it. If it was given a path or URI, it opens the store there, and closes it with `close`
    or at the end of a block.
    """

    __slots__ = ("_opened",)

    _opened: Resources | None

    def __init__(
        self,
        store: HasKnowledge | str | Path,
        *,
        embedder: Any = None,
        model: Model | None = None,
        model_name: str = "model",
        extractor: Extractor | None = None,
    ) -> None:
        """Create the memory of a store, a scope, or a path or URI.

        `embedder` is for a store that is opened here, as in `AsyncContextStore.open`; an open store
        has its own. Raises InvalidRequestError for an argument that is no store, and the errors of
        `using`.
        """
        own = None
        if isinstance(store, str | Path):
            own = opened(store, {"embedder": embedder})
            knowledge = AsyncKnowledge(Records(own, Scope()))
        else:
            knowledge = getattr(store, "knowledge", None)  # type: ignore[assignment]
            if not isinstance(knowledge, AsyncKnowledge):
                raise InvalidRequestError(
                    f"store is {shown(store)}: give an open store, a scope of one, or a path"
                )
            if embedder is not None:
                raise InvalidRequestError(
                    f"embedder={shown(embedder)}: an open store has its own, give it where that is "
                    "opened"
                )
        made = knowledge.using(model=model, model_name=model_name, extractor=extractor)
        object.__setattr__(self, "_opened", own)
        for one in fields(made):
            object.__setattr__(self, one.name, getattr(made, one.name))

    async def get_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        filters: FilterLike | None = None,
        top_k: int | None = None,
    ) -> builtins.list[ContextRecord]:
        """Return the current facts: `list` with mem0's name and arguments."""
        return await self.list(
            user_id=user_id, agent_id=agent_id, run_id=run_id, filters=filters, top_k=top_k
        )

    async def import_mem0(
        self, source: str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> builtins.list[Added]:
        """Import memories that mem0 has exported, each as a fact; returns the results.

        - `source`: the path of a JSON file, or the result of mem0's `get_all`: a list of objects
          with an `id` and a `memory`, and optionally `user_id`, `agent_id`, `run_id`, `created_at`,
          `metadata` and `categories`.

        Each becomes a turn under its id, with its date and metadata, and a fact in its own words. A
        repeated import duplicates nothing. Each user, agent and run has a job, or several of 200
        memories, which can be undone by its id. Raises InvalidRequestError for an invalid memory,
        before anything is written.
        """
        found = mem0.turns(await asyncio.to_thread(mem0.read, source))
        noting = self.using(extractor=NoteExtractor())
        return [
            await noting.add(some, user_id=user, agent_id=agent, session_id=run or "mem0")
            for (user, agent, run), some in found.items()
        ]

    async def close(self) -> None:
        """Close the store if it was opened here; closing twice is no error."""
        if (own := getattr(self, "_opened", None)) is not None:
            await own.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
