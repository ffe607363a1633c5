"""Two processes remember over one place; at last one is killed."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from adapters.crewai.flows import Booking
from adapters.crewai.samples import contents, found_in, record
from crewai_lance_context import LanceFlowPersistence, LanceMemoryStorage

from lance_context_core import ContextStore

WORKER = Path(__file__).with_name("worker.py")
TESTS = Path(__file__).parents[2]
CREW = ("ada", "ben")
N = 50
pytestmark = pytest.mark.process


class Process:
    """One that was told to do something, and answers."""

    def __init__(self, place, who):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", RUN, str(place), who],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def tell(self, said):
        self.process.stdin.write(f"{said}\n")
        self.process.stdin.flush()

    def hear(self):
        return self.process.stdout.readline().rstrip("\n")


RUN = f"import runpy, sys; sys.path.insert(0, {str(TESTS)!r}); runpy.run_path({str(WORKER)!r}, run_name='__main__')"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("processes") / "memory"


@pytest.fixture(scope="module")
def crew(home):
    with ExitStack() as stack:
        made = [Process(home, who) for who in CREW]
        for one in made:
            stack.enter_context(one.process)
        assert [one.hear() for one in made] == ["ready", "ready"]
        yield made
        for one in made:
            one.process.kill()


@pytest.fixture
def here(home):
    with ContextStore.open(home) as opened:
        yield opened


def test_two_processes_save_at_once_and_nothing_is_lost(crew, here):
    for one in crew:
        one.tell(f"save {N}")
    assert [one.hear() for one in crew] == ["done", "done"]
    storage = LanceMemoryStorage(here)
    expected = {f"{who} {number}" for who in CREW for number in range(N)}
    assert len(storage.list_records(limit=1_000)) == storage.count("/all") == 2 * N
    assert set(contents(storage.list_records())) == expected
    assert here.memory.list().total == 2 * N
    assert found_in(storage, f"ben {N - 1}", limit=1) == [f"ben {N - 1}"]


def test_a_flow_that_waits_in_one_process_is_resumed_in_another(crew, here):
    crew[0].tell("wait trip")
    assert crew[0].hear() == "waits"
    flows = LanceFlowPersistence(here)
    assert Booking.from_pending("trip", flows).resume("a window seat") == (
        "night train for 90: a window seat"
    )
    assert flows.load_pending_feedback("trip") is None


def test_what_was_saved_survives_a_kill_and_a_save_is_all_or_nothing(crew, here):
    killed = crew[0]
    killed.tell("endlessly /killed")
    heard = [killed.hear() for _ in range(8)]
    killed.process.kill()
    heard += killed.process.stdout.read().splitlines()
    storage = LanceMemoryStorage(here)
    found = contents(storage.list_records("/killed", limit=10_000))
    assert len(found) in (3 * len(heard), 3 * len(heard) + 3)
    assert set(found) == {f"{n} {part}" for n in range(len(found) // 3) for part in "abc"}
    shared = [one.text for one in here.memory.latest(limit=10_000) if one.text in set(found)]
    assert sorted(shared) == sorted(found)
    last = LanceFlowPersistence(here).load_state("killed")["n"]
    assert last in (len(heard) - 1, len(heard))
    storage.save([record("and again", scope="/killed")])
    assert storage.count("/killed") == len(found) + 1
