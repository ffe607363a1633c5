"""The store: opens one directory or URI, and hands out the stores in it."""

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
from lance_context_core.transfer.conversations import Exported, ExportFormat, Imported
from lance_context_core.transfer.copying import Copied
from lance_context_core.types import Erasure, Progress
from lance_context_core.verify import Problem, Verification
from lance_context_core.versioning import prune
from lance_context_core.versioning.prune import Thinned


class AsyncContextStore(AsyncAnswers, Opened):
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
        return cls(replace(opened(uri, options), on_cleared=cascade.cleared))

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

    def transaction(self) -> AsyncTransaction:
        """A block whose writes are all made at its end, or none: `async with store.transaction() as tx:`.

        `tx.history`, `tx.memory`, `tx.kv()` and the others are the stores of this handle, bound to the
        transaction. What they write is checked at once, is written as one entry of the write-ahead log
        when the block ends, and is visible to others from then on, never in part, also if the process is
        killed. An exception that leaves the block writes nothing.

        Reads through `tx` by id, key, session or filter show its own writes; searches show the state
        before it. What was read or expected in the block need not stay locked: ConflictError is raised
        at its end, and nothing is written, if what a call has returned or expected is not so any more.
        Numbers of versions that calls return in the block are those of the state before.

        Takes as many rows and bytes as the log flushes at once, 512 rows by default, for one user of one
        tenant. Raises InvalidRequestError, and nothing is written, without a write-ahead log, as on an
        object store; inside another transaction of the store; for a call after the end of the block, by
        another task or thread; and for a call that cannot take part, such as an erasure.
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
        - `sole_writer`: no other process writes to the store now, so that files which crashed writers
          left may go too. Never with other writers: it removes what they are about to commit.
        - `dry_run`: change nothing that is read, and return the same counts.
        - `progress`: called after each table; by then no read shows what is erased.

        The older versions of all tables concerned go with it, branches and tags stay without the
        erased rows. May run beside other writers, and may be repeated after a crash: what was not
        completed then is completed. Raises InvalidRequestError if it were to erase all of a store,
        and for a filter alone that matches every record, such as {}; ConflictError if others are
        in the way for ten minutes, or keep changing the same records.
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

        Versions, branches and tags are not in it. `progress` reports the rows that were written.
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
        storage_options: Mapping[str, str] | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> Copied:
        """Copy the store to another directory or `s3://…`, with all versions, branches, tags and the audit.

        The copy is of one moment: others may read, and write what the journal takes, meanwhile;
        without a journal no process may write. In a directory it has its name once it is whole. On S3 an
        object `copy.unfinished` is there until then; what a process that was killed has left there
        gives way to the next copy. `storage_options` are those of the destination, where they are
        other than the store's. `progress` reports the files. Raises InvalidRequestError for other
        object stores, and in a scope; AlreadyExistsError if the destination is there.
        """
        return await copying.copy(
            self._whole(), destination, storage_options=storage_options, progress=progress
        )

    async def verify(self, *, progress: Callable[[Progress], object] | None = None) -> Verification:
        """Check that the store is whole, and tell what is not; nothing is written or mended.

        Looked at are the files of every version, branch and tag, as long as they should be, and
        whether the newest version that was acknowledged of each exists; all rows as they are now, on
        every branch: that they can be read, say the same in both places where they say it, and have
        keys of their own; the bytes of blobs, by their hashes; that indexes find what is there; and
        the journal, by its checksums. Of the files of tables there is no checksum. Without a journal a
        table that is missing as a whole is not noticed, and on an object store no missing version.
        `progress` reports the rows that were checked. Raises InvalidRequestError
        in a scope, and ReadOnlyError at an earlier version.
        """
        return await verify.verify(self._whole(), progress=progress)

    async def accept_loss(self) -> tuple[Problem, ...]:
        """Go on with what is left of a store that lacks what it has acknowledged; returns what is lost.

        Until then the store refuses to read a table of which the newest version is missing or
        damaged, or anything where its journal is. Restore the files from a copy if there is one.
        Each table goes on from its newest whole version; one without any is empty. Branches and tags
        that are missing do not exist any more. Files that cannot be used keep their content under
        another name, with `.lost-` in it. Nothing is done to a store that lacks nothing. Raises
        InvalidRequestError in a scope, and ReadOnlyError at an earlier version.
        """
        return await verify.accept_loss(self._whole())

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
        return await embedding_backlog.embed_all(
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
        await embedding_backlog.change_model(self._whole(), progress=progress)

    async def maintain(
        self,
        *,
        policy: IndexPolicy | None = None,
        only_due: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> list[TableUpkeep]:
        """Merge fragments, fold new rows into the indexes, build those that pay, thin the versions.

        Returns what was done to each table of this branch. With `only_due` that is what the store
        would do by itself; else all of it, and the journal gives back what was folded. `progress` is
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
        journal = self._resources.database.root.connection.journal
        if journal is not None and not only_due:
            await journal.shrink()
        return done

    async def stats(self) -> StoreStats:
        """What the tables of this branch consist of, what is due there, and what was done last.

        What the journal holds stands beside them: it is not folded for that.
        """
        stats = await self._resources.upkeep.stats(await self._whole().tables_to("inspect"))
        hot = self._resources.hot
        return stats if hot is None else replace(stats, search_cache=hot.stats)

    async def flush(self) -> None:
        """Fold what the journal holds into the tables: after it, a reader of the tables sees everything.

        Nothing need be flushed to be kept, or to be read through a store: this is for programs that
        open the tables with LanceDB itself. Without a journal there is nothing to do.
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
        """Remove the versions that need not be kept, of all tables on all branches.

        By default as the store was opened to keep them. What tags and branches name stays. With
        `dry_run` it is only told what would go. May be repeated after a crash. `progress` is called
        after each branch, main first.
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
        """End background work and let go of the connection; closing twice is no error.

        A compaction that runs is waited for. Only the store that was opened closes anything: its
        scopes and earlier versions do not.
        """
        if self._is_owner:
            await self._resources.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({place_and_scope(self._resources, self._scope)})"
