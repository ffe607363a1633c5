"""A memory that manages itself, in one line: the knowledge of a store, made in a model's words."""

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
    """A store, or a scope of one: what has knowledge."""

    @property
    def knowledge(self) -> AsyncKnowledge:
        """What is known of what was said in it."""
        ...


class AsyncManagedMemory(AsyncKnowledge):
    """`store.knowledge`, made by an extractor and in a model's words: both may be left out.

    It has the verbs of `AsyncKnowledge`, and keeps what it makes where that does: several of one store
    share all of it. One that was given a path or URI opens the store there, and closes it with `close`
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
        """The memory of a store, of a scope of it, or of the store at a path or URI.

        `embedder` is that of a store which is opened here, as in `AsyncContextStore.open`; an open one
        has its own. Raises InvalidRequestError for what is no store, and as `using` does.
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
        """The facts that hold now: `list` under the name, and with the arguments, that mem0 has for it."""
        return await self.list(
            user_id=user_id, agent_id=agent_id, run_id=run_id, filters=filters, top_k=top_k
        )

    async def import_mem0(
        self, source: str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> builtins.list[Added]:
        """Keep the memories that mem0 has exported, each as a fact; returns what was added.

        - `source`: the path of a JSON file, or what mem0's `get_all` has returned: a list of objects with
          an `id` and a `memory`, and as far as they have them a `user_id`, `agent_id`, `run_id`,
          `created_at`, `metadata` and `categories`.

        Each is a turn under its id, with its date and metadata, and the fact that it states, in its own
        words. Imported again, nothing is doubled. There is a job for each user, agent and run, or several of
        200 memories, to be undone by its id. Raises InvalidRequestError, before anything is written, for a
        memory that cannot be kept.
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
