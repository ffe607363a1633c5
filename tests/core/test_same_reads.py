"""The same random calls on several stores give the same reads, whatever is between caller and table.

One store has a log, one has none, one is flushed and opened anew again and again, and to one two
handles write in turn, or two processes. All have to answer what lists know, and what they do not, the
scores of a search, which the turns around a turn have a part in, has to be the same for all.
"""

import pickle
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from core import random_calls
from core.answers import answer
from core.conformance.doubles import ManualClock, WordVectors
from core.random_calls import ALIKE, Call, Drawn
from efforts import in_proofs

from lance_context_core import ContextStore

N_CALLS = 24
TESTS = Path(__file__).parents[1]
FIRST, REST = range(2), range(2, 1000)
READS = {one.__name__ for one in random_calls.READS}


class Place:
    """A store in a directory; each subclass has a way of its own to it."""

    def __init__(self, folder, clock):
        self.folder, self.clock = folder, clock
        self.stores = self._stores()

    def _stores(self):
        return [self._opened()]

    def _opened(self, **options):
        return opened(self.folder, self.clock, **options)

    def answer(self, n, call):
        """What it answers to the nth call."""
        return answer(self.stores[n % len(self.stores)], call)

    def close(self):
        for store in self.stores:
            store.close()


class WithLog(Place):
    """As a store is opened by default."""


class WithoutLog(Place):
    """Each write is a commit."""

    def _stores(self):
        return [self._opened(journal=None)]


class Flushed(Place):
    """What is written is flushed now and then, and each read is of a handle that is opened for it."""

    def answer(self, n, call):
        if n % 5 == 0:
            self.stores[0].flush()
        if call.name in READS:
            with self._opened() as store:
                return answer(store, call)
        return super().answer(n, call)


class TwoHandles(Place):
    """Two that write in turn, and take turns in reading."""

    def _stores(self):
        return [self._opened(), self._opened()]


class TwoProcesses(TwoHandles):
    """A handle of this process and one of another."""

    def _stores(self):
        return [self._opened(), OtherProcess(self.folder)]

    def answer(self, n, call):
        store = self.stores[n % 2]
        return store.answer(self.clock.now(), call) if n % 2 else answer(store, call)


class OtherProcess:
    """A handle that is open in a process of its own, and answers calls there."""

    def __init__(self, folder):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "core.test_same_reads", str(folder)],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def answer(self, now, call):
        arguments = (call.name, call.arguments)
        pickle.dump((now, arguments), self._process.stdin)
        self._process.stdin.flush()
        return pickle.load(self._process.stdout)  # noqa: S301 - our own

    def close(self):
        with self._process as process:
            process.stdin.close()


def opened(folder, clock, **options):
    """A handle as all here have it."""
    return ContextStore.open(
        folder, clock=clock, embedder=WordVectors(), maintenance=None, **options
    )


def all_calls(drawn):
    """A write and two reads of any kind."""
    return drawn.write(), drawn.read(), drawn.read()


def turns(drawn):
    """What is said, and rankings of it, in which the turns before and after a turn count."""
    write = drawn.append if drawn.rng.random() < 0.8 else drawn.replace_tail
    first = write()
    return first, drawn.ranked(drawn.lists), *(drawn.page_backwards(drawn.lists) for _ in range(3))


def compare(tmp_path, seed, *kinds, calls=all_calls):
    """Make the calls of this number in a store of each kind."""
    clock, rng = ManualClock(), Random(seed)
    drawn = Drawn(rng, clock.now)
    places = [kind(tmp_path / kind.__name__, clock) for kind in kinds]
    try:
        for n in range(N_CALLS):
            clock.advance(minutes=1)
            for call in calls(drawn):
                found = {type(place).__name__: place.answer(n, call) for place in places}
                wanted = call.wanted if call.wanted is not ALIKE else next(iter(found.values()))
                assert found == dict.fromkeys(found, wanted), (seed, n, call)
    finally:
        for place in places:
            place.close()


@pytest.mark.parametrize("seed", [*FIRST, *in_proofs(*REST)])
def test_stores_with_a_log_and_without_one_flushed_and_shared_read_alike(tmp_path, seed):
    compare(tmp_path, seed, WithLog, WithoutLog, Flushed, TwoHandles)


@pytest.mark.parametrize("seed", [0, *in_proofs(*range(1, 50))])
def test_what_two_processes_write_in_turn_reads_as_if_one_had_written_all(tmp_path, seed):
    compare(tmp_path, seed, WithLog, TwoProcesses)


@pytest.mark.parametrize("seed", [0, *in_proofs(*range(1, 200))])
def test_turns_rank_alike_whoever_wrote_those_around_them(tmp_path, seed):
    compare(tmp_path, seed, WithLog, WithoutLog, Flushed, TwoHandles, calls=turns)


@pytest.mark.parametrize("seed", [0, *in_proofs(*range(1, 50))])
def test_turns_that_two_processes_write_in_turn_rank_alike(tmp_path, seed):
    compare(tmp_path, seed, WithLog, TwoProcesses, calls=turns)


def serve(folder):
    """Answer what comes in, at the moments that come with it."""
    moment = ManualClock()
    with opened(folder, moment) as store:
        while True:
            try:
                now, (name, arguments) = pickle.load(sys.stdin.buffer)  # noqa: S301 - our own
            except EOFError:
                return
            moment.advance(seconds=(now - moment.now()) / timedelta(seconds=1))
            pickle.dump(answer(store, Call(name, arguments)), sys.stdout.buffer)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
