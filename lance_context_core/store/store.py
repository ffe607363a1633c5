"""The store: opens one directory or URI, and gives access to its stores."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self, Unpack

from lance_context_core import verify
from lance_context_core._handle import Opened, place_and_scope
from lance_context_core._opening import DEFAULTS, OpenOptions, opened
from lance_context_core._progress import check_progress
from lance_context_core._util.calls import takes
from lance_context_core.erasure import erase, selector
from lance_context_core.erasure.selector import Derived
from lance_context_core.filters import FilterLike
from lance_context_core.knowledge import cascade
from lance_context_core.knowledge.builders import RULES
from lance_context_core.knowledge.services import Services
from lance_context_core.maintenance.types import StoreStats, TableUpkeep
from lance_context_core.protocols import Clock
from lance_context_core.storage.lance.indexes import IndexPolicy
from lance_context_core.storage.lance.retention import VersionRetention
from lance_context_core.store.answers import AsyncAnswers
from lance_context_core.store.transactions import AsyncTransaction
from lance_context_core.stores.records import archive, embedding_backlog
from lance_context_core.transfer import copying, exporting, importing
from lance_context_core.transfer.conversations import Exported, ExportFormat, Imported, ImportFormat
from lance_context_core.transfer.copying import Copied
from lance_context_core.types import Erasure, Progress
from lance_context_core.verify import Problem, Verification
from lance_context_core.versioning import prune
from lance_context_core.versioning.prune import Thinned


class AsyncContextStore(AsyncAnswers, Opened):
    """An agent's memory in one directory, or under one URI of an object store.

    Safe to share between tasks, threads and event loops. Opening does no I/O: the directory and
    the connection are created on first use.
    """

    @classmethod
    @takes(OpenOptions, DEFAULTS)
    def open(cls, uri: str | Path, **options: Unpack[OpenOptions]) -> Self:
        """Opens the store at `uri`: a directory, `memory://`, or `s3://`, `gs://`, `az://`.

        Nothing is read or written yet, so awaiting is optional, as in
        `store = await AsyncContextStore.open(uri)`. Raises InvalidRequestError for an unknown
        option or an invalid value.
        """
        resources = replace(opened(uri, options), on_cleared=cascade.cleared)
        return cls(embedding_backlog.with_background(resources))

    def __await__(self) -> Generator[Any, None, Self]:
        yield from ()
        return self

    @property
    def uri(self) -> str:
        """The URI of the store; a local directory as an absolute path."""
        return self._resources.database.uri

    @property
    def clock(self) -> Clock:
        """The clock of the store: the source of timestamps and expiry."""
        return self._resources.clock

    def transaction(self) -> AsyncTransaction:
        """Starts a transaction, all or nothing: `async with store.transaction() as tx:`.

        `tx.history`, `tx.memory`, `tx.kv()` and the others are the stores of this handle, bound to
        the transaction. Their writes are checked at once, are written as one entry of the
        write-ahead log when the block ends, and are visible to others from then on, never in part,
        also if the process is killed. An exception that leaves the block writes nothing.

        Reads through `tx` by id, key, session or filter include its own writes; searches return the
        state before it. Rows that the block reads or expects are not locked: it raises
        ConflictError at its end, and writes nothing, if a result or an expectation of a call no
        longer holds. Version numbers that calls return in the block are those of the state before.

        Accepts as many rows and bytes as the log flushes at once, 512 rows by default, for one user
        of one tenant. Raises InvalidRequestError, and writes nothing, without a write-ahead log, as
        on an object store; inside another transaction of the store; for a call after the end of the
        block, by another task or thread; and for a call that cannot take part, such as an erasure.
        """
        return AsyncTransaction(self._resources, self._scope)

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
        """Erases records from every file of the store: every version, branch, tag and index.

        Erases each record that has one of `ids` and matches `filter`, now or in any version that
        exists, in any context, with all its revisions. With neither, in a scope, erases all data of
        the scope: records, documents of all collections, key-value items, descriptions of sessions.
        Data outside the handle's scope stays.

        - `derived`: also erases records that name an erased one among their `source_ids`,
          transitively, and descriptions of sessions without records. Without it, the names are
          removed from these, as from all other relationships of records that stay. "rebuild" erases
          only records without other support: facts that other turns state too, summaries and jobs
          become what they were without the erased turns, on every branch, and proposals that saw
          these are discarded.
        - `sole_writer`: no other process writes to the store now, so that files of crashed writers
          are removed too. Never set it with other writers: it removes files that they are about to
          commit.
        - `dry_run`: changes no readable data, and returns the same counts.
        - `progress`: called after each table; by then no read returns erased rows.

        Removes the older versions of all tables concerned; branches and tags stay without the
        erased rows. May run with other writers, and may be repeated after a crash: it completes the
        earlier run. Raises InvalidRequestError for an erasure of the whole store, and for a filter
        alone that matches every record, such as {}; ConflictError if others block it for ten
        minutes, or keep changing the same records.
        """
        check_progress(progress)
        meant = selector.records(self._scope, ids=ids, filter=filter, derived=derived)
        is_of_some = not meant.is_whole_scope and not meant.is_nothing
        if is_of_some:
            await archive.bring_all_back(self._records())
        if derived == "rebuild" and is_of_some:
            staying = await cascade.forget(self._records(), meant, dry_run=dry_run)
            meant = replace(meant, staying=staying)
        return await erase.erase(
            self._whole(), meant, sole_writer=sole_writer, dry_run=dry_run, progress=progress
        )

    # Export and import

    async def export(
        self,
        destination: str | PathLike[str],
        *,
        format: ExportFormat = "jsonl",
        progress: Callable[[Progress], object] | None = None,
    ) -> Exported:
        """Exports all rows of the handle's scope, also hidden ones; returns the counts.

        - "jsonl": a file of JSON, a line for each row; "parquet": a folder, with a file for each
          table. `import_` restores both: ids, times, vectors, relations and order.
        - "openai", "langchain": a file with a line for each conversation, in their message format;
          only messages, and only visible ones.

        Versions, branches and tags are not exported. `progress` reports the rows written. Each
        table is of one moment, and the file gets its name once it is complete. Memory holds a few
        thousand rows and eight bytes for each. Raises AlreadyExistsError if the destination exists.
        """
        return await exporting.export(
            self._resources, self._scope, destination, format=format, progress=progress
        )

    async def import_(
        self,
        source: str | PathLike[str] | None = None,
        *,
        format: ImportFormat | None = None,
        project: str | PathLike[str] | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> Imported:
        """Imports a file or folder of `export`; returns the new rows. Existing rows stay.

        The format is detected, except for "openai" and "langchain": for these, a file with one
        array of messages is also accepted, as a conversation named after the file. Everything is
        checked before anything is written, in a folder for temporary files; then each table is one
        commit, the records last. Cancelling before that writes nothing, afterwards everything; may
        be repeated.

        With the name of a coding agent as `format` it imports the conversations that "claude-code",
        "codex" or "gemini-cli" keeps on disk: `source` is a file, or a folder, of which all files
        are read; absent, it is the folder in which the agent keeps them. With `project`, only those
        of that folder and of those below it. Each conversation keeps its id as `session_id`, under
        `agent_id=format`; its folder is `metadata["project"]`. Secrets that rules find, reasoning,
        pictures and reminders of the agent's program are left out, and counted in the result. Up to
        500 messages are one commit. A repeated import adds only what was added to the files: what
        was erased meanwhile stays erased, unless all of the user's data was.

        Raises NotFoundError if the source does not exist.
        Raises InvalidRequestError, which names the line, for a file of another format, and for rows
        outside the handle's scope; DimensionMismatchError or EmbeddingModelMismatchError for
        vectors that do not fit those of the store.
        """
        done = await importing.import_(
            self._resources,
            self._scope,
            source,
            format=format,
            project=project,
            progress=progress,
        )
        await self._note("import")
        return done

    async def copy(
        self,
        destination: str | PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> Copied:
        """Copies the store to a directory or `s3://…`, with versions, branches, tags and audit log.

        The copy is of one moment: meanwhile others may read, and write to the write-ahead log;
        without one, no process may write. A directory gets its name once it is complete. On S3 an
        object `copy.unfinished` exists until then; the next copy replaces the remains of a killed
        process. `storage_options` are those of the destination, where they differ from the store's.
        `progress` reports the files. Raises InvalidRequestError for other object stores, and in a
        scope; AlreadyExistsError if the destination exists.
        """
        return await copying.copy(
            self._whole(), destination, storage_options=storage_options, progress=progress
        )

    async def verify(self, *, progress: Callable[[Progress], object] | None = None) -> Verification:
        """Checks the store's integrity; returns the problems. Writes and repairs nothing.

        Checks that the files of every version, branch and tag exist with their lengths, and the
        newest acknowledged version of each; that all current rows, on every branch, are readable,
        consistent where stored twice, and have unique keys; the bytes of blobs, by their hashes;
        that indexes find the rows; and the write-ahead log, by its checksums. Table files have no
        checksum. Without a write-ahead log a missing table goes unnoticed, and on an object store a
        missing version. `progress` reports the rows checked. Raises InvalidRequestError in a scope,
        and ReadOnlyError at an earlier version.
        """
        return await verify.verify(self._whole(), progress=progress)

    async def accept_loss(self) -> tuple[Problem, ...]:
        """Continues with the rest of a store that lacks acknowledged data; returns the lost parts.

        Until then the store refuses to read a table whose newest version is missing or damaged, or
        anything if its write-ahead log is. Restore the files from a copy if one exists. Each table
        continues from its newest complete version; a table without one is empty. Missing branches
        and tags no longer exist. Unusable files keep their content under another name, with
        `.lost-` in it. Does nothing if nothing is missing. Raises InvalidRequestError in a scope,
        and ReadOnlyError at an earlier version.
        """
        return await verify.accept_loss(self._whole())

    # Maintenance

    async def embed_pending(
        self,
        *,
        filter: FilterLike | None = None,
        limit: int | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> int:
        """Embeds rows that were stored without a vector, oldest first; returns how many.

        The records of all contexts come first, also hidden ones, then the documents of all
        collections. Skips collections whose vectors have another length or model. May be repeated,
        interrupted, and run by several processes at once, each with a `filter` of its own;
        `progress` is called after each commit. Raises InvalidRequestError without an embedder.
        """
        return await embedding_backlog.embed_all(
            self._records(), filter=filter, limit=limit, progress=progress
        )

    async def change_model(self, *, progress: Callable[[Progress], object] | None = None) -> None:
        """Removes the vectors of another model from the records, to embed them with this one.

        The embedder is the store's; does nothing if the vectors are already its model's, so
        this may be repeated. Collections with the records' model lose their vectors, too. Until
        `embed_pending` has made the new vectors, these rows are found by words alone; older
        versions keep the old ones. Writes and searches with the other model raise
        EmbeddingModelMismatchError. Raises InvalidRequestError in a scope, without an
        embedder, and where a row with a vector has no text. `progress` is called after
        each table; after an interruption between two tables another call completes the work.
        """
        await embedding_backlog.change_model(self._whole(), progress=progress)

    async def maintain(
        self,
        *,
        policy: IndexPolicy | None = None,
        only_due: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> list[TableUpkeep]:
        """Merges fragments, indexes new rows, builds indexes that pay off, and prunes versions.

        Returns the work done on each table of this branch, and brings the indexes of search engines
        up to date; `stats` names those that failed. With `only_due` does the work of the
        automatic maintenance; else all of it, and shrinks the write-ahead log. `progress` is
        called after each table.
        """
        tables = await self._whole().tables_to("maintain")
        self._resources.writable()
        if not only_due:
            await Services(self._records(), RULES).tidying.put_all_away()
            await cascade.lapsed(self._records())
        await self._resources.settle()
        await self._note_writes()
        done = await self._resources.upkeep.maintain(
            tables, policy=policy, only_due=only_due, progress=progress
        )
        if self._resources.engines is not None:
            await self._resources.engines.follow(await self._whole().main().tables(), are_all=True)
        journal = self._resources.database.root.connection.journal
        if journal is not None and not only_due:
            await journal.shrink()
        return done

    async def stats(self) -> StoreStats:
        """Returns statistics of this branch's tables, due maintenance, and the last run.

        Reports the rows in the write-ahead log separately: they are not flushed for that.
        """
        tables = await self._whole().tables_to("inspect")
        stats, engines = await self._resources.upkeep.stats(tables), self._resources.engines
        if engines is not None:
            stats = replace(stats, search_engines=await engines.stats(tables))
        hot = self._resources.hot
        return stats if hot is None else replace(stats, search_cache=hot.stats)

    async def flush(self) -> None:
        """Flushes the write-ahead log into the tables, for programs that read these directly.

        Neither durability nor reads through a store need a flush: this is for programs that open
        the tables with LanceDB itself. Does nothing without a write-ahead log.
        """
        self._resources.database.root.connection.require_writable()
        await self._resources.settle()

    async def thin(
        self,
        *,
        retention: VersionRetention | None = None,
        dry_run: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> Thinned:
        """Prunes versions that need not be kept, of all tables on all branches.

        Defaults to the retention of the store. Versions that tags and branches name stay. With
        `dry_run` only reports what would be removed. May be repeated after a crash. `progress` is
        called after each branch, main first.
        """
        check_progress(progress)
        if not dry_run:
            await self._note_writes()
        thinned = await prune.thin(
            self._whole(),
            retention=retention or self._resources.retention,
            dry_run=dry_run,
            progress=progress,
        )
        if not dry_run:
            await self._note("thin")
        return thinned

    async def close(self) -> None:
        """Ends background work and closes the connection; closing twice is no error.

        Waits for a running compaction. Only the opened store closes anything: its scopes and
        earlier versions do not.
        """
        if self._is_owner:
            await self._resources.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({place_and_scope(self._resources, self._scope)})"
