"""Workers are killed inside jobs: `PYTHONPATH=tests python -m proofs.crash.jobs`.

After each kill a job has succeeded and all that it made is there, or it has not and nothing is; every turn
is there once, with `--archiving` also while sessions are put away and brought back. In the end all of it
is as in a store in which nobody died.
"""

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

from lance_context_core import ContextStore
from lance_context_core.knowledge import RuleExtractor, TraceEvent
from lance_context_core.settings import JournalPolicy
from lance_context_core.storage.database import COLD_TABLE
from lance_context_core.storage.table import Table

_ROUNDS_A_STORE = 12
"""So many processes die in one store before the next one is begun: each look at it is at all of it."""
_LIFE_SECONDS = (0.0, 0.08)
"""For so long a process lives on once it is in its first job: that takes about as long."""
_PATIENCE_SECONDS = 120
_JOURNALS = (JournalPolicy(), JournalPolicy(rows=8), None)
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_LEASE = timedelta(minutes=10)
"""After so long what a dead worker held is anybody's."""
_MOST_TRIES = 3
_USERS = ("ada", "bob", None)


class Clock:
    """Says what it was told."""

    def __init__(self, now: datetime = _BEGAN) -> None:
        self.moment = now

    def now(self) -> datetime:
        return self.moment


@dataclass(frozen=True, slots=True)
class Told:
    """A turn that somebody told, and how."""

    text: str
    user_id: str | None
    session_id: str
    at: datetime
    has_time: bool


@dataclass(slots=True)
class Seen:
    """What was seen of all rounds."""

    n_rounds: int = 0
    n_killed: int = 0
    n_jobs: int = 0
    n_facts: int = 0
    n_archiving: int = 0
    """How many of the killed died while they put a session away or brought it back."""
    left: Counter[str] = field(default_factory=Counter)
    """The states of the jobs that processes died with or beside."""
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """In a line."""
        states = ", ".join(f"{n} {state}" for state, n in sorted(self.left.items()))
        return (
            f"{self.n_killed} of {self.n_rounds} processes killed inside jobs, {self.n_archiving} of them "
            f"while they archived a session or brought one back, {self.n_jobs} jobs, "
            f"{self.n_facts} facts, in {self.seconds:.0f} s; the last job of the killed was {states}: "
            "facts and jobs agree, nothing is lost or doubled"
        )


def main(arguments: Sequence[str]) -> int:
    """Do what `arguments` ask for; returns 1 at the first broken promise."""
    parser = argparse.ArgumentParser(prog="PYTHONPATH=tests python -m proofs.crash.jobs")
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--archiving", type=float, default=0.3, help="in this share of the rounds")
    options = parser.parse_args(arguments)
    seen = Seen()
    random, began = Random(options.seed), time.monotonic()
    while seen.n_killed < options.kills:
        with tempfile.TemporaryDirectory() as directory:
            n = min(_ROUNDS_A_STORE, options.kills - seen.n_killed)
            broken = run(
                Path(directory), n_kills=n, random=random, seen=seen, archiving=options.archiving
            )
        if broken is not None:
            print(f"--seed {options.seed}, after {seen.n_killed} kills: {broken}")
            return 1
        seen.seconds = time.monotonic() - began
        print(f"{seen.n_killed} killed, {seen.n_jobs} jobs, {seen.seconds:.0f} s", flush=True)
    print(seen.text)
    return 0


def run(
    directory: Path, *, n_kills: int, random: Random, seen: Seen, archiving: float = 0.3
) -> str | None:
    """Kill so many workers in one store; returns which promise was broken, or None."""
    place, journal = directory / "store", random.choice(_JOURNALS)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["proofs.crash.jobs"])
    clock, told = Clock(), list[Told]()
    n_killed = 0
    with ContextStore.open(place, clock=clock, journal=journal) as store:
        while n_killed < n_kills:
            clock.moment += _LEASE
            for one in _something(random, clock, len(told)):
                told.append(one)
                _tell(store, one)
            is_archiving = random.random() < archiving
            about = random.choice(told).session_id
            if is_archiving:
                # What is archived has been read: a job about hidden turns has nothing to read.
                store.knowledge.jobs.run_due()
                clock.moment += _LEASE
            arguments = (str(place), clock.moment, random.uniform(*_LIFE_SECONDS), journal)
            more = {"target": move, "args": (*arguments, about)} if is_archiving else {}
            process = context.Process(**{"target": work, "args": arguments, "daemon": True, **more})
            if (broken := unended(process)) is not None:
                return broken
            if process.exitcode:
                n_killed += 1
                seen.n_killed += 1
                seen.n_archiving += is_archiving
                begun = [one for one in store.knowledge.jobs.list() if one.attempts]
                seen.left[begun[-1].state if begun else "not begun"] += 1
            seen.n_rounds += 1
            broken = broken_now(store, told)
            if broken is None and is_archiving:
                come_and_gone(store, clock, about)
                broken = broken_now(store, told)
            if broken is not None:
                return broken
        for _ in range(_MOST_TRIES):
            # What was in the way of a job, on a machine that has much to do, passes: it is tried again.
            clock.moment += _LEASE
            store.knowledge.jobs.run_due()
        seen.n_jobs += len(store.knowledge.jobs.list())
        found = everything(store)
        seen.n_facts += sum(n for one, n in found.items() if one[0] == "fact")
        left = [one for one in store.knowledge.jobs.list() if one.state != "succeeded"]
        if left:
            return (
                f"never done: {[(one.id, one.state, one.attempts, one.error) for one in left[:3]]}"
            )
        if (broken := broken_now(store, told)) is not None:
            return broken
    undisturbed = Clock()
    with ContextStore.open("memory://", clock=undisturbed) as alone:
        for one in told:
            undisturbed.moment = one.at
            _tell(alone, one)
        alone.knowledge.jobs.run_due()
        expected = everything(alone)
    if found != expected:
        return f"too much: {list(found - expected)[:5]}; too little: {list(expected - found)[:5]}"
    return None


