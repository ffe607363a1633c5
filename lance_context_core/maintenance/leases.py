"""Claims on tables for maintenance, with leases, and the results of the last runs.

They are in a small separate table, one row for each table and each of its branches,
excluded from versions, tags, branches and diffs.
"""

import json
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core._util.logs import log
from lance_context_core.protocols import Clock
from lance_context_core.storage import leases
from lance_context_core.storage.database import Database
from lance_context_core.storage.lance import fragments, reads
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.lance.schema import KEY, TIMESTAMP, upkeep_table
from lance_context_core.storage.leases import Lease, LeaseRenewer
from lance_context_core.storage.names import new_revision, next_revision
from lance_context_core.storage.sql.predicates import in_list
from lance_context_core.storage.write_batch import Mode, WriteBatch

UPKEEP_TABLE = "upkeep"

CLAIM = timedelta(minutes=2)
"""The lease. A claim is renewed as long as its holder lives, first after 40 seconds: most steps
end before. A holder that dies on another machine, or on Windows, blocks the others for so long.
The clocks of two machines may differ by somewhat less than that."""

_PRUNE_EVERY = 32
"""Versions of the claims' table between two removals of old ones."""
_PRUNE_AGE = timedelta(minutes=1)
"""The age from which they are old: reads end long before."""

_COLUMNS = {
    "holder": pa.string(),
    "until": TIMESTAMP,
    "last_at": TIMESTAMP,
    "last_by": pa.string(),
    "last_did": pa.string(),
    "last_error": pa.string(),
    "n_done": pa.int64(),
    "n_failed": pa.int64(),
}

_READ = (KEY, "revision", *_COLUMNS)

UPKEEP = upkeep_table([pa.field(name, type_) for name, type_ in _COLUMNS.items()])


@frozen_by_name
class Log:
    """The maintenance of one table, by any process."""

    last_at: datetime | None = None
    last_by: str | None = None
    """Machine, process and a random part."""
    last_did: Mapping[str, Any] | None = None
    last_error: str | None = None
    """The error of the last run; None if it succeeded."""
    n_done: int = 0
    n_failed: int = 0
    held_by: str | None = None
    """The current holder."""


@dataclass(slots=True)
class Claim:
    """The right to maintain one table, as long as it is renewed."""

    row: Mapping[str, Any]
    """The row of the claims' table, as its holder wrote it."""


class Claims:
    """The claims of one store, for one holder."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Reads and writes nothing before the first claim."""
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._database = database
        self._table = database.table(UPKEEP_TABLE, UPKEEP)
        self._clock = clock
        self._process = leases.mine()
        self._renewer = LeaseRenewer(self._renewed, "the maintenance of a table")
        """The claims of this holder; a row may still name it after a failed write."""
        self._returned: dict[str, Mapping[str, Any]] = {}
        """The rows as this holder wrote them: most are unchanged at the next claim."""

    async def take(self, key: str) -> Claim | None:
        """Returns the claim of that name; None if another holder has it, or was faster."""
        returned = self._returned.pop(key, None)
        if returned is not None and (claim := await self._taken(key, returned)) is not None:
            return claim
        row = await self._newest(key)
        return None if row is not None and self._is_held(row) else await self._taken(key, row)

    async def _taken(self, key: str, row: Mapping[str, Any] | None) -> Claim | None:
        """Returns the claim if its row, which is free, is unchanged; None stands for no row."""
        by, last = _holder_of(row)
        lease = Lease(token=leases.next_token(last.token or 0), process=self._process)
        taken = self._with(row or {KEY: key, "n_done": 0, "n_failed": 0}, self.holder, lease)
        if not (await self._table.write(WriteBatch([taken], Mode.UPSERT))).is_done:
            return None
        if by is not None:
            log.warning("%s: takes over maintenance from %s, which did not finish", key, by)
        claim = Claim(taken)
        self._renewer.keep(key, claim, CLAIM.total_seconds())
        return claim

    async def give_back(
        self, claim: Claim, *, did: Mapping[str, Any] | None = None, error: str | None = None
    ) -> None:
        """Ends the claim, and logs the work done under it; with neither argument, logs nothing."""
        await self._renewer.end(claim.row[KEY])
        row = self._with(claim.row, None, _holder_of(claim.row)[1])
        if did is not None or error is not None:
            row |= {
                "last_at": self._clock.now(),
                "last_by": self.holder,
                "last_error": error,
                "n_done": row["n_done"] + (error is None),
                "n_failed": row["n_failed"] + (error is not None),
            }
        if did is not None:
            row["last_did"] = json.dumps(did)
        done = await self._table.write(WriteBatch([row], Mode.UPSERT))
        if done.is_done:
            self._returned[row[KEY]] = row
        if done.version % _PRUNE_EVERY < 2:
            await fragments.forget_versions(self._table, older_than=_PRUNE_AGE)

    async def logs(self) -> dict[str, Log]:
        """Returns the log of each table, by the name of its claim."""
        if not await self._database.has(UPKEEP_TABLE):
            return {}
        return {
            row[KEY]: Log(
                last_at=row["last_at"],
                last_by=row["last_by"],
                last_did=None if row["last_did"] is None else json.loads(row["last_did"]),
                last_error=row["last_error"],
                n_done=row["n_done"],
                n_failed=row["n_failed"],
                held_by=_holder_of(row)[0] if self._is_held(row) else None,
            )
            for row in (await self._table.select(None, columns=_READ)).to_pylist()
        }

    async def _newest(self, key: str) -> dict[str, Any] | None:
        """Returns the current row, bypassing this process's cache; None if absent."""
        table = self._table
        handle = await table.access.opened()
        with translated(f"read {table.label}"):
            await handle.checkout_latest()
            rows = (await reads.scan(handle, in_list(KEY, [key]), _READ)).to_pylist()
        return {name: rows[0][name] for name in _READ} if rows else None

    async def _renewed(self, claims: Mapping[str, Claim]) -> list[str]:
        """Extends these claims; returns the names of those that are still held."""
        kept = []
        for key, claim in claims.items():
            row = self._with(claim.row, self.holder, _holder_of(claim.row)[1])
            if (await self._table.write(WriteBatch([row], Mode.UPSERT))).is_done:
                claim.row = row
                kept.append(key)
        return kept

    def _with(self, row: Mapping[str, Any], by: str | None, lease: Lease) -> dict[str, Any]:
        """Returns the successor of this row: with that holder, whose lease begins now, or none."""
        now = self._clock.now()
        ends = lease.renewed(CLAIM.total_seconds(), now.timestamp())
        return {
            **row,
            "holder": json.dumps([by, ends.token, ends.process, ends.ticks]),
            "until": None if by is None else now + CLAIM,
            "revision": next_revision(row["revision"]) if "revision" in row else new_revision(),
        }

    def _is_held(self, row: Mapping[str, Any]) -> bool:
        by, lease = _holder_of(row)
        if by is None or (by == self.holder and not self._renewer.keeps(row[KEY])):
            return False
        return not lease.is_free(self._clock.now().timestamp())


def _holder_of(row: Mapping[str, Any] | None) -> tuple[str | None, Lease]:
    """Returns a claim's holder, if any, and its lease; a row without one has had no holder yet."""
    if row is None or row["holder"] is None:
        return None, Lease()
    until = row["until"] and row["until"].timestamp()
    if not row["holder"].startswith("["):  # The format of the first stores.
        return row["holder"], Lease(until=until)
    by, token, process, ticks = json.loads(row["holder"])
    return by, Lease(token=token, process=process, until=until, ticks=ticks)
