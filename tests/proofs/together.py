"""Four processes add, distil and undo at once: `PYTHONPATH=tests python -m proofs.together`.

Each does what it draws, in one store. A distillation or an undo may say that another worker does it; no
other error may come, above all none of files that are missing. In the end all that was acknowledged is there, nothing
is half done, and what is known is the fold of what counts, as the tests of the fold compute it.
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from core.knowledge.test_fold import START, Life, Plain, check

from lance_context_core import ConflictError, ContextStore, Message

N_PROCESSES = 4
_ACTS = ("add", "add", "add", "note", "distill", "distill", "undo", "search")
_SAID = ("home Oslo", "home Bergen", "home Rome", "home", "likes tea", "has a dog")
_SESSIONS = ("a", "b", "c")
_PATIENCE_SECONDS = 300

# The server that forks the workers has loaded the engine, but never run it.
warnings.filterwarnings("ignore", message="lancedb fork support is experimental")


def main(arguments: Sequence[str]) -> int:
    """Run the rounds that `arguments` ask for; returns 1 at the first broken promise."""
    parser = argparse.ArgumentParser(prog="PYTHONPATH=tests python -m proofs.together")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--acts", type=int, default=12, help="of each process in a round")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    began, done = time.monotonic(), Counter[str]()
    for number in range(options.seed, options.seed + options.rounds):
        with tempfile.TemporaryDirectory(prefix="together-") as folder:
            broken = run(Path(folder) / "store", number, options.acts, done)
        if broken is not None:
            print(f"--seed {number} --rounds 1: {broken}")
            return 1
        n_rounds = number - options.seed + 1
        print(f"{n_rounds} rounds, {time.monotonic() - began:.0f} s", flush=True)
    acts = ", ".join(f"{n} {name}" for name, n in sorted(done.items()))
    print(f"{options.rounds} rounds of {N_PROCESSES} processes: {acts}. Lost or half done: 0.")
    return 0


def run(place: Path, seed: int, n_acts: int, done: Counter[str]) -> str | None:
    """Let processes work in one store, and look at it; returns what is broken, or None."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["proofs.together"])
    workers = []
    for number in range(N_PROCESSES):
        here, there = context.Pipe(duplex=False)
        arguments = (str(place), seed * N_PROCESSES + number, number, n_acts, there)
        worker = context.Process(target=work, args=arguments, daemon=True)
        worker.start()
        there.close()
        workers.append((worker, here))
    said: dict[str, tuple[str, int, str]] = {}
    faults: list[str] = []
    for worker, here in workers:
        if not here.poll(_PATIENCE_SECONDS):
            return "a process did not end"
        mine, acts, errors = here.recv()
        said |= mine
        done.update(acts)
        faults += errors
        worker.join(_PATIENCE_SECONDS)
    return faults[0] if faults else look(place, said)


def work(place: str, seed: int, number: int, n_acts: int, told: Connection) -> None:
    """Do what is drawn; send what was said and acknowledged, what was done, and what was raised."""
    random, said = Random(seed), dict[str, tuple[str, int, str]]()
    acts, errors = Counter[str](), list[str]()
    try:
        with ContextStore.open(place) as store:
            for n in range(n_acts):
                act = random.choice(_ACTS)
                try:
                    _act(store, act, random, n * N_PROCESSES + number, said)
                    acts[act] += 1
                except ConflictError as error:
                    if act not in ("distill", "undo") or "another worker" not in str(error):
                        raise
                    acts[f"{act}, while another one was at work"] += 1
    except Exception:  # noqa: BLE001 - whatever it is, it is told
        errors.append(f"process {number}: {traceback.format_exc()}")
    told.send((said, acts, errors))


def _act(
    store: ContextStore, act: str, random: Random, day: int, said: dict[str, tuple[str, int, str]]
) -> None:
    memory: Any = store.knowledge.using(extractor=Plain())
    session, text = random.choice(_SESSIONS), random.choice(_SAID)
    if act in ("add", "note"):
        id = f"{session}-{day}"
        turn = Message.user(text, id=id, created_at=START + timedelta(days=day))
        infer = "auto" if act == "add" else "never"
        added = memory.add([turn], session_id=session, user_id="ada", infer=infer)
        said[id] = (session, day, text)
        if added.errors:
            raise AssertionError(added.errors)
    elif act == "distill":
        memory.distill(apply="merge")
    elif act == "undo":
        jobs = [one for one in memory.jobs.list(state="succeeded") if one.parent_id is None]
        if jobs := [one for one in jobs if one.kind in ("extract", "distill", "undo")]:
            memory.undo(random.choice(jobs).id)
    else:
        memory.search("home Oslo tea", user_id="ada", evidence=True)


def look(place: Path, said: dict[str, tuple[str, int, str]]) -> str | None:
    """What is broken of what is there once all are done; None if nothing is."""
    with Life(place) as life:
        life.said = said
        if lost := {*said} - {id for _, id in life.there()}:
            return f"acknowledged and lost: {sorted(lost)}"
        life.memory.jobs.run_due()
        for job in life.memory.jobs.list(state="proposed"):
            life.memory.merge(job.id)
        life.memory.distill(apply="merge")
        states = Counter(one.state for one in life.memory.jobs.list())
        if {*states} - {"succeeded", "cancelled"}:
            return f"half done: {states}"
        if left := life.store.branches():
            return f"branches are left: {left}"
        if not (found := life.store.verify()).is_whole:
            return f"damaged: {found.problems}"
        try:
            check(life)
        except AssertionError:
            return f"not the fold of what counts: {traceback.format_exc()}"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
