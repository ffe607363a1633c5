"""The command: run the field, print the table, and put it into the page."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.field.data import QUICK, WHOLE, make_data
from benchmarks.field.killing import TASK as KILL
from benchmarks.field.killing import killed
from benchmarks.field.page import made_part
from benchmarks.field.peers import PEERS, Peer
from benchmarks.field.running import Start, run
from benchmarks.made_part import replaced
from benchmarks.processes import Side


def main(arguments: Sequence[str]) -> None:
    """Run what `arguments` ask for."""
    options = _parser().parse_args(arguments)
    peers = [peer for peer in PEERS if not options.only or peer.script in options.only]
    before, began = os.getloadavg()[0], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="field-") as name:
        folder = Path(name)
        data = make_data(QUICK if options.quick else WHOLE, folder)
        start = _starting(folder, is_here=options.quick)
        outcomes = run(peers, data, start=start, folder=folder, say=_say)
        for peer in peers:
            _say(f"{peer.name}: kills")
            scratch = folder / f"kill-{peer.script}"
            scratch.mkdir()
            outcomes[peer.name].cells[KILL] = killed(peer, data, start=start, folder=scratch)
    load = f"{before:.1f} when it began, {os.getloadavg()[0]:.1f} when it ended"
    made = made_part(peers, outcomes, data, command=_command(options), load=load)
    made = made.replace(str(folder), "DIR").replace(str(Path.cwd()), ".")
    print(made)
    _say(f"it took {time.monotonic() - began:.0f} s")
    if options.output:
        page = options.output.read_text(encoding="utf-8")
        options.output.write_text(
            replaced(page, made, command="benchmarks.field"), encoding="utf-8"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.field", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", metavar="PEER", choices=[peer.script for peer in PEERS],
        help=f"these peers alone: {', '.join(peer.script for peer in PEERS)}",
    )  # fmt: skip
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few messages, without environments: peers that are not installed fail",
    )
    parser.add_argument("--output", type=Path, help="the page to write the table to")
    return parser


def _command(options: argparse.Namespace) -> str:
    words = ["python", "-m", "benchmarks.field"]
    words += ["--only", *options.only] if options.only else []
    words += ["--quick"] if options.quick else []
    return " ".join([*words, "--output", "docs/evidence/by_subject.md"])


def _starting(folder: Path, *, is_here: bool) -> Start:
    """How processes are started: each in its peer's environment, or all in this one."""
    n_started = 0

    def start(peer: Peer) -> Side:
        nonlocal n_started
        n_started += 1
        return peer.start(folder / f"{peer.script}-{n_started}.log", is_here=is_here)

    return start


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


main(sys.argv[1:])
