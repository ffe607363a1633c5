"""Another process remembers over the place of this one; at last it is killed."""

import subprocess
import sys
from pathlib import Path

import pytest
from adapters.crewai.flows import Booking
from adapters.crewai.samples import contents, found_in, record
from crewai_lance_context import LanceFlowPersistence, LanceMemoryStorage

from lance_context_core import ContextStore

WORKER = Path(__file__).with_name("worker.py")
TESTS = Path(__file__).parents[2]
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
def other(home):
    """One process: the import of CrewAI takes seconds."""
    made = Process(home, "ada")
    with made.process:
        assert made.hear() == "ready"
        yield made
        made.process.kill()


@pytest.fixture
def here(home):
    with ContextStore.open(home) as opened:
        yield opened


def test_two_processes_save_at_once_and_nothing_is_lost(other, here):
    storage = LanceMemoryStorage(here)
    other.tell(f"save {N}")
    for number in range(N):
        storage.save([record(f"ben {number}", scope="/all")])
    assert other.hear() == "done"
    expected = {f"{who} {number}" for who in ("ada", "ben") for number in range(N)}
    assert len(storage.list_records(limit=1_000)) == storage.count("/all") == 2 * N
    assert set(contents(storage.list_records())) == expected
    assert here.memory.list().total == 2 * N
    assert found_in(storage, f"ada {N - 1}", limit=1) == [f"ada {N - 1}"]


def test_a_flow_that_waits_in_one_process_is_resumed_in_another(other, here):
    other.tell("wait trip")
    assert other.hear() == "waits"
    flows = LanceFlowPersistence(here)
    assert Booking.from_pending("trip", flows).resume("a window seat") == (
        "night train for 90: a window seat"
    )
    assert flows.load_pending_feedback("trip") is None


def test_what_was_saved_survives_a_kill_and_a_save_is_all_or_nothing(other, here):
    other.tell("endlessly /killed")
    heard = [other.hear() for _ in range(8)]
    other.process.kill()
    heard += other.process.stdout.read().splitlines()
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
