"""The example that distils a store on Ray: run as a user runs it, killed, and run again."""

import json
import time
from collections import Counter

from reembed.running import PATIENCE_SECONDS, ROOT, started

from lance_context_core import ContextStore

SAMPLE = ROOT / "examples" / "data" / "conversation.json"


def states(uri):
    """How many jobs there are of each state."""
    with ContextStore.open(uri) as store:
        return Counter(job.state for job in store.knowledge.jobs.list())


def made(store):
    """What was made, but for who made it when."""
    found = store.context("knowledge").list(include_retired=True, filters={"kind": {"$ne": "job"}})
    return {
        one["id"]: (one["kind"], one["text"], one["lifecycle_status"], one["retired_at"] is None)
        for one in found
    }


def test_a_store_distilled_on_ray_and_killed_goes_on_and_is_whole(tmp_path):
    uri = tmp_path / "memory"
    killed = started("distill_on_ray.py", "--store", uri, "--sample")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not states(uri)["succeeded"]:
        assert killed.poll() is None, killed.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    killed.kill()
    killed.communicate()
    left = states(uri)
    resumed = started("distill_on_ray.py", "--store", uri, "--take-over")
    said, problem = resumed.communicate(timeout=PATIENCE_SECONDS)
    assert resumed.returncode == 0, problem
    assert "0 new jobs" in said
    assert "0 left" in said
    n_sessions = len({one["session"] for one in json.loads(SAMPLE.read_text("utf-8"))["turns"]})
    assert left.total() == n_sessions
    assert states(uri) == {"succeeded": n_sessions}
    with ContextStore.open(uri) as store, ContextStore.open(tmp_path / "alone") as alone:
        for turn in store.history.get_messages("assistant", session_id="1"):
            assert turn.text
        for number in sorted({one.session_id for one in store.knowledge.jobs.list()}, key=int):
            messages = store.history.get_messages("assistant", session_id=number)
            alone.history.append_many("assistant", messages, session_id=number)
        alone.knowledge.schedule()
        alone.knowledge.jobs.run_due()
        assert made(store) == made(alone)
