"""Three-way merge of two branches, by key, from their last common version.

The common version is a ref of each table, the base, which a merge moves forward to the merged
version: so the next one merges only later changes. A table is changed in one commit, and its
base is moved right after it. After a merge that was interrupted between the two, the next one
finds its changes already applied.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._progress import check_progress, tell
from lance_context_core._resources import Resources
from lance_context_core._util.checks import check_name
from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs import blobs
from lance_context_core.codecs.blobs import BLOB
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage.database import BLOBS_TABLE, spec_of
from lance_context_core.storage.lance import branches, diff
from lance_context_core.storage.lance.arrow import to_table, written_as
from lance_context_core.storage.lance.branches import At
from lance_context_core.storage.lance.schema import KEY, VECTOR, vector_length, vector_model
from lance_context_core.storage.lance.writes import conformed
from lance_context_core.storage.names import succeeds
from lance_context_core.storage.sql.predicates import in_list
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.types import Conflict, MergeReport, Progress, Resolution, TableMerge
from lance_context_core.types.versions import Stored
from lance_context_core.versioning import branches as branching
from lance_context_core.versioning.conflicts import (
    MergePolicy,
    Row,
    alike,
    check_policy,
    conflict_of,
    rewritten,
    settled,
    table_shown,
)
from lance_context_core.versioning.locations import Whole

# The pieces of blobs in a merge: they follow their blob.

COLUMNS = (KEY, "kind", "hash", "size", *SCOPE_PARTS)
"""The columns needed of the rows that the branch changed."""


@frozen
class Pieces:
    """The pieces of the blobs that a branch changed: each piece's key with its blob's key.

    The bytes of a hash are always the same, so a piece itself has no conflict.
    """

    blobs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, *changed: pa.Table) -> "Pieces":
        """Returns the pieces of the blobs in these rows, and those among the rows."""
        found = {}
        for row in (row for table in changed for row in table.to_pylist()):
            scope = blobs.scope_of(row)
            if row["kind"] == BLOB:
                for position in range(blobs.n_pieces(row["size"])):
                    found[blobs.key(scope, row["hash"], position)] = row[KEY]
            else:
                found[row[KEY]] = blobs.key(scope, row["hash"])
        return cls(found)

    def missing(
        self, taken: Collection[str], removed: Collection[str], ours: Collection[str]
    ) -> list[str]:
        """Returns the pieces that the target lacks for its blobs after the merge."""
        stay = {*taken, *ours} - {*removed}
        return [one for one, blob in self.blobs.items() if blob in stay and one not in ours]

    def orphaned(self, removed: Collection[str], ours: Collection[str]) -> list[str]:
        """Returns the target's pieces of the blobs that are removed."""
        gone = {*removed}
        return [one for one, blob in self.blobs.items() if blob in gone and one in ours]


_MAX_LISTED = 2_000
"""Up to this many keys are looked up one by one; for more, all keys are read."""


async def merge(
    whole: Whole,
    source: str,
    *,
    policy: MergePolicy,
    is_dry_run: bool,
    progress: Callable[[Progress], object] | None = None,
) -> MergeReport:
    """Merges the changes of the branch `source` into the branch of `whole`.

    Raises ConflictError as `Whole.in_turn`; the policy's function is called in the turn.
    """
    check_progress(progress)
    whole.require("merge")
    whole.resources.writable()
    check_policy(policy)
    return await whole.in_turn(
        lambda: _merge(whole, source, policy=policy, is_dry_run=is_dry_run, progress=progress)
    )


