"""What looking at a large store costs: the command line, pages, SQL, an export, a check.

    python -m benchmarks.looking [--records 1000000] [--store DIR] [--output docs/evidence/scaling.md]

Each is done in a process of its own, several times; medians by the clock, and of CPU of all threads.
With `--store` a store that was made before is used again.
"""

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import inspector
from benchmarks.made_part import replaced
from lance_context_core import ContextStore

_REPEATS = 5
_OF_ONE = "SELECT id, text FROM messages WHERE user_id = 'u7'"
_OF_HALF = "SELECT id, session_id FROM messages WHERE created_at >= '{}'"
_GROUPED = "SELECT role, count(*) n FROM messages GROUP BY role"


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What something cost: by the clock, of CPU, and what of it is judged."""

    what: str
    seconds: float
    cpu_seconds: float
    rate: float | None = None
    """Rows a second of CPU."""
    mib: float | None = None
    """Most memory that the process had."""
    target: str = ""
    is_met: bool | None = None


def main() -> None:
    """Measure, and print a page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--do", choices=sorted(_JOBS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.do is not None:
        print(*_JOBS[options.do](options.store))
        return
    begun = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="looking-") as scratch:
        place = options.store or Path(scratch) / "memory"
        if not place.exists():
            asyncio.run(inspector.fill(str(place), options.records))
        with ContextStore.open(place, maintenance=None) as store:
            n_rows = sum(one.rows for one in store.stats().tables)
        page = _page([*_measured(place, n_rows)], n_rows, (begun, os.getloadavg()[0]))
    print(page)
    if options.output:
        old = options.output.read_text(encoding="utf-8")
        new = replaced(old, page, command="benchmarks.looking")
        options.output.write_text(new, encoding="utf-8")


def _measured(place: Path, n_rows: int) -> Iterable[Took]:
    ctx = [sys.executable, "-m", "lance_context_cli"]
    yield _of_processes("`lance-ctx --help`", [*ctx, "--help"], 0.3)
    yield _of_processes("`lance-ctx status`, cold", [*ctx, "-C", str(place), "status"], 2, place)
    asked = asyncio.run(inspector.measured(str(place), _REPEATS)).took
    ms = {
        name: [median(one) / 1_000 for one in zip(*took, strict=True)]
        for name, took in asked.items()
    }
    search = ms["search alone"][1]
    for name, most in (("overview", 0.3), ("search alone", None), ("search", search + 0.1)):
        target = (
            "" if most is None else f"≤ {most:.2g} s" if name == "overview" else "search + 0.1 s"
        )
        is_met = None if most is None else ms[name][1] <= most
        what = name if most is None else f"page: {name}"
        yield Took(
            what=what, seconds=ms[name][0], cpu_seconds=ms[name][1], target=target, is_met=is_met
        )
    for name, least in (("export", 20_000), ("verify", 50_000)):
        seconds, cpu, mib = _done(name, place)
        rate = n_rows / cpu
        target = f"≥ {least:,} rows/s"
        yield Took(
            what=name,
            seconds=seconds,
            cpu_seconds=cpu,
            rate=rate,
            mib=mib,
            target=target,
            is_met=rate >= least,
        )
    for name in ("one", "half"):
        engine = _done(f"engine-{name}", place)
        ours = _done(f"sql-{name}", place)
        yield Took(
            what=f"engine's scan: {_LABELS[name]}",
            seconds=engine[0],
            cpu_seconds=engine[1],
            mib=engine[2],
        )
        # What a connection costs, 30 ms, is what a query of few rows takes: it scans nothing.
        is_scan = name == "half"
        target = "≤ 2 x the scan's CPU" if is_scan else ""
        is_met = ours[1] <= 2 * engine[1] if is_scan else None
        yield Took(
            what=f"SQL: {_LABELS[name]}",
            seconds=ours[0],
            cpu_seconds=ours[1],
            mib=ours[2],
            target=target,
            is_met=is_met,
        )
    seconds, cpu, mib = _done("grouped", place)
    is_met = cpu < 2 and mib < 500
    yield Took(
        what="SQL: grouped by one column",
        seconds=seconds,
        cpu_seconds=cpu,
        mib=mib,
        target="< 2 s, < 500 MiB",
        is_met=is_met,
    )


_LABELS = {"one": "the rows of one user", "half": "half of the rows, by time"}


def _of_processes(what: str, command: list[str], most: float, place: Path | None = None) -> Took:
    """What a command costs from its start to its end; with `place`, its files are read from the disk."""
    found = []
    for _ in range(_REPEATS):
        if place is not None:
            _forget(place)
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - begun
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found.append((seconds, cpu))
    seconds, cpu = (median(one) for one in zip(*found, strict=True))
    return Took(
        what=what, seconds=seconds, cpu_seconds=cpu, target=f"≤ {most:g} s", is_met=cpu <= most
    )


