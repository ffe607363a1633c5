"""What is asked of all that a handle sees: searches, SQL, what an agent is shown, and who did it."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core import replay
from lance_context_core._util.calls import takes
from lance_context_core.audit import derive_events
from lance_context_core.audit.audit import AsyncAudit
from lance_context_core.audit.log import Log
from lance_context_core.audit.types import AuditAction
from lance_context_core.errors import ElsewhereWarning
from lance_context_core.replay import Replay
from lance_context_core.search import query as searching
from lance_context_core.search.options import SearchArguments
from lance_context_core.sql_views import running as querying
from lance_context_core.storage import sql
from lance_context_core.storage.lance import versions
from lance_context_core.storage.lance.versions import Ref
from lance_context_core.store.handles import AsyncStores
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import (
    Branch,
    ContextRecord,
    Diff,
    MergeReport,
    Progress,
    SearchHit,
    Version,
)
from lance_context_core.versioning import branches, locations, merge
from lance_context_core.versioning.conflicts import MergePolicy
from lance_context_core.window import window_builder
from lance_context_core.window.counting import Budget
from lance_context_core.window.window import Window
from lance_context_core.window.window_builder import AssembleArguments

# What a handle knows of time: versions, tags and branches, and how one becomes another.


class AsyncMoments(AsyncStores):
    """A handle of a place that was other things before, and is others on its branches."""

    # Versions

    async def version(self) -> int:
        """The number of the store's version: that of its records; 0 before the first write."""
        await self._resources.settle()
        return await self._resources.records.version()

    async def versions(
        self, *, limit: int | None = None, before: int | None = None
    ) -> list[Version]:
        """The versions that are kept, oldest first: all, or the newest `limit`.

        `before` is the number that all are less than, so that they can be read backwards page by
        page. In a directory only those of the page are read; an object store reads all of them.
        """
        await self._resources.settle()
        return await versions.versions(self._resources.records, limit=limit, before=before)

    async def checkout(self, ref: Ref) -> Self:
        """The store as it was at a version, a tag, or an aware datetime; for reading only.

        A version or a tag names the state of every table. At a datetime, messages, memories and
        other records are read as they were acknowledged by then, exactly, and so they are searched,
        in scopes that `SearchCache` takes; searches of larger ones, and all other things, are as of
        the last fold before it: see `JournalPolicy`. Raises NotFoundError if there was no such
        moment.
        """
        return self._handle(await self._resources.shown_at(ref))

    async def restore(self, ref: Ref) -> int:
        """Make the store what it was, as a new version, which is returned.

        Nothing is lost: what came after stays in the older versions. May be repeated after a crash.
        """
        version = await self._whole().restore(ref)
        await self._note("restore", str(ref))
        return version

    async def diff(self, before: Ref, after: Ref | None = None) -> Diff:
        """What changed in the records from one version, tag, branch or time to another, or to now.

        The cost is that of what was written in between, not of what the store holds. Expired and
        retired records are compared too: they are there, if hidden.
        """
        old = await self._resources.at(before)
        new = self._resources if after is None else await self._resources.at(after)
        return await locations.diff(old.records, new.records, self._records().everything())

    async def tag(self, name: str, *, version: Ref | None = None) -> int:
        """Name the current version, or another one; returns its number.

        Raises AlreadyExistsError if the name is taken. May be repeated after a crash.
        """
        number = await self._whole().tag(name, version=version)
        await self._note("tag", name)
        return number

    async def tags(self) -> dict[str, int]:
        """The version that each tag names."""
        return await self._whole().tags()

    async def delete_tag(self, name: str) -> bool:
        """Forget a tag, not the version that it names; returns whether it existed."""
        was_there = await self._whole().delete_tag(name)
        if was_there:
            await self._note("untag", name)
        return was_there

    # Branches

    async def create_branch(self, name: str, *, at: Ref | None = None) -> Self:
        """Make a branch of the whole store, from now or from `at`; returns it, to read and write.

        The cost does not depend on what the store holds. The name has 1 to 200 ASCII letters,
        digits, `-`, `_`, and single dots between them. Raises AlreadyExistsError if a branch or a
        tag has it, NotFoundError if there was no such moment, InvalidRequestError if there were no
        records `at` it. May be repeated after a crash, which leaves either all of the branch or
        nothing that is seen.
        """
        await branches.create(self._whole(), name, at)
        await self._note("branch", name)
        return await self.branch(name)

    async def branch(self, name: str) -> Self:
        """The store on a branch, to read and write; `main` is the one that it began with.

        What is written there is on no other branch. Raises NotFoundError if there is none.
        """
        await branches.require(self._whole(), name)
        return self._handle(self._resources.on(self._resources.current().on(name)))

    async def branches(self) -> list[Branch]:
        """All branches but `main`, by name."""
        return await branches.listed(self._whole())

    async def delete_branch(self, name: str) -> bool:
        """Remove a branch with all that it alone holds; returns whether it existed.

        Raises InvalidRequestError for `main`, and while a tag or another branch names one of its
        versions. May be repeated after a crash.
        """
        await self._note_writes()
        was_there = await branches.delete(self._whole(), name)
        if was_there:
            await self._note("drop branch", name)
        return was_there

    async def merge(
        self,
        source: str,
        *,
        policy: MergePolicy = "newest",
        dry_run: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> MergeReport:
        """Bring into this branch what the branch `source` changed since both had it in common.

        One of the two must have been made from the other: else InvalidRequestError is raised. What
        only one side changed is taken; where both changed the same, each in its own way, `policy`
        decides: "newest" (the later update; ours at a tie; a change goes before a deletion),
        "ours", "theirs", or a function, which may be a coroutine's: it is given the `Conflict` and
        returns the value to store, or None. Records, sessions and collections take part; what is
        added comes after all that is there. One commit a table. May be repeated after a crash, and
        later on: it then brings what is new since. With `dry_run` nothing is written. `progress`
        is called after each table.

        Raises DimensionMismatchError or EmbeddingModelMismatchError, before anything is written, if
        the branches' vectors cannot be in one table; ConflictError if others keep changing the same
        rows.
        """
        report = await merge.merge(
            self._whole(), source, policy=policy, is_dry_run=dry_run, progress=progress
        )
        if not dry_run:
            await self._note("merge", source)
            await self._records().cleared({})
        return report

    # Helpers

    async def _note(self, action: AuditAction, *names: str) -> None:
        """Note in the audit, if there is one, what was done, and what was written till now."""
        await derive_events.note(self._resources, action, *names)

    async def _note_writes(self) -> None:
        """Note in the audit, if there is one, what was written till now."""
        if await Log(self._resources.database).is_begun():
            await derive_events.seal(self._resources)


# A search that finds nothing because it looks where nothing is.


async def warn_if_elsewhere(records: Records) -> None:
    """Warn that the view's context is empty while the scope's records are in other contexts.

    Asks the table until there is something in the context, then never again.
    """
    warned, about = records.resources.warned, ("elsewhere", records.scope, records.context)
    if about in warned:
        return
    is_here = sql.equals("context", records.context)
    if await records.table.count(sql.all_of([records.everything(), is_here])):
        warned.add(about)
        return
    others = sql.all_of([records.everything(), sql.differs("context", records.context)])
    found = await records.table.slice(others, columns=["context"], offset=0, limit=1, last=None)
    for name in found["context"].to_pylist():
        warned.add(about)
        warnings.warn(
            f"nothing was found, since context {records.context!r}, in which this looks, is empty: "
            f"the records are in others, such as {name!r}; search there, "
            f"store.context({name!r}).search(…)",
            ElsewhereWarning,
            stacklevel=2,
        )


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
