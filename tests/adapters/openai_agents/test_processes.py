"""Sessions that several processes share, that outlive one, and that another goes on with."""

import json
import subprocess
import sys

from adapters.openai_agents.program import N_BATCHES, user
from agents import Runner
from openai_agents_lance_context import LanceContextSession

from adapters.openai_agents import program


class Process:
    """The program, which is told when to go on and says what it did."""

    def __init__(self, *arguments):
        command = [sys.executable, program.__file__, *map(str, arguments)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def told(self):
        return json.loads(self._process.stdout.readline())

    def go_on(self, said=""):
        self._process.stdin.write(f"{said}\n")
        self._process.stdin.flush()

    def kill(self):
        self._process.kill()
        self.end()

    def end(self):
        self._process.communicate()


async def test_two_processes_share_a_session(tmp_path):
    place = tmp_path / "memory"
    both = [Process(place, "share", name) for name in "ab"]
    for _ in range(2):
        assert [one.told() for one in both] == ["ready"] * 2
        async with LanceContextSession("monday", place) as session:
            items = [one["content"] for one in await session.get_items()]
        for one in both:
            one.go_on()
    # Batches are whole, and those of a process in its order.
    batches = [items[n : n + 2] for n in range(0, len(items), 2)]
    assert len(batches) == 2 * N_BATCHES
    assert all(second == f"{first}, too" for first, second in batches)
    for name in "ab":
        said = [first for first, _ in batches if first.startswith(name)]
        assert said == [f"{name} {n}" for n in range(N_BATCHES)]
    # Each item was popped once, and by each process from the end.
    popped = [[one["content"] for one in process.told()] for process in both]
    for process in both:
        process.end()
    place_of = items.index
    assert all(some == sorted(some, key=place_of, reverse=True) for some in popped)
    assert sorted([*popped[0], *popped[1]], key=place_of) == items[-2 * N_BATCHES :]
    async with LanceContextSession("monday", place) as session:
        left = [one["content"] for one in await session.get_items()]
        assert left == items[: -2 * N_BATCHES]


async def test_what_a_killed_process_has_added_is_there_and_no_half_batch(tmp_path):
    process = Process(tmp_path, "be_killed")
    assert process.told() == "stored"
    process.kill()
    async with LanceContextSession("monday", tmp_path) as session:
        items = await session.get_items()
        assert items[0] == user("before")
        pairs = [user(f"{n // 2}{', too' * (n % 2)}") for n in range(len(items) - 1)]
        assert items[1:] == pairs
        assert len(pairs) % 2 == 0
        # Whoever does not know whether it was stored reads the end, and goes on.
        await session.add_items([user("after")])
        assert (await session.get_items(1)) == [user("after")]


async def test_an_interrupted_run_goes_on_in_another_process(tmp_path):
    async with LanceContextSession("monday", tmp_path) as session:
        result = await Runner.run(program.clerk(program.CALL), "Write to Ada.", session=session)
        assert len(result.interruptions) == 1
        state = json.dumps(result.to_state().to_json())
    assert program.SENT == []
    process = Process(tmp_path, "resume")
    assert process.told() == "ready"
    process.go_on(state)
    said, sent, given = process.told()
    process.end()
    assert (said, sent) == ("It is sent.", ["to Ada"])
    assert [one.get("type", "user") for one in given] == [
        *("user", "function_call", "function_call_output"),
    ]
    async with LanceContextSession("monday", tmp_path) as session:
        items = await session.get_items()
    kinds = [one.get("type", "user") for one in items]
    assert kinds == ["user", "function_call", "function_call_output", "message"]
