"""Whether a store is whole, what is due, and how fast it answers here."""

import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import click

from lance_context_cli import exits
from lance_context_cli.call import Call, pass_call
from lance_context_cli.commands.moving import progress
from lance_context_cli.output import Line

_MANY_VERSIONS = 1_000
_SAMPLE = 50
"""So many of the last records give the questions of `bench`."""


@click.command
@pass_call
def verify(call: Call) -> None:
    """Check every file, key, row and index, and list damage; ends with 1 if there is any."""
    with progress("rows checked") as tell:
        found = call.place.whole().verify(progress=tell)
    if call.output.format != "people":
        values = {one.name: getattr(found, one.name) for one in fields(found)}
        call.output.fields({"is_whole": found.is_whole, **values})
    else:
        call.output.rows(
            ("kind", "where", "what", "way out"),
            (Line((one.kind, one.where, one.what, one.way_out), one) for one in found.problems),
        )
        told = f"{found.files} files, {found.rows} rows and {found.indexes} indexes were checked"
        call.output.note(f"{told}: {'all is well' if found.is_whole else 'see above'}")
    if not found.is_whole:
        raise click.exceptions.Exit(exits.NO)


@click.command
@pass_call
def doctor(call: Call) -> None:
    """List recommended maintenance with its commands; ends with 1 if there is any.

    Reads counts only; verify reads every row.
    """
    found = [*_to_do(call.place.whole())]
    call.output.rows(
        ("where", "what", "command"),
        (Line(one, dict(zip(("where", "what", "command"), one, strict=True))) for one in found),
    )
    if found:
        raise click.exceptions.Exit(exits.NO)
    call.output.note("nothing is due")


def _to_do(store: Any) -> Iterator[tuple[str, str, str]]:
    stats = store.stats()
    for one in stats.tables:
        for why in one.due:
            yield one.table, str(why), "lance-ctx maintain"
        if one.last_error:
            yield one.table, f"upkeep failed: {one.last_error}", "lance-ctx maintain"
        if one.versions > _MANY_VERSIONS:
            yield one.table, f"there are {one.versions} versions", "lance-ctx thin"
    if jobs := store.knowledge.jobs.list(state="failed"):
        yield "jobs", f"{len(jobs)} failed", "lance-ctx jobs --state failed"


@click.command
@click.option("-n", "--repeats", type=click.IntRange(2), default=20, show_default=True)
@pass_call
def bench(call: Call, repeats: int) -> None:
    """Measure how fast this store answers on this machine, by the clock; nothing is written."""
    begun = time.perf_counter()
    store = call.place.reading()
    last = store.context().list(
        _SAMPLE, newest_first=True, include_binary=False, include_embedding=False
    )
    first = time.perf_counter() - begun
    asked = [one for one in last for _ in range(-(-repeats // max(len(last), 1)))][:repeats]
    lines = [_line("open, and the first read", [first * 1_000])]
    lines += [_line(what, _spent(do, asked)) for what, do in _questions(store).items() if asked]
    call.output.rows(("what", "times", "median ms", "95 % within ms"), lines)


def _questions(store: Any) -> dict[str, Callable[[Any], object]]:
    """What is asked, about a record that is there."""
    context = store.context()
    small: dict[str, Any] = {"include_binary": False, "include_embedding": False}

    def tail(one: Any) -> object:
        filters = {"session_id": one["session_id"], "kind": "message"}
        return context.list(_SAMPLE, filters=filters, newest_first=True, **small)

    return {
        "a record by its id": lambda one: context.get(id=one["id"]),
        "the last 50 messages of its session": tail,
        "a search by words, 10 hits": lambda one: store.search(
            " ".join((one["text"] or "nothing").split()[:5]) or "nothing", mode="text", limit=10
        ),
        "the sessions, the last 20": lambda _: store.sessions.list(limit=20),
    }


def _spent(do: Callable[[Any], object], asked: list[Any]) -> list[float]:
    """The milliseconds that each took."""
    found = []
    for one in asked:
        begun = time.perf_counter()
        do(one)
        found.append((time.perf_counter() - begun) * 1_000)
    return found


def _line(what: str, spent: list[float]) -> Line:
    from statistics import quantiles  # Help is told without it.

    parts = quantiles(spent, n=20, method="inclusive") if len(spent) > 1 else spent * 19
    told = {"what": what, "times": len(spent), "median_ms": parts[9], "p95_ms": parts[18]}
    return Line(tuple(told.values()), told)


COMMANDS = (verify, doctor, bench)