async def _merge(
    whole: Whole,
    source: str,
    *,
    policy: MergePolicy,
    is_dry_run: bool,
    progress: Callable[[Progress], object] | None,
) -> MergeReport:
    other = await _other(whole, source)
    child = await branching.child(whole, source)
    places = await other.places(None)
    # All checks come before the first write to any table.
    merges = [
        await _Merge.planned(whole, table.name, at, child=child, policy=policy)
        for table, at in places.items()
    ]
    if not is_dry_run:
        for n, one in enumerate(merges, 1):
            await one.carry_out()
            name = table_shown(one.target.name)
            now = Progress(n_done=n, n_total=len(merges), what="tables", name=name)
            await tell(progress, now)
    return MergeReport(
        source=source,
        target=whole.resources.database.branch,
        tables={table_shown(one.target.name): one.summary() for one in merges if one.changed},
        conflicts=tuple(each for one in merges for each in one.resolutions.values()),
        is_dry_run=is_dry_run,
        version=await whole.resources.records.version(),
    )


@frozen
class _Places:
    """A state of the store, given by the version of each table."""

    at: Mapping[str, At]

    async def locate(self, name: str, handle: Any) -> At | None:
        """Returns the table's version."""
        del handle
        return self.at.get(name)


@frozen
class _Held:
    """The part of a row that shows its last change."""

    revision: int
    row_id: int


@dataclass(slots=True)
class _Plan:
    """The planned changes of one table."""

    taken: list[str] = field(default_factory=list)
    """The keys of rows added or replaced from the source."""
    written: dict[str, tuple[Stored, Conflict, Row | None, Row | None]] = field(
        default_factory=dict
    )
    """The results of a policy's function, with the conflict and both rows."""
    removed: list[str] = field(default_factory=list)
    kept: int = 0


class _Done(NamedTuple):
    """The effects of a commit."""

    n_added: int
    n_replaced: int
    n_removed: int