def unended(process: BaseProcess) -> str | None:
    """Let a worker run to its end; how it ended, if neither killed nor done."""
    process.start()
    process.join(_PATIENCE_SECONDS)
    if process.exitcode is None:
        process.kill()
        return f"a worker was not done after {_PATIENCE_SECONDS} seconds"
    if process.exitcode not in (0, -signal.SIGKILL):
        return f"a worker ended with {process.exitcode}"
    return None


def work(place: str, now: datetime, life: float, journal: JournalPolicy | None) -> None:
    """Run what is due, and die some time after the first job was begun."""

    class Mortal(RuleExtractor):
        def extract(self, turns: Any) -> Any:
            if not doomed:
                doomed.append(threading.Timer(life, os.kill, (os.getpid(), signal.SIGKILL)))
                doomed[0].daemon = True
                doomed[0].start()
            return super().extract(turns)

    doomed: list[threading.Timer] = []
    store = ContextStore.open(place, clock=Clock(now), journal=journal)
    while True:
        # Who lives on when all is done dies at rest.
        if not store.knowledge.using(extractor=Mortal()).jobs.run_due() and not doomed:
            store.close()
            return


def move(
    place: str, now: datetime, life: float, journal: JournalPolicy | None, session_id: str
) -> None:
    """Put a session away and bring it back, again and again, and die while rows move."""
    real, doomed = Table.select, list[threading.Timer]()

    async def select(self: Table, *args: Any, **kwargs: Any) -> Any:
        if self.name == COLD_TABLE and not doomed:
            doomed.append(threading.Timer(life / 4, os.kill, (os.getpid(), signal.SIGKILL)))
            doomed[0].daemon = True
            doomed[0].start()
        return await real(self, *args, **kwargs)

    setattr(Table, "select", select)  # noqa: B010 - mypy refuses the assignment
    with ContextStore.open(place, clock=Clock(now), journal=journal) as store:
        while True:
            store.knowledge.archive(session_id)
            store.knowledge.unarchive(session_id)


def come_and_gone(store: ContextStore, clock: Clock, session_id: str) -> None:
    """Put a session away that somebody died at, and bring it back."""
    clock.moment += _LEASE
    store.knowledge.jobs.run_due()
    store.knowledge.archive(session_id)
    store.knowledge.unarchive(session_id)


def broken_now(store: ContextStore, told: Sequence[Told]) -> str | None:
    """Which promise is broken of what is there now; None if none is."""
    sessions = sorted({one.session_id for one in told})
    traces = {session_id: store.knowledge.trace(session_id) for session_id in sessions}
    return disagreement(store, traces) or misplaced(traces, told)


def misplaced(traces: Mapping[str, Sequence[TraceEvent]], told: Sequence[Told]) -> str | None:
    """Which turn of which session is lost or doubled, wherever it is; None if each is there once."""
    for session_id, events in traces.items():
        expected = Counter(one.text for one in told if one.session_id == session_id)
        found = Counter(
            one.record.text for one in events if one.kind == "turn" and one.record is not None
        )
        if found != expected:
            return f"{session_id}: too much: {found - expected}; too little: {expected - found}"
    return None


def disagreement(store: ContextStore, traces: Mapping[str, Sequence[TraceEvent]]) -> str | None:
    """Where jobs and what they made do not agree; None if they do."""
    jobs = {one.id: one for one in store.knowledge.jobs.list()}
    made = store.context("knowledge").list(
        include_retired=True, filters={"kind": {"$in": ["fact", "chunk"]}}
    )
    ids = Counter(one["id"] for one in made)
    if doubled := [id for id, n in ids.items() if n > 1]:
        return f"doubled: {doubled[:5]}"
    for one in made:
        for proof in one["metadata"]["evidence"]:
            if jobs[proof["job_id"]].state != "succeeded":
                return f"{one['id']} is there, and its job {proof['job_id']} is not done"
    archived = {job.session_id or "" for job in jobs.values() if job.kind == "archive"}
    there = {*ids} | {one.id for session_id in archived for one in traces[session_id]}
    for job in jobs.values():
        if job.state != "succeeded" or job.kind != "extract":
            continue
        for name in ("facts", "chunks"):
            if missing := [id for id in job.result[name] if id not in there]:
                return f"job {job.id} is done, and {missing[:5]} are not there"
    return None


def everything(store: ContextStore) -> Counter[tuple[Any, ...]]:
    """What was made, in words that do not depend on generated ids."""
    made = store.context("knowledge").list(include_retired=True, filters={"kind": {"$ne": "job"}})
    return Counter(
        (
            *(one["kind"], one["text"], one["session_id"], one["user_id"]),
            *(one["lifecycle_status"], len(one["metadata"]["evidence"])),
        )
        for one in made
    )


def _something(random: Random, clock: Clock, n: int) -> Iterator[Told]:
    for number in range(n, n + random.randint(1, 4)):
        clock.moment += timedelta(seconds=1)
        texts = [f"I live in Town{number}.", f"I love walk {number}.", f"I have {number} dogs."]
        yield Told(
            text=random.choice(texts),
            user_id=random.choice(_USERS),
            session_id=f"s{random.randrange(4)}",
            at=clock.moment,
            has_time=random.random() < 0.5,
        )


def _tell(store: ContextStore, one: Told) -> None:
    turn: dict[str, Any] = {"role": "user", "content": one.text}
    if one.has_time:
        turn["created_at"] = one.at
    store.knowledge.add(turn, user_id=one.user_id, session_id=one.session_id, infer="later")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
