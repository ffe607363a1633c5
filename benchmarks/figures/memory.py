"""Memory: what a process needs that writes or reads far more than it may hold."""

from collections.abc import Mapping

from benchmarks.bench import STORE, Bench
from benchmarks.processes import SideError
from benchmarks.registry import Row, Target, figure

_RECORDS = 200_000
_RECORDS_IN_LONG = 1_000_000
_WRITTEN_AT_ONCE = 10_000
_READ_AT_ONCE = 1_000
_TIMEOUT_SECONDS = 1_800


@figure("memory", "Small records without end")
def memory(bench: Bench) -> list[Row]:
    """The peak of a process that writes them in batches, and of one that scans them."""
    total = _RECORDS_IN_LONG if bench.is_long else min(2 * bench.rows, _RECORDS)
    uri = str(bench.folder / "small-records")
    peaks: dict[str, float] = {}
    notes: list[str] = [] if bench.is_long else [f"{_RECORDS_IN_LONG:,} records with `--long`"]
    try:
        peaks["writing"] = bench.start(STORE).ask(
            "write_small",
            uri=uri,
            rows=total,
            batch=_WRITTEN_AT_ONCE,
            timeout_seconds=_TIMEOUT_SECONDS,
        )
        read = bench.start(STORE).ask(
            "read_small", uri=uri, batch=_READ_AT_ONCE, timeout_seconds=_TIMEOUT_SECONDS
        )
        peaks["reading"] = read["gib"]
        if read["records"] != total:
            notes.append(f"{read['records']:,} records read")
    except SideError as error:
        notes.append(bench.failed(STORE, error))
    batches = {"writing": _WRITTEN_AT_ONCE, "reading": _READ_AT_ONCE}
    return [
        _row(f"{work} {total:,}, {batches[work]:,} at a time", work, peaks, notes)
        for work in batches
    ]


def _row(what: str, work: str, peaks: Mapping[str, float], notes: list[str]) -> Row:
    return Row(
        what=f"peak of the process's memory, {what}",
        unit="GiB",
        values={STORE: peaks[work]} if work in peaks else {},
        judged=peaks.get(work),
        target=Target(at_most=1),
        notes=tuple(notes),
    )
