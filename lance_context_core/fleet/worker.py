"""A process that flushes, maintains and runs the jobs of a store or a fleet.

Any number of them share the work: a flush holds the lock of its store, maintenance the lease of its
table, and a job belongs to the worker that has its lease.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from random import Random

from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core._util.logs import log
from lance_context_core.errors import ContextStoreError, InvalidRequestError
from lance_context_core.fleet.fleet import AsyncStoreFleet
from lance_context_core.storage.wal.log import LogSession, Part
from lance_context_core.store.store import AsyncContextStore

_PAUSE = timedelta(seconds=10)


@frozen_by_name
class WorkerRound:
    """What a worker has done in one round over all stores."""

    n_stores: int = 0
    n_tables: int = 0
    """The tables that were maintained."""
    n_jobs: int = 0
    """The jobs that were run, failed ones too."""
    errors: tuple[str, ...] = ()
    """Each with the store that it is about; the next round tries again."""


async def work(
    place: AsyncContextStore | AsyncStoreFleet,
    *,
    once: bool = False,
    every: timedelta = _PAUSE,
    is_ending: Callable[[], bool] = lambda: False,
    after_round: Callable[[WorkerRound], object] | None = None,
) -> WorkerRound:
    """Works on a store, or on each shard of a fleet, until `is_ending`; returns the last round.

    Each round runs the jobs that are due, flushes the log if nothing was written since the last
    round, and does the maintenance that is due; with `once`, a round flushes always. After a round
    it rests for `every`, and ends within a tenth of a second if it is to end; a table or a job in
    progress is finished first. Workers visit shards in different orders. Errors of a store are
    logged, and reported by `after_round`.
    """
    if not isinstance(every, timedelta) or every <= timedelta(0):
        raise InvalidRequestError(f"every={shown(every)}: give a timedelta above 0")
    waiting: dict[str, object] | None = None if once else {}
    while True:
        done = await _round(place, is_ending, waiting)
        if after_round is not None:
            after_round(done)
        if once or is_ending():
            return done
        until = asyncio.get_running_loop().time() + every.total_seconds()
        while (left := until - asyncio.get_running_loop().time()) > 0:
            if is_ending():
                return done
            await asyncio.sleep(min(0.1, left))


async def _round(
    place: AsyncContextStore | AsyncStoreFleet,
    is_ending: Callable[[], bool],
    waiting: dict[str, object] | None,
) -> WorkerRound:
    done = WorkerRound()
    if isinstance(place, AsyncContextStore):
        return await _visited(done, place.uri, lambda: _worked(place, is_ending, waiting))
    names = await place.shards()
    Random().shuffle(names)  # noqa: S311 - no secret: workers begin at different shards
    done = await _visited(done, place.uri, place._tidied)  # noqa: SLF001

    async def visit(name: str) -> WorkerRound:
        return await place._in_shard(name, lambda store: _worked(store, is_ending, waiting))  # noqa: SLF001

    for name in names:
        if is_ending():
            break
        done = await _visited(done, f"shard {name}", partial(visit, name))
    return done


async def _worked(
    store: AsyncContextStore, is_ending: Callable[[], bool], waiting: dict[str, object] | None
) -> WorkerRound:
    """Work on one store."""
    n_jobs = 0
    # One at a time, so that it can end in between.
    while not is_ending() and (jobs := await store.knowledge.jobs.run_due(limit=1)):
        n_jobs += len(jobs)
    await _flush(store, waiting)
    tables = [] if is_ending() else await store.maintain(only_due=True)
    n_tables = sum(bool(one.fragments_removed or one.indexes_built) for one in tables)
    return WorkerRound(n_stores=1, n_tables=n_tables, n_jobs=n_jobs)


async def _flush(store: AsyncContextStore, waiting: dict[str, object] | None) -> None:
    """Flush the log, if nothing was written to it since the last round.

    While others write, their flushes bring many rows each.
    """
    journal = store._resources.database.root.connection.journal  # noqa: SLF001
    if journal is None or waiting is None:
        await store.flush()
        return
    parts = await journal.parts()
    now = [await journal.asked(partial(_state, part), None) for part in parts]
    if parts and waiting.get(store.uri) == now:
        await store.flush()
        now = []
    waiting[store.uri] = now


def _state(part: Part, session: LogSession) -> object:
    return session.state(part)


async def _visited(
    before: WorkerRound, name: str, visit: Callable[[], Awaitable[WorkerRound | None]]
) -> WorkerRound:
    """Returns the round with one visit more."""
    try:
        one = await visit() or WorkerRound()
    except ContextStoreError as error:
        log.warning("worker: %s: %s", name, error)
        return replace(before, errors=(*before.errors, f"{name}: {error}"))
    return replace(
        before,
        n_stores=before.n_stores + one.n_stores,
        n_tables=before.n_tables + one.n_tables,
        n_jobs=before.n_jobs + one.n_jobs,
    )
