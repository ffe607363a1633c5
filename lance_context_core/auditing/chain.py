"""The chain: entries that name the hash of the one before, and stand for rows without naming them.

An entry has a digest for each of its rows, made with a salt that stands beside the entry. Where a row
is erased its salt goes with it: the digest stays, so that the chain holds, and nobody can tell from it
what the row was, not even by trying names.
"""

import hashlib
import json
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lance_context_core._util.checks import dumps
from lance_context_core._util.frozen import frozen
from lance_context_core.auditing.values import AuditEntry, AuditRow

START = ""
"""What the first entry names as the hash before it."""


@frozen
class Kept:
    """One row of an entry: its digest, and what it is made of unless that is erased."""

    digest: str
    salt: str | None = None
    row: AuditRow | None = None


def salted(rows: Sequence[AuditRow]) -> list[Kept]:
    """The rows with digests of their own."""
    secret = secrets.token_bytes(32)
    kept = []
    for place, row in enumerate(rows):
        salt = hashlib.blake2b(place.to_bytes(8, "big"), key=secret, digest_size=16).hexdigest()
        kept.append(Kept(_digest(salt, row), salt, row))
    return kept


def holds(kept: Kept) -> bool:
    """Whether a row is the one that its digest was made of; an erased one is not asked."""
    return kept.row is None or _digest(str(kept.salt), kept.row) == kept.digest


def erased(kept: Kept) -> Kept:
    """The same, of which nothing can be told."""
    return Kept(kept.digest)


def packed(kept: Sequence[Kept]) -> str:
    """The rows as a text."""
    return dumps([[one.digest] if one.row is None else [one.salt, *one.row] for one in kept])


def unpacked(text: str) -> list[Kept]:
    """The rows of a text; the digests of those that are there are made anew."""
    kept = []
    for one in json.loads(text):
        if len(one) == 1:
            kept.append(Kept(one[0]))
            continue
        row = AuditRow(*one[1:])
        kept.append(Kept(_digest(one[0], row), one[0], row))
    return kept


def root(kept: Sequence[Kept]) -> str:
    """What stands for all rows in an entry."""
    return hashlib.sha256("".join(one.digest for one in kept).encode()).hexdigest()


def text_of(entry: AuditEntry, kept: Sequence[Kept], previous: str) -> str:
    """The entry as a text, which its hash is of."""
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
    """The hash of an entry's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def entry_of(text: str, kept: Sequence[Kept]) -> AuditEntry:
    """The entry of a text, with its rows."""
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