@dataclass(slots=True)
class _Merge:
    """The merge of one table."""

    resources: Resources
    target: Table
    source: Table
    at: At
    """The merged version of the source."""
    base: Table
    child: str
    policy: MergePolicy
    before: dict[str, _Held] = field(default_factory=dict)
    after: dict[str, _Held] = field(default_factory=dict)
    """The source's rows in place of `before`."""
    changed: list[str] = field(default_factory=list)
    """The keys of rows that the source changed since the base, in its order, deletions last."""
    pieces: Pieces = field(default_factory=Pieces)
    """Pieces, which follow their blobs; none in other tables."""
    ours: dict[str, _Held] = field(default_factory=dict)
    plan: _Plan = field(default_factory=_Plan)
    resolutions: dict[str, Resolution] = field(default_factory=dict)
    done: list[_Done] = field(default_factory=list)

    @classmethod
    async def planned(
        cls, whole: Whole, name: str, at: At, *, child: str, policy: MergePolicy
    ) -> "_Merge":
        """Plans the merge of the table `name`; nothing is written yet."""
        database = whole.resources.writable()
        spec = spec_of(name)
        handle = await database.on(branches.MAIN).table(name, spec).access.writer()
        bases = branches.bases_of(child, await branches.listed(handle, name))
        common = {}
        if bases:
            version = await (await branches.opened(handle, name, bases[0])).version()
            common[name] = At(bases[0], version)
        merge = cls(
            resources=whole.resources,
            target=database.table(name, spec),
            source=database.at(_Places({name: at})).table(name, spec),
            at=at,
            base=database.at(_Places(common)).table(name, spec),
            child=child,
            policy=policy,
        )
        await merge._compare()
        await merge._plan()
        return merge

    async def carry_out(self) -> None:
        """Changes the table, in one commit unless others change the same rows meanwhile."""
        if not self.changed:
            return
        attempts = Attempts(f"{self.target.label} kept being changed by others")
        while True:
            attempts.begin()
            changes = await self._changes()
            if not changes.n_rows:
                break
            done = await self.target.write(changes)
            n_put = len(changes.keys) - len(done.lost)
            self.done.append(_Done(n_put - done.n_replaced, done.n_replaced, done.n_removed))
            if done.is_done:
                break
            await self._plan()
        await self._move_base()

    def summary(self) -> TableMerge:
        """Returns the changes, done or planned."""
        new = [key for key in [*self.plan.taken, *self.plan.written] if key not in self.ours]
        n_rows = len(self.plan.taken) + len(self.plan.written)
        planned = _Done(len(new), n_rows - len(new), len(self.plan.removed))
        done = self.done or [planned]
        return TableMerge(
            added=sum(one.n_added for one in done),
            updated=sum(one.n_replaced for one in done),
            deleted=sum(one.n_removed for one in done),
            kept=self.plan.kept,
        )

    async def _compare(self) -> None:
        """Finds the source's changes since the base."""
        sides = await diff.apart(self.base, self.source, None, columns=[KEY, "revision"])
        self.before, self.after = map(_held, sides)
        keys = [*self.after, *(key for key in self.before if key not in self.after)]
        self.changed = [
            key for key in keys if _revision(self.before.get(key)) != _revision(self.after.get(key))
        ]
        if self.target.name == BLOBS_TABLE:
            self.pieces = Pieces.of(
                *[
                    await table.take(_row_ids(held, self.changed), columns=COLUMNS)
                    for table, held in ((self.base, self.before), (self.source, self.after))
                ]
            )

    async def _plan(self) -> None:
        """Plans the result for each row that the source changed."""
        self.plan = _Plan()
        self.ours = await self._ours()
        unclear = []
        for key in self.changed:
            if key in self.pieces.blobs:
                continue
            base, ours, theirs = (
                _revision(one.get(key)) for one in (self.before, self.ours, self.after)
            )
            if ours == theirs:
                continue
            if ours == base or (ours and theirs and succeeds(theirs, ours)):
                self._take(key)
            elif ours and theirs and succeeds(ours, theirs):
                self.plan.kept += 1
            else:
                unclear.append(key)
        await self._decide(unclear)
        await self._follow()
        await self._check_vectors()

    def _take(self, key: str) -> None:
        (self.plan.taken if key in self.after else self.plan.removed).append(key)

    async def _follow(self) -> None:
        """Plans pieces to follow their blobs."""
        plan = self.plan
        plan.removed += self.pieces.orphaned(plan.removed, self.ours)
        if missing := self.pieces.missing(plan.taken, plan.removed, self.ours):
            where = in_list(KEY, missing)
            self.after |= _held(await self.source.select(where, columns=[KEY, "revision"]))
            plan.taken += [key for key in missing if key in self.after]

    async def _decide(self, keys: Sequence[str]) -> None:
        """Compares the contents of rows that both sides wrote since the base."""
        bases = await _rows(self.base, self.before, keys)
        ours = await _rows(self.target, self.ours, keys)
        theirs = await _rows(self.source, self.after, keys)
        for key in keys:
            rows = bases.get(key), ours.get(key), theirs.get(key)
            if alike(rows[1], rows[2]):
                continue
            if alike(rows[0], rows[1]):
                self._take(key)
            elif alike(rows[0], rows[2]):
                self.plan.kept += 1
            else:
                await self._settle(key, *rows)

    async def _settle(
        self, key: str, base: Row | None, ours: Row | None, theirs: Row | None
    ) -> None:
        conflict = conflict_of(self.target.name, base, ours, theirs)
        resolution, item = await settled(conflict, self.policy)
        self.resolutions[key] = resolution
        if resolution.outcome == "ours":
            self.plan.kept += 1
        elif resolution.outcome == "theirs":
            self._take(key)
        elif item is not None:
            self.plan.written[key] = (item, conflict, ours, theirs)
        elif ours is not None:
            self.plan.removed.append(key)

    async def _ours(self) -> dict[str, _Held]:
        """Returns the target's rows for the source's changed rows and blob pieces."""
        keys = [*{*self.changed, *self.pieces.blobs, *self.pieces.blobs.values()}]
        few = len(keys) <= _MAX_LISTED
        where = in_list(KEY, keys) if few else None
        rows = await self.target.select(where, columns=[KEY, "revision"])
        if not few:
            rows = rows.filter(pc.is_in(rows[KEY], pa.array(keys)))
        return _held(rows)

    async def _check_vectors(self) -> None:
        """Raises if the target cannot hold the source's vectors."""
        if (field := await self._vectors()) is not None:
            schema = await self.target.schema()
            self.target.vectors.check(schema, vector_length(field), vector_model(field))

    async def _vectors(self) -> pa.Field | None:
        """Returns the source's vector column, if rows are merged from the source."""
        schema = await self.source.schema()
        return schema.field(VECTOR) if VECTOR in schema.names and self.plan.taken else None

    async def _changes(self) -> WriteBatch:
        """Returns the planned changes with all rows to write."""
        if (field := await self._vectors()) is not None:
            await self.target.vectors.ensure(vector_length(field), vector_model(field))
        written = [
            await rewritten(
                item,
                conflict=conflict,
                ours=ours,
                theirs=theirs,
                table=self.target,
                resources=self.resources,
            )
            for item, conflict, ours, theirs in self.plan.written.values()
        ]
        if not (self.plan.taken or written):
            rows = pa.table({})
        else:
            # The table is created if absent.
            schema = await (await self.target.access.writer()).schema()
            source = await self.source.schema()
            row_ids = _row_ids(self.after, self.plan.taken)
            taken = await self.source.take(row_ids, columns=source.names)
            if VECTOR in schema.names:
                vector = schema.field(VECTOR)
            elif (vector := self.target.vectors.column) is not None:
                # Restored to a version without vectors: it gets the column with the rows.
                schema = schema.append(vector)
            made = to_table(written, written_as(self.target.spec.schema, vector))
            rows = pa.concat_tables([conformed(taken, schema), conformed(made, schema)])
        changed = [*self.plan.taken, *self.plan.written, *self.plan.removed]
        return WriteBatch(
            bulk=self._ordered(rows),
            mode=Mode.UPSERT,
            deletes=[key for key in self.plan.removed if key in self.ours],
            expect={key: self.ours[key].revision for key in changed if key in self.ours},
            is_whole=False,
        )

    def _ordered(self, rows: pa.Table) -> pa.Table:
        """Returns the rows in the source's order."""
        if not self.plan.written:
            return rows
        place = {key: index for index, key in enumerate(self.changed)}
        keys = rows[KEY].to_pylist()
        return rows.take(sorted(range(len(keys)), key=lambda index: place[keys[index]]))

    async def _move_base(self) -> None:
        """Moves the base to the merged version."""
        handle = await self.target.access.writer()
        name = self.target.name
        forks = await branches.listed(handle, name)
        await self.target.access.fork(branches.next_base(self.child, forks), self.at, handle)
        parents = {at.ref for at in forks.values()}
        for ref in branches.bases_of(self.child, forks):
            # A table created on a branch has the branch on top of its first base.
            if ref not in parents:
                await self.target.access.drop(ref)


async def _other(whole: Whole, source: str) -> Whole:
    """Returns the branch `source`, as a whole."""
    source = check_name(source, "source")
    await branching.require(whole, source)
    return whole.on(source)


def _held(rows: pa.Table) -> dict[str, _Held]:
    columns = (rows[name].to_pylist() for name in (KEY, "revision", "_rowid"))
    return {key: _Held(revision, row_id) for key, revision, row_id in zip(*columns, strict=True)}


def _revision(held: _Held | None) -> int | None:
    return None if held is None else held.revision


async def _rows(table: Table, held: Mapping[str, _Held], keys: Sequence[str]) -> dict[str, Row]:
    """Returns the full rows of those keys that the table contains."""
    names = (await table.schema()).names
    rows = (await table.take(_row_ids(held, keys), columns=names)).to_pylist()
    return {row[KEY]: row for row in rows}


def _row_ids(held: Mapping[str, _Held], keys: Sequence[str]) -> list[int]:
    return [held[key].row_id for key in keys if key in held]
