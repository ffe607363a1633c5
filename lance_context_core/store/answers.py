"""What is asked of all that a handle sees: searches, SQL, what an agent is shown, and who did it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core import replay
from lance_context_core._util.calls import takes
from lance_context_core.audit.audit import AsyncAudit
from lance_context_core.querying import running as querying
from lance_context_core.replay import Replay
from lance_context_core.search import query as searching
from lance_context_core.search.options import SearchArguments
from lance_context_core.storage.lance.versions import Ref
from lance_context_core.store.moments import AsyncMoments
from lance_context_core.stores.records.elsewhere import warn_if_elsewhere
from lance_context_core.types import ContextRecord, Progress, SearchHit
from lance_context_core.window import window_builder
from lance_context_core.window.counting import Budget
from lance_context_core.window.window import Window
from lance_context_core.window.window_builder import AssembleArguments


class AsyncAnswers(AsyncMoments):
    """A handle of a place that answers questions."""

    # Search

    @takes(SearchArguments, searching.DEFAULTS)
    async def search(
        self, query: str | Sequence[float] | None = None, **arguments: Unpack[SearchArguments]
    ) -> list[SearchHit[ContextRecord]]:
        """What answers `query` best among all records: messages, memories and the rest.

        - `query`: a text, or a vector; `vector`: what the text means, if the caller knows.
        - `mode`: hybrid where text and vector are at hand, else by the one that is.
        - `filter`: applied before the best are taken: as many are returned as `limit`, if as many
          match.
        - `options`: how it ranks: see `SearchOptions`.

        Scores lie in [0, 1]: (1 + cosine) / 2 by vector, bm25 / (bm25 + 10) by text, and
        the fused score in hybrid search, each with what boosts add to it.
        The records of a named context are found by its own search; if all of the scope's are in
        such ones, this finds nothing and warns with ElsewhereWarning.
        """
        records = self._records()
        hits = await records.search(query, **arguments)
        if not hits:
            await warn_if_elsewhere(records)
        return hits

    # Whose it is

    async def user_ids(self) -> list[str]:
        """The users who have records or described sessions here, hidden ones too, in their order.

        Of all records that one column is read, and nothing else.
        """
        records = self._records()
        kept = await records.table.select(records.everything(), columns=["user_id"])
        described = await self._resources.database.sessions.select(
            records.inside() or None, columns=["user_id"]
        )
        names = {*pc.unique(kept["user_id"]).to_pylist()}
        return sorted((names | {*described["user_id"].to_pylist()}) - {None})

    # SQL

    async def sql(
        self,
        query: str,
        *,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        at: Ref | None = None,
        timeout_seconds: float | None = 60,
        max_rows: int | None = None,
    ) -> pa.Table:
        """What a SELECT finds in the store, by DuckDB (extra `sql`); nothing can be changed by it.

        The views are `messages`, `memories`, `facts`, `records` (all contexts), `sessions`,
        `documents`, `passages`, `entities`, `relations`, `mentions`, `statements`, `items`,
        `vectors`, `jobs`, `versions`, and those of `tables`; each shows what the handle's scope
        sees now, and nothing that is expired, retired or forgotten. All of a table that a statement
        reads is of one moment. `embedding`, `blob` and `data` are there if they are named; metadata,
        values and parts are JSON as texts, times are UTC.

        - `parameters`: the values of `?` or `$1`, in their order, or of `$name` by name;
        - `at`: the version, tag, branch or aware datetime that all views are of. One view alone is
          as it was by `FROM messages AT (VERSION => 'monday')`, or `(TIMESTAMP => '2026-01-01T00:00Z')`;
          `diff('monday')` and `diff('monday', 'friday')` are what differs;
        - `timeout_seconds`, `max_rows`: when it is given up, and how many rows are returned.

        Raises MissingExtraError without DuckDB, and InvalidRequestError for what is no single
        SELECT, for what would look outside of the store, and for one that is too slow.
        """
        return await querying.query(
            self._resources,
            self._scope,
            query,
            parameters=parameters,
            at=at,
            timeout_seconds=timeout_seconds,
            max_rows=max_rows,
        )

    # Again, and in another way

    async def replay(
        self,
        questions: str | Sequence[str] | None = None,
        *,
        session_id: str | None = None,
        at: Ref | None = None,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
        limit: int = 10,
        progress: Callable[[Progress], object] | None = None,
    ) -> Replay:
        """What questions find in two ways, at one moment: what is gained, and what is lost.

        - `session_id`: the questions are what users asked in it, each as of when it was asked;
        - `at`: the version, tag, branch or time whose records are searched; else those of now;
        - `before`, `after`: arguments of `search` (`mode`, `filter`, `options`, …), and `embedder`,
          whose vectors are made anew, in memory, of all records that the handle sees; else those of
          the store, and what is usual;
        - `progress`: called after each question.

        Nothing is written. Raises NotFoundError if there was no such moment or session,
        InvalidRequestError for what is no argument of a search.
        """
        return await replay.replay(
            self._whole(),
            questions,
            session_id=session_id,
            at=at,
            before=before or {},
            after=after or {},
            limit=limit,
            progress=progress,
        )

    # Who did what

    @property
    def audit(self) -> AsyncAudit:
        """Who wrote, changed, merged, erased and read what; of the whole store, if it is wanted."""
        return AsyncAudit(self._whole(), self._found_at)

    # The window

    @takes(AssembleArguments, window_builder.DEFAULTS)
    async def assemble(
        self, *, session_id: str, budget: Budget | int, **arguments: Unpack[AssembleArguments]
    ) -> Window:
        """What a model is sent next: the conversation, what is known, what it read, within a budget.

        Nothing is written. The same store, time and arguments give the same window, to the byte. It
        never exceeds the budget's room, and breaks no rule of the dialect's provider, whatever the
        history is like. Raises BudgetError, which names the minimum, if what must be in it does not
        fit: the instructions, the pins, the newest turn of the user, and calls that wait for results.
        """
        return await window_builder.assemble(
            self._records(), session_id=session_id, budget=budget, **arguments
        )

    # Helpers

    async def _found_at(
        self, query: str, at: Ref | None, arguments: Mapping[str, Any]
    ) -> list[SearchHit[ContextRecord]]:
        store = self if at is None else await self.checkout(at)
        return await store.search(query, **arguments)
