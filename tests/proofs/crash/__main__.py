"""The command: kill, look, repeat; then say what was seen."""

import argparse
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from core.conformance.backends import Backend, S3Server
from postgres import PostgresServer
from proofs.crash.check import differences, explain, found
from proofs.crash.model import VERBS, Model, Step
from proofs.crash.worker import do, work

from lance_context_core import ContextStore
from lance_context_core.settings import JournalPolicy

_JOURNALS = {
    "on": [JournalPolicy(), JournalPolicy(rows=8)],
    "off": [None],
    "both": [JournalPolicy(), JournalPolicy(rows=8), None],
}
"""What the processes that die open their store with, by chance. Small journals are folded often."""

_ROUNDS_A_STORE = 40
"""How many processes die in one store before the next one is begun."""
_MOST_STEPS = 20
"""How many steps a process may live to see; it is killed on the way to the next, or to those behind it."""
_STOPS = 0.1
"""How many of the deaths take the server with them."""
_PATIENCE_SECONDS = 300
"""How long a process may take for a step, on however busy a machine."""


@dataclass(frozen=True, slots=True)
class Lives:
    """What all processes do."""

    often: Sequence[str]
    journals: Sequence[JournalPolicy | None]
    server: PostgresServer | None = None
    """That has the journals; None where they are in files."""
    objects: S3Server | None = None
    """That has the stores; None where they are in directories."""


@dataclass(slots=True)
class Tally:
    """What was seen over all rounds."""

    n_rounds: int = 0
    n_acknowledged: int = 0
    n_stops: int = 0
    """How often the server was stopped at once, as by a crash."""
    lived_seconds: float = 0.0
    killed_in: Counter[str] = field(default_factory=Counter)
    done_though_killed: Counter[str] = field(default_factory=Counter)
    slowest_open_seconds: float = 0.0


def main(arguments: Sequence[str]) -> int:
    """Run the rounds that `arguments` ask for; returns 1 at the first broken promise."""
    parser = argparse.ArgumentParser(
        prog="PYTHONPATH=tests python -m proofs.crash", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--often", nargs="+", default=[], choices=list(VERBS), help="steps to do more often"
    )
    parser.add_argument(
        "--journal", choices=list(_JOURNALS), default="on", help="what small writes go through"
    )
    parser.add_argument(
        "--place",
        choices=["directory", "directory+postgres", "s3+postgres"],
        default="directory",
        help="its store",
    )
    parser.add_argument("--output", type=Path, help="where to write the summary as Markdown")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        lives = Lives(options.often, _JOURNALS[options.journal])
        if options.place != "directory":
            server = stack.enter_context(PostgresServer())
            journals = [
                replace(one, address=server.address()) for one in lives.journals if one is not None
            ]
            objects = stack.enter_context(S3Server()) if options.place == "s3+postgres" else None
            lives = Lives(options.often, journals, server, objects)
        return _run(options, lives)


def _run(options: argparse.Namespace, lives: Lives) -> int:
    """Run all rounds; returns 1 at the first broken promise."""
    tally = Tally()
    began = time.monotonic()
    for first in range(0, options.rounds, _ROUNDS_A_STORE):
        n_rounds = min(_ROUNDS_A_STORE, options.rounds - first)
        folder = tempfile.mkdtemp(prefix="crash-")
        place = lives.objects.backend() if lives.objects else Backend(uri=f"{folder}/store")
        broken = _store(place, options.seed + first, n_rounds, lives, tally)
        if broken is not None:
            print(f"round {tally.n_rounds}, store {place.uri}, kept if in a directory:\n{broken}")
            return 1
        shutil.rmtree(folder)
        print(f"{tally.n_rounds} of {options.rounds} rounds", file=sys.stderr)
    asked = f"--rounds {tally.n_rounds} --seed {options.seed}"
    asked += f" --journal {options.journal}"
    asked += f" --place {options.place}" if lives.server else ""
    asked += f" --often {' '.join(options.often)}" if options.often else ""
    text = summary(tally, asked=asked, seconds=time.monotonic() - began)
    print(text)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    return 0


