"""Two processes use one place; at last one is killed."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from adapters.google_adk.samples import OF_ADA, get, said, texts
from google_adk_lance_context import LanceArtifactService, LanceSessionService

from lance_context_core import ContextStore

WORKER = Path(__file__).with_name("worker.py")
CREW = ("a", "b")
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


async def test_of_two_processes_that_create_one_session_one_does(crew, sessions):
    for n in range(N):
        outcomes = both(crew, f"create {n}")
        assert sorted(outcomes) == ["created", "taken"]
        session = await get(sessions, str(n))
        assert session.state == {"by": CREW[outcomes.index("created")]}


async def test_of_two_processes_that_read_one_session_one_appends(crew, sessions):
    expected = {}
    for n in range(N):
        assert both(crew, "read 0") == ["done", "done"]
        outcomes = both(crew, f"append race {n}")
        assert sorted(outcomes) == ["appended", "stale"]
        who = CREW[outcomes.index("appended")]
        session = await get(sessions, "0")
        # Nothing of the other is left, neither its event nor its states.
        last = f"{who} race {n} 0"
        assert (len(session.events), texts(session)[-1]) == (n + 1, last)
        expected |= {f"{kind}:{who} race {n}": 0 for kind in ("app", "user")}
        assert session.state == {**expected, "last": last, "by": session.state["by"]}


@pytest.mark.parametrize("way", ["turns", "fresh"])
async def test_two_processes_lose_neither_an_event_nor_a_state(crew, sessions, way):
    assert both(crew, "read 1") == ["done", "done"]
    assert both(crew, f"{way} {N}") == ["done", "done"]
    session = await get(sessions, "1")
    word = {"turns": "turn", "fresh": "fresh"}[way]
    found = [text for text in texts(session) if word in text]
    for who in CREW:
        own = [text for text in found if text.startswith(who)]
        assert own == [f"{who} {word} {n}" for n in range(N)]
        assert session.state[f"user:{who} {word}"] == session.state[f"app:{who} {word}"] == N - 1
    assert len(found) == 2 * N
    # The state is that of the last event, in the order that all read.
    assert session.state["last"] == found[-1]


async def test_two_processes_save_each_version_once(crew, store):
    numbers = [[int(one) for one in told.split()] for told in both(crew, f"save {N}")]
    assert sorted(one for own in numbers for one in own) == list(range(2 * N))
    artifacts = LanceArtifactService(store)
    for who, own in zip(CREW, numbers, strict=True):
        for n, version in enumerate(own):
            part = await artifacts.load_artifact(**OF_ADA, filename="user:a", version=version)
            assert part.text == f"{who} {n}"


async def test_what_was_appended_survives_a_kill_and_an_event_is_there_with_its_states(home):
    killed = Process(home, "eve")
    with killed.process:
        killed.tell("endlessly killed")
        heard = [killed.hear() for _ in range(5)]
        killed.process.kill()
        heard += killed.process.stdout.read().splitlines()
    n_said = len(heard)
    async with LanceSessionService(home) as sessions:
        session = await get(sessions, "killed")
        found = texts(session)
        assert len(found) in (n_said, n_said + 1)
        assert found == [f"eve endless {n}" for n in range(len(found))]
        n_last = len(found) - 1
        assert session.state["last"] == found[-1]
        assert session.state["user:eve endless"] == session.state["app:eve endless"] == n_last
        # Whoever does not know whether it was stored appends the event again.
        await sessions.append_event(session, session.events[-1])
        await sessions.append_event(session, said("after"))
        assert texts(await get(sessions, "killed")) == [*found, "after"]
