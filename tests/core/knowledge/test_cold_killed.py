"""A process is killed while it archives a session or brings it back: all of it is there, once."""

import signal
import subprocess
import sys

import pytest
from core.knowledge.living import OSLO, day, everything, facts, opened, said

PROGRAM = """
import os, signal, sys
from lance_context_core import ContextStore
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode

place, verb, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
done, real = 0, Table.write

async def killing(self, batch):
    global done
    is_move = batch.mode in (Mode.INSERT, Mode.UPSERT)
    if not is_move and batch.where is None and batch.expect is None:
        return await real(self, batch)
    if done == n:
        os.kill(os.getpid(), signal.SIGKILL)
    done += 1
    return await real(self, batch)

with ContextStore.open(place, maintenance=None) as store:
    Table.write = killing
    getattr(store.knowledge, verb)("s")
print(done)
"""

KEEN = said("I love skiing.", day(2024))
SHORT = [("archive", 6)]
"""In the midst of the moves; the other writes are those of the job around them."""
LONG = [(verb, n) for verb in ("archive", "unarchive") for n in range(8) if (verb, n) not in SHORT]


def killed(place, verb, n):
    """Whether the process that does this was killed before its write of that number."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(place), verb, str(n)], check=False, capture_output=True
    )
    assert run.returncode in (0, -signal.SIGKILL), run.stderr.decode()
    return bool(run.returncode)


@pytest.mark.process
@pytest.mark.parametrize(
    ("verb", "n"),
    [
        *(pytest.param(*one, id=f"{one[0]} after {one[1]} writes") for one in SHORT),
        *(
            pytest.param(*one, id=f"{one[0]} after {one[1]} writes", marks=pytest.mark.long)
            for one in LONG
        ),
    ],
)
def test_whoever_is_killed_while_rows_move_loses_and_doubles_nothing(tmp_path, clock, verb, n):
    def seen(store):
        told = [one.id for one in store.knowledge.trace("s") if one.kind != "job"]
        return sorted(told), len(told) == len(set(told))

    with opened(tmp_path, clock) as store:
        store.knowledge.add([OSLO, KEEN], session_id="s")
        known, made = seen(store), everything(store)
        if verb == "unarchive":
            store.knowledge.archive("s")
    assert killed(tmp_path / "store", verb, n)
    clock.advance(seconds=3_600)
    with opened(tmp_path, clock) as store:
        assert seen(store) == known
        # Whoever goes on: the job that was left, a repeated call.
        store.knowledge.jobs.run_due()
        store.maintain()
        assert seen(store) == known
        if facts(store) == []:
            store.knowledge.unarchive("s")
        assert everything(store) == made
