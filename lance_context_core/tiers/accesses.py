"""The accesses that are counted and not written yet: they are written together."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from lance_context_core._resources import Accesses
from lance_context_core._util.retry import Attempts
from lance_context_core.errors import ConflictError
from lance_context_core.jobs import commits
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.database import PinnedDatabase
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records.scoped import Records
from lance_context_core.tiers import entries


def can_count(records: Records) -> bool:
    """Whether accesses may be counted: not where nothing may be written."""
    database = records.resources.database
    return not (isinstance(database, PinnedDatabase) or database.root.connection.is_read_only)


async def flush_if_due(records: Records, interval: timedelta) -> None:
    """Write them, if the last time was so long ago; if others are at the same rows, later."""
    if can_count(records) and records.resources.accesses.is_due(records.now(), interval):
        try:
            await flush(records)
        except ConflictError:
            return  # They are still counted, and due.


async def flush(records: Records) -> int:
    """Write all accesses of the process in one commit; returns of how many entries.

    Each is added to what stands there by then, so that of several processes none is lost.
    """
    pending = records.resources.accesses
    taken = pending.take()
    if not taken:
        return 0
    try:
        return await _written(replace(records, scope=Scope()), taken)
    except BaseException:
        pending.put_back(taken)
        raise


async def _written(records: Records, taken: Mapping[str, Accesses.Counted]) -> int:
    attempts = Attempts("the entries kept being changed by others")
    while True:
        attempts.begin()
        found = await commits.held(records, sql.in_list(KEY, sorted(taken)))
        changed = [
            (one, entries.accessed(one.record, *_counted(taken[one.row[KEY]]))) for one in found
        ]
        if await commits.write(records, [], changed):
            return len(changed)


def _counted(one: Accesses.Counted) -> tuple[int, datetime]:
    return one.times, one.last
