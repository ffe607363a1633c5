"""What the journal says to SQLite."""

import time
from collections.abc import Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """One table, on one ref."""

    name: str
    ref: str
    """Empty for main."""


TABLE = "SELECT id, version, folded, folding, token, stamp FROM tables WHERE name = ? AND ref = ?"
REFS = "SELECT ref FROM tables WHERE name = ?"
ROWS = (
    "SELECT seq, how, key, payload, told, at, crc FROM rows WHERE tbl = ? AND seq > ? "
    "ORDER BY seq LIMIT ?"
)
ALL = "SELECT seq, how, key, payload, told, at, crc FROM rows ORDER BY seq"
INSERT = "INSERT INTO rows (tbl, how, key, payload, told, at, crc) VALUES (?, ?, ?, ?, ?, ?, ?)"
PARTS = "SELECT name, ref FROM tables ORDER BY name, ref"
AMENDED = (
    "SELECT id, version, folded, folding, token, "
    "(SELECT at FROM rows WHERE tbl = tables.id ORDER BY seq DESC LIMIT 1) "
    "FROM tables WHERE name = ? AND ref = ?"
)
FULLNESS = (
    "SELECT count(*), coalesce(sum(length(payload)), 0) FROM rows "
    "WHERE tbl = (SELECT id FROM tables WHERE name = ? AND ref = ?)"
)
DOUBTED = "UPDATE tables SET version = -abs(version), stamp = stamp + 1 WHERE name = ? AND ref = ?"
BEGUN = (
    "UPDATE tables SET stamp = stamp + 1, folding = "
    "coalesce((SELECT max(seq) FROM rows WHERE tbl = tables.id AND seq <= ?), folding) "
    "WHERE name = ? AND ref = ?"
)
NAMES = (
    "SELECT told, names.version FROM names JOIN tables ON tables.id = names.tbl "
    "WHERE name = ? AND ref = ?"
)
FORGET_NAME = (
    "DELETE FROM names WHERE version = ? "
    "AND tbl = (SELECT id FROM tables WHERE name = ? AND ref = ?)"
)
REMOVALS = (
    "SELECT key, at FROM removals JOIN tables ON tables.id = removals.tbl "
    "WHERE name = ? AND ref = ? AND at > ? AND at <= ?"
)
CHANGED = "UPDATE tables SET token = token + 1, stamp = stamp + 1 WHERE id = ?"

_MONTH = 31 * 24 * 3600 * 1_000_000
"""For so long, in microseconds, it is known when rows were removed: as long as versions are kept."""

Statements = Sequence[tuple[str, tuple[object, ...]]]


def noted(part: Part, version: int, *, is_change: bool = True) -> Statements:
    """Know a table, and the version that goes with its entries; it may hold what the one before held."""
    # What was counted before the journal was made, or by one that was removed, is never met again.
    first = time.time_ns() // 1000
    statement = (
        "INSERT INTO tables (name, ref, version, folded, folding, token, stamp) "
        "VALUES (?, ?, ?, 0, 0, ?, ?) "
        "ON CONFLICT (name, ref) DO UPDATE SET version = max(version, excluded.version), "
        "token = token + ?, stamp = stamp + 1"
    )
    return [(statement, (*part, version, first, first, int(is_change)))]


def forgotten(part: Part, last: int, version: int, *, tells_moments: bool) -> Statements:
    """Let go of the entries up to `last`, which that version holds.

    Where their writers were told of another one, that is known as this one from now on. If the
    table `tells_moments`, it stays known when rows were removed.
    """
    names = (
        "INSERT OR REPLACE INTO names SELECT DISTINCT tbl, told, ? FROM rows WHERE seq <= ? "
        "AND tbl = (SELECT id FROM tables WHERE name = ? AND ref = ?) AND told <> ?"
    )
    removals = (
        "INSERT INTO removals SELECT tbl, key, at FROM rows WHERE seq <= ? AND payload IS NULL "
        "AND tbl = (SELECT id FROM tables WHERE name = ? AND ref = ?)"
    )
    past = "DELETE FROM removals WHERE at < ?"
    rows = "DELETE FROM rows WHERE seq <= ? AND tbl = (SELECT id FROM tables WHERE name = ? AND ref = ?)"
    table = (
        "UPDATE tables SET version = ?, folded = max(folded, ?), stamp = stamp + 1 "
        "WHERE name = ? AND ref = ?"
    )
    return [
        (names, (version, last, *part, version)),
        *([(removals, (last, *part))] if tells_moments else []),
        (past, (time.time_ns() // 1000 - _MONTH,)),
        (rows, (last, *part)),
        (table, (version, last, *part)),
    ]


def lost(seqs: Sequence[int]) -> Statements:
    """Let go of these rows, which cannot be read."""
    changed = (
        "UPDATE tables SET token = token + 1, stamp = stamp + 1 "
        "WHERE id = (SELECT tbl FROM rows WHERE seq = ?)"
    )
    return [(one, (seq,)) for seq in seqs for one in (changed, "DELETE FROM rows WHERE seq = ?")]


def discarded(part: Part) -> Statements:
    """Let go of a table, with its entries."""
    rows = "DELETE FROM rows WHERE tbl = (SELECT id FROM tables WHERE name = ? AND ref = ?)"
    others = [rows.replace("FROM rows", f"FROM {one}") for one in ("names", "removals")]
    gone = [(statement, (*part,)) for statement in (rows, *others)]
    return [*gone, ("DELETE FROM tables WHERE name = ? AND ref = ?", (*part,))]
