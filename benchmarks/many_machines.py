"""A store of many machines: writers on an object store, and calls beside bare statements.

    PYTHONPATH=tests:. python -m benchmarks.many_machines --writers 8 --seconds 10

Starts PostgreSQL and an S3 server on this machine. The S3 server is written in Python and answers
one request at a time, so that only ratios of what was measured in one run mean something.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from typing import Any

import psycopg
from core.conformance.backends import (  # type: ignore[import-not-found]  # of tests/
    S3Server,
)
from postgres import PostgresServer  # type: ignore[import-not-found]  # of tests/

from lance_context_core import ContextStore, Message

_ROUNDS = 7
_CALLS = 40
_PAYLOAD = b"x" * 600
"""About what the log stores for a short message."""


def main(arguments: Sequence[str]) -> None:
    """Measure, and print a table as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_machines")
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args(arguments)
    print("| what | writers | appends | slowest | median |\n|---|---:|---:|---:|---:|")
    with S3Server() as objects, PostgresServer(is_synced=True) as server:
        for n_writers in options.writers:
            for name, address in (
                ("S3, no log", None),
                ("S3, log in PostgreSQL", server.address()),
            ):
                place = objects.backend()
                done = _appends(place.uri, place.storage_options, address, n_writers, options)
                row = f"{sum(done)} | {min(done)} | {statistics.median(done):g}"
                print(f"| {name} | {n_writers} | {row} |", flush=True)
        print("\n| call | milliseconds | beside | milliseconds | ratio |\n|---|---:|---|---:|---:|")
        for name, ours, beside, theirs in _calls(server):
            ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
            print(
                f"| {name} | {statistics.median(ours):.2f} | {beside} | "
                f"{statistics.median(theirs):.2f} | {ratio:.1f} |"
            )


def _appends(
    uri: str,
    storage_options: Mapping[str, str] | None,
    address: str | None,
    n_writers: int,
    options: argparse.Namespace,
) -> list[int]:
    """How many messages each of so many processes appended to one store in that time."""
    context = get_context("spawn")
    begin, counts = context.Barrier(n_writers), context.Queue()
    given = (uri, storage_options, address, options.seconds, begin, counts)
    writers = [context.Process(target=_append, args=(n, *given)) for n in range(n_writers)]
    for one in writers:
        one.start()
    done = [counts.get(timeout=600) for _ in writers]
    for one in writers:
        one.join()
    return done


def _append(
    number: int,
    uri: str,
    storage_options: Mapping[str, str] | None,
    address: str | None,
    seconds: float,
    begin: Any,
    counts: Any,
) -> None:
    agent, n = f"agent-{number}", 0
    options: dict[str, Any] = {"storage_options": storage_options, "maintenance": None}
    with ContextStore.open(uri, **options, journal=address) as store:
        store.history.append(agent, Message.user("warm"), session_id="s")
        begin.wait()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            store.history.append(agent, Message.user(f"message {n}"), session_id="s")
            n += 1
        counts.put(n)


def _calls(server: PostgresServer) -> list[tuple[str, list[float], str, list[float]]]:
    """Medians of calls, and of bare statements in turn with them."""
    with (
        tempfile.TemporaryDirectory() as folder,
        psycopg.connect(server.address(), autocommit=True, prepare_threshold=0) as bare,
        ContextStore.open(f"{folder}/store", journal=server.address(), maintenance=None) as store,
    ):
        bare.execute("CREATE TABLE bare (id bigserial PRIMARY KEY, payload bytea)")
        insert, select = (
            "INSERT INTO bare (payload) VALUES (%b) RETURNING id",
            "SELECT payload FROM bare ORDER BY id DESC LIMIT 10",
        )
        history, message = store.history, Message.user("hello")
        append = "append a message", lambda: history.append("a", message, session_id="s")
        tail = (
            "the last ten of a session",
            lambda: history.get_messages("a", session_id="s", limit=10),
        )
        inserted = "INSERT … RETURNING", lambda: bare.execute(insert, [_PAYLOAD]).fetchone()
        selected = "SELECT", lambda: bare.execute(select).fetchall()
        named: list[tuple[str, Callable[[], object]]] = [append, inserted, tail, selected]
        took: dict[str, list[float]] = {name: [] for name, _ in named}
        for n in range(_ROUNDS + 1):
            for name, call in named:
                seconds = _median(call)
                if n:  # the first round warms
                    took[name].append(seconds * 1000)
        pairs = ((append, inserted), (tail, selected))
        return [(one[0], took[one[0]], other[0], took[other[0]]) for one, other in pairs]


def _median(call: Callable[[], object]) -> float:
    took = []
    for _ in range(_CALLS):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


if __name__ == "__main__":
    main(sys.argv[1:])
