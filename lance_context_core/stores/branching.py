"""Branches of the whole store: made in every table, the records last; removed the other way round."""

from lance_context_core.engine import refs
from lance_context_core.engine.database import RECORDS_TABLE
from lance_context_core.engine.refs import At
from lance_context_core.engine.table import Table
from lance_context_core.engine.versions import Ref
from lance_context_core.errors import AlreadyExistsError, InvalidRequestError, NotFoundError
from lance_context_core.records import Branch
from lance_context_core.stores.whole import Whole, require_childless


async def create(whole: Whole, name: str, ref: Ref | None) -> None:
    """Make a branch that begins with what the store holds now, or at `ref`."""
    whole.require("create a branch")
    refs.check_ref(name, "branch")
    records = whole.resources.records
    handle = await records.writer()
    lines = await refs.lines(handle, records.name)
    for taken, what in ((refs.head(name), "branch"), (refs.tagged(name), "tag")):
        if taken in lines:
            raise AlreadyExistsError(f"name={name!r} is a {what} already: choose another name")
    places = await whole.places(ref)
    for table in await whole.main().tables():
        await _remove(table, name)  # what a crash left behind
    for table, at in places.items():
        await table.fork(refs.base(name, 0), at)
        await table.fork(str(refs.head(name)), at)


async def delete(whole: Whole, name: str) -> bool:
    """Remove a branch with what it alone holds; returns whether it existed."""
    whole.require("delete a branch")
    if name == refs.MAIN:
        raise InvalidRequestError("name='main' is the branch that every store has: it stays")
    tables = sorted(await whole.main().tables(), key=lambda table: table.name != RECORDS_TABLE)
    line = refs.head(name)
    found = [table for table in tables if line in await _lines(table)]
    for table in found:
        await _require_leaf(table, name)
    for table in tables:
        await _remove(table, name)
    whole.resources.writable().forget(name)
    return any(table.name == RECORDS_TABLE for table in found)


async def listed(whole: Whole) -> list[Branch]:
    """All branches but the main one, by name."""
    lines = await _lines(whole.resources.records)
    branches = [
        Branch(name=name, parent=_parent(at, lines), forked_at=at.version)
        for line, at in lines.items()
        if (name := refs.branch_of(line)) is not None
    ]
    return sorted(branches, key=lambda branch: branch.name)


async def require(whole: Whole, name: str) -> None:
    """Raise NotFoundError unless there is such a branch."""
    known = [branch.name for branch in await listed(whole)]
    if name != refs.MAIN and name not in known:
        raise NotFoundError(
            f"branch {name!r} does not exist: there are {[refs.MAIN, *known]}, or create it"
        )


async def _lines(table: Table) -> dict[str, At]:
    handle = await table.reader()
    return {} if handle is None else await refs.lines(handle, table.name)


async def _remove(table: Table, name: str) -> None:
    """Remove the branch from one table, if it is there: what was forked from it first."""
    if (handle := await table.reader()) is None:
        return
    lines = await refs.lines(handle, table.name)
    head = str(refs.head(name))
    bases = refs.bases_of(name, lines)
    # A base that a merge left was forked from the branch, the branch perhaps from the first base.
    late = [base for base in bases if lines[base].line == head]
    early = [base for base in bases if base not in late]
    kept = refs.kept_of(name, lines).values()
    for line in [*kept, *late, *([head] if head in lines else []), *early]:
        await table.drop(line)


async def _require_leaf(table: Table, name: str) -> None:
    lines = await _lines(table)
    own = set(refs.bases_of(name, lines))
    for child, at in lines.items():
        if at.line == refs.head(name) and child not in own and not refs.is_kept(child):
            await require_childless(table, str(refs.head(name)), f"branch {name!r}")


def _parent(at: At, lines: dict[str, At]) -> str:
    """The branch that a place is on, or was before its line was set apart."""
    while (branch := refs.branch_of(at.line)) is None:
        at = lines[str(at.line)]
    return branch
