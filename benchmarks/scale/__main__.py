"""The command: build stores of several sizes, ask each the same, and say how they compare."""

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.made_part import replaced
from benchmarks.scale.figure import svg
from benchmarks.scale.measuring import Measured, measure
from benchmarks.scale.page import median_ms, report
from benchmarks.scale.records import BATCH

_DOCS = Path(__file__).parents[2] / "docs" / "evidence"
_ROWS = (10_000, 100_000, 1_000_000)
_BYTES_A_ROW = 12_000
"""What the largest store takes on the disk for each of its rows, while it is maintained."""

SHOWN = {
    "hybrid": "hybrid",
    "words": "words",
    "vector": "vector",
    "vector of one user (1 %)": "vector, 1 % by user",
    "append a turn": "append",
    "last 50 of a session": "history",
    "get by id": "get",
}
"""The lines of the figure, and the calls that they show."""


def main(arguments: Sequence[str]) -> None:
    """Measure what `arguments` ask for."""
    options = _parser().parse_args(arguments)
    if any(rows < BATCH or rows % BATCH for rows in options.rows):
        sys.exit(f"--rows: give multiples of {BATCH:,}")
    if options.figure and len(set(options.rows)) == 1:
        sys.exit("--figure: give two sizes or more, to show how things grow")
    before = os.getloadavg()[0]
    all_measured = []
    with tempfile.TemporaryDirectory(prefix="scale-", dir=options.directory) as folder:
        free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        if free < (needed := max(options.rows) * _BYTES_A_ROW):
            sys.exit(f"{folder}: {needed / 2**30:.0f} GiB are needed: choose another --directory")
        for rows in sorted(set(options.rows)):
            print(f"{rows:,} records", file=sys.stderr)
            all_measured.append(measure(rows, Path(folder)))
    load = f"{before:.1f} when it began and {os.getloadavg()[0]:.1f} when it ended"
    text = report(all_measured, command=_command(options), load=load)
    print(text)
    is_whole = tuple(sorted(options.rows)) == _ROWS
    if output := options.output or (_DOCS / "scaling.md" if is_whole else None):
        page = output.read_text(encoding="utf-8")
        output.write_text(replaced(page, text, command="benchmarks.scale"), encoding="utf-8")
    if figure := options.figure or (_DOCS / "scaling.svg" if is_whole else None):
        figure.write_text(drawn(all_measured), encoding="utf-8")


def drawn(all_measured: Sequence[Measured]) -> str:
    """The figure of what was measured."""
    times = {
        name: [median_ms(kind)(measured) for measured in all_measured]
        for name, kind in SHOWN.items()
    }
    return svg([one.rows for one in all_measured], times, title="Median time of a call")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=list(_ROWS), help="sizes of stores")
    parser.add_argument(
        "--directory", type=Path, help="the folder in which stores are built and then removed"
    )
    parser.add_argument("--output", type=Path, help="the page whose marked part is rewritten")
    parser.add_argument("--figure", type=Path, help="the file to draw the figure in")
    return parser


def _command(options: argparse.Namespace) -> str:
    """The command that does the same; folders of this machine are not named."""
    words = ["python", "-m", "benchmarks.scale"]
    if tuple(sorted(options.rows)) != _ROWS:
        words += ["--rows", *map(str, options.rows)]
    return shlex.join(words)


if __name__ == "__main__":
    main(sys.argv[1:])
