"""The store: opens one directory or URI, and hands out the stores in it."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._handles import AsyncStores
from lance_context_core._opening import DEFAULTS, OpenOptions, opened
from lance_context_core._options import takes
from lance_context_core._progress import check_progress
from lance_context_core.auditing import keeping
from lance_context_core.auditing.audit import AsyncAudit
from lance_context_core.auditing.log import Log
from lance_context_core.auditing.values import AuditAction
from lance_context_core.engine.refs import versions
from lance_context_core.engine.refs.retention import VersionRetention
from lance_context_core.engine.refs.versions import Ref
from lance_context_core.engine.table.indexes import IndexPolicy
from lance_context_core.erasure import erase, target
from lance_context_core.erasure.target import Derived
from lance_context_core.filters import FilterLike
from lance_context_core.knowledge import forgetting
from lance_context_core.protocols import Clock
from lance_context_core.querying import running as querying
from lance_context_core.records import (
    Branch,
    ContextRecord,
    Diff,
    Erasure,
    MergeReport,
    Progress,
    SearchHit,
    Version,
)
from lance_context_core.replaying import replaying
from lance_context_core.replaying.replaying import Replay
from lance_context_core.search import query as searching
from lance_context_core.search.options import SearchArguments
from lance_context_core.stores.records import pending
from lance_context_core.stores.records.elsewhere import warn_if_elsewhere
from lance_context_core.transfer import copying, exporting, importing
from lance_context_core.transfer.copying import Copied
from lance_context_core.transfer.exporting import Exported, ExportFormat
from lance_context_core.transfer.importing import Imported
from lance_context_core.upkeep.upkeep import StoreStats, TableUpkeep
from lance_context_core.verifying import verifying
from lance_context_core.verifying.verifying import Verification
from lance_context_core.versioning import branches, diff, merge, thin
from lance_context_core.versioning.conflicts import MergePolicy
from lance_context_core.versioning.thin import Thinned
from lance_context_core.window import assembling
from lance_context_core.window.assembling import AssembleArguments
from lance_context_core.window.budget import Budget
from lance_context_core.window.window import Window


class AsyncContextStore(AsyncStores):
    """An agent's memory in one directory, or under one URI of an object store.

    Safe to share between tasks, threads and event loops. Opening does nothing yet: the directory
    is made, and the connection, when they are first needed.
    """

    @classmethod
    @takes(OpenOptions, DEFAULTS)
    def open(cls, uri: str | Path, **options: Unpack[OpenOptions]) -> Self:
        """Open the store at `uri`: a directory, `memory://`, or `s3://`, `gs://`, `az://`.

        Nothing is read or written yet, so that nothing need be awaited; it may be, as in
        `store = await AsyncContextStore.open(uri)`. Raises InvalidRequestError for an option that
        there is not, and for a value that it cannot have.
        """
        return cls(opened(uri, options))

    def __await__(self) -> Generator[Any, None, Self]:
        yield from ()
        return self

    @property
    def uri(self) -> str:
        """Where the store is; a local directory as an absolute path."""
        return self._resources.database.uri

    @property
    def clock(self) -> Clock:
        """Where the store has the time from: what is written bears it, and expires by it."""
        return self._resources.clock

    # Erasure

    async def erase(
        self,
        *,
        ids: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        derived: Derived = True,
        sole_writer: bool = False,
        dry_run: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> Erasure:
        """Remove records from every file of the store: every version, branch, tag and index.

        A record is meant if it has one of `ids` and matches `filter`, now or in any version that
        is kept, in whatever context; all that it ever was goes. With neither, in a scope, all that
        the scope has goes: records, documents of all collections, key-value items, descriptions of
        sessions. What lies outside the handle's scope stays.

        - `derived`: take along what names an erased record among its `source_ids`, and so on, and
          the descriptions of sessions that have no record left. Else the names are taken out of
          it, as they are out of all other relationships of records that stay. "rebuild" takes
          along only what nothing else supports: facts that other turns state too, summaries and
          jobs become what they were without the erased turns, on every branch, and proposals that
          saw these are discarded.
        - `sole_writer`: nobody else writes to the store now, so that files which crashed writers
          left may go too. Never with other writers: it removes what they are about to commit.
        - `dry_run`: change nothing, and return the same counts.
        - `progress`: called after each table; by then no read shows what is erased.

        The older versions of all tables concerned go with it, branches and tags stay without the
        erased rows. May run beside other writers, and may be repeated after a crash: what was not
        completed then is completed. Raises InvalidRequestError if it were to erase all of a store.
        """
        check_progress(progress)
        meant = target.records(self._scope, ids=ids, filter=filter, derived=derived)
        if derived == "rebuild" and not meant.is_whole_scope and not meant.is_nothing:
            self._resources.writable()
            staying = await forgetting.forget(self._records(), meant, dry_run=dry_run)
            meant = replace(meant, staying=staying)
        return await erase.erase(
            self._whole(), meant, sole_writer=sole_writer, dry_run=dry_run, progress=progress
        )

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
        return await diff.diff(old.records, new.records, self._records().everything())

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
        return self._handle(self._resources.on(self._resources.writable().on(name)))

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
        returns what shall be there, or None. Records, sessions and collections take part; what is
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
        return report

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
        described = await self._resources.sessions.select(
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

    # Out and in

    async def export(
        self,
        destination: str | PathLike[str],
        *,
        format: ExportFormat = "jsonl",
        progress: Callable[[Progress], object] | None = None,
    ) -> Exported:
        """Write all that the handle sees, hidden things too, to a file or a folder; returns how much.

        - "jsonl": a file of JSON, a line for each row; "parquet": a folder, with a file for each
          table. `import_` makes of both what was there: ids, times, vectors, relations and order.
        - "openai", "langchain": a file with a line for each conversation, as those write messages;
          nothing but what was said, and is shown.

        Versions, branches and tags are not in it. `progress` is told of the rows that were written.
        What is written is of one moment for each table, and the
        file has its name once it is whole. Memory holds a few thousand rows and eight bytes for each.
        Raises AlreadyExistsError if the destination is there.
        """
        return await exporting.export(
            self._resources, self._scope, destination, format=format, progress=progress
        )

    async def import_(
        self,
        source: str | PathLike[str],
        *,
        format: ExportFormat | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> Imported:
        """Read in what `export` has written; returns what is new. What is there already stays.

        The format is told by the file, but for "openai" and "langchain": for these, too, a file with
        one array of messages is a conversation that is called as the file. All is checked before
        anything is written, in a folder for temporary files; then each table is one commit, the
        records last. Cancelled before that nothing was written, and afterwards all; may be repeated.

        Raises InvalidRequestError, which names the line, for what is no such file, and for what lies
        outside of the handle's scope; DimensionMismatchError or EmbeddingModelMismatchError for
        vectors that do not go with those of the store.
        """
        done = await importing.import_(
            self._resources, self._scope, source, format=format, progress=progress
        )
        await self._note("import")
        return done

    async def copy(
        self,
        destination: str | PathLike[str],
        *,
        progress: Callable[[Progress], object] | None = None,
    ) -> Copied:
        """Copy the store to another directory, with all versions, tags and the audit.

        The copy has its name once it is whole, and is of one moment: others may read, and write what
        the journal takes, meanwhile; without a journal nobody may write. `progress` is told of the
        files. Raises InvalidRequestError for an object store, in a scope, and where there are branches,
        whose files name the place where they are; AlreadyExistsError if the destination is there.
        """
        return await copying.copy(self._whole(), destination, progress=progress)

    async def verify(self, *, progress: Callable[[Progress], object] | None = None) -> Verification:
        """Check that the store is whole, and tell what is not; nothing is written or mended.

        Looked at are the files of every version, branch and tag, as long as they should be; all rows
        as they are now, on every branch: that they can be read, say the same in both places where
        they say it, and have keys of their own; that indexes find what is there; and the journal.
        What bytes mean that no reader looks at is not known: there is no checksum of all files.
        `progress` is told of the rows that were looked at. Raises InvalidRequestError
        in a scope, and ReadOnlyError at an earlier version.
        """
        return await verifying.verify(self._whole(), progress=progress)

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
    ) -> Replay:
        """What questions find in two ways, at one moment: what is gained, and what is lost.

        - `session_id`: the questions are what users asked in it, each as of when it was asked;
        - `at`: the version, tag, branch or time whose records are searched; else those of now;
        - `before`, `after`: arguments of `search` (`mode`, `filter`, `options`, …), and `embedder`,
          whose vectors are made anew, in memory, of all records that the handle sees; else those of
          the store, and what is usual.

        Nothing is written. Raises NotFoundError if there was no such moment or session,
        InvalidRequestError for what is no argument of a search.
        """
        return await replaying.replay(
            self._resources,
            self._scope,
            questions,
            session_id=session_id,
            at=at,
            before=before or {},
            after=after or {},
            limit=limit,
        )

    # Who did what

    @property
    def audit(self) -> AsyncAudit:
        """Who wrote, changed, merged, erased and read what; of the whole store, if it is wanted."""
        return AsyncAudit(self._whole(), self._found_at)

    # The window

    @takes(AssembleArguments, assembling.DEFAULTS)
    async def assemble(
        self, *, session_id: str, budget: Budget | int, **arguments: Unpack[AssembleArguments]
    ) -> Window:
        """What a model is sent next: the conversation, what is known, what it read, within a budget.

        Nothing is written. The same store, time and arguments give the same window, to the byte. It
        never exceeds the budget's room, and breaks no rule of the dialect's provider, whatever the
        history is like. Raises BudgetError, which names the minimum, if what must be in it does not
        fit: the instructions, the pins, the newest turn of the user, and calls that wait for results.
        """
        return await assembling.assemble(
            self._records(), session_id=session_id, budget=budget, **arguments
        )

    # Upkeep

    async def embed_pending(
        self,
        *,
        filter: FilterLike | None = None,
        limit: int | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> int:
        """Embed what was stored without a vector, oldest first; returns how many that were.

        The records of all contexts come first, hidden ones too, then the documents of all
        collections. A collection whose vectors are of another length or model is passed by. May be
        repeated, stopped in between, and done by several processes at once, each with a `filter` of
        its own; `progress` is called after each commit. Raises InvalidRequestError without an embedder.
        """
        return await pending.embed_all(
            self._records(), filter=filter, limit=limit, progress=progress
        )

    async def change_model(self, *, progress: Callable[[Progress], object] | None = None) -> None:
        """Take the vectors that another model made from the records, so that this one's can come.

        The embedder is the store's; where the vectors are its model's already, nothing is done, so
        this may be repeated. The collections that the records' model made lose theirs, too. Until
        `embed_pending` has made the new ones, what they belong to is found by words alone; older
        versions keep the old ones. Who still writes or searches with the other model is refused
        with EmbeddingModelMismatchError. Raises InvalidRequestError in a scope, without an
        embedder, and where a vector belongs to something that has no text. `progress` is called after
        each table; what was ended between two of them is completed by another call.
        """
        await pending.change_model(self._whole(), progress=progress)

    async def maintain(
        self,
        *,
        policy: IndexPolicy | None = None,
        only_due: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> list[TableUpkeep]:
        """Merge fragments, fold new rows into the indexes, build those that pay, thin the versions.

        Returns what was done to each table of this branch. With `only_due` that is what the store
        would do by itself; else all of it. `progress` is called after each table.
        """
        tables = await self._whole().tables_to("maintain")
        await self._resources.settle()
        await self._note_writes()
        return await self._resources.upkeep.maintain(
            tables, policy=policy, only_due=only_due, progress=progress
        )

    async def stats(self) -> StoreStats:
        """What the tables of this branch consist of, what is due there, and what was done last.

        What the journal holds stands beside them: it is not folded for that.
        """
        stats = await self._resources.upkeep.stats(await self._whole().tables_to("inspect"))
        hot = self._resources.hot
        return stats if hot is None else replace(stats, search_cache=hot.stats)

    async def flush(self) -> None:
        """Fold what the journal holds into the tables: after it, whoever reads these sees all.

        Nothing need be flushed to be kept, or to be read through a store: this is for programs that
        open the tables with LanceDB itself. Without a journal there is nothing to do.
        """
        await self._resources.settle()

    async def thin(
        self,
        *,
        retention: VersionRetention | None = None,
        dry_run: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> Thinned:
        """Remove the versions that need not be kept, of all tables on all branches.

        By default as the store was opened to keep them. What tags and branches name stays. With
        `dry_run` it is only told what would go. May be repeated after a crash. `progress` is called
        after each branch, main first.
        """
        check_progress(progress)
        if not dry_run:
            await self._note_writes()
        thinned = await thin.thin(
            self._whole(),
            retention=retention or self._resources.retention,
            dry_run=dry_run,
            progress=progress,
        )
        if not dry_run:
            await self._note("thin")
        return thinned

    async def close(self) -> None:
        """End background work and let go of the connection; closing twice is no error.

        A compaction that runs is waited for. Only the store that was opened closes anything: its
        scopes and earlier versions do not.
        """
        if self._is_owner:
            await self._resources.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _found_at(
        self, query: str, at: Ref | None, arguments: Mapping[str, Any]
    ) -> list[SearchHit[ContextRecord]]:
        store = self if at is None else await self.checkout(at)
        return await store.search(query, **arguments)

    async def _note(self, action: AuditAction, *names: str) -> None:
        """Note in the audit, if there is one, what was done, and what was written till now."""
        await keeping.note(self._resources, action, *names)

    async def _note_writes(self) -> None:
        """Note in the audit, if there is one, what was written till now."""
        if await Log(self._resources.database).is_begun():
            await keeping.seal(self._resources)

    def __repr__(self) -> str:
        scope = "".join(f", {part}={value!r}" for part, value in self._scope.parts().items())
        return f"{type(self).__name__}({self.uri!r}{scope})"
