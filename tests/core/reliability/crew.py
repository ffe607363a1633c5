"""Processes that share a store: `python crew.py ROLE NAME N_BATCHES URI OPTIONS`.

A writer appends batches in turn to a session that all share and to one of its own. It says of each
what it is about to write, and once it is acknowledged, when that was. A committer is a writer without a
journal. A maintainer maintains.
"""

import asyncio
import itertools
import json
import os
import select
import subprocess
import sys
import time
from dataclasses import astuple, dataclass, field

from lance_context_core.messages import Message
from lance_context_core.store.store import AsyncContextStore

SHARED = "shared"
SIZE = 3
"""Messages in a batch."""
PATIENCE_SECONDS = 300
"""How long a member may be silent, on however busy a machine."""


@dataclass(frozen=True)
class Batch:
    """A batch that was acknowledged, and when, by a clock that all processes share."""

    name: str
    session: str
    started: float
    acknowledged: float


@dataclass
class Member:
    """One process of the crew, and what it has said so far."""

    role: str
    name: str
    process: subprocess.Popen
    batches: list[Batch] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)

    def hear(self, timeout_seconds: float) -> bool:
        """Take in one more line; returns False if there is none, or will never be."""
        if not select.select([self.process.stdout], [], [], timeout_seconds)[0]:
            return False
        line = self.process.stdout.readline()
        if not line:
            return False
        word, said = json.loads(line)
        if word == "begin":
            self.begun.append(said)
        elif word == "done":
            self.batches.append(Batch(*said))
        return True

    def go(self) -> None:
        self.process.stdin.write(b"go\n")

    def wait(self) -> None:
        """Take in all that it says until it ends."""
        self.process.stdin.close()
        while self.hear(PATIENCE_SECONDS):
            pass
        with self.process:
            pass
        assert self.process.returncode == 0, f"{self.role} {self.name} failed"

    def kill(self) -> None:
        self.process.kill()
        while self.hear(5):
            pass
        with self.process:
            pass


def join(role, name, backend, *, n_batches=0) -> Member:
    """A member of the crew that is ready, and waits for `go`."""
    options = json.dumps(dict(backend.storage_options or {}))
    process = subprocess.Popen(
        [sys.executable, __file__, role, name, f"{n_batches}", backend.uri, options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # What is read must not wait in a buffer that select() does not see.
        bufsize=0,
    )
    member = Member(role, name, process)
    assert member.hear(PATIENCE_SECONDS), f"{role} {name} did not begin"
    return member


async def read(store, session) -> list[str]:
    """The names of the batches of a session, in order; fails if one is torn or there twice."""
    messages = await store.history.get_messages("a", session_id=session)
    runs = [(name, list(run)) for name, run in itertools.groupby(messages, _batch_of)]
    names = [name for name, _ in runs]
    assert len(names) == len(set(names)), "batches are interleaved, or there twice"
    for name, run in runs:
        assert [message.text for message in run] == _texts(name)
    return names


def _batch_of(message) -> str:
    return message.text.rpartition(".")[0]


def _texts(name) -> list[str]:
    return [f"{name}.{n}" for n in range(SIZE)]


async def _write(store, name, n_batches) -> None:
    for number in range(n_batches):
        session = SHARED if number % 2 else name
        batch = f"{name}-{number}"
        _say("begin", batch)
        started = time.monotonic()
        messages = [Message.user(text) for text in _texts(batch)]
        await store.history.append_many("a", messages, session_id=session)
        _say("done", astuple(Batch(batch, session, started, time.monotonic())))


async def _maintain(store) -> None:
    while not select.select([sys.stdin], [], [], 0)[0]:
        await store.maintain()


async def _main(role, name, n_batches, uri, options) -> None:
    journal = {"journal": None} if role == "committer" else {}
    store = AsyncContextStore.open(uri, storage_options=json.loads(options) or None, **journal)
    _say("ready", name)
    sys.stdin.readline()
    await (_maintain(store) if role == "maintainer" else _write(store, name, int(n_batches)))
    await store.close()


def _say(word, said) -> None:
    sys.stdout.write(f"{json.dumps([word, said])}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
