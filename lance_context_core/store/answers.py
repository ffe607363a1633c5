"""Reads of everything that a handle sees: searches, SQL, windows and the audit log."""

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

# Versions, tags and branches, and how to move between them.


class AsyncMoments(AsyncStores):
    """A handle of a store with earlier versions and branches."""

    # Versions

    async def version(self) -> int:
        """Returns the store's version number: that of its records; 0 before the first write."""
        await self._resources.settle()
        return await self._resources.records.version()

    async def versions(
        self, *, limit: int | None = None, before: int | None = None
    ) -> list[Version]:
        """Returns the versions that exist, oldest first: all, or the newest `limit`.

        `before` is an exclusive upper bound on the version numbers, for reading backwards page by
        page. A directory reads only the versions of the page; an object store reads all of them.
        """
        await self._resources.settle()
        return await versions.versions(self._resources.records, limit=limit, before=before)

    async def checkout(self, ref: Ref) -> Self:
        """Opens the store as of a version, a tag, or an aware datetime, read-only.

        A version or a tag names the state of every table. At a datetime, messages, memories and
        other records are read exactly as acknowledged by then, and searched so in scopes that
        `SearchCache` accepts; searches of larger scopes, and all other tables, are as of the last
        flush before it: see `JournalPolicy`. Raises NotFoundError if there was no such moment.
        """
        return self._handle(await self._resources.shown_at(ref))

    async def restore(self, ref: Ref) -> int:
        """Restores an earlier state as a new version; returns the new version.

        Nothing is lost: later changes stay in the older versions. May be repeated after a crash.
        """
        version = await self._whole().restore(ref)
        await self._note("restore", str(ref))
        return version

    async def diff(self, before: Ref, after: Ref | None = None) -> Diff:
        """Returns the record changes from one version, tag, branch or time to another, or to now.

        The cost depends on the changes in between, not on the size of the store. Expired and
        retired records are compared too: they exist, but are hidden.
        """
        old = await self._resources.at(before)
        new = self._resources if after is None else await self._resources.at(after)
        return await locations.diff(old.records, new.records, self._records().everything())

    async def tag(self, name: str, *, version: Ref | None = None) -> int:
        """Tags the current version, or another one; returns its number.

        Raises AlreadyExistsError if the name is taken. May be repeated after a crash.
        """
        number = await self._whole().tag(name, version=version)
        await self._note("tag", name)
        return number

    async def tags(self) -> dict[str, int]:
        """Returns the version that each tag names."""
        return await self._whole().tags()

    async def delete_tag(self, name: str) -> bool:
        """Deletes a tag, not the version that it names; returns whether it existed."""
        was_there = await self._whole().delete_tag(name)
        if was_there:
            await self._note("untag", name)
        return was_there

    # Branches

    async def create_branch(self, name: str, *, at: Ref | None = None) -> Self:
        """Creates a branch of the whole store, from now or `at`; returns its handle.

        The cost does not depend on the size of the store. The name has 1 to 200 ASCII letters,
        digits, `-`, `_`, and single dots between them. Raises AlreadyExistsError if a branch or a
        tag has the name, NotFoundError if there was no such moment, InvalidRequestError if there
        were no records `at` it. May be repeated after a crash, which leaves either the whole branch
        or nothing visible.
        """
        await branches.create(self._whole(), name, at)
        await self._note("branch", name)
        return await self.branch(name)

    async def branch(self, name: str) -> Self:
        """Returns the store on a branch, to read and write; `main` is the first branch.

        Writes to one branch do not appear on another. Raises NotFoundError if the branch does not
        exist.
        """
        await branches.require(self._whole(), name)
        return self._handle(self._resources.on(self._resources.current().on(name)))

    async def branches(self) -> list[Branch]:
        """Returns all branches but `main`, by name."""
        return await branches.listed(self._whole())

    async def delete_branch(self, name: str) -> bool:
        """Deletes a branch and all data that only it holds; returns whether it existed.

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
        """Merges into this branch the changes of the branch `source` since their common version.

        One of the two must have been created from the other: otherwise raises InvalidRequestError.
        Changes of one side only are applied; where both sides changed the same row differently,
        `policy` decides: "newest" (the later update; ours at a tie; a change wins over a deletion),
        "ours", "theirs", or a function, also a coroutine function: it receives the `Conflict` and
        returns the value to store, or None. Merges records, sessions and collections; added rows
        come after all existing ones. One commit a table. May be repeated after a crash, and later
        on: it then merges the changes since. With `dry_run` nothing is written. `progress` is
        called after each table.

        Raises DimensionMismatchError or EmbeddingModelMismatchError, before anything is written, if
        the branches' vectors do not fit in one table; ConflictError if others keep changing the
        same rows.
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
        """Logs an action, and all writes until now, in the audit log, if enabled."""
        await derive_events.note(self._resources, action, *names)

    async def _note_writes(self) -> None:
        """Logs all writes until now in the audit log, if enabled."""
        if await Log(self._resources.database).is_begun():
            await derive_events.seal(self._resources)


