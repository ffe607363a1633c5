"""Rows written by key on top of what is there, the journal's and the table's, into the journal."""

from collections.abc import Awaitable, Callable, Collection, Container, Sequence

from lance_context_core._util.retry import Attempts
from lance_context_core.engine.journal.entries import How, New, View, size_of
from lance_context_core.engine.journal.ledger import Ledger
from lance_context_core.engine.revisions import succeeds
from lance_context_core.engine.schema import KEY
from lance_context_core.engine.sql.clauses import Clause, in_list
from lance_context_core.engine.table import overlay, reading
from lance_context_core.engine.table.access import Access
from lance_context_core.engine.table.arrow import Row
from lance_context_core.engine.table.conditional import NO_KEYS, Seen, Tail
from lance_context_core.engine.table.remembered import Remembered

_COLUMNS = (KEY, "expires_at", "revision")
_NO_ROW: Row = {}


class UnfitError(Exception):
    """What is to be written is too large, or does not fit the table: it is to be a commit of its own."""


class Unfolded:
    """One write: what it has seen, and what it makes of it. `keyed` writes through it as through a table.

    Nobody is kept from anything meanwhile: what is written is refused if others have changed what was
    seen of its keys.
    """

    def __init__(
        self,
        access: Access,
        ledger: Ledger,
        remembered: Remembered,
        know: Callable[[], Awaitable[object]],
        fits: Callable[[View], Awaitable[bool]],
        *,
        most_bytes: int,
    ) -> None:
        """Write through `ledger`, which takes so many bytes at once.

        `know` makes the table known to it, `fits` says whether what is to be written fits the table
        as it was then.
        """
        self.label = access.label
        self.view: View = View(0, 0, (), 0)
        """What was seen last of the journal."""
        self.written: View | None = None
        """The journal after what was written last; None if nothing was."""
        self._access = access
        self._ledger = ledger
        self._remembered = remembered
        self._know = know
        self._fits = fits
        self._most_bytes = most_bytes
        self._beneath: tuple[object, list[Row]] | None = None
        self._asked: frozenset[str] = frozenset()
        self._entered: Container[str] = ()
        """Those of the keys asked for that the journal has entries of."""
        self._there: dict[str, Row] = {}

    async def find(self, where: str | None, *, columns: Sequence[str]) -> list[Row]:
        """The matching rows. Raises UnfitError, and as `fits`."""
        return await self._access.follow(lambda: self._find(where, columns))

    async def _find(self, where: str | None, columns: Sequence[str]) -> list[Row]:
        while (view := await self._ledger.view()) is None or not view.version:
            await self._know()
        if not await self._fits(view):
            raise UnfitError
        self.view, keys = view, overlay.keys_of(where)
        rows = await self._look_up(mine := view.of(keys), where, columns)
        self._asked, self._entered = keys or frozenset(), {entry.key for entry in mine.entries}
        self._there = {row[KEY]: row for row in rows}
        return rows

    async def count(self, where: str) -> int:
        """How many rows match, of what was seen last."""
        return await overlay.count(self._access, self.view, where)

    async def look(self, keys: Collection[str]) -> dict[str, Row]:
        """What there is of these keys."""
        if not self._asked.issuperset(keys):
            await self.find(in_list(KEY, keys), columns=_COLUMNS)
        return self._there

    def putting(self, row: Row) -> New:
        """The entry of a row that is written in the place of what was seen of its key."""
        key = row[KEY]
        entered = self._entered if key in self._asked else self.view.places({key})
        is_new = key not in self._there and key not in entered
        return New.of(How.APPEND if is_new else How.PUT, row, self._access.spec.columns)

    async def write(
        self, new: Sequence[New], watched: Collection[str] = (), unless: Clause | None = None
    ) -> View | None:
        """Write the entries, if nobody has changed anything about their keys since; else None.

        Nor about those that are `watched`, and if nobody has written what matches `unless`. Raises
        UnfitError if they are too large.
        """
        if size_of(new) > self._most_bytes:
            raise UnfitError
        before, keys = self.view, {*watched, *(one.key for one in new)}
        self._asked = frozenset()

        def decide(view: View) -> Sequence[New] | None:
            is_same = view is before or (
                view.moment == before.moment and view.places(keys) == before.places(keys)
            )
            if is_same and unless is not None:
                last = before.entries[-1].seq if before.entries else 0
                later = (one.row for one in view.entries if one.seq > last)
                is_same = not any(unless.holds and unless.holds(row) for row in later)
            return new if is_same else None

        self.written = await self._ledger.write(decide)
        return self.written

    async def insert_absent(self, rows: Sequence[Row]) -> tuple[int, int]:
        """Add those whose keys are absent; returns how many, and a version that will show them."""
        attempts = Attempts(f"the same rows of {self.label} kept being changed by others")
        while True:
            attempts.begin()
            there = await self.look([row[KEY] for row in rows])
            new = [self.putting(row) for row in rows if row[KEY] not in there]
            if not new:
                return 0, self.view.told
            if (written := await self.write(new)) is not None:
                return len(new), written.told

    async def upsert(self, rows: Sequence[Row], *, adds: bool) -> tuple[int, int]:
        """Write rows on top of those they succeed, and, if it `adds`, those whose keys are absent.

        Returns how many were written, and a version that will show them.
        """
        attempts = Attempts(f"the same rows of {self.label} kept being changed by others")
        while True:
            attempts.begin()
            there = await self.look([row[KEY] for row in rows])
            new = [
                self.putting(row)
                for row in rows
                if (adds if (old := there.get(row[KEY])) is None else _succeeds(row, old))
            ]
            if not new:
                return 0, self.view.told
            if (written := await self.write(new)) is not None:
                return len(new), written.told

    async def merge(
        self, rows: Sequence[Row], *, removed: Collection[str] = (), claims: Collection[str] = ()
    ) -> set[str]:
        """Write rows on top of those they succeed, remove others; returns the keys that were lost.

        Nothing is written, and all keys are lost, if one of the `claims` is among them.
        """
        keys = {row[KEY] for row in rows} | set(removed)
        there = await self.look(keys)
        lost = {
            row[KEY]
            for row in rows
            if (old := there.get(row[KEY])) is not None and not _succeeds(row, old)
        }
        if not lost.isdisjoint(claims):
            return keys
        new = [self.putting(row) for row in rows if row[KEY] not in lost]
        new += [New.removing(key) for key in removed]
        return keys if new and await self.write(new) is None else lost

    async def write_if(self, rows: Sequence[Row], *, removed: Collection[str], seen: Seen) -> bool:
        """As `Table.write_if`."""
        there = await self.look(seen)
        if any((there.get(key) or _NO_ROW).get("revision") != seen[key] for key in seen):
            return False
        new = [*map(self.putting, rows), *map(New.removing, removed)]
        return await self.write(new, seen) is not None

    async def exchange(self, rows: Sequence[Row], seen: Seen, tail: Tail) -> bool:
        """As `Table.exchange_if`."""
        there = await self.look(seen)
        if any((there.get(key) or _NO_ROW).get("revision") != seen[key] for key in seen):
            return False
        last = await overlay.slice_of(
            self._access,
            self.view,
            tail.where,
            columns=[KEY],
            offset=0,
            limit=None,
            last=tail.n_looked_at,
            nothing=NO_KEYS,
        )
        if last[KEY].to_pylist() != list(tail.keys):
            return False
        new = [New.removing(key) for key in seen if key in there]
        new += [New.of(How.APPEND, row, self._access.spec.columns) for row in rows]
        return await self.write(new, seen, tail.where) is not None

    # Helpers

    async def _look_up(self, view: View, where: str | None, columns: Sequence[str]) -> list[Row]:
        """The matching rows of the table and the journal.

        What the table has at that version is looked up once, however often others are faster: where
        many want the same key, the next try is done before anybody else has a turn.
        """
        mine = overlay.as_rows(overlay.matching(view, where), columns)
        if await overlay.is_answered(view, where, self._access.presence):
            return mine
        if isinstance(where, Clause):
            known = self._remembered.find(where, columns, at=self.view)
            if known is not None:
                return known
        asked = view.moment, where, tuple(columns)
        if self._beneath is None or self._beneath[0] != asked:
            found = await self._access.read_at(
                view.moment, "read {}", lambda handle: reading.scan(handle, where, columns)
            )
            self._beneath = asked, found.drop_columns(["_rowid"]).to_pylist()
        return [row for row in self._beneath[1] if row[KEY] not in view.replaced] + mine


def _succeeds(row: Row, old: Row) -> bool:
    return succeeds(row["revision"], old["revision"])
