"""On an object store one process of a machine commits what all of them append, and none depends on it."""

import asyncio
import itertools
import os
import signal
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from core.reliability.crew import PATIENCE_SECONDS, SHARED, join, read

from lance_context_core import Message, StorageError
from lance_context_core.errors import StaleLockError
from lance_context_core.storage import shared_commits
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.shared_commits import SharedCommits


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where processes meet: those of this test alone, on however busy a machine."""
    monkeypatch.setattr(shared_commits, "_IDLE_SECONDS", 1000)
    monkeypatch.setattr(shared_commits, "_READY_SECONDS", 300)
    # The path of a socket may have about 100 bytes.
    with tempfile.TemporaryDirectory(prefix="lc-", dir="/tmp") as short:
        monkeypatch.setenv("TMPDIR", short)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield short
    tempfile.tempdir = None


@pytest.fixture
def sent(monkeypatch):
    """What leaders of this process answered to others."""
    answers, appended = [], SharedCommits._appended

    async def noted(self, frame):
        answers.append(await appended(self, frame))
        return answers[-1]

    monkeypatch.setattr(SharedCommits, "_appended", noted)
    return answers


@pytest.fixture
def pair(s3_backend):
    """A store, which leads, and another one, whose appends it commits."""
    leader, other = s3_backend.open(), s3_backend.open()
    asyncio.run(say(leader, "the leader's"))
    yield leader, other
    for store in (leader, other):
        asyncio.run(store.close())


async def say(store, text, session="s"):
    await store.history.append("ann", Message.user(text), session_id=session)


async def texts(store, session="s"):
    there = await store.history.get_messages("ann", session_id=session)
    return [message.text for message in there]


async def test_one_commits_for_the_other_and_each_reads_what_it_wrote(pair, sent):
    leader, other = pair
    for number in range(3):
        await say(other, f"the other's {number}")
        assert (await texts(other))[-1] == f"the other's {number}"
    assert [answer[:1] for answer in sent] == [shared_commits._DONE] * 3
    assert await texts(leader) == ["the leader's", *(f"the other's {n}" for n in range(3))]


async def test_who_looks_for_others_writes_never_reads_its_own(s3_backend, sent):
    leader, other = (s3_backend.open(read_consistency=None) for _ in range(2))
    await say(leader, "the leader's")
    await say(other, "the other's")
    assert len(sent) == 1
    assert await texts(other) == ["the leader's", "the other's"]
    await say(other, "another of the other's")
    assert await other.history.clear("ann", session_id="s") == 3
    assert await texts(other) == []
    await leader.close()
    await other.close()


async def test_what_many_append_through_two_stores_is_whole_and_in_order_in_fewer_commits(pair):
    before = await pair[0].version()

    async def talk(store, name):
        for number in range(10):
            messages = [Message.user(f"{name}.{number}.{part}") for part in range(2)]
            await store.history.append_many("ann", messages, session_id="talk")

    await asyncio.gather(*(talk(pair[n % 2], n) for n in range(6)))
    there = [tuple(map(int, text.split("."))) for text in await texts(pair[1], "talk")]
    assert sorted(there) == [*itertools.product(range(6), range(10), range(2))]
    for name in range(6):
        assert [one for one in there if one[0] == name] == sorted(o for o in there if o[0] == name)
    assert all(there[k][:2] == there[k + 1][:2] for k in range(0, len(there), 2))
    assert await pair[0].version() - before < 60


# Leaders that end, or do not answer


@pytest.mark.parametrize("has_committed", [False, True])
async def test_rows_whose_leader_ends_without_an_answer_are_there_once(
    pair, monkeypatch, has_committed
):
    leader, other = pair
    appended = SharedCommits._appended

    async def lost(self, frame):
        if has_committed:
            await appended(self, frame)
        raise ConnectionResetError

    with monkeypatch.context() as patch:
        patch.setattr(SharedCommits, "_appended", lost)
        await say(other, "in doubt")
    await say(other, "after it")
    assert await texts(leader) == ["the leader's", "in doubt", "after it"]


async def test_what_the_leader_fails_to_commit_is_committed_by_who_sent_it(pair, monkeypatch):
    leader, other = pair

    async def fails(rows):
        raise StorageError("the disk is full")

    monkeypatch.setattr(shared_commits_of(leader), "_append", fails)
    await say(other, "mine")
    assert (await texts(leader))[-1] == "mine"


def shared_commits_of(store):
    """How the records of a store are appended."""
    return store._resources.records._commits.shared


async def test_when_a_leader_closes_another_one_leads_and_nothing_is_lost(s3_backend, sent):
    stores = [s3_backend.open() for _ in range(3)]
    for number, store in enumerate(stores):
        await say(store, f"first {number}")
    for store in stores:
        others = [one for one in stores if one is not store]
        await asyncio.gather(store.close(), *(say(one, f"last {id(one)}") for one in others))
        if not others:
            break
        stores = others
        if len(stores) == 1:
            assert len(await texts(stores[0])) == 3 + 2 + 1
            await stores[0].close()
            return


async def test_who_takes_rows_and_shows_no_sign_of_life_is_named_in_an_error(pair, monkeypatch):
    _, other = pair
    await say(other, "to be connected")
    monkeypatch.setattr(shared_commits, "_PATIENCE_SECONDS", 0.2)

    async def never(self, frame):
        await asyncio.sleep(1)
        return shared_commits._FAILED

    with monkeypatch.context() as patch:
        patch.setattr(SharedCommits, "_appended", never)
        with pytest.raises(
            StorageError, match=r"no sign of life for .* may or may not .* End or resume it"
        ):
            await say(other, "in doubt")


# Rows


async def test_all_that_a_message_has_is_sent(pair, sent):
    leader, other = pair
    message = Message.user(
        "ein \0 Zeichen \N{SNOWMAN}",
        metadata={"n": [1, 2.5, None], "ok": True},
        created_at=datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        name="ann",
    )
    for session, store in (("mine", leader), ("theirs", other)):
        await store.history.append("ann", message, session_id=session)
    assert len(sent) == 1
    (mine,), (theirs,) = [
        await leader.history.get_messages("ann", session_id=session)
        for session in ("mine", "theirs")
    ]
    assert (mine.text, mine.metadata, mine.name) == (theirs.text, theirs.metadata, theirs.name)
    assert theirs.text == message.text


# Processes that share commits, and appends that do not


def places(**options):
    """Where the processes meet that open a store so."""
    connection = Connection(options.pop("uri", "s3://b/st"), storage_options={"aws_region": "r"})
    name, ref = options.pop("name", "records"), options.pop("ref", None)
    connection.storage_options.update(options)
    return shared_commits.meeting_place(connection, name, ref)


def test_only_those_meet_who_append_to_the_same_with_the_same_rights(monkeypatch):
    assert (before := places()) == places()
    others = [
        places(uri="s3://b/other"),
        places(name="kv"),
        places(ref="draft"),
        places(aws_endpoint="http://127.0.0.1:1"),
        places(aws_access_key_id="another"),
    ]
    monkeypatch.setenv("AWS_SESSION_TOKEN", "another")
    assert len({before, places(), *others}) == 7
    assert places(uri="/a/directory") is None
    assert places(uri="memory://") is None


async def test_an_append_that_depends_on_a_lock_is_not_sent(pair, sent):
    _, other = pair
    lock = await other.locks.acquire("kitchen")
    with lock.fencing():
        await say(other, "with the lock")
    assert not sent
    assert await lock.release()
    with lock.fencing(), pytest.raises(StaleLockError):
        await say(other, "without it")
    assert await texts(other) == ["the leader's", "with the lock"]


async def test_a_leader_that_has_not_seen_the_vectors_looks_before_it_appends_any(pair, sent):
    other = pair[1]
    await other.context().add("user", "first", id="first", embedding=[1.0, 0.0])
    await other.context().add("user", "second", embedding=[0.0, 1.0])
    assert [answer[:1] for answer in sent] == [shared_commits._DONE]
    for store in pair:
        hits = await store.context().search([0.0, 1.0], limit=1)
        assert [hit["text"] for hit in hits] == ["second"]


async def test_a_branch_and_main_are_committed_apart(pair, sent):
    leader, other = pair
    await leader.create_branch("draft")
    draft = await other.branch("draft")
    await say(draft, "on the draft")
    assert not sent
    await say(other, "on main")
    assert len(sent) == 1
    assert await texts(leader) == ["the leader's", "on main"]
    assert await texts(draft) == ["the leader's", "on the draft"]


@pytest.mark.parametrize("hindrance", ["absent", "a file", "another's", "too long"])
async def test_without_a_folder_to_meet_in_each_commits_for_itself(
    folder, s3_backend, sent, monkeypatch, hindrance
):
    folder = Path(folder, "x" * 100) if hindrance == "too long" else Path(folder)
    ours = folder / f"lance-context-{os.getuid()}"
    if hindrance != "absent":
        folder.mkdir(exist_ok=True)
    else:
        folder /= "absent"
    if hindrance == "a file":
        ours.touch()
    elif hindrance == "another's":
        ours.mkdir()
        ours.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    stores = [s3_backend.open() for _ in range(2)]
    for store, number in itertools.product(stores, range(2)):
        await say(store, f"{number}")
    assert await texts(stores[0]) == ["0", "1"] * 2
    assert not sent
    for store in stores:
        await store.close()


# Processes


@pytest.mark.process
def test_what_is_acknowledged_outlives_the_process_that_led(s3_backend, run):
    crew = [join("writer", f"w{n}", s3_backend, n_batches=40) for n in range(2)]
    first, second = crew
    first.go()
    while not first.batches:
        assert first.hear(PATIENCE_SECONDS)
    second.go()
    while len(second.batches) < 5:
        assert second.hear(PATIENCE_SECONDS)
    first.kill()
    second.wait()
    assert len(second.batches) == 40

    async def look():
        store = s3_backend.open()
        found = {name: await read(store, name) for name in (SHARED, "w0", "w1")}
        await store.close()
        return found

    for session, names in run(look()).items():
        wanted = {batch.name for one in crew for batch in one.batches if batch.session == session}
        assert wanted <= set(names) <= {*wanted, *first.begun[len(first.batches) :]}
        for one in crew:
            mine = [batch.name for batch in one.batches if batch.session == session]
            assert mine == [name for name in names if name in mine]


@pytest.mark.process
async def test_a_process_that_is_stopped_keeps_nobody_from_writing(s3_backend, monkeypatch):
    monkeypatch.setattr(shared_commits, "_READY_SECONDS", 1)
    stopped = join("writer", "w0", s3_backend, n_batches=1000)
    stopped.go()
    while not stopped.batches:
        assert stopped.hear(PATIENCE_SECONDS)
    os.kill(stopped.process.pid, signal.SIGSTOP)
    store = s3_backend.open()
    for number in range(3):
        await say(store, f"{number}")
    assert await texts(store) == ["0", "1", "2"]
    await store.close()
    stopped.kill()
