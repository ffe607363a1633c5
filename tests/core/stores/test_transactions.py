"""Writes to several stores of one place are made together at the end of a block, or not at all."""

# ruff: noqa: PT012 - which line of the block raises is what these are about

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from core.conformance.doubles import WordVectors
from efforts import in_proofs

from lance_context_core import (
    AlreadyExistsError,
    AsyncContextStore,
    ConflictError,
    ContextStore,
    Document,
    InvalidRequestError,
    Item,
    Message,
)
from lance_context_core.errors import FilterError, StaleLockError
from lance_context_core.graph import Entity
from lance_context_core.settings import JournalPolicy

ROOT = Path(__file__).parents[3]
KEY = (("n",), "k")


def item(key="k", **value):
    return Item(namespace=("n",), key=key, value=value)


def texts(store, session="1"):
    return [one.text for one in store.history.get_messages("a", session_id=session)]


def values(store, *keys):
    found = store.kv().get([(("n",), key) for key in keys or ("k",)])
    return [one and one.value for one in found]


def everything(store):
    """All that a user sees of what the transactions of these tests write."""
    return {
        "history": texts(store),
        "memory": [one.text for one in store.memory.list(user_id="ada").items],
        "kv": values(store),
        "sessions": [(one.id, one.title) for one in store.sessions.list()],
        "vectors": [(one.id, one.text) for one in store.vectors().list()],
        "tasks": [(one.title, str(one.status)) for one in store.tasks.board().list()],
        "entities": [one.name for one in store.graph.entities()],
        "state": store.state.get("1"),
    }


def write_everything(tx):
    tx.history.append("a", Message.user("hello"), session_id="1")
    tx.memory.add([Message.user("likes tea")], user_id="ada")
    tx.kv().put([item(n=1)])
    tx.sessions.create("2", title="second")
    tx.vectors().upsert([Document(id="d", text="a text")])
    tx.tasks.board().add("tidy up")
    tx.graph.add_entities([Entity(name="Oslo", type="place")])
    tx.state.set("1", {"step": 2})


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(tmp_path / "store", embedder=WordVectors(dimension=8)) as store:
        yield store


def test_all_is_there_after_the_block_and_nothing_for_others_before(store, tmp_path):
    with ContextStore.open(tmp_path / "store") as other:
        before = everything(other)
        with store.transaction() as tx:
            write_everything(tx)
            assert everything(other) == before == everything(store)
        after = everything(other)
        assert after == everything(store)
    assert after["history"] == ["hello"]
    assert after["memory"] == ["likes tea"]
    assert after["kv"] == [{"n": 1}]
    assert after["vectors"] == [("d", "a text")]
    assert after["tasks"] == [("tidy up", "pending")]
    assert after["entities"] == ["Oslo"]
    assert after["state"] == {"step": 2}
    assert ("2", "second") in after["sessions"]


def test_what_was_flushed_or_reopened_is_the_same(store, tmp_path):
    with store.transaction() as tx:
        write_everything(tx)
    seen = everything(store)
    store.flush()
    assert everything(store) == seen
    with ContextStore.open(tmp_path / "store") as anew:
        assert everything(anew) == seen


def test_an_exception_in_the_block_writes_nothing(store):
    before = everything(store)
    with pytest.raises(KeyError, match="mine"), store.transaction() as tx:
        write_everything(tx)
        raise KeyError("mine")
    assert everything(store) == before


def test_an_expectation_that_fails_in_the_block_writes_nothing_to_any_store(store):
    store.kv().put([item(n=0)])
    before = everything(store)
    with pytest.raises(ConflictError, match="revision"), store.transaction() as tx:
        write_everything(tx)
        tx.kv("others").write(expected={KEY: 5})
    assert everything(store) == before


@pytest.mark.parametrize("is_put", [True, False], ids=["put", "only expected"])
def test_an_expectation_that_others_break_before_the_end_writes_nothing(store, is_put):
    store.kv().put([item(n=0)])
    (there,) = store.kv().get([KEY])
    with pytest.raises(ConflictError, match="Run the block"), store.transaction() as tx:
        tx.history.append("a", Message.user("hello"), session_id="1")
        puts = [item(n=1)] if is_put else []
        tx.kv().write(puts=puts, expected={KEY: there.revision})
        store.kv().put([item(n="others")])
    assert texts(store) == []
    assert values(store) == [{"n": "others"}]


def test_the_end_of_a_conversation_is_expected_too(store):
    store.history.append("a", Message.user("one", id="1"), session_id="1")
    with pytest.raises(ConflictError), store.transaction() as tx:
        tx.kv().put([item(n=1)])
        tx.history.replace_tail(
            "a", [Message.user("two")], session_id="1", after=None, expected_tail=["1"]
        )
        store.history.append("a", Message.user("another's"), session_id="1")
    assert texts(store) == ["one", "another's"]
    assert values(store) == [None]


