"""What the engine remembers is bounded by what is in use, and nobody notices when it begins anew."""

import asyncio

import pytest

from lance_context_core import Message
from lance_context_core.storage.lance import connection
from lance_context_core.storage.lance.connection import Caches

MIB = 1024 * 1024


class Session:
    """Caches of a size that the test chooses; counts who asks for it."""

    def __init__(self):
        self.mebibytes, self.n_asked = 0, 0

    @property
    def size_bytes(self):
        self.n_asked += 1
        return self.mebibytes * MIB


@pytest.fixture
def found():
    found = Caches()
    found.session = Session()
    return found


@pytest.mark.parametrize(("in_use", "may_be"), [(0, 16), (40, 96), (1_500, 3_016)])
def test_caches_are_outgrown_at_twice_what_was_in_use_and_sixteen_mebibytes(found, in_use, may_be):
    found.session.mebibytes = in_use
    assert not any(found.are_outgrown() for _ in range(1_000))
    found.session.mebibytes = may_be
    assert not any(found.are_outgrown() for _ in range(1_000))
    found.session.mebibytes += 1
    assert any(found.are_outgrown() for _ in range(256))


def test_what_is_read_first_does_not_count_as_grown(found):
    for found.session.mebibytes in range(200):  # A large index comes in piece by piece.
        assert not found.are_outgrown()


def test_the_size_which_is_dear_is_asked_for_at_few_looks(found):
    for _ in range(10_000):
        found.are_outgrown()
    assert found.session.n_asked < 50


@pytest.fixture
def always(monkeypatch):
    """Caches that are outgrown at every fourth look; how often they were made is counted."""
    monkeypatch.setattr(connection, "_EVERY_N_LOOKS", 2)
    monkeypatch.setattr(connection, "_SLACK_BYTES", -(2**60))
    made = []
    monkeypatch.setattr(Caches, "__init__", _counted(Caches.__init__, made))
    return made


def _counted(method, made):
    def counted(self):
        made.append(self)
        method(self)

    return counted


@pytest.mark.slow
async def test_readers_and_writers_at_once_see_what_they_would_though_all_is_opened_anew_all_the_time(
    always, open_store
):
    store = open_store(maintenance=None, search_cache=None)
    await store.history.append("a", Message.user("word0"), session_id="0")
    await store.create_branch("b")
    on_branch = await store.branch("b")

    async def talk(session):
        for number in range(1, 15):
            home = on_branch if number % 5 == 0 else store
            await home.history.append("a", Message.user(f"word{number}"), session_id=session)
            texts = [one.text for one in await home.history.get_messages("a", session_id=session)]
            assert texts[-1] == f"word{number}"
            hits = await home.search(f"word{number}", mode="text", filter={"session_id": session})
            assert [hit.record.text for hit in hits] == [f"word{number}"]

    await asyncio.gather(*(talk(session) for session in "123"))
    for home, expected in (
        (store, [n for n in range(1, 15) if n % 5]),
        (on_branch, [n for n in range(1, 15) if n % 5 == 0]),
    ):
        for session in "123":
            found = await home.history.get_messages("a", session_id=session)
            assert [one.text for one in found] == [f"word{n}" for n in expected]
    assert len(always) > 20


@pytest.mark.usefixtures("each_write_commits")
async def test_what_is_opened_anew_lets_go_of_the_former_handle_which_would_keep_its_caches(
    always, store
):
    await store.history.append("a", Message.user("word0"), session_id="s")
    table = store._resources.records
    former = [table.access.handle]
    for _ in range(12):
        await store.history.count("a", session_id="s")
        former.append(table.access.handle)
    assert len(set(map(id, former))) >= 3


async def test_the_memory_of_the_process_stays_connected(always, memory_backend):
    async with memory_backend.open(maintenance=None) as store:
        for number in range(10):
            await store.history.append("a", Message.user(f"word{number}"), session_id="s")
            assert await store.history.count("a", session_id="s") == number + 1
