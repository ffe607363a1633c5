"""Is anything lost under fire? `PYTHONPATH=tests python -m proofs.soak [--seconds N] [--store local|s3|azure|all]`.

Several processes, each of another framework, write and read one store, while one maintains it, and
one after the other is killed and started again. In the end everything acknowledged must be there. It
ends with an exit code other than 0 if it is not, or if anything else is wrong.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import environments
from core.conformance.back_door import BackDoor
from npm import MissingError
from proofs.soak.crew import CrewError, Member, torment
from proofs.soak.journal import notes
from proofs.soak.judging import judged
from proofs.soak.page import printed, summed_up
from proofs.soak.places import PLACES
from proofs.soak.talk import USER, embedder

from lance_context_core import AsyncContextStore

ENVIRONMENTS = {
    "core": None,
    "langchain": "langchain-newest",
    "llama_index": "llama-index-newest",
    "agentscope1": "agentscope1",
}
"""Where each framework is; the core is wherever this runs."""

N_SAMPLES = 10
"""How many batches are searched for in the end."""


def main():
    """Run the soak in each place; returns the exit code."""
    arguments = _arguments()
    names = list(PLACES) if arguments.store == "all" else [arguments.store]
    seconds = arguments.seconds / len(names)
    pythons = environments.interpreters(arguments, ENVIRONMENTS)
    problems = []
    for name in names:
        try:
            found = _soak(name, pythons, seconds, arguments.seed, arguments.journals)
        except (CrewError, MissingError) as error:
            found = [error]
            _say(f"✗ {error}")
        problems += [(name, problem) for problem in found]
    if len(names) > 1:
        _say(summed_up(problems))
    return 1 if problems else 0


def _soak(name, pythons, seconds, seed, journals_to):
    """One soak in one place; returns what is wrong."""
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as scratch,
        PLACES[name](Path(scratch), seed=seed) as place,
        ExitStack() as stack,
    ):
        under_fire = place.under_fire | {"pace_seconds": place.pace_seconds}

        def member(role, framework, python):
            made = Member(role, framework, python, under_fire, Path(scratch))
            stack.callback(made.stop)
            return made

        writers = {one: member("writer", one, python) for one, python in pythons.items()}
        maintainer = member("maintainer", "core", sys.executable)
        members = [*writers.values(), maintainer]
        for one in members:
            one.await_work()
        torment(
            members,
            seconds=seconds,
            chance=random.Random(seed),
            mean_pause_seconds=place.kill_seconds,
        )
        for one in members:
            one.tell_to_stop()
        # What they are still at ends: each request that goes astray may cost it half a minute.
        place.calm_down()
        maintainer.end()
        for one in writers.values():
            one.await_stop()
        journals = {one.name: notes(one.journal) for one in members}
        if journals_to is not None:
            for one in members:
                shutil.copy(one.journal, journals_to / f"{name}-{one.journal.name}")
        samples = _samples(journals, seed)
        sessions, rows = asyncio.run(_looked_at(place))
        with ThreadPoolExecutor() as pool:
            asked = pool.map(
                lambda one: one.asked(sessions=sessions, samples=samples), writers.values()
            )
            seen = dict(zip(writers, asked, strict=True))
        verdict = judged(journals, sessions, rows, samples, seen)
        _say(printed(place, members, journals, verdict))
        return verdict.problems


async def _looked_at(place):
    """The sessions that the store tells of, once it was maintained; text and vector of each record."""
    async with AsyncContextStore.open(**place.store, embedder=embedder()) as store:
        await store.maintain()
        rows = [(row["text"], row.get("vector")) for row in await BackDoor(store).rows("records")]
        return await store.scope(user_id=USER).history.session_ids(""), rows


def _samples(journals, seed):
    """Some of the batches that were acknowledged: session, name and size."""
    sizes = {}
    done = []
    for one in (one for journal in journals.values() for one in journal):
        if one["what"] == "begun":
            sizes[one["batch"]] = one["size"]
        elif one["what"] == "done":
            done.append((one["session"], one["batch"], sizes[one["batch"]]))
    return random.Random(seed).sample(done, min(N_SAMPLES, len(done)))


def _say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _arguments():
    parser = argparse.ArgumentParser(prog="soak", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=600, help="in all places together; 600 by default"
    )
    parser.add_argument("--store", choices=[*PLACES, "all"], default="local")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--journals", type=Path, metavar="DIR", help="keep what was noted")
    environments.add_options(parser, list(ENVIRONMENTS))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
