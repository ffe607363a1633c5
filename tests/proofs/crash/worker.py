"""The process that is killed: does one step after another, and says before and after which."""

import warnings
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from random import Random

from proofs.crash.model import MAIN, Model, Step

from lance_context_core import ContextStore
from lance_context_core.settings import IndexPolicy, JournalPolicy

AGENT = "agent"
SMALL = IndexPolicy(scalar_rows=20, vector_rows=40)
"""Builds all indexes in tables of the size that a few processes fill."""

# The server that forks the workers has loaded the engine, but never run it.
warnings.filterwarnings("ignore", message="lancedb fork support is experimental")


def work(
    uri: str,
    seed: int,
    model: Model,
    often: Sequence[str],
    journal: JournalPolicy | None,
    storage_options: Mapping[str, str] | None,
    said: Connection,
) -> None:
    """Do steps until the process is killed, those of `often` more often.

    Sends ("begin", step) before each and ("done", step) once the store has acknowledged it.
    """
    random = Random(seed)
    with ContextStore.open(uri, journal=journal, storage_options=storage_options) as store:
        while True:
            step = model.next_step(random, often=often)
            said.send(("begin", step))
            do(store, step)
            said.send(("done", step))
            model = model.after(step)


def do(store: ContextStore, step: Step) -> None:
    """Do one step; doing it again after a crash is what a user would do."""
    branch = store if step.branch == MAIN else store.branch(step.branch)
    context = branch.context()
    records = [
        {
            "id": one,
            "role": "user",
            "content": turn.text,
            "session_id": turn.session,
            "bot_id": AGENT,
            "metadata": {"number": turn.number},
            "embedding": [1.0, turn.number % 7, len(one)],
        }
        for one, turn in step.turns.items()
    ]
    match step.verb:
        case "add":
            context.add_many(records)
        case "upsert":
            context.upsert_many(records, key="id")
        case "update":
            for one, turn in step.turns.items():
                context.update(id=one, metadata={"number": turn.number})
        case "delete":
            for one in step.ids:
                context.delete(id=one)
        case "fold":
            store.flush()
        case "maintain":
            store.maintain(policy=SMALL)
        case "thin":
            store.thin()
        case "tag":
            store.tag(step.name)
        case "untag":
            store.delete_tag(step.name)
        case "fork":
            store.create_branch(step.name)
        case "merge":
            store.merge(step.name)
        case "drop":
            store.delete_branch(step.name)
        case "erase":
            store.erase(ids=step.ids)
        case _:
            raise AssertionError(step)
