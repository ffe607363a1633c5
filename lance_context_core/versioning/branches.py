"""Branches of the whole store: created in every table, the records last; deleted in reverse order."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from lance_context_core._util.retry import FEW_ATTEMPTS, retried
from lance_context_core.codecs.records import NO_CONTEXT, to_row
from lance_context_core.errors import (
    AlreadyExistsError,
    ContextStoreError,
    InvalidRequestError,
    NotFoundError,
)
from lance_context_core.storage.database import RECORDS_TABLE
from lance_context_core.storage.lance import branches as refs
from lance_context_core.storage.lance import orphaned_refs
from lance_context_core.storage.lance.branches import At
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.lance.versions import AtHead, Ref
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.types import Branch, ContextRecord
from lance_context_core.versioning.locations import Whole, require_childless


async def create(whole: Whole, name: str, ref: Ref | None) -> None:
    """Creates a branch from the store's current state, or from `ref`."""
    whole.require("create a branch")
    whole.resources.writable()
    refs.check_ref(name, "branch")
    await whole.resources.records.access.writer()
    await whole.in_turn(lambda: _create(whole, name, ref))


async def _create(whole: Whole, name: str, ref: Ref | None) -> None:
    records = whole.resources.records
    handle = await records.access.writer()
    forks = await refs.listed(handle, records.name)
    for taken, what in ((refs.head(name), "branch"), (refs.tagged(name), "tag")):
        if taken in forks:
            raise AlreadyExistsError(f"name={name!r} is a {what} already: choose another name")
    places = await whole.places(ref)
    if await _is_empty(records, places[records]):
        # On a branch of an empty table the engine would not keep the order of rows.
        if ref is not None:
            raise InvalidRequestError(
                f"cannot create branch {name!r} at {ref!r}, where there were no records: "
                "make it from a later version"
            )
        await records.write(WriteBatch([_seed(whole.resources.clock.now())], Mode.INSERT))
        places = await whole.places(None)
    for table in await whole.main().tables():
        await _remove(table, name)  # remains of a crash
    for table, at in places.items():
        await table.access.fork(refs.base(name, 0), at)
        await table.access.fork(str(refs.head(name)), at)


async def delete(whole: Whole, name: str) -> bool:
    """Deletes a branch and all data that only it holds; returns whether it existed."""
    whole.require("delete a branch")
    whole.resources.writable()
    if name == refs.MAIN:
        raise InvalidRequestError("name='main' is the branch that every store has: it stays")
    existed: list[bool] = []
    await whole.in_turn(lambda: _delete(whole, name, existed))
    return any(existed)


async def _delete(whole: Whole, name: str, existed: list[bool]) -> None:
    tables = sorted(await whole.main().tables(), key=lambda table: table.name != RECORDS_TABLE)
    for table in tables:
        await _require_leaf(table, name)
    existed.append(bool(tables) and await _announce(tables[0], name))
    for table in tables:
        await _remove(table, name)
    whole.resources.writable().forget(name)


async def finish_deletions(main: Whole, tables: Sequence[Table]) -> None:
    """Completes interrupted deletions of branches in its tables."""
    names = [table.name for table in tables]
    if not tables or not await orphaned_refs.may_be(tables[0].access.connection, names):
        return
    await main.in_turn(lambda: _finish_deletions(main, tables))


async def _finish_deletions(main: Whole, tables: Sequence[Table]) -> None:
    there = {table: await table.access.clear() for table in tables}
    if not (gone := refs.gone_among(there.get(main.resources.records, ()))):
        return
    for table in tables:
        await table.access.clear([str(refs.head(name)) for name in gone])
    for name in gone:
        for table in tables:
            await _remove(table, name)


async def listed(whole: Whole) -> list[Branch]:
    """Returns all branches but the main one, by name."""
    # One may be listed before its parent's deletion, or after: both may appear at once.
    return await retried(
        lambda: _listed(whole.resources.records), on=NotFoundError, attempts=FEW_ATTEMPTS
    )


