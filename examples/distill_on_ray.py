"""Make knowledge of a whole store with tasks of Ray.

    python examples/distill_on_ray.py --store URI [--sample] [--workers N] [--take-over]

A job is made for all turns that none is about yet, and each of Ray's tasks does one job after the
other until none is due. Each job is done once, by whoever takes it first, and is whole in the store or
not there at all: the tasks may be killed at any moment. Run it again, and it goes on with what is left.
What a dead task was at is free when its lease ends, after five minutes; where nobody else is at
work, `--take-over` does not wait for that.

    pip install "lance-context-core[local]" ray
"""

import argparse
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import ray
from _ray_cluster import start_ray

from lance_context_core import ContextStore, Message

SAMPLE = Path(__file__).parent / "data" / "conversation.json"
LEASE = timedelta(minutes=5)


# Half a processor each, so that two fit on a machine with two.
@ray.remote(num_cpus=0.5)  # type: ignore[untyped-decorator]  # Ray is untyped
def work(uri: str, due: datetime | None) -> int:
    """Do what is due, a job at a time; returns how many jobs that were."""
    n_done = 0
    with ContextStore.open(uri, embedder="local", maintenance=None) as store:
        while done := store.knowledge.jobs.run_due(due, limit=1):
            n_done += len(done)
            print(f"{n_done} jobs", flush=True)
    return n_done


def main() -> int:
    """Distil a store; returns the exit code."""
    arguments = _arguments()
    with ContextStore.open(arguments.store, embedder="local") as store:
        if arguments.sample:
            _remember(store)
        planned = store.knowledge.schedule()
        print(f"{len(planned)} new jobs", flush=True)
    start_ray()
    due = datetime.now(UTC) + LEASE if arguments.take_over else None
    tasks = [work.remote(arguments.store, due) for _ in range(arguments.workers)]
    n_done = sum(ray.get(tasks))
    ray.shutdown()
    with ContextStore.open(arguments.store, embedder="local") as store:
        left = [one for one in store.knowledge.jobs.list() if one.state != "succeeded"]
        n_facts = len(store.context("knowledge").list(filters={"kind": "fact"}))
        print(f"{n_done} jobs done, {len(left)} left, {n_facts} facts")
    return 0 if not left else 1


def _remember(store: ContextStore) -> None:
    """Have a conversation in the store."""
    for turn in json.loads(SAMPLE.read_text(encoding="utf-8"))["turns"]:
        said = Message.user(turn["text"], id=turn["id"], name=turn["speaker"])
        store.history.append("assistant", said, session_id=str(turn["session"]))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", metavar="URI", required=True, help="the store")
    parser.add_argument("--sample", action="store_true", help="remember a conversation in it first")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="tasks at a time")
    parser.add_argument("--take-over", action="store_true", help="nobody else is at work")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
