"""A tool with which an agent searches what any framework stored of its user."""

from typing import Any

from crewai.tools import BaseTool
from pydantic import BaseModel, Field, PrivateAttr

from crewai_lance_context._common import of_user
from lance_context_core import AsyncContextStore, ContextRecord, InvalidRequestError
from lance_context_core.adapting import Handle, StoreLike, block_on, content_of
from lance_context_core.arguments import FilterLike, SearchMode

_DESCRIPTION = """\
Search what the user said in earlier conversations, and what is remembered of the user. Use it before \
you answer a question about the user that you cannot answer yet."""


class RecallArguments(BaseModel):
    """What a model gives the tool."""

    query: str = Field(description="Words to look for, such as 'allergies' or 'name of the dog'.")


class LanceRecallTool(BaseTool):
    """Searches conversations and memories of a user, of all frameworks: `Agent(tools=[…])`.

    CrewAI's own recall searches what crews remembered; this tool also finds what was said to agents
    of other frameworks. No argument of it selects a user: a prompt cannot reach another one's.
    """

    name: str = "recall"
    description: str = _DESCRIPTION
    args_schema: type[BaseModel] = RecallArguments
    limit: int = 5
    """How many records it returns at most."""
    mode: Any = None
    """As in `store.search`."""
    filter: Any = None
    """Among which records, such as `{"kind": "memory"}`."""
    _handle: Handle = PrivateAttr()
    _store: AsyncContextStore = PrivateAttr()

    def __init__(
        self,
        store: StoreLike,
        /,
        *,
        user_id: str | None = None,
        limit: int = 5,
        mode: SearchMode | None = None,
        filter: FilterLike | None = None,
        embedder: Any = None,
        **fields: Any,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        `user_id` is whose records, by default all of the store's scope. `name` and `description`
        replace those of the tool.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidRequestError(f"limit={limit!r:.80}: give a number of records, 1 or more")
        fields |= {"limit": limit, "mode": mode, "filter": filter}
        super().__init__(**fields)
        self._handle = Handle(store, embedder=embedder)
        self._store = of_user(self._handle, user_id)

    def _run(self, query: str) -> str:
        return block_on(self._arun(query))

    async def _arun(self, query: str) -> str:
        hits = await self._store.search(query, limit=self.limit, mode=self.mode, filter=self.filter)
        told = [_told(hit.record) for hit in hits if hit.record.text]
        return "\n".join(told) or "Nothing was found."

    def close(self) -> None:
        """Close the store if it was given by its URI; a passed store stays open."""
        self._handle.close()


def _told(record: ContextRecord) -> str:
    """A record as a model reads it."""
    by = "memory" if record.kind == "memory" else record.role or "user"
    return f"- {content_of(record)} ({by}, {record.created_at.date().isoformat()})"
