"""A process that works on a store or a fleet until it is ended."""

import signal
from datetime import timedelta
from types import FrameType
from typing import Any

import click

from lance_context_cli import exits
from lance_context_cli.call import Call, pass_call
from lance_context_cli.output import Output
from lance_context_cli.place import importing


@click.command
@click.argument("place", required=False)
@click.option("--once", is_flag=True, help="Work one round, and end.")
@click.option(
    "--every",
    type=click.FloatRange(min=0, min_open=True),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="The pause between two rounds.",
)
@click.option(
    "--journal",
    metavar="ADDRESS",
    envvar="LANCE_CONTEXT_JOURNAL",
    help="The PostgreSQL database that has the write-ahead log.",
)
@pass_call
def worker(call: Call, place: str | None, once: bool, every: float, journal: str | None) -> int:
    """Flush, maintain and run the jobs of a store or a fleet, until SIGTERM or Ctrl-C.

    Any number of workers share the work of one PLACE. Each finishes the table or job in progress
    before it ends.
    """
    with importing():
        from lance_context_core import AsyncContextStore
        from lance_context_core.adapting import block_on
        from lance_context_core.errors import NotFoundError
        from lance_context_core.fleet import AsyncStoreFleet, WorkerRound, work

    uri = place or call.place.uri
    if uri is None:
        raise click.UsageError("no store is named: lance-ctx worker PLACE, or -C PLACE")
    given: Any = {"embedder": call.place.embedder, "maintenance": None}
    if journal is not None:
        given["journal"] = journal
    ending: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        ending.append(number)

    def told(done: WorkerRound) -> None:
        for error in done.errors:
            Output().note(f"lance-ctx: {error}")

    async def working() -> WorkerRound:
        fleet = (
            AsyncStoreFleet.open(uri, **given)
            if await AsyncStoreFleet.exists(uri, **given)
            else None
        )
        store = AsyncContextStore.open(uri, **given) if fleet is None else None
        opened = fleet or store
        assert opened is not None
        try:
            if store is not None and not (await store.stats()).tables:
                raise NotFoundError(f"no store or fleet at {uri!r}: name another place")
            return await work(
                opened,
                once=once,
                every=timedelta(seconds=every),
                is_ending=lambda: bool(ending),
                after_round=told,
            )
        finally:
            await opened.close()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    done = block_on(working())
    call.output.fields(
        {
            "stores": done.n_stores,
            "tables": done.n_tables,
            "jobs": done.n_jobs,
            "errors": len(done.errors),
        }
    )
    return exits.NO if once and done.errors else exits.OK


COMMANDS = (worker,)
