"""Two processes converse over one place; at last one is killed."""

import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from adapters.pydantic_ai.samples import conversation, said_in, texts
from pydantic_ai_lance_context import LanceConversationStore, LanceMessageHistory

from lance_context_core import ContextStore

WORKER = Path(__file__).with_name("worker.py")
CREW = ("ada", "ben")
N = 6
pytestmark = pytest.mark.process


class Process:
    """One that was told to do something, and answers."""

    def __init__(self, place, who):
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), str(place), who],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def tell(self, said):
        self.process.stdin.write(f"{said}\n")
        self.process.stdin.flush()

    def hear(self):
        return self.process.stdout.readline().rstrip("\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("processes") / "memory"


@pytest.fixture(scope="module")
def crew(home):
    with ExitStack() as stack:
        made = [Process(home, who) for who in CREW]
        for one in made:
            stack.enter_context(one.process)
        yield made


@pytest.fixture
def store(home):
    with ContextStore.open(home) as opened:
        yield opened.aio


def both(crew, said):
    for one in crew:
        one.tell(said)
    return [one.hear() for one in crew]


async def test_two_processes_lose_nothing_and_keep_each_turn_whole(crew, store, conversations):
    assert both(crew, f"turns {N}") == both(crew, f"append {N}") == ["done", "done"]
    expected = Counter(
        text
        for who in CREW
        for number in range(N)
        for text in (f"{who} asks {number}", f"{who} is told {number}")
    )
    found = texts((await conversations.load("1")).messages)
    by_hand = texts(await LanceMessageHistory(store, "by hand").load())
    for said in (found, by_hand):
        assert Counter(said) == expected
        for question, answer in zip(said[::2], said[1::2], strict=True):
            assert answer == question.replace("asks", "is told")
    # One order for all.
    assert await said_in(store, "1") == found


async def test_of_two_processes_that_save_from_one_revision_one_conflicts(
    crew, store, conversations
):
    n_items = await store.kv("pydantic-ai").count()
    for number in range(N):
        id, before = f"race {number}", ["before"] if number % 2 else []
        if before:
            await conversations.save(conversation(id, *before))
        assert both(crew, f"load {id}") == ["done", "done"]
        outcomes = both(crew, f"save {number}")
        assert sorted(outcomes) == ["conflict", "saved"]
        who = CREW[outcomes.index("saved")]
        saved = [*before, f"{who} asks {number}", f"{who} is told {number}"]
        assert texts((await conversations.load(id)).messages) == saved
        # Nothing of the other is left.
        assert await said_in(store, id) == saved
        n_items += 1 + len(saved)
    assert await store.kv("pydantic-ai").count() == n_items


async def test_what_was_saved_survives_a_kill_and_a_save_is_all_or_nothing(home):
    killed = Process(home, "eve")
    with killed.process:
        killed.tell("endlessly killed")
        heard = [killed.hear() for _ in range(5)]
        killed.process.kill()
        heard += killed.process.stdout.read().splitlines()
    n_saved = len(heard)
    async with LanceConversationStore(home) as conversations:
        found = texts((await conversations.load("killed")).messages)
        assert len(found) in (2 * n_saved, 2 * n_saved + 2)
        assert found == [
            text
            for number in range(len(found) // 2)
            for text in (f"eve asks {number}", f"eve is told {number}")
        ]
        assert await said_in(conversations._store, "killed") == found
        loaded = await conversations.load("killed")
        loaded.messages += conversation("killed", "and again").messages
        await conversations.save(loaded)
        again = await conversations.load("killed", limit=1)
        assert texts(again.messages) == ["and again"]
