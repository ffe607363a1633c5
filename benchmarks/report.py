"""The report of a run, as the Markdown page that is printed and kept."""

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from benchmarks.bench import COLUMNS
from benchmarks.environments import PINS
from benchmarks.registry import Figure, Row

_HOW = (
    "This page measures the cost of each call and compares it with LanceDB and other stores. Each side "
    "runs in its own process and times the call alone; the sides take turns, so that all meet the same "
    "load. Times are medians. `judged` is the figure that the target bounds: the ratio to LanceDB for "
    "times, or as the row says. Trust the ratios of one run, not times across machines. Records are "
    "synthetic, the same for every side and run."
)
_CPU = "The machine was busy: times are CPU times of the side's process, all threads together."


def page(
    results: Mapping[str, tuple[Figure, Sequence[Row]]], *, command: str, load: str, is_cpu: bool
) -> str:
    """The whole page; `load` says how busy the machine was."""
    parts = [
        "# Benchmarks",
        _HOW,
        *([_CPU] if is_cpu else []),
        "Run the benchmarks from the root of the repository:",
        f"```bash\n{command}\n```",
        _machine(load),
        *[_section(figure, rows) for figure, rows in results.values()],
    ]
    return "\n\n".join(parts) + "\n"


def _section(figure: Figure, rows: Sequence[Row]) -> str:
    shown = [name for name in COLUMNS if any(name in row.values for row in rows)]
    lines = [
        f"## {figure.title}",
        "",
        f"| work | unit |{''.join(f' {name} |' for name in shown)} judged | target | met |",
        f"|---|---|{'---:|' * len(shown)}---:|---|---|",
        *[_line(row, shown) for row in rows],
    ]
    notes = [note for row in rows for note in row.notes]
    if notes:
        lines += ["", *[f"- {note}" for note in dict.fromkeys(notes)]]
    return "\n".join(lines)


def _line(row: Row, shown: Sequence[str]) -> str:
    values = [f"{row.values[name]:.3g}" if name in row.values else "-" for name in shown]
    judged = "-" if row.judged is None else f"{row.judged:.3g}"
    target = "-" if row.target is None else str(row.target)
    met = "-"
    if row.target is not None:
        met = "not measured" if row.judged is None else _verdict(row.target.met_by(row.judged))
    return "| " + " | ".join([row.what, row.unit, *values, judged, target, met]) + " |"


def _verdict(met: bool) -> str:  # noqa: FBT001 - the only thing it is about
    return "yes" if met else "**no**"


def _machine(load: str) -> str:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    facts = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{os.cpu_count()} cores, {pages * size / 2**30:.0f} GiB of memory, "
        f"{platform.system()} {platform.machine()}",
        "load": load,
        "Python": platform.python_version(),
        "store": f"lance-context-core {_version('lance-context-core')} on lancedb "
        f"{_version('lancedb')}, pyarrow {_version('pyarrow')}",
        "peers": ", ".join(dict.fromkeys(pin for pins in PINS.values() for pin in pins)),
    }
    return "\n".join(f"- {name}: {fact}" for name, fact in facts.items())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"
