"""Each read of the store, by a handle that is cold, one that is warm, and one that is pinned.

What is written by one handle is read by all: two that are open all the time and write in turn, one
that is opened for a single read, and those that were pinned to a moment, which go on answering what
was there. `random_calls` draws the calls and knows the answers.
"""

import shutil
import tempfile
from datetime import timedelta
from random import Random

import pytest
from core.answers import answer
from core.conformance.doubles import ManualClock, WordVectors
from core.random_calls import ALIKE, Drawn
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lance_context_core import ContextStore
from lance_context_core.settings import JournalPolicy

seeds = st.integers(0, 2**32 - 1)
journals = st.sampled_from([JournalPolicy(), JournalPolicy(rows=3), None])
"""One that is folded when it is asked, one that is by itself, and none."""
WARM = (0, 1)
N_READS = 2
"""By each handle, after each write."""


class EveryHandle(RuleBasedStateMachine):
    """A directory that several handles write to and read of."""

    @initialize(seed=seeds, journal=journals)
    def open(self, seed, journal):
        self.clock = ManualClock()
        self.drawn = Drawn(Random(seed), self.clock.now)
        self.folder = tempfile.mkdtemp()
        self.journal = journal
        self.warm = [self._opened() for _ in WARM]
        self.pinned, self.openers = {}, {}

    def _opened(self, **options):
        return ContextStore.open(
            self.folder,
            clock=self.clock,
            embedder=WordVectors(),
            journal=self.journal,
            maintenance=None,
            **options,
        )

    def teardown(self):
        if hasattr(self, "warm"):
            for store in (*self.warm, *self.openers.values()):
                store.close()
            shutil.rmtree(self.folder)

    # Writing

    @rule(seed=seeds, handle=st.sampled_from([*WARM, *WARM, None]))
    def write(self, seed, handle):
        """By a warm handle, or by one that is opened for it."""
        self.drawn.rng = Random(seed)
        self.clock.advance(minutes=1)
        call = self.drawn.write()
        if handle is None:
            with self._opened() as store:
                found = answer(store, call)
        else:
            found = answer(self.warm[handle], call)
        assert found == call.wanted, call
        self._read()

    @rule(seed=seeds, handle=st.sampled_from(WARM))
    def erase(self, seed, handle):
        """What is erased is in no pinned moment, either, which are written anew for that."""
        self.clock.advance(minutes=1)
        said = [*self.drawn.lists.history, *self.drawn.lists.memory]
        ids = [one.id for one in Random(seed).sample(said, min(2, len(said)))]
        if ids:
            self.warm[handle].erase(ids=ids)
            for name, (_, lists) in self.pinned.items():
                self.pinned[name] = (self.openers[name].checkout(name), lists)
        for lists in (self.drawn.lists, *(lists for _, lists in self.pinned.values())):
            lists.history = [one for one in lists.history if one.id not in ids]
            lists.memory = [one for one in lists.memory if one.id not in ids]
        self._read()

    # What changes no answer

    @rule(name=st.sampled_from(["one", "two"]), handle=st.sampled_from(WARM))
    def pin(self, name, handle):
        """A tag, which holds each table as it is now."""
        store = self.warm[handle]
        if name in self.pinned:
            self.openers.pop(name).close()
            store.delete_tag(name)
        store.tag(name)
        self.openers[name] = self._opened()
        self.pinned[name] = (self.openers[name].checkout(name), self.drawn.pin())
        self._read()

    @rule(handle=st.sampled_from(WARM))
    def fold(self, handle):
        self.warm[handle].flush()
        self._read()

    @rule(handle=st.sampled_from(WARM))
    def maintain(self, handle):
        self.warm[handle].maintain()
        self._read()

    @rule(handle=st.sampled_from(WARM), journal=journals)
    def reopen(self, handle, journal):
        """One of the two, so that the other one has to notice what is done without it."""
        self.warm[handle].close()
        self.journal = journal
        self.warm[handle] = self._opened()
        self._read()

    @rule(minutes=st.integers(3, 12))
    def time_goes_by(self, minutes):
        self.clock.advance(minutes=minutes)
        self._read()

    @precondition(lambda self: self.drawn.lists.history)
    @rule(seed=seeds)
    def read_much(self, seed):
        """Whatever the handles keep, they keep it now."""
        self.drawn.rng = Random(seed)
        self._read(n=20)

    # Reading

    def _read(self, n=N_READS):
        for handle in WARM:
            self._compare(f"warm handle {handle}", self.warm[handle], n)
        with self._opened() as store:
            self._compare("cold handle", store, n)
        with self._opened(search_cache=None, read_consistency=timedelta(0)) as store:
            self._compare("cold handle that keeps nothing", store, n)
        for name, (store, lists) in self.pinned.items():
            self._compare(f"handle pinned to {name}", store, n, lists)
        for name, (_, lists) in self.pinned.items():
            with self._opened() as store:
                self._compare(f"cold handle pinned to {name}", store.checkout(name), n, lists)

    def _compare(self, who, store, n, lists=None):
        for _ in range(n):
            call = self.drawn.read(lists)
            found = answer(store, call)
            assert call.wanted is ALIKE or found == call.wanted, (who, call)


EveryHandle.TestCase.settings = settings(
    max_examples=settings.default.max_examples // 5, stateful_step_count=15
)
TestEveryHandle = pytest.mark.slow(EveryHandle.TestCase)