def test_an_id_that_others_take_before_the_end_writes_nothing(store):
    with pytest.raises(ConflictError), store.transaction() as tx:
        tx.kv().put([item(n=1)])
        tx.history.append("a", Message.user("mine", id="m"), session_id="1")
        store.history.append("a", Message.user("another's", id="m"), session_id="1")
    assert texts(store) == ["another's"]
    assert values(store) == [None]


def test_a_task_that_others_begin_before_the_end_is_not_begun(store):
    store.tasks.board().add("only one")
    with pytest.raises(ConflictError), store.transaction() as tx:
        tx.kv().put([item(n=1)])
        assert tx.tasks.board().claim("me").title == "only one"
        store.tasks.board().claim("others")
    (task,) = store.tasks.board().list()
    assert task.assigned_to == "others"
    assert values(store) == [None]


def test_what_others_write_meanwhile_beside_it_stays(store):
    with store.transaction() as tx:
        tx.history.append("a", Message.user("mine"), session_id="1")
        tx.kv().put([item(n=1)])
        store.history.append("a", Message.user("another's"), session_id="1")
        store.kv().put([item(n="others"), item("b", n=2)])
        store.flush()
    assert texts(store) == ["another's", "mine"]
    assert values(store, "k", "b") == [{"n": 1}, {"n": 2}]


def test_the_block_reads_what_it_has_written(store):
    store.history.append("a", Message.user("zero"), session_id="1")
    with store.transaction() as tx:
        tx.history.append("a", Message.user("one"), session_id="1")
        assert texts(tx) == ["zero", "one"]
        assert tx.history.pop("a", session_id="1").text == "one"
        tx.history.append("a", Message.user("two"), session_id="1")
        tx.kv().put([item(n=1)])
        (there,) = tx.kv().get([KEY])
        tx.kv().write(puts=[item(n=2)], expected={KEY: there.revision})
        board = tx.tasks.board()
        board.add("tidy up")
        task = board.claim("me")
        board.complete(task.id, attempt=task.attempt)
        tx.sessions.create("s", title="first")
        tx.sessions.update("s", title="second")
    assert texts(store) == ["zero", "two"]
    assert values(store) == [{"n": 2}]
    assert [str(one.status) for one in store.tasks.board().list()] == ["completed"]
    assert store.sessions.get("s").title == "second"


def test_rows_are_found_by_a_search_after_the_block(store):
    with store.transaction() as tx:
        tx.memory.add([Message.user("the fjord is deep")], user_id="ada")
        assert store.memory.search("fjord", user_id="ada") == []
    assert [one.record.text for one in store.memory.search("fjord", user_id="ada")] == [
        "the fjord is deep"
    ]


def test_a_branch_has_transactions_of_its_own(store):
    store.history.append("a", Message.user("zero"), session_id="1")
    branch = store.create_branch("b")
    with branch.transaction() as tx:
        tx.history.append("a", Message.user("one"), session_id="1")
        tx.kv().put([item(n=1)])
    assert (texts(branch), values(branch)) == (["zero", "one"], [{"n": 1}])
    assert (texts(store), values(store)) == (["zero"], [None])


def test_one_transaction_is_one_change_of_the_log(store):
    write_everything(store)
    journal = store.aio._resources.database.connection.journal
    statements = []
    journal.log.session.connection.set_trace_callback(statements.append)
    with store.transaction() as tx:
        tx.history.append("a", Message.user("one"), session_id="1")
        tx.memory.add([Message.user("two")], user_id="ada")
        tx.kv().put([item(n=1), item("b", n=2)])
        tx.vectors().upsert([Document(id="e", text="a text")])
    journal.log.session.connection.set_trace_callback(None)
    inserts = [one for one in statements if one.startswith("INSERT INTO rows")]
    first, last = statements.index(inserts[0]), statements.index(inserts[-1])
    assert len(inserts) == 5
    assert not {"COMMIT", "BEGIN IMMEDIATE"}.intersection(statements[first:last])


# Bad input


def test_rows_of_two_users_are_refused(store):
    with pytest.raises(InvalidRequestError, match="user_id='bob'"), store.transaction() as tx:
        tx.kv().put([item(n=1)])
        tx.memory.add([Message.user("tea")], user_id="ada")
        tx.memory.add([Message.user("tea")], user_id="bob")
    assert values(store) == [None]
    assert store.memory.list(user_id="ada").items == []