def _forget(place: Path) -> None:
    """Have the system let go of what it holds in memory of the files."""
    for file in place.rglob("*"):
        if file.is_file():
            with file.open("rb") as open_:
                os.posix_fadvise(open_.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _done(job: str, place: Path) -> tuple[float, float, float]:
    command = [sys.executable, "-m", "benchmarks.looking", "--store", str(place), "--do", job]
    found = []
    for _ in range(1 if job in ("export", "verify") else _REPEATS):
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        found.append(tuple(map(float, told)))
    seconds, cpu, mib = (median(one) for one in zip(*found, strict=True))
    return seconds, cpu, mib


# In a process of its own


def _timed(
    place: Path, do: Callable[[ContextStore], Any], first: Callable[[ContextStore], Any]
) -> tuple[float, float, float]:
    with ContextStore.open(place, maintenance=None) as store:
        first(store)
        wall, cpu = time.perf_counter(), time.process_time()
        do(store)
        spent = time.perf_counter() - wall, time.process_time() - cpu
    return *spent, _peak_mib()


def _peak_mib() -> float:
    """The most memory that this program had; what `getrusage` says has that of whoever started it."""
    told = Path("/proc/self/status").read_text(encoding="ascii")
    return int(told.split("VmHWM:")[1].split()[0]) / 1_024


def _export(place: Path) -> tuple[float, float, float]:
    with tempfile.TemporaryDirectory(prefix="looking-") as scratch:
        return _timed(place, lambda store: store.export(Path(scratch) / "out.jsonl"), _nothing)


def _verify(place: Path) -> tuple[float, float, float]:
    return _timed(place, lambda store: store.verify(), _nothing)


def _sql(query: str) -> Callable[[Path], tuple[float, float, float]]:
    def done(place: Path) -> tuple[float, float, float]:
        asked = query.format(_middle(place))
        # The first one reads the files from the disk: that is not what is compared.
        return _timed(place, lambda store: store.sql(asked), lambda store: store.sql(asked))

    return done


def _engine(columns: list[str], where: str) -> Callable[[Path], tuple[float, float, float]]:
    def done(place: Path) -> tuple[float, float, float]:
        import lancedb

        table = lancedb.connect(str(place)).open_table("records")
        asked = where.format(_middle(place))
        table.search().where(asked).select(columns).to_arrow()
        wall, cpu = time.perf_counter(), time.process_time()
        table.search().where(asked).select(columns).to_arrow()
        spent = time.perf_counter() - wall, time.process_time() - cpu
        return *spent, _peak_mib()

    return done


def _middle(place: Path) -> str:
    """The moment in the middle of those that `inspector.fill` gives to the rows."""
    from datetime import UTC, datetime, timedelta

    with ContextStore.open(place, maintenance=None) as store:
        n_rows = sum(one.rows for one in store.stats().tables)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    return (begin + timedelta(seconds=n_rows // 2)).strftime("%Y-%m-%d %H:%M:%S")


def _nothing(store: ContextStore) -> None:
    store.stats()


_JOBS: dict[str, Callable[[Path], tuple[float, float, float]]] = {
    "export": _export,
    "verify": _verify,
    "sql-one": _sql(_OF_ONE),
    "sql-half": _sql(_OF_HALF.replace("{}", "{}+00")),
    "grouped": _sql(_GROUPED),
    "engine-one": _engine(["id", "text"], "`user_id` = 'u7'"),
    "engine-half": _engine(["id", "session_id"], "`created_at` >= timestamp '{}'"),
}


def _page(took: list[Took], n_rows: int, load: tuple[float, float]) -> str:
    lines = [
        f"A store of {n_rows:,} messages in 10,000 sessions, by `python -m benchmarks.looking`. Medians of {_REPEATS} runs, of an export and a check one; rates are rows a second of CPU.",
        f"Load {load[0]:.1f} when it began and {load[1]:.1f} when it ended, on {os.cpu_count()} processors: so targets are judged by CPU.",
        "",
        "| call | s of wall time | s of CPU | rows/s | MiB | target | met |",
        "|---|---:|---:|---:|---:|---|---|",
    ]
    for one in took:
        rate = "" if one.rate is None else f"{one.rate:,.0f}"
        mib = "" if one.mib is None else f"{one.mib:,.0f}"
        met = "" if one.is_met is None else "yes" if one.is_met else "**no**"
        lines.append(
            f"| {one.what} | {one.seconds:.3g} | {one.cpu_seconds:.3g} | {rate} | {mib} | {one.target} | {met} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
