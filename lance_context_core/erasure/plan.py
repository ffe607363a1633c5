"""What is to be erased from one table: on which refs it is, hidden there and scoured from the files."""

from dataclasses import dataclass, field

from lance_context_core._util.retry import FEW_ATTEMPTS
from lance_context_core.erasure import of_graph
from lance_context_core.erasure import references as traces
from lance_context_core.erasure.references import Link, Names, State
from lance_context_core.errors import ConflictError, NotFoundError
from lance_context_core.storage.database import Database
from lance_context_core.storage.lance import branches, purge
from lance_context_core.storage.lance.errors import asked
from lance_context_core.storage.lance.purge import Gone, Removed, TableRef
from lance_context_core.storage.lance.schema import TableSpec
from lance_context_core.storage.table import Table

_OTHERS_MAKE_REFS = "branches and tags kept being made by others: try again"


@dataclass(slots=True, kw_only=True)
class Plan:
    """What is to be erased from one table."""

    database: Database
    name: str
    spec: TableSpec
    refs: list[TableRef]
    scope_condition: str
    """What lies outside stays, also of a record that once was inside."""
    matched: set[str]
    """The keys of what is meant."""
    derived: set[str] = field(default_factory=set)
    states: set[State] = field(default_factory=set)
    """What the records of both sorts are or were known by."""
    links: dict[str | None, set[Link]]
    """Who names whom, by ref; of records."""
    names: Names = field(default_factory=Names)
    rewritten: frozenset[str] = frozenset()
    """The keys of what no branch shows any more as it was made of these."""
    mentions: set[str] = field(default_factory=set)
    """The keys of records that stay and name erased ones."""
    in_sources: bool = False
    """Whether that may be as their sources."""
    is_linked: bool = False
    """Whether records that stay name erased ones as those before them."""
    touched: set[str | None] = field(default_factory=set)
    """The refs that show what is erased, or name it."""
    left_alone: frozenset[str | None] = frozenset()
    """The refs that cannot hold it, once that is settled: later it could not be told any more."""

    @property
    def due(self) -> list[TableRef]:
        """The refs to clean: those that show it, and those whose files may hold what was deleted."""
        return [
            ref
            for ref in self.refs
            if ref.name not in self.left_alone and (ref.name in self.touched or not ref.is_plain)
        ]

    async def look(self) -> None:
        """See which refs show it, of those that have not shown it before."""
        for ref in self.refs:
            if ref.name not in self.touched and await self._is_shown(ref):
                self.touched.add(ref.name)

    def settle(self) -> int:
        """Leave those refs alone from now on that are not to be cleaned; returns how many are."""
        due = {ref.name for ref in self.due}
        self.left_alone = frozenset(ref.name for ref in self.refs if ref.name not in due)
        return len(due)

    async def hide(self) -> None:
        """Delete it from all refs, also from those that others make meanwhile."""
        done: set[str | None] = set()
        for _ in range(FEW_ATTEMPTS):
            for ref in self.due:
                if ref.name not in done:
                    if not branches.is_kept(ref.name) and (
                        ref.name is None or await _is_there(ref)
                    ):
                        await purge.delete(ref.table, await self._gone_from(ref))
                        await self._scrub(ref.table)
                    done.add(ref.name)
            await self._look_again()
            if done >= {ref.name for ref in self.due}:
                return
        raise ConflictError(_OTHERS_MAKE_REFS)

    async def scour(self, *, sole_writer: bool) -> list[Removed]:
        """Clean the files of all refs that may hold it, those that others were made from last."""
        removed: list[Removed] = []
        done: set[str | None] = set()
        for _ in range(FEW_ATTEMPTS):
            for ref in self.due:
                if ref.name in done or not (ref.name is None or await _is_there(ref)):
                    continue
                # One that only keeps an older version would be one more copy.
                if branches.is_kept(ref.name):
                    await ref.table.access.drop(str(ref.name))
                else:
                    await self._scrub(ref.table)
                    gone = await self._gone_from(ref)
                    removed.append(await purge.scour(ref.table, gone, sole_writer=sole_writer))
                done.add(ref.name)
            await self._look_again()
            new = [ref for ref in self.due if ref.name not in done]
            if not new:
                await self._refresh()
                return removed
            # What others have just made of a ref may hold what that one held.
            done -= {ref.fork.ref for ref in new if ref.fork is not None}
        raise ConflictError(_OTHERS_MAKE_REFS)

    async def _look_again(self) -> None:
        """See which refs others have made meanwhile; what is known of the others stays so."""
        forks = await purge.forks(self.database, self.name, self.spec)
        if forks != {ref.name: ref.fork for ref in self.refs}:
            main = self.database.table(self.name, self.spec)
            async with main.access.separately() as handle:
                self.refs = await purge.table_refs(self.database, self.name, self.spec, handle)
            await self.look()

    async def _is_shown(self, ref: TableRef) -> bool:
        """Whether the newest version of a ref shows what is to go from it."""
        return await purge.shows(ref.table, await self._gone_from(ref))

    async def _gone_from(self, ref: TableRef) -> Gone:
        """The rows that are to go from a ref; where nobody writes, also what is otherwise elsewhere."""
        keys = self.matched | self.derived
        return Gone(
            self.scope_condition, keys if branches.branch_of(ref.name) else keys | self.rewritten
        )

    async def _scrub(self, table: Table) -> None:
        """Let nothing that stays name what goes."""
        if self.mentions or self.is_linked:
            keys = self.matched | self.derived
            await traces.scrub(
                table, self.names, keys, self.scope_condition, sources=self.in_sources
            )

    async def _refresh(self) -> None:
        """Take this process's handles off the versions that are gone."""
        for ref in self.refs:
            if (branch := branches.branch_of(ref.name)) is not None:
                on = self.database if ref.name is None else self.database.on(branch)
                access = on.table(self.name, self.spec).access
                if access.handle is not None:
                    await asked(f"read {access.label}", access.handle.checkout_latest())


@dataclass(slots=True, kw_only=True)
class GraphPlan(Plan):
    """What is to be erased from the graph: what was known from erased sources alone.

    It is looked for on each ref: on one of them there may be another source.
    """

    removes: bool = True
    """Else only the names of the sources are taken out."""

    async def _is_shown(self, ref: TableRef) -> bool:
        return await of_graph.is_named(ref.table, self.names, self.scope_condition)

    async def _gone_from(self, ref: TableRef) -> Gone:
        return Gone(self.scope_condition, await self.unsupported(ref))

    async def unsupported(self, ref: TableRef) -> set[str]:
        """The keys of what is to go from a ref."""
        if not self.removes:
            return set()
        return await of_graph.unsupported(ref.table, self.names, self.scope_condition)

    async def _scrub(self, table: Table) -> None:
        await of_graph.scrub(table, self.names, self.scope_condition, all_of_them=not self.removes)


async def _is_there(ref: TableRef) -> bool:
    """Whether nobody has deleted a ref beside main meanwhile."""
    try:
        await ref.table.access.writer()
    except NotFoundError:
        return False
    return True