def test_a_scope_may_be_narrowed_inside_to_one_user(store):
    with store.scope(tenant="t").transaction() as tx:
        tx.kv().put([item(n="app")])
        tx.scope(user_id="ada").kv().put([item(n="ada")])
    assert values(store.scope(tenant="t")) == [{"n": "app"}]
    assert values(store.scope(tenant="t", user_id="ada")) == [{"n": "ada"}]
    with (
        pytest.raises(InvalidRequestError, match="user_id='bob'"),
        store.transaction() as tx,
    ):
        tx.scope(user_id="ada").kv().put([item(n=1)])
        tx.scope(user_id="bob").kv().put([item(n=1)])
    assert values(store.scope(user_id="ada")) == [None]


@pytest.mark.parametrize("n_items", [600, 100_000])
def test_too_many_rows_are_refused(store, n_items):
    with pytest.raises(InvalidRequestError, match="at most 512 rows"), store.transaction() as tx:
        tx.history.append("a", Message.user("one"), session_id="1")
        tx.kv().put([item(str(n), n=n) for n in range(n_items)])
    assert texts(store) == []
    assert store.kv().count() == 0


def test_too_many_rows_in_many_calls_are_refused(tmp_path):
    journal = JournalPolicy(rows=10)
    with ContextStore.open(tmp_path / "store", journal=journal) as store:
        with pytest.raises(InvalidRequestError, match="at most 10 rows"), store.transaction() as tx:
            for n in range(11):
                tx.kv().put([item(str(n), n=n)])
        assert store.kv().count() == 0


def test_too_many_bytes_are_refused(store):
    with pytest.raises(InvalidRequestError, match="bytes"), store.transaction() as tx:
        tx.kv().put([item(text="x" * 5_000_000)])
    assert values(store) == [None]


def test_an_unknown_column_and_a_malformed_expectation_are_refused(store):
    with pytest.raises(FilterError, match="nope"), store.transaction() as tx:
        tx.kv().put([item(n=1)])
        tx.vectors().delete(filter={"nope": {"$wrong": 1}})
    with pytest.raises(InvalidRequestError, match="expected"), store.transaction() as tx:
        tx.kv().put([item(n=1)])
        tx.kv().write(expected={"nope": 1})
    assert values(store) == [None]


def test_a_transaction_inside_another_one_is_refused(store):
    with pytest.raises(InvalidRequestError, match="inside another one"), store.transaction() as tx:
        tx.kv().put([item(n=1)])
        with store.scope(user_id="ada").transaction():
            pass
    assert values(store) == [None]
    with store.transaction() as tx:  # The block before has ended.
        tx.kv().put([item(n=2)])
    assert values(store) == [{"n": 2}]


def test_two_stores_have_a_transaction_each(store, tmp_path):
    with (
        ContextStore.open(tmp_path / "other") as other,
        store.transaction() as one,
        other.transaction() as two,
    ):
        one.kv().put([item(n=1)])
        two.kv().put([item(n=2)])
        assert values(other) == [None]
    assert values(store) == [{"n": 1}]


def test_a_transaction_is_of_no_use_before_and_after_its_block(store):
    tx = store.transaction()
    with pytest.raises(InvalidRequestError, match="not begun"):
        tx.kv()
    with tx:
        kv = tx.kv()
    for use in (lambda: kv.put([item(n=1)]), lambda: kv.get([KEY]), tx.kv, lambda: tx.history):
        with pytest.raises(InvalidRequestError, match="has ended"):
            use()
    with pytest.raises(InvalidRequestError, match="one block"), tx:
        pass
    assert values(store) == [None]


def test_another_thread_cannot_use_it(store):
    told = []

    def use(kv):
        try:
            kv.put([item(n=1)])
        except InvalidRequestError as error:
            told.append(str(error))

    with store.transaction() as tx:
        thread = threading.Thread(target=use, args=[tx.kv()])
        thread.start()
        thread.join()
    assert "another task or thread" in told[0]
    assert values(store) == [None]


async def test_another_task_cannot_use_it_and_may_begin_one_of_its_own(tmp_path):
    async with AsyncContextStore.open(tmp_path / "store") as store:

        async def own():
            async with store.transaction() as tx:
                await tx.kv().put([item("own", n=1)])

        async with store.transaction() as tx:
            with pytest.raises(InvalidRequestError, match="another task"):
                await asyncio.create_task(tx.kv().put([item(n=1)]))
            await asyncio.create_task(own())
            await tx.kv().put([item("mine", n=2)])
        found = await store.kv().get([(("n",), key) for key in ("k", "own", "mine")])
        assert [one and one.value for one in found] == [None, {"n": 1}, {"n": 2}]


def test_a_failed_write_that_the_block_catches_fails_the_rest(store):
    store.kv().put([item(n=0)])
    with pytest.raises(ConflictError, match="expected"), store.transaction() as tx:
        with pytest.raises(AlreadyExistsError):
            tx.kv().write(adds=[item(n=1)])
        tx.kv().put([item("b", n=2)])
    assert values(store, "k", "b") == [{"n": 0}, None]


