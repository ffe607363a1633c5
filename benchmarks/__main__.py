"""The command: run the figures, print the page, and keep it if it is whole."""

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.corpus import QUERIES
from benchmarks.registry import Figure, Row, all_figures
from benchmarks.report import page
from benchmarks.sides.measuring import CPU

_PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "benchmarks.md"
_ROWS = 100_000
_REPEATS = 60


def main(arguments: Sequence[str]) -> None:
    """Run what `arguments` ask for."""
    figures = {figure.name: figure for figure in all_figures()}
    options = _parser(list(figures)).parse_args(arguments)
    chosen = options.only or list(figures)
    before = os.getloadavg()[0]
    if options.cpu:
        os.environ[CPU] = "1"
    results: dict[str, tuple[Figure, list[Row]]] = {}
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        bench = Bench(
            folder=Path(folder),
            rows=options.rows,
            repeats=options.repeats,
            conversations=options.conversations,
            is_long=options.long,
        )
        try:
            for name in chosen:
                print(f"figure {name}", file=sys.stderr)
                results[name] = (figures[name], figures[name].measure(bench))
        finally:
            bench.close()
    load = f"{before:.1f} when it began, {os.getloadavg()[0]:.1f} when it ended"
    text = page(results, command=_command(options), load=load, is_cpu=options.cpu)
    print(text)
    output = options.output or (_PAGE if not options.only and options.conversations else None)
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        print("not written: this is not a whole run, pass --output", file=sys.stderr)


def _parser(names: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=names, help="run only these figures")
    parser.add_argument("--rows", type=int, default=_ROWS, help="records in each store")
    parser.add_argument(
        "--repeats",
        type=int,
        choices=range(2, QUERIES + 1),
        metavar="N",
        default=_REPEATS,
        help=f"queries a figure, 2 to {QUERIES}",
    )
    parser.add_argument("--conversations", type=Path, help="a folder of conversations in JSON")
    parser.add_argument(
        "--long", action="store_true", help="100,000 appends in a row and 1,000,000 small records"
    )
    parser.add_argument(
        "--cpu",
        action="store_true",
        help="measure CPU time of each side's process, all threads, instead of wall time: for a busy machine",
    )
    parser.add_argument("--output", type=Path, help="the file to write the page to")
    return parser


def _command(options: argparse.Namespace) -> str:
    """The command that does the same; folders of this machine are not named."""
    words = ["python", "-m", "benchmarks"]
    words += ["--only", *options.only] if options.only else []
    words += ["--rows", str(options.rows)] if options.rows != _ROWS else []
    words += ["--repeats", str(options.repeats)] if options.repeats != _REPEATS else []
    words += ["--long"] if options.long else []
    words += ["--cpu"] if options.cpu else []
    words += ["--conversations", "DIR"] if options.conversations else []
    return shlex.join(words)


main(sys.argv[1:])
