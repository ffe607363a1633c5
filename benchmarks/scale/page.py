"""What was measured, as the part of the page that the benchmark writes."""

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from statistics import median, quantiles

from benchmarks.scale.measuring import Measured

_GIB = 2**30
_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table."""

    what: str
    unit: str
    value: Callable[[Measured], float]
    worst: Callable[[Measured], float] | None = None
    """The 95th percentile of what `value` is the median of."""
    kind: str = ""
    """Of calls, which."""


def median_ms(kind: str) -> Callable[[Measured], float]:
    """The median of the calls of a kind."""
    return lambda measured: median(measured.times[kind]) * 1_000


def calls(what: str, kind: str) -> Line:
    """The line of something that is called again and again."""
    return Line(
        what=what,
        unit="ms",
        value=median_ms(kind),
        worst=lambda measured: quantiles(measured.times[kind], n=20)[-1] * 1_000,
        kind=kind,
    )


def once(what: str, name: str) -> Line:
    """The line of the seconds of something that is done once."""
    return Line(what=what, unit="s", value=lambda measured: measured.seconds[name])


def peak(what: str, name: str) -> Line:
    """The line of the memory of a process."""
    return Line(what=what, unit="GiB", value=lambda measured: measured.peaks[name] / _GIB)


def size(what: str, name: str) -> Line:
    """The line of something on the disk."""
    return Line(what=what, unit="MiB", value=lambda measured: measured.sizes[name] / _MIB)


def rate(what: str, name: str) -> Line:
    """The line of how fast all rows go by."""
    return Line(
        what=what, unit="rows/s", value=lambda measured: measured.rows / measured.seconds[name]
    )


def recall(what: str, kind: str) -> Line:
    """The line of how much of the exact answer is found."""
    return Line(what=what, unit="share", value=lambda measured: measured.recall[kind])


TABLES: dict[str, list[Line]] = {
    "A call, in a warm process": [
        calls("the last 50 messages of a session", "history"),
        calls("one record by its external id", "get"),
        calls("a turn of two messages appended", "append"),
        calls("the same with external ids, so that it may be repeated", "append with ids"),
        calls("the 10 nearest by vector", "vector"),
        calls("the same among the 1 % of one user", "vector, 1 % by user"),
        calls("the same among 1 % by a key of the metadata", "vector, 1 % by metadata"),
        calls("the same among the 50 % of one role", "vector, 50 % by role"),
        calls("the same among 50 % by a key of the metadata", "vector, 50 % by metadata"),
        calls("the 10 best by words", "words"),
        calls("the 10 best by both", "hybrid"),
    ],
    "Of the exact 10 nearest are found": [
        recall("by vector", "vector"),
        recall("among the 1 % of one user", "vector, 1 % by user"),
        recall("among 1 % by metadata", "vector, 1 % by metadata"),
        recall("among the 50 % of one role", "vector, 50 % by role"),
        recall("among 50 % by metadata", "vector, 50 % by metadata"),
    ],
    "Opening in a new process, and the first answer": [
        once("the last 50 messages of a session", "first history"),
        once("the 10 best by words", "first words"),
        once("the 10 nearest by vector", "first vector"),
    ],
    "Building, and reading all of it": [
        rate("adding, 10,000 a call", "add"),
        once("`maintain()` after that", "maintain"),
        rate("reading every record with `scan`", "read_all"),
    ],
    "Memory of a process, at its peak": [
        peak("that adds", "add"),
        peak("that maintains", "maintain"),
        peak("that asks all of the above", "ask"),
        peak("that reads all", "read_all"),
    ],
    "On the disk": [
        size("the vectors alone, as 32-bit floats", "vectors"),
        size("the store as it was built", "built"),
        size("a month and 400 turns later, its older versions thinned", "settled"),
    ],
}


def report(all_measured: Sequence[Measured], *, command: str, load: str) -> str:
    """What was measured, as Markdown."""
    parts = [f"```bash\n{command}\n```", _facts(load)]
    for title, lines in TABLES.items():
        parts += [f"**{title}**", _table(lines, all_measured)]
    return "\n\n".join(parts)


def _table(lines: Sequence[Line], all_measured: Sequence[Measured]) -> str:
    larger = all_measured[1:]
    sizes = [f"{one.rows:,}" for one in all_measured]
    ratios = [f"times at {one.rows:,}" for one in larger]
    head = ["", "unit", *sizes, *ratios]
    rows = [head, ["---", "---", *["---:"] * (len(head) - 2)]]
    for line in lines:
        values = [line.value(one) for one in all_measured]
        cells = [_shown(line, one) for one in all_measured]
        growth = [_rounded(value / values[0], 2) if values[0] else "-" for value in values[1:]]
        rows.append([line.what, line.unit, *cells, *growth])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _shown(line: Line, measured: Measured) -> str:
    value = _rounded(line.value(measured))
    return value if line.worst is None else f"{value} ({_rounded(line.worst(measured))})"


def _rounded(value: float, digits: int = 3) -> str:
    """So many digits that mean something, and those that are needed for whole numbers."""
    return f"{value:,.0f}" if value >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def _facts(load: str) -> str:
    pages, size_ = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return (
        f"On {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {pages * size_ / _GIB:.0f} GiB of "
        f"memory, {platform.system()} {platform.machine()}, load {load}; Python "
        f"{platform.python_version()}, lancedb {version('lancedb')}, pyarrow {version('pyarrow')}."
    )