async def _listed(records: Table) -> list[Branch]:
    forks = await _forks(records)
    branches = [
        Branch(name=name, parent=_parent(at, forks), forked_at=at.version)
        for ref, at in forks.items()
        if (name := refs.branch_of(ref)) is not None
    ]
    return sorted(branches, key=lambda branch: branch.name)


async def on_each(whole: Whole, step: Callable[[str], Awaitable[object]]) -> None:
    """Runs `step` on main and on each branch, by name; skips branches that others delete meanwhile.

    Restarts with a branch that they recreate under its name. `step` must be repeatable.
    """
    await step(refs.MAIN)
    for branch in await listed(whole):
        there: Branch | None = branch
        while there is not None:
            try:
                await step(branch.name)
            except ContextStoreError:
                before, known = there, {one.name: one for one in await listed(whole)}
                if (there := known.get(branch.name)) == before:
                    raise
            else:
                break


async def require(whole: Whole, name: str) -> None:
    """Raises NotFoundError unless the branch exists."""
    known = [branch.name for branch in await listed(whole)]
    if name != refs.MAIN and name not in known:
        raise NotFoundError(
            f"branch {name!r} does not exist: use one of {[refs.MAIN, *known]}, or create it"
        )


async def child(whole: Whole, source: str) -> str:
    """Returns the one of two branches that was created from the other."""
    target = whole.resources.database.branch
    parents = {branch.name: branch.parent for branch in await listed(whole)}
    if parents.get(source) == target:
        return source
    if parents.get(target) == source:
        return target
    if source == target:
        raise InvalidRequestError(f"source={source!r} is this branch: name another one")
    raise InvalidRequestError(
        f"cannot merge {source!r} into {target!r}: a branch is merged with the one that it was made "
        f"from. {source!r} was made from {parents.get(source)!r}, {target!r} from "
        f"{parents.get(target)!r}: merge step by step"
    )


def _seed(now: datetime) -> dict[str, Any]:
    """Returns a row that no read returns: it is in no context."""
    record = ContextRecord(
        id="seed",
        context=NO_CONTEXT,
        kind="seed",
        content_type="text/plain",
        created_at=now,
        updated_at=now,
    )
    return to_row(record, key="seed", search_text=None)


async def _is_empty(table: Table, at: At) -> bool:
    handle = await refs.opened(await table.access.writer(), table.name, at.ref, at.version)
    with translated(f"count {table.label}"):
        return int(await handle.count_rows()) == 0


async def _forks(table: Table, *, with_gone: bool = False) -> dict[str, At]:
    if (handle := await table.access.peek()) is None:
        return {}
    return await refs.listed(handle, table.name, with_gone=with_gone)


async def _announce(records: Table, name: str) -> bool:
    """Hides the branch at once, before its deletion completes; returns whether it existed."""
    if refs.head(name) not in await _forks(records):
        return False
    handle = await records.access.writer()
    at = await AtHead(refs.MAIN, records).locate(records.name, handle)
    assert at is not None
    await records.access.fork(refs.gone(name), at)
    return True


async def _remove(table: Table, name: str) -> None:
    """Removes the branch from one table, if it exists: its forks first."""
    for ref in refs.belonging_to(name, await _forks(table, with_gone=True)):
        await table.access.drop(ref)


async def _require_leaf(table: Table, name: str) -> None:
    forks = await _forks(table, with_gone=True)
    own = set(refs.belonging_to(name, forks))
    if any(at.ref == refs.head(name) and child not in own for child, at in forks.items()):
        await require_childless(table, str(refs.head(name)), f"branch {name!r}", but=own)


def _parent(at: At, forks: dict[str, At]) -> str:
    """Returns a position's branch, or its original one if its ref was detached."""
    while (branch := refs.branch_of(at.ref)) is None:
        at = refs.fork_of(str(at.ref), forks)
    return branch