@pytest.mark.parametrize("place", ["memory", "journal=None"])
def test_without_a_log_it_is_refused_and_says_which_to_configure(tmp_path, place):
    uri, options = (
        ("memory://", {}) if place == "memory" else (tmp_path / "store", {"journal": None})
    )
    with (
        ContextStore.open(uri, **options) as store,
        pytest.raises(InvalidRequestError, match=r"journal=JournalPolicy\(\)"),
        store.transaction(),
    ):
        pass
    assert not (tmp_path / "store").exists()


def test_a_lock_that_is_lost_before_the_end_keeps_all_from_being_written(store):
    lock = store.locks.acquire("r", owner="me")
    with pytest.raises(StaleLockError), lock.fencing(), store.transaction() as tx:
        tx.kv().put([item(n=1)])
        tx.history.append("a", Message.user("one"), session_id="1")
        store.locks.force_release("r")
    assert (values(store), texts(store)) == ([None], [])


def test_a_lock_around_one_call_has_to_be_held_until_the_end(store):
    lock = store.locks.acquire("r", owner="me")
    with pytest.raises(StaleLockError), store.transaction() as tx:
        with lock.fencing():
            tx.kv().put([item(n=1)])
        lock.release()
    assert values(store) == [None]


# Kills, and others who look


def run(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )


KILLED = """
import os, signal, sys
from lance_context_core import ContextStore
from proofs.crash.transactions import write

with ContextStore.open(sys.argv[1]) as store:
    write(store)
    journal = store.aio._resources.database.connection.journal
    left = [int(sys.argv[2])]

    def see(statement):
        if statement.startswith(("INSERT", "UPDATE", "COMMIT")) and 'tasks' not in statement:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    tx = store.aio.transaction
    from lance_context_core.storage.transaction import WriteTransaction
    commit = WriteTransaction.commit

    async def watched(self):
        journal.log.session.connection.set_trace_callback(see)
        await commit(self)
        journal.log.session.connection.set_trace_callback(None)

    WriteTransaction.commit = watched
    write(store)
    print("done")
"""


@pytest.mark.process
@pytest.mark.parametrize("nth", [2, 7, 100, *in_proofs(1, 4, 10, 13)])
def test_a_kill_at_any_statement_leaves_all_or_nothing(tmp_path, nth):
    from proofs.crash.transactions import look

    with run(KILLED, tmp_path / "store", nth) as process:
        said, _ = process.communicate(timeout=300)
    assert (process.returncode, said) in [(-signal.SIGKILL, ""), (0, "done\n")]
    n, broken = look(str(tmp_path / "store"))
    assert broken is None
    assert n == (2 if said else 1)
    assert (nth == 100) == bool(said)


WRITER = """
import sys
from lance_context_core import ContextStore
from proofs.crash.transactions import write

with ContextStore.open(sys.argv[1]) as store:
    for _ in range(40):
        write(store)
"""


@pytest.mark.process
def test_another_process_sees_all_of_a_transaction_or_nothing(tmp_path):
    from proofs.crash.transactions import AGENT, COUNT, SESSION, USER

    with (
        run(WRITER, tmp_path / "store") as writer,
        ContextStore.open(tmp_path / "store") as whole,
    ):
        store, seen = whole.scope(user_id=USER), set()
        while writer.poll() is None or 40 not in seen:
            assert writer.returncode in (None, 0)
            # Each is read after the one before: what that shows, this has to show as well.
            n_turns = len(store.history.get_messages(AGENT, session_id=SESSION))
            (count,) = store.kv().get([COUNT])
            n = 0 if count is None else count.value["n"]
            n_texts = store.vectors().count()
            n_tasks = len(store.tasks.board().list())
            assert n_turns <= n <= n_texts <= n_tasks
            seen.add(n)
    assert writer.wait() == 0


def test_writers_who_count_together_lose_no_count(tmp_path):
    n_each = 15

    def work():
        with ContextStore.open(tmp_path / "store") as store:
            for _ in range(n_each):
                while True:
                    try:
                        with store.transaction() as tx:
                            (there,) = tx.kv().get([KEY])
                            n = 0 if there is None else there.value["n"]
                            tx.history.append("a", Message.user(str(n)), session_id="1")
                            tx.kv().write(
                                puts=[item(n=n + 1)],
                                expected={KEY: there and there.revision},
                            )
                        break
                    except ConflictError:
                        continue

    threads = [threading.Thread(target=work) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    with ContextStore.open(tmp_path / "store") as store:
        assert values(store) == [{"n": 3 * n_each}]
        assert texts(store) == [str(n) for n in range(3 * n_each)]


@pytest.mark.process
def test_no_kill_leaves_a_transaction_in_part():
    done = subprocess.run(
        [sys.executable, "-m", "proofs.crash.transactions", "--rounds", "10"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=1_800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "In part or lost: 0." in done.stdout