def summary(tally: Tally, *, asked: str, seconds: float) -> str:
    """The rounds in numbers, as Markdown."""
    rows = [
        f"| {verb} | {tally.killed_in[verb]} | {tally.done_though_killed[verb]} |" for verb in VERBS
    ]
    return "\n".join(
        [
            "# Crash test",
            "",
            (
                f"`PYTHONPATH=tests python -m proofs.crash {asked}`: "
                f"{tally.n_rounds} processes killed with SIGKILL in {seconds / 60:.0f} minutes, {tally.n_acknowledged} acknowledged steps."
                + (
                    f" The server was stopped at once {tally.n_stops} times."
                    if tally.n_stops
                    else ""
                )
            ),
            "",
            (
                "Lost, doubled or half done: 0. "
                f"Slowest opening and reading of a store after a kill: {tally.slowest_open_seconds:.1f} s."
            ),
            "",
            "| killed while it was to | times | of these the step had taken place |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _store(place: Backend, seed: int, n_rounds: int, lives: Lives, tally: Tally) -> str | None:
    """Let `n_rounds` processes die in one store; returns what promise was broken, or None."""
    random = Random(seed)
    model = Model()
    for number in range(n_rounds):
        model, step = _live_and_die(place, seed + number, model, lives, random, tally)
        began = time.monotonic()
        journal, options = random.choice(lives.journals), place.storage_options
        with ContextStore.open(place.uri, journal=journal, storage_options=options) as store:
            seen = found(store)
            tally.slowest_open_seconds = max(tally.slowest_open_seconds, time.monotonic() - began)
            if (broken := explain(seen, model, step)) is not None:
                return broken
            if step is None:
                tally.n_rounds += 1
                continue
            is_done = differences(seen, model) is not None
            tally.done_though_killed[step.verb] += is_done
            if step.verb == "erase":
                # What it did first may not show: whoever began to erase has to see it through.
                do(store, step)
            if is_done or step.verb == "erase":
                model = model.after(step)
                if (broken := differences(found(store), model)) is not None:
                    return f"{step}\n  repeated: {broken}"
        tally.n_rounds += 1
    return None


def _live_and_die(
    place: Backend, seed: int, model: Model, lives: Lives, random: Random, tally: Tally
) -> tuple[Model, Step | None]:
    """The model of what a process was told, and the step in which it died."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["proofs.crash.worker"])
    heard, said = context.Pipe(duplex=False)
    journal = random.choice(lives.journals)
    arguments = (place.uri, seed, model, lives.often, journal, place.storage_options, said)
    process = context.Process(target=work, args=arguments, daemon=True)
    process.start()
    said.close()
    step: Step | None = None
    try:
        # Short lives are as likely as long ones. Steps are counted, since a busy machine does few a second.
        wanted = tally.n_acknowledged + int(_MOST_STEPS * random.random() ** 3)
        began = None
        while began is None or tally.n_acknowledged < wanted:
            if not heard.poll(_PATIENCE_SECONDS):
                raise TimeoutError(f"nothing was done within {_PATIENCE_SECONDS} seconds")
            model, step = _hear(heard, model, step, tally)
            began = began or time.monotonic()
        usual = tally.lived_seconds / tally.n_acknowledged if tally.n_acknowledged else 0.1
        deadline = time.monotonic() + 2 * usual * random.random()
        while (left := deadline - time.monotonic()) > 0:
            if heard.poll(left):
                model, step = _hear(heard, model, step, tally)
        tally.lived_seconds += time.monotonic() - began
    except EOFError:
        process.join()
        raise RuntimeError(f"the process ended by itself in {step}") from None
    is_stopped = lives.server is not None and random.random() < _STOPS
    if is_stopped and lives.server is not None:
        lives.server.stop()
        tally.n_stops += 1
    process.kill()
    process.join()
    if is_stopped and lives.server is not None:
        lives.server.start()
    try:
        while heard.poll():
            model, step = _hear(heard, model, step, tally)
    except EOFError:
        pass
    if step is not None:
        tally.killed_in[step.verb] += 1
    return model, step


def _hear(
    heard: Connection, model: Model, step: Step | None, tally: Tally
) -> tuple[Model, Step | None]:
    word, step = heard.recv()
    if word == "begin":
        return model, step
    tally.n_acknowledged += 1
    return model.after(step), None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
