"""Writers of batches, and a process that is one: `python writers.py URI NAME N_BATCHES WITH_IDS`."""

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from lance_context_core.messages import Message, ToolCallPart
from lance_context_core.store.store import AsyncContextStore

SIZE = 4
"""Messages in a batch."""


@dataclass(frozen=True)
class Batch:
    """A batch that was acknowledged, and when, by a clock that all processes share."""

    name: str
    started: float
    acknowledged: float


def messages_of(name: str, *, with_ids: bool) -> list[Message]:
    """What a batch consists of; one of it has no text, and so no vector."""
    texts = [f"{name}.{n}" for n in range(SIZE)]
    contents = [*texts[:-1], ToolCallPart(name="f", arguments={"n": 1})]
    return [
        Message.assistant(content, id=text if with_ids else None, metadata={"of": name})
        for content, text in zip(contents, texts, strict=True)
    ]


async def append(store: AsyncContextStore, name: str, *, with_ids: bool) -> Batch:
    """Append the batch of that name to the one session that all writers share."""
    started = time.monotonic()
    await store.history.append_many("a", messages_of(name, with_ids=with_ids), session_id="s")
    return Batch(name, started, time.monotonic())


async def read(store: AsyncContextStore) -> list[str]:
    """The names of the batches in the order of the session; fails if one of them is torn."""
    messages = await store.history.get_messages("a", session_id="s")
    runs = itertools.groupby(messages, key=lambda message: message.metadata["of"])
    batches = [(name, [message.text for message in run]) for name, run in runs]
    n_runs = Counter(name for name, _ in batches)
    assert set(n_runs.values()) <= {1}, "batches are interleaved"
    for name, texts in batches:
        assert texts == [message.text for message in messages_of(name, with_ids=False)]
    return list(n_runs)


async def assert_all_there(store: AsyncContextStore, batches: Sequence[Batch]) -> None:
    """Each batch is there once."""
    assert sorted(await read(store)) == sorted(batch.name for batch in batches)


async def assert_all_in_order(store: AsyncContextStore, batches: Sequence[Batch]) -> None:
    """Each batch is there once, after all that were acknowledged before it began."""
    await assert_all_there(store, batches)
    place = {name: index for index, name in enumerate(await read(store))}
    latest_start = 0.0
    for batch in sorted(batches, key=lambda batch: place[batch.name]):
        assert latest_start < batch.acknowledged, "it was there before a predecessor began"
        latest_start = max(latest_start, batch.started)


def spawn(uri: str, name: str, *, n_batches: int, with_ids: bool) -> subprocess.Popen:
    """A process that says `ready`, waits for a line, and then writes its batches and their times."""
    return subprocess.Popen(
        [sys.executable, __file__, uri, name, f"{n_batches}", f"{with_ids}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def _main(uri: str, writer: str, n_batches: str, with_ids: str) -> None:
    store = await AsyncContextStore.open(uri)
    _say("ready")
    sys.stdin.readline()
    for n in range(int(n_batches)):
        batch = await append(store, f"{writer}-{n}", with_ids=with_ids == "True")
        _say(json.dumps(astuple(batch)))
    await store.close()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
