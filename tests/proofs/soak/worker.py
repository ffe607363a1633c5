"""One process of the soak: `python -m proofs.soak.worker ROLE FRAMEWORK PLACE JOURNAL`, until it is told to stop.

A `writer` appends to sessions that all share and to one of its own, and reads; a `maintainer`
maintains. Stopped by a line, a writer answers a second one, which names sessions, with what it sees.
"""

import asyncio
import itertools
import json
import os
import random
import select
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from proofs.soak.hands import Hand
from proofs.soak.journal import Journal, notes
from proofs.soak.talk import Batch, TornError, batches, digests, embedder

from lance_context_core import AsyncContextStore, ContextStoreError, StorageError
from lance_context_core.settings import JournalPolicy, VersionRetention

N_TASKS = 2
"""How many append at the same time in one process."""

EPOCH_SECONDS = 15
"""How long a shared session is written to, until the next one begins."""

OFTEN_FOLDED = JournalPolicy(rows=16)
"""In a directory; elsewhere there is no journal."""

RETENTION = VersionRetention(
    all_for=timedelta(seconds=30), hourly_for=timedelta(0), daily_for=timedelta(0)
)


async def write(hand, framework, journal, before, *, pace_seconds):
    """Append and read in several tasks, each where its predecessor, if it was killed, left off."""
    await asyncio.gather(
        *(
            _write(hand, f"{framework.replace('_', '')}{task}", journal, before, pace_seconds)
            for task in range(N_TASKS)
        )
    )


async def _write(hand, name, journal, before, pace_seconds):
    chance = random.Random(f"{name} {len(before)}")
    mine = [one for one in before if one["what"] in ("begun", "done") and one["writer"] == name]
    open_one = mine[-1] if mine and mine[-1]["what"] == "begun" else None
    if open_one and hand.has_ids:
        # It died over this: whether it is there or not, writing it again is right.
        batch = Batch(open_one["batch"], open_one["size"])
        await _append(hand, name, journal, open_one["session"], batch)
    for number in itertools.count(sum(one["what"] == "begun" for one in mine)):
        if is_over():
            return
        shared = f"shared-{int(time.monotonic() / EPOCH_SECONDS)}"
        session = chance.choice([shared, shared, name])
        batch = Batch(f"{name}x{number}", chance.randint(1, 4))
        await _append(hand, name, journal, session, batch)
        if chance.random() < 0.4:
            await _read(hand, journal, chance.choice([shared, session]))
        await asyncio.sleep(chance.random() * 2 * pace_seconds)


async def _append(hand, name, journal, session, batch):
    """Append a batch, again and again where that is safe."""
    about = {"writer": name, "batch": batch.name, "session": session}
    journal.note("begun", **about, size=batch.size)
    while True:
        try:
            await hand.append(session, batch)
        except Exception as error:  # noqa: BLE001 - all of them are looked at in the end
            journal.note("failed", **about, **_told(error))
            if not hand.has_ids or is_over():
                return
            await asyncio.sleep(0.1)
        else:
            journal.note("done", **about)
            return


async def _read(hand, journal, session):
    began = time.monotonic()
    try:
        names = batches(await hand.texts(session))
    except TornError as error:
        journal.note("torn", session=session, problem=str(error))
    except Exception as error:  # noqa: BLE001 - all of them are looked at in the end
        journal.note("unread", session=session, **_told(error))
    else:
        *_, digest = digests(names)
        journal.note("read", session=session, began=began, n=len(names), digest=digest)


async def maintain(store, journal):
    """Maintain and thin without a pause."""
    while not is_over():
        try:
            done = await store.maintain()
        except Exception as error:  # noqa: BLE001 - all of them are looked at in the end
            journal.note("unmaintained", **_told(error))
        else:
            journal.note(
                "maintained",
                merged=sum(one.fragments_removed for one in done),
                thinned=sum(one.versions_removed for one in done),
            )
        await asyncio.sleep(0.2)


async def read_all(hand, sessions, samples):
    """What this framework sees: the sessions, and what it finds of some batches."""
    texts = {session: await _insisting(hand.texts, session) for session in sessions}
    found = {}
    for session, name, size in samples if hand.can_search else ():
        found[name] = {
            "text": await _insisting(hand.found, name, "text", session),
            "vector": await _insisting(hand.found, Batch(name, size).texts[0], "vector", session),
        }
    return {"texts": texts, "found": found}


async def _insisting(ask, *what):
    """What `ask(*what)` returns; a server on a busy machine may refuse a connection now and then."""
    for _ in range(20):
        with suppress(StorageError):
            return await ask(*what)
        await asyncio.sleep(0.5)
    return await ask(*what)


def _told(error):
    """An error as a journal has it."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    return {
        "error": f"{type(error).__name__}: {error}",
        "kind": type(error).__name__,
        "is_ours": isinstance(error, ContextStoreError),
        "kinds": kinds,
    }


def is_over():
    """Whether whoever started this wants it to stop, or is no more."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


async def main(role, framework, place, path):
    # Frameworks print; the answer goes where nobody else writes.
    answers = os.dup(1)
    os.dup2(2, 1)
    place = json.loads(place)
    pace_seconds = place.pop("pace_seconds")
    before = notes(Path(path))
    journal = Journal(path)
    async with await AsyncContextStore.open(
        **place, embedder=embedder(), retention=RETENTION, journal=OFTEN_FOLDED
    ) as store:
        if role == "maintainer":
            await maintain(store, journal)
            return
        hand = Hand(framework, store)
        await write(hand, framework, journal, before, pace_seconds=pace_seconds)
        sys.stdin.readline()
        journal.note("over")
        if question := sys.stdin.readline():
            seen = await read_all(hand, **json.loads(question))
            os.write(answers, f"{json.dumps(seen)}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
