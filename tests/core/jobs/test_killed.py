"""A process is killed inside a job: what it should have written is there whole, or not at all."""

import signal
import subprocess
import sys

import pytest
from core.conformance.doubles import ManualClock
from core.knowledge.living import BERGEN as MOVED
from core.knowledge.living import OSLO, everything, facts, opened

from lance_context_core.jobs.queue import LEASE

PROGRAM = """
import os, signal, sys
from lance_context_core import ContextStore
from lance_context_core.storage.table import Table

n, real = int(sys.argv[2]), Table.write
done = 0

async def killing(self, batch):
    global done
    if batch.expect is None or not batch.is_whole:
        return await real(self, batch)
    if done == n:
        os.kill(os.getpid(), signal.SIGKILL)
    written = await real(self, batch)
    done += 1
    if done == n and sys.argv[3] == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return written

Table.write = killing
with ContextStore.open(sys.argv[1]) as store:
    store.knowledge.jobs.run_due()
"""


@pytest.mark.process
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", [1, 2], ids=["taking it", "finishing it"])
def test_facts_and_jobs_agree_and_nothing_is_doubled(tmp_path, n, when):
    clock = ManualClock()
    with opened(tmp_path, clock) as store:
        store.knowledge.add([OSLO], session_id="s1", user_id="ada")
        store.knowledge.add([MOVED], session_id="s2", user_id="ada", infer="later")
    arguments = [str(tmp_path / "store"), str(n - (when == "before")), when]
    killed = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], check=False)
    assert killed.returncode == -signal.SIGKILL
    later = ManualClock(clock.now().replace(year=2100))
    with opened(tmp_path, later) as store:
        (job,) = [one for one in store.knowledge.jobs.list() if one.session_id == "s2"]
        assert (job.state == "succeeded") == ("We moved to Bergen last week." in facts(store))
        later.advance(seconds=2 * LEASE.total_seconds())
        store.knowledge.jobs.run_due()
        found = everything(store)
    with opened(tmp_path / "alone", clock) as other:
        other.knowledge.add([OSLO], session_id="s1", user_id="ada")
        other.knowledge.add([MOVED], session_id="s2", user_id="ada")
        assert found == everything(other)
