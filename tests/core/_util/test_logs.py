"""What the logger `lance_context` tells, and what it does not."""

import json
import logging
import subprocess
import sys

import pytest

from lance_context_core import AsyncContextStore, ConflictError
from lance_context_core._util.retry import retried
from lance_context_core.maintenance.leases import Claims
from lance_context_core.storage import leases

SECRET = "the code is 1234"


@pytest.fixture
def told(caplog):
    """What is told of the work so far, as text."""
    caplog.set_level(logging.DEBUG, logger="lance_context")
    return lambda: caplog.text


async def test_folds_and_maintenance_are_told_and_what_was_remembered_is_not(tmp_path, told):
    async with AsyncContextStore.open(tmp_path / "memory", maintenance=None) as store:
        await store.memory.add([SECRET])
        await store.kv("k").put([])
        await store.flush()
        assert "1 rows flushed" in told()
        await store.maintain()
    assert "records: maintained: " in told()
    assert "1234" not in told()


async def test_a_claim_of_somebody_who_died_is_told_with_its_holder(tmp_path, told):
    async with AsyncContextStore.open(tmp_path / "memory", maintenance=None, journal=None) as store:
        await store.memory.add([SECRET])
        ours, other = (
            store._resources.upkeep._claims,
            Claims(store._resources.database, store._resources.clock),
        )
        boot, namespace, _, began = json.loads(leases.mine())
        other._process = json.dumps([boot, namespace, 999_999_999, began])
        assert await other.take("records") is not None
        assert "taken over" not in told()
        assert await ours.take("records") is not None
    assert f"takes over maintenance from {other.holder}" in told()


async def test_an_attempt_of_a_job_that_failed_is_told_and_what_was_said_is_not(tmp_path, told):
    async with AsyncContextStore.open(tmp_path / "memory") as store:
        await store.knowledge.add(f"I say {SECRET}.", session_id="s")
        assert "attempt" not in told()

        def away(sentences):
            raise TimeoutError(sentences[0])

        added = await store.knowledge.using(model=away).add(
            f"I love walking, and {SECRET}.", session_id="s"
        )
        assert "1234" in added.errors[0]
    assert f"job {added.job_id} (extract): attempt 1 ended with TimeoutError, it is sch" in told()
    assert "1234" not in told()


async def test_each_further_try_is_told(told):
    async def lose():
        raise ConflictError(SECRET)

    with pytest.raises(ConflictError):
        await retried(lose, on=ConflictError, attempts=3)
    assert "try 1 of 3 ended with ConflictError" in told()
    assert "try 2 of 3 ended with ConflictError" in told()
    assert "1234" not in told()


def test_nobody_hears_it_who_does_not_listen():
    # In a process of its own: in this one, others listen.
    program = (
        "import logging, lance_context_core; log = logging.getLogger('lance_context'); "
        "print([type(one).__name__ for one in log.handlers], log.level)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert (told.stdout.strip(), told.stderr) == (f"['NullHandler'] {logging.NOTSET}", "")
