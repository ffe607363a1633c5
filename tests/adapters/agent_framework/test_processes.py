"""Sessions that several processes share, that outlive one, and that another goes on with."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from adapters.agent_framework.flow import NAME, TYPES, workflow
from adapters.agent_framework.samples import said
from adapters.agent_framework.worker import N_TURNS, turn
from agent_framework_lance_context import (
    LanceCheckpointStorage,
    LanceHistoryProvider,
    LanceSessionStore,
)

from adapters.agent_framework import worker
from lance_context_core import AsyncContextStore

TESTS = Path(__file__).parents[2]

pytestmark = pytest.mark.process


class Process:
    """The worker, which is told when to go on and says what it did."""

    def __init__(self, *arguments):
        command = [sys.executable, worker.__file__, *map(str, arguments)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def told(self):
        return json.loads(self._process.stdout.readline())

    def go_on(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self):
        self._process.kill()
        self.end()

    def end(self):
        self._process.communicate()


async def test_two_processes_share_a_session_and_a_workflow(tmp_path):
    both = [Process(tmp_path, "share", name) for name in "ab"]
    assert [one.told() for one in both] == ["ready"] * 2
    for one in both:
        one.go_on()
    told = [one.told() for one in both]
    for one in both:
        one.end()
    # A checkpoint that both have saved is deleted once at least, and is gone.
    assert any(deleted for deleted, _ in told)
    assert max(n for _, n in told) == 4 * N_TURNS
    async with AsyncContextStore.open(tmp_path) as store:
        texts = [text for _, text in said(await LanceHistoryProvider(store).get_messages("1"))]
        ids = await LanceCheckpointStorage(store).list_checkpoint_ids(workflow_name="flow")
    # Turns are whole, and those of a process in its order.
    turns = [texts[n : n + 2] for n in range(0, len(texts), 2)]
    assert all(second == f"{first}, too" for first, second in turns)
    for name in "ab":
        own = [first for first, _ in turns if first.startswith(name)]
        assert own == [f"{name} {number}" for number in range(N_TURNS)]
    assert sorted(set(ids) - {"both"}) == [f"{name} {n}" for name in "ab" for n in range(4)]
    assert len(ids) == len(set(ids))


async def test_what_a_killed_process_has_saved_is_there_and_no_half_turn(tmp_path):
    process = Process(tmp_path, "be_killed")
    assert process.told() == "stored"
    process.kill()
    async with AsyncContextStore.open(tmp_path) as store:
        history = LanceHistoryProvider(store)
        found = said(await history.get_messages("1"))
        n_turns = len(found) // 2 - 1
        whole = [*turn("before", 0), *(one for n in range(n_turns) for one in turn("n", n))]
        assert found == said(whole)
        assert (await LanceSessionStore(store).get("1")).state == {"n": 1}
        # Whoever does not know whether the last turn was stored passes all of it again.
        await history.save_messages("1", [*whole, *turn("after", 0)])
        assert said(await history.get_messages("1")) == [*found, *said(turn("after", 0))]


async def test_a_workflow_that_was_killed_goes_on_in_another_process(tmp_path):
    code = "import asyncio, sys; from adapters.agent_framework import flow; asyncio.run(flow.begin(sys.argv[1]))"
    environment = {**os.environ, "KILLED": "1", "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", code, tmp_path]
    done = await asyncio.to_thread(subprocess.run, command, env=environment, check=False)
    assert done.returncode == -9
    async with LanceCheckpointStorage(tmp_path, allowed_checkpoint_types=TYPES) as storage:
        latest = await storage.get_latest(workflow_name=NAME)
        assert latest.iteration_count == 1
        result = await workflow(storage).run(checkpoint_id=latest.checkpoint_id)
        assert result.get_outputs() == ["Dear Ben first second"]
