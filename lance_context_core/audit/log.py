"""The log: a small separate table, excluded from versions, tags, branches and diffs.

An entry is one row, and its rows are packed into another one, which an erasure rewrites.
"""

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from lance_context_core._util.checks import dumps
from lance_context_core._util.frozen import frozen
from lance_context_core.audit.types import AuditEntry, AuditHead, AuditRow, AuditRowAction
from lance_context_core.errors import StorageError
from lance_context_core.storage.database import BranchDatabase, Database, PinnedDatabase
from lance_context_core.storage.lance import fragments, purge
from lance_context_core.storage.lance.purge import Gone
from lance_context_core.storage.lance.schema import KEY, upkeep_table
from lance_context_core.storage.names import new_revision
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode, WriteBatch

# The chain: entries with the hash of the one before, and digests of rows.
#
# An entry has a digest for each of its rows, made with a salt stored next to the entry. Erasing a
# row deletes its salt: the digest stays, so that the chain holds, and the row cannot be recovered
# from it, not even by trying names.

START = ""
"""The previous hash of the first entry."""


@frozen
class Kept:
    """One row of an entry: its digest, and its content and salt unless erased."""

    digest: str
    salt: str | None = None
    row: AuditRow | None = None


def salted(rows: Sequence[AuditRow]) -> list[Kept]:
    """Returns the rows with salted digests."""
    secret = secrets.token_bytes(32)
    kept = []
    for place, row in enumerate(rows):
        salt = hashlib.blake2b(place.to_bytes(8, "big"), key=secret, digest_size=16).hexdigest()
        kept.append(Kept(_digest(salt, row), salt, row))
    return kept


def holds(kept: Kept) -> bool:
    """Whether a row matches its digest; true for an erased one."""
    return kept.row is None or _digest(str(kept.salt), kept.row) == kept.digest


def erased(kept: Kept) -> Kept:
    """Returns the same row without content and salt."""
    return Kept(kept.digest)


def packed(kept: Sequence[Kept]) -> str:
    """Packs the rows as a text."""
    return dumps([[one.digest] if one.row is None else [one.salt, *one.row] for one in kept])


def unpacked(text: str) -> list[Kept]:
    """Unpacks the rows of a text; recomputes the digests of those not erased."""
    kept = []
    for one in json.loads(text):
        if len(one) == 1:
            kept.append(Kept(one[0]))
            continue
        row = AuditRow(*one[1:])
        kept.append(Kept(_digest(one[0], row), one[0], row))
    return kept


def root(kept: Sequence[Kept]) -> str:
    """Returns the digest of all rows of an entry."""
    return hashlib.sha256("".join(one.digest for one in kept).encode()).hexdigest()


def text_of(entry: AuditEntry, kept: Sequence[Kept], previous: str) -> str:
    """Returns the hashed text of an entry."""
    return dumps(
        {
            "n": entry.n,
            "at": entry.at.isoformat(),
            "action": entry.action,
            "table": entry.table,
            "branch": entry.branch,
            "first_version": entry.first_version,
            "last_version": entry.last_version,
            "committed_at": entry.committed_at and entry.committed_at.isoformat(),
            "gap": entry.gap,
            "counts": dict(entry.counts),
            "root": root(kept),
            "previous": previous,
        }
    )