# Warns about a search that finds nothing because the records are in other contexts.


async def warn_if_elsewhere(records: Records) -> None:
    """Warns if the view's context is empty while the scope has records in other contexts.

    Queries the table until the context has a record, then never again.
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
    """A handle of a store that answers queries."""

    # Search

    @takes(SearchArguments, searching.DEFAULTS)
    async def search(
        self, query: str | Sequence[float] | None = None, **arguments: Unpack[SearchArguments]
    ) -> list[SearchHit[ContextRecord]]:
        """Searches all records (messages, memories and others); returns the best hits first.

        - `query`: a text, or a vector; `vector`: the vector of the text, if the caller has it.
        - `mode`: by default hybrid if both text and vector are available, else the available one.
        - `filter`: applied before ranking: returns `limit` hits if that many records match.
        - `options`: how hits are ranked: see `SearchOptions`.

        Scores lie in [0, 1]: (1 + cosine) / 2 by vector, bm25 / (bm25 + 10) by text, and
        the fused score in hybrid search, each plus its boosts.
        The records of a named context are found by its own search; if all records of the scope are
        in named contexts, this finds nothing and warns with ElsewhereWarning.
        """
        records = self._records()
        hits = await records.search(query, **arguments)
        if not hits:
            await warn_if_elsewhere(records)
        return hits

    # Users

    async def user_ids(self) -> list[str]:
        """Returns the ids of users with records or session descriptions, also hidden ones, sorted.

        Reads one column of the records, and nothing else.
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
        """Runs one read-only SELECT over the store with DuckDB (extra `sql`).

        The views are `messages`, `memories`, `facts`, `records` (all contexts), `sessions`,
        `documents`, `passages`, `entities`, `relations`, `mentions`, `statements`, `items`,
        `vectors`, `jobs`, `versions`, and those of `tables`; each shows the rows that the handle's
        scope sees now, without expired, retired or forgotten ones. All reads of one table in a
        statement are of one moment. `embedding`, `blob` and `data` are returned only if named;
        metadata, values and parts are JSON texts, times are UTC.

        - `parameters`: the values of `?` or `$1`, in their order, or of `$name` by name;
        - `at`: the version, tag, branch or aware datetime of all views. One view alone is read in
          the past by `FROM messages AT (VERSION => 'monday')`, or
          `(TIMESTAMP => '2026-01-01T00:00Z')`; `diff('monday')` and `diff('monday', 'friday')` are
          the differences;
        - `timeout_seconds`, `max_rows`: the time limit, and the most rows returned.

        Raises MissingExtraError without DuckDB, and InvalidRequestError for anything but a single
        SELECT, for access outside the store, and at the timeout.
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

    # Replay

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
        """Runs the same questions through two searches of one moment; returns gained and lost hits.

        - `session_id`: the questions are those of the session's users, each as of when it was
          asked;
        - `at`: the version, tag, branch or time whose records are searched; by default now;
        - `before`, `after`: arguments of `search` (`mode`, `filter`, `options`, …), and `embedder`,
          whose vectors are computed anew, in memory, for all records that the handle sees; by
          default the store's vectors and the defaults of `search`;
        - `progress`: called after each question.

        Nothing is written. Raises NotFoundError if there was no such moment or session,
        InvalidRequestError for an unknown argument of `search`.
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

    # Audit log

    @property
    def audit(self) -> AsyncAudit:
        """The opt-in audit log of the store: writes, changes, merges, erasures and reads."""
        return AsyncAudit(self._whole(), self._found_at)

    # The window

    @takes(AssembleArguments, window_builder.DEFAULTS)
    async def assemble(
        self, *, session_id: str, budget: Budget | int, **arguments: Unpack[AssembleArguments]
    ) -> Window:
        """Assembles the window for a model: history, knowledge and found content, within a budget.

        Nothing is written. The same store, time and arguments give the same window, to the byte. It
        never exceeds the budget, and always follows the rules of the dialect's provider, for any
        history. Raises BudgetError, which names the minimum, if the mandatory content does not fit:
        the instructions, the pins, the newest user turn, and calls that wait for results.
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
