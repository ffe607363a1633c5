"""What a handle knows of time: versions, tags and branches, and how one becomes another."""

from collections.abc import Callable
from typing import Self

from lance_context_core.audit import derive_events
from lance_context_core.audit.log import Log
from lance_context_core.audit.types import AuditAction
from lance_context_core.storage.lance import versions
from lance_context_core.storage.lance.versions import Ref
from lance_context_core.store.handles import AsyncStores
from lance_context_core.types import Branch, Diff, MergeReport, Progress, Version
from lance_context_core.versioning import branches, locations, merge
from lance_context_core.versioning.conflicts import MergePolicy


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

    # Helpers

    async def _note(self, action: AuditAction, *names: str) -> None:
        """Note in the audit, if there is one, what was done, and what was written till now."""
        await derive_events.note(self._resources, action, *names)

    async def _note_writes(self) -> None:
        """Note in the audit, if there is one, what was written till now."""
        if await Log(self._resources.database).is_begun():
            await derive_events.seal(self._resources)