def hash_of(text: str) -> str:
    """Returns the hash of an entry's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def entry_of(text: str, kept: Sequence[Kept]) -> AuditEntry:
    """Returns the entry of a text, with its rows."""
    told: dict[str, Any] = json.loads(text)
    del told["root"], told["previous"]
    for name in ("at", "committed_at"):
        told[name] = told[name] and datetime.fromisoformat(told[name])
    return AuditEntry(
        **told,
        rows=tuple(one.row for one in kept if one.row is not None),
        n_erased=sum(one.row is None for one in kept),
        hash=hash_of(text),
    )


def _digest(salt: str, row: AuditRow) -> str:
    return hashlib.sha256((salt + dumps(list(row))).encode()).hexdigest()


AUDIT_TABLE = "audit"
AUDIT = upkeep_table([pa.field("entry", pa.string()), pa.field("rows", pa.string())])

MOST_ROWS = 4_096
"""The most rows in one entry."""

_ENTRIES = "entry <> ''"

_PRUNE_EVERY = 32
_PRUNE_AGE = timedelta(minutes=1)
"""As for the claims of maintenance."""


@frozen
class Link:
    """A stored entry."""

    key: str
    text: str
    packed: Mapping[int, str]
    """Its rows, by the number of the erasure that wrote them; the highest counts."""

    @property
    def rows(self) -> list[Kept]:
        """Returns its rows. Raises StorageError if they cannot be read."""
        if not self.packed:
            return []
        try:
            return unpacked(self.packed[max(self.packed)])
        except (ValueError, TypeError) as error:
            raise StorageError(
                f"the rows of entry {int(self.key)} of the audit cannot be read: {error}"
            ) from error

    @property
    def entry(self) -> AuditEntry:
        """Returns its entry."""
        return entry_of(self.text, self.rows)


class Log:
    """The entries of one store."""

    def __init__(self, database: Database | BranchDatabase | PinnedDatabase) -> None:
        """Reads and writes nothing yet."""
        self._database = database.root

    async def is_begun(self) -> bool:
        """Whether the log of this store is started."""
        return await self._database.has(AUDIT_TABLE)

    async def links(self, *, with_rows: bool = True) -> list[Link]:
        """Returns all entries, oldest first; invalid ones unchanged."""
        if not await self.is_begun():
            return []
        where, columns = (None, [KEY, "entry", "rows"]) if with_rows else (_ENTRIES, [KEY, "entry"])
        found = (await self._table().select(where, columns=columns)).to_pylist()
        entries = sorted((one[KEY], one["entry"]) for one in found if one["entry"])
        beside: dict[str, dict[int, str]] = {}
        for one in found:
            if not one["entry"]:
                key, number = one[KEY].split("/")
                beside.setdefault(key, {})[int(number)] = one["rows"]
        return [Link(key, text, beside.get(key, {})) for key, text in entries]

    async def append(
        self, entries: Sequence[tuple[AuditEntry, Sequence[AuditRow]]], after: AuditHead | None
    ) -> AuditHead | None:
        """Appends entries after `after`; returns None, and adds nothing, if another writer was faster."""
        n, previous = (0, START) if after is None else (after.n, after.hash)
        rows: list[dict[str, Any]] = []
        for entry, of_entry in entries:
            n += 1
            kept = salted(of_entry)
            counts: dict[str, int] = {}
            for one in of_entry:
                counts[one.did] = counts.get(one.did, 0) + 1
            text = text_of(replace(entry, n=n, counts=counts), kept, previous)
            previous = hash_of(text)
            rows.append({KEY: _key(n), "entry": text, "rows": ""})
            if kept:
                rows.append({KEY: f"{_key(n)}/0", "entry": "", "rows": packed(kept)})
        for row in rows:
            row["revision"] = new_revision()
        table = self._table()
        await (await table.access.writer()).checkout_latest()
        absent = dict.fromkeys([str(row[KEY]) for row in rows])
        if not (await table.write(WriteBatch(rows, Mode.UPSERT, expect=absent))).is_done:
            return None
        if await table.version() % _PRUNE_EVERY == 0:
            await fragments.forget_versions(table, older_than=_PRUNE_AGE)
        return AuditHead(n=n, hash=previous)

    async def erase(self, is_erased: Callable[[AuditEntry, AuditRow], bool]) -> int:
        """Erases the selected rows but for their digests; returns how many."""
        gone, new, n_erased = set(), [], 0
        for link in await self.links():
            entry, newest = link.entry, max(link.packed, default=0)
            # Remains of an earlier crashed erasure go, too.
            gone |= {f"{link.key}/{number}" for number in link.packed if number < newest}
            kept = [
                erased(one) if one.row is not None and is_erased(entry, one.row) else one
                for one in link.rows
            ]
            if n := sum(one.row is None for one in kept) - entry.n_erased:
                n_erased += n
                gone.add(f"{link.key}/{newest}")
                row = {KEY: f"{link.key}/{newest + 1}", "entry": "", "rows": packed(kept)}
                new.append({**row, "revision": new_revision()})
        if gone:
            table = self._table()
            if new:
                await table.write(WriteBatch(new, Mode.INSERT))
            await purge.scour(table, Gone("", gone), sole_writer=False)
        return n_erased

    def _table(self) -> Table:
        return self._database.table(AUDIT_TABLE, AUDIT)


def head_of(links: Sequence[Link]) -> AuditHead | None:
    """Returns the last one's head."""
    return None if not links else AuditHead(n=int(links[-1].key), hash=hash_of(links[-1].text))


def row_of(did: AuditRowAction, found: Mapping[str, Any]) -> AuditRow:
    """Returns the change of a table's row."""
    told = {name: found.get(name) for name in AuditRow._fields if name != "did"}
    return AuditRow(did, **told)


def _key(n: int) -> str:
    return f"{n:012d}"
