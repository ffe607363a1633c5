"""The chat stores, one asynchronous and one not, over the same conversations."""

import asyncio
import contextlib
import json
import pickle
import subprocess
import sys
import threading

import pytest
from adapters.llama_index.samples import MESSAGES, say, texts
from core.conformance.doubles import WordVectors
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index_lance_context import LanceContextAsyncChatStore, LanceContextChatStore

from lance_context_core import (
    AsyncHistory,
    ContextStore,
    InvalidRequestError,
    Message,
    StorageError,
    ToolResultPart,
)
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.wal.table_log import TableLog

ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
HOSTILE = 'a\'; DROP TABLE "x" --%_\\'


@pytest.fixture
def chats(store):
    return LanceContextAsyncChatStore(store)


def run(work):
    return asyncio.run(work)


def spoken(n, *, start=0):
    return [say(f"m{i}", "user" if i % 2 == 0 else "assistant") for i in range(start, start + n)]


# Reading and writing


def test_an_unknown_key_has_no_messages(chats):
    assert run(chats.get_messages("k")) == []
    assert run(chats.count_messages("k")) == 0
    assert run(chats.get_keys()) == []
    assert run(chats.delete_message("k", 0)) is None
    assert run(chats.delete_oldest_messages("k", 2)) == []
    assert run(chats.archive_oldest_messages("k", 2)) == []
    run(chats.delete_messages("k"))
    run(chats.set_messages("k", []))
    assert run(chats.get_keys()) == []


def test_messages_of_every_kind_read_back_equal_and_in_order(chats):
    messages = list(MESSAGES.values())
    run(chats.add_messages("k", messages))
    assert run(chats.get_messages("k")) == messages


def test_adding_no_messages_changes_nothing(chats):
    run(chats.add_messages("k", []))
    assert run(chats.get_keys()) == []


def test_a_batch_is_one_commit(chats, store):
    run(chats.add_message("k", say("a")))
    before = store.version()
    run(chats.add_messages("k", spoken(20)))
    assert store.version() == before + 1


def test_keys_are_apart_whatever_they_are_called(chats):
    for key in ("a", "a'", HOSTILE, "A", "a ", "ä"):
        run(chats.add_message(key, say(key)))
    assert run(chats.get_keys()) == ["a", "a'", HOSTILE, "A", "a ", "ä"]
    run(chats.delete_messages(HOSTILE))
    assert texts(run(chats.get_messages("a"))) == ["a"]
    assert run(chats.get_messages(HOSTILE)) == []


def test_limit_and_offset_count_from_the_beginning(chats):
    messages = spoken(6)
    run(chats.add_messages("k", messages))
    run(chats.archive_oldest_messages("k", 2))
    for status in (ACTIVE, ARCHIVED, None):
        kept = {ACTIVE: messages[2:], ARCHIVED: messages[:2], None: messages}[status]
        for offset in (None, 0, 1, 5, 9):
            for limit in (None, 0, 1, 3, 9):
                found = run(chats.get_messages("k", status, limit=limit, offset=offset))
                expected = kept[offset or 0 :]
                assert found == (expected if limit is None else expected[:limit])


@pytest.mark.parametrize("wrong", [-1, True, "1", 1.5])
def test_what_is_no_number_of_messages_is_refused(chats, wrong):
    for call in (
        chats.get_messages("k", limit=wrong),
        chats.get_messages("k", offset=wrong),
        chats.archive_oldest_messages("k", wrong),
        chats.delete_oldest_messages("k", wrong),
    ):
        with pytest.raises(InvalidRequestError, match="whole number"):
            run(call)


@pytest.mark.parametrize("key", ["", "a\0b", 7, None])
def test_what_is_no_key_is_refused(chats, key):
    with pytest.raises(InvalidRequestError, match="session_id"):
        run(chats.add_message(key, say("a")))


def test_of_a_batch_with_something_that_cannot_be_stored_nothing_is_written(chats):
    with pytest.raises(InvalidRequestError):
        run(chats.add_messages("k", [say("a"), "b"]))
    assert run(chats.get_messages("k")) == []


# Statuses


def test_archived_messages_keep_their_places_in_the_conversation(chats):
    messages = spoken(5)
    run(chats.add_messages("k", messages))
    assert run(chats.archive_oldest_messages("k", 2)) == messages[:2]
    assert run(chats.get_messages("k")) == messages[2:]
    assert run(chats.get_messages("k", ARCHIVED)) == messages[:2]
    assert run(chats.get_messages("k", None)) == messages
    assert [run(chats.count_messages("k", one)) for one in (ACTIVE, ARCHIVED, None)] == [3, 2, 5]


def test_archiving_is_one_commit(chats, store):
    run(chats.add_messages("k", spoken(9)))
    before = store.version()
    run(chats.archive_oldest_messages("k", 7))
    assert store.version() == before + 1


def test_more_than_there_are_are_all(chats):
    run(chats.add_messages("k", spoken(2)))
    assert run(chats.archive_oldest_messages("k", 9)) == spoken(2)
    assert run(chats.archive_oldest_messages("k", 9)) == []
    assert run(chats.delete_oldest_messages("k", 9)) == []


READS, WRITES = (
    ("get_messages", "session_ids"),
    ("append_many", "replace", "clear", "annotate", "pop"),
)


@pytest.fixture
def verbs(monkeypatch):
    """The verbs that the store's history is asked for, in order."""
    asked = []

    def counted(name):
        verb = getattr(AsyncHistory, name)

        async def counting(self, *given, **named):
            asked.append(name)
            return await verb(self, *given, **named)

        monkeypatch.setattr(AsyncHistory, name, counting)

    for name in (*READS, *WRITES):
        counted(name)
    return asked


@pytest.mark.parametrize("has_read", [False, True])
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda chats: chats.add_message("k", say("a")), ["append_many"]),
        (lambda chats: chats.add_messages("k", spoken(9)), ["append_many"]),
        (lambda chats: chats.set_messages("k", spoken(9)), ["replace"]),
        (lambda chats: chats.archive_oldest_messages("k", 1), ["get_messages", "annotate"]),
        (lambda chats: chats.archive_oldest_messages("k", 5), ["get_messages", "annotate"]),
        (lambda chats: chats.delete_oldest_messages("k", 1), ["get_messages", "clear"]),
        (lambda chats: chats.delete_oldest_messages("k", 5), ["get_messages", "clear"]),
        (lambda chats: chats.delete_message("k", 0), ["get_messages", "clear"]),
        (lambda chats: chats.delete_message("k", -1), ["get_messages", "clear"]),
        (lambda chats: chats.delete_messages("k"), ["clear"]),
    ],
)
def test_every_call_asks_for_one_write_and_at_most_one_read(
    chats, store, verbs, call, expected, has_read
):
    async def once():
        await chats.add_messages("k", spoken(6))
        if has_read:
            await chats.get_messages("k")
        verbs.clear()
        before = await store.aio.version()
        await call(chats)
        return await store.aio.version() - before

    n_commits = run(once())
    assert (verbs, n_commits) == (expected, 1)


def test_more_than_there_are_are_let_go_of_by_one_write(chats, store, verbs):
    run(chats.add_messages("k", spoken(3)))
    verbs.clear()
    assert run(chats.archive_oldest_messages("k", 2)) == spoken(2)
    assert run(chats.delete_oldest_messages("k", 2)) == spoken(1, start=2)
    assert verbs == ["get_messages", "annotate", "get_messages", "clear"]


def test_a_message_is_deleted_without_reading_what_is_farther_away(chats, monkeypatch):
    read, n_read = AsyncHistory.get_messages, []

    async def counting(self, *given, **named):
        found = await read(self, *given, **named)
        n_read.append(len(found))
        return found

    run(chats.add_messages("k", spoken(20)))
    monkeypatch.setattr(AsyncHistory, "get_messages", counting)
    assert [run(chats.delete_message("k", one)).content for one in (0, 2, -1, -3)] == [
        *("m0", "m3", "m19", "m16")
    ]
    assert n_read == [1, 3, 1, 3]


@pytest.mark.defect(28)
def test_setting_the_active_messages_keeps_the_archived_ones(chats):
    run(chats.add_messages("k", spoken(4)))
    run(chats.archive_oldest_messages("k", 2))
    run(chats.set_messages("k", [say("new")]))
    assert texts(run(chats.get_messages("k", None))) == ["m0", "m1", "new"]


def test_setting_messages_is_one_commit_that_nobody_sees_half_of(chats, store):
    run(chats.set_messages("k", spoken(5)))
    before = store.version()
    run(chats.set_messages("k", spoken(3, start=5)))
    assert store.version() == before + 1
    assert run(chats.get_messages("k")) == spoken(3, start=5)


@pytest.mark.defect(27)
def test_setting_messages_that_cannot_be_stored_keeps_the_history(chats):
    run(chats.set_messages("k", spoken(3)))
    with pytest.raises(InvalidRequestError):
        run(chats.set_messages("k", [say("new"), "no message"]))
    assert run(chats.get_messages("k")) == spoken(3)


@pytest.mark.defect(27)
@pytest.mark.parametrize(
    ("options", "writer", "n_done"),
    [
        ({}, TableLog, 0),
        ({"journal": None}, TableHandle, 0),
        ({"journal": None}, TableHandle, 1),
        ({"journal": None}, TableHandle, 2),
    ],
    ids=["the entry of the log", "the first commit", "the second commit", "the third commit"],
)
def test_setting_messages_that_fails_half_way_keeps_the_history(
    tmp_path, monkeypatch, options, writer, n_done
):
    """Whichever write fails, there is the one history or the other."""
    with ContextStore.open(tmp_path, **options) as store:
        chats = LanceContextAsyncChatStore(store)
        run(chats.set_messages("k", spoken(3)))
        left, write = [None] * n_done, writer.write

        async def fail(*args, **named):
            if not left:
                raise StorageError("the disk is full")
            left.pop()
            return await write(*args, **named)

        with monkeypatch.context() as patched, contextlib.suppress(StorageError):
            patched.setattr(writer, "write", fail)
            run(chats.set_messages("k", spoken(2, start=9)))
        found = run(chats.get_messages("k"))
        assert found == (spoken(2, start=9) if n_done else spoken(3))


def test_deleting_by_status(chats):
    run(chats.add_messages("k", spoken(4)))
    run(chats.archive_oldest_messages("k", 2))
    run(chats.delete_messages("k", ARCHIVED))
    assert run(chats.get_messages("k", None)) == spoken(2, start=2)
    run(chats.delete_messages("k"))
    assert run(chats.get_messages("k", None)) == []
    assert run(chats.get_keys()) == []


@pytest.mark.defect(29)
def test_an_index_is_a_position_in_the_conversation(chats):
    """Not one in the table, where other conversations stand too."""
    run(chats.add_messages("a", spoken(3)))
    run(chats.add_messages("b", spoken(3, start=10)))
    assert run(chats.delete_message("b", 0)) == say("m10")
    assert run(chats.delete_message("b", -1)) == say("m12")
    assert run(chats.delete_message("b", 3)) is None
    assert run(chats.delete_message("b", -2)) is None
    assert texts(run(chats.get_messages("b"))) == ["m11"]
    assert run(chats.get_messages("a")) == spoken(3)


# One conversation, two classes


def test_each_reads_what_the_other_wrote(chats, store):
    plain = LanceContextChatStore(store)
    plain.add_message("k", say("a"))
    run(chats.add_message("k", say("b")))
    run(chats.add_message("k", say("c"), ARCHIVED))
    assert texts(plain.get_messages("k")) == ["a", "b", "c"]
    assert texts(run(chats.get_messages("k"))) == ["a", "b"]
    plain.set_messages("k", [say("d")])
    assert texts(run(chats.get_messages("k", None))) == ["d"]
    assert plain.get_keys() == run(chats.get_keys()) == ["k"]


def test_the_blocking_and_the_asynchronous_methods_do_the_same(store):
    plain = LanceContextChatStore(store)

    async def asynchronously():
        await plain.aset_messages("k", spoken(3))
        await plain.async_add_message("k", say("m3"))
        assert texts(await plain.aget_messages("k")) == ["m0", "m1", "m2", "m3"]
        assert await plain.adelete_message("k", 1) == say("m1", "assistant")
        assert await plain.adelete_last_message("k") == say("m3")
        assert await plain.aget_keys() == ["k"]
        assert texts(await plain.adelete_messages("k")) == ["m0", "m2"]
        return await plain.adelete_messages("k")

    assert run(asynchronously()) is None
    plain.set_messages("k", spoken(3))
    plain.add_message("k", say("m3"))
    assert texts(plain.get_messages("k")) == ["m0", "m1", "m2", "m3"]
    assert plain.delete_message("k", 1) == say("m1", "assistant")
    assert plain.delete_last_message("k") == say("m3")
    assert texts(plain.delete_messages("k")) == ["m0", "m2"]
    assert plain.delete_messages("k") is None
    assert plain.delete_last_message("k") is None


def test_the_last_message_goes_without_a_look_at_the_others(store, monkeypatch):
    plain = LanceContextChatStore(store)
    plain.set_messages("k", spoken(5))
    read = []
    take = AsyncHistory.get_messages

    async def noted(self, *args, **kwargs):
        read.append(kwargs)
        return await take(self, *args, **kwargs)

    monkeypatch.setattr(AsyncHistory, "get_messages", noted)
    assert plain.delete_last_message("k") == say("m4")
    assert read == []
    assert texts(plain.get_messages("k")) == ["m0", "m1", "m2", "m3"]


def test_the_agents_of_a_store_have_conversations_of_their_own(store):
    one, other = (LanceContextChatStore(store, agent_id=name) for name in ("a", "b"))
    one.add_message("k", say("to a"))
    other.add_message("k", say("to b"))
    assert texts(one.get_messages("k")) == ["to a"]
    one.delete_messages("k")
    assert (one.get_keys(), other.get_keys()) == ([], ["k"])


def test_a_scope_isolates(store):
    for tenant in ("a", "b"):
        LanceContextChatStore(store.scope(tenant=tenant)).add_message("k", say(f"of {tenant}"))
    inside = LanceContextChatStore(store.scope(tenant="a"))
    assert texts(inside.get_messages("k")) == ["of a"]
    inside.set_messages("k", [])
    assert texts(LanceContextChatStore(store.scope(tenant="b")).get_messages("k")) == ["of b"]


def test_a_chat_memory_buffer_keeps_its_conversation_in_it(store):
    first = ChatMemoryBuffer.from_defaults(
        chat_store=LanceContextChatStore(store), chat_store_key="k", token_limit=1000
    )
    first.put(say("hi"))
    again = ChatMemoryBuffer.from_defaults(
        chat_store=LanceContextChatStore(store), chat_store_key="k", token_limit=1000
    )
    assert again.get() == [say("hi")]


# Other frameworks


def test_what_the_store_was_told_by_others_reads_well(chats, store):
    store.history.append_many(
        "",
        [
            Message.user("tea?"),
            Message.of(
                "tool",
                [
                    ToolResultPart(call_id="1", content="green"),
                    ToolResultPart(call_id="2", content="black"),
                ],
            ),
            Message.assistant("Both."),
        ],
        session_id="k",
    )
    read = run(chats.get_messages("k"))
    assert texts(read) == ["tea?", "green", "black", "Both."]
    assert [one.additional_kwargs.get("tool_call_id") for one in read[1:3]] == ["1", "2"]
    assert run(chats.count_messages("k")) == 4
    assert texts(run(chats.get_messages("k", limit=1, offset=2))) == ["black"]
    assert texts(run(chats.archive_oldest_messages("k", 2))) == ["tea?", "green", "black"]
    assert texts(run(chats.get_messages("k"))) == ["Both."]


def test_others_read_the_whole_conversation(chats, store):
    run(chats.add_messages("k", spoken(3)))
    run(chats.archive_oldest_messages("k", 1))
    read = store.history.get_messages("", session_id="k")
    assert [(one.role, one.text) for one in read] == [
        ("user", "m0"),
        ("assistant", "m1"),
        ("user", "m2"),
    ]


def test_archiving_keeps_what_a_message_is_found_by(tmp_path):
    with ContextStore.open(tmp_path / "s", embedder=WordVectors()) as store:
        chats = LanceContextAsyncChatStore(store)
        run(chats.add_messages("k", [say("green tea"), say("black coffee")]))
        run(chats.archive_oldest_messages("k", 2))
        (hit, *_) = store.history.search("tea", session_id="k")
        assert hit.record.text == "green tea"
        assert hit.matched_channels == ("text", "vector")


# At the same time


@pytest.mark.defect(26)
def test_several_event_loops_may_use_it_first_at_once(tmp_path):
    chats = LanceContextAsyncChatStore(tmp_path / "s")
    barrier = threading.Barrier(5)
    found, failed = [], []

    def use(n):
        barrier.wait()
        try:
            found.append(run(chats.get_messages("none")))
            for i in range(3):
                run(chats.add_message("k", say(f"{n}.{i}")))
        except Exception as error:  # noqa: BLE001 - reported below
            failed.append(error)

    threads = [threading.Thread(target=use, args=[n]) for n in range(5)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    assert found == [[]] * 5
    said = texts(run(chats.get_messages("k")))
    for n in range(5):
        assert [one for one in said if one.startswith(f"{n}.")] == [f"{n}.{i}" for i in range(3)]
    chats.close()


def test_calls_at_the_same_time_archive_different_messages(chats):
    messages = spoken(12)
    run(chats.add_messages("k", messages))

    async def at_once():
        return await asyncio.gather(*[chats.archive_oldest_messages("k", 3) for _ in range(3)])

    archived = [one for some in run(at_once()) for one in some]
    assert sorted(texts(archived)) == sorted(texts(messages[:9]))
    assert run(chats.get_messages("k")) == messages[9:]


def test_calls_at_the_same_time_delete_different_messages(chats):
    messages = spoken(12)
    run(chats.add_messages("k", messages))

    async def at_once():
        return await asyncio.gather(*[chats.delete_message("k", 0) for _ in range(4)])

    assert sorted(texts(run(at_once()))) == sorted(texts(messages[:4]))
    assert run(chats.get_messages("k")) == messages[4:]


def test_of_histories_set_at_the_same_time_one_is_there(chats):
    async def at_once():
        sets = [[say(f"{n}.{i}") for i in range(3)] for n in range(5)]
        await asyncio.gather(*[chats.set_messages("k", one) for one in sets])
        return sets

    assert run(at_once()).count(run(chats.get_messages("k"))) == 1


ARCHIVER = """
import asyncio, json, sys
from llama_index_lance_context import LanceContextAsyncChatStore

async def main():
    async with LanceContextAsyncChatStore(sys.argv[1]) as chats:
        print("ready", flush=True)
        sys.stdin.readline()
        taken = []
        for _ in range(5):
            taken += await chats.archive_oldest_messages("k", 2)
        print(json.dumps([one.content for one in taken]), flush=True)

asyncio.run(main())
"""


def test_processes_archive_different_messages(tmp_path):
    messages = spoken(25)
    with (
        LanceContextAsyncChatStore(tmp_path / "s") as chats,
        subprocess.Popen(
            [sys.executable, "-c", ARCHIVER, str(tmp_path / "s")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as other,
    ):
        run(chats.add_messages("k", messages))
        assert other.stdout.readline() == "ready\n"
        other.stdin.write("go\n")
        other.stdin.flush()
        taken = [one for _ in range(5) for one in run(chats.archive_oldest_messages("k", 2))]
        theirs = json.loads(other.communicate(timeout=300)[0])
        assert sorted([*texts(taken), *theirs]) == sorted(texts(messages[:20]))
        assert run(chats.get_messages("k")) == messages[20:]


# Serialisation


def test_given_by_its_uri_a_store_survives_pickling_and_dumping(tmp_path):
    for chat_class in (LanceContextAsyncChatStore, LanceContextChatStore):
        with chat_class(str(tmp_path / "s"), agent_id="a") as chats:
            copy = pickle.loads(pickle.dumps(chats))  # noqa: S301 - what has just been pickled
            dumped = json.loads(chats.model_dump_json())
        assert (copy.store, copy.agent_id) == (str(tmp_path / "s"), "a")
        assert dumped["store"] == str(tmp_path / "s")
        copy.close()


def test_an_open_store_cannot_be_serialised(chats):
    with pytest.raises(InvalidRequestError, match="URI"):
        pickle.dumps(chats)


def test_a_handed_over_store_stays_open(store):
    with LanceContextChatStore(store) as chats:
        chats.add_message("k", say("a"))
    assert texts(LanceContextChatStore(store).get_messages("k")) == ["a"]


@pytest.mark.defect(25)
def test_llama_index_memory_takes_it(chats):
    memory = Memory.from_defaults(
        session_id="k", chat_store=chats, chat_history=[say("hi")], token_limit=1000
    )
    memory.put(say("Hello!", "assistant"))
    memory.put_messages([])
    assert texts(memory.get()) == ["hi", "Hello!"]


# Against a model


class Conversations(RuleBasedStateMachine):
    """Both classes, against lists of texts and statuses."""

    keys = st.sampled_from(["a", "a'"])
    statuses = st.sampled_from([ACTIVE, ARCHIVED])

    def __init__(self):
        super().__init__()
        self.store = ContextStore.open("memory://")
        self.chats = LanceContextAsyncChatStore(self.store)
        self.plain = LanceContextChatStore(self.store)
        self.model = {"a": [], "a'": []}
        self.n = 0

    def teardown(self):
        self.store.close()

    def fresh(self, n):
        self.n += n
        return [f"t{i}" for i in range(self.n - n, self.n)]

    @rule(key=keys, n=st.integers(0, 3), status=statuses)
    def add(self, key, n, status):
        new = self.fresh(n)
        run(self.chats.add_messages(key, [say(one) for one in new], status))
        self.model[key] += [[one, status] for one in new]

    @rule(key=keys, n=st.integers(0, 3), status=statuses)
    def set(self, key, n, status):
        new = self.fresh(n)
        run(self.chats.set_messages(key, [say(one) for one in new], status))
        kept = [one for one in self.model[key] if one[1] != status]
        self.model[key] = kept + [[one, status] for one in new]

    @rule(key=keys, n=st.integers(0, 3))
    def archive(self, key, n):
        oldest = [one for one in self.model[key] if one[1] is ACTIVE][:n]
        expected = [text for text, _ in oldest]
        assert texts(run(self.chats.archive_oldest_messages(key, n))) == expected
        for one in oldest:
            one[1] = ARCHIVED

    @rule(key=keys, n=st.integers(0, 3))
    def delete_oldest(self, key, n):
        oldest = [one for one in self.model[key] if one[1] is ACTIVE][:n]
        assert texts(run(self.chats.delete_oldest_messages(key, n))) == [one[0] for one in oldest]
        self.model[key] = [one for one in self.model[key] if one not in oldest]

    @rule(key=keys, index=st.integers(-3, 3))
    def delete(self, key, index):
        there = self.model[key]
        expected = there[index][0] if -len(there) <= index < len(there) else None
        found = self.plain.delete_message(key, index)
        assert (found and found.content) == expected
        self.model[key] = [one for one in there if one[0] != expected]

    @rule(key=keys, status=st.sampled_from([ACTIVE, ARCHIVED, None]))
    def clear(self, key, status):
        run(self.chats.delete_messages(key, status))
        self.model[key] = [one for one in self.model[key] if status not in (None, one[1])]

    @invariant()
    def the_same_is_read(self):
        for key, expected in self.model.items():
            for status in (ACTIVE, ARCHIVED):
                of_status = [text for text, one in expected if one is status]
                assert texts(run(self.chats.get_messages(key, status))) == of_status
            assert texts(self.plain.get_messages(key)) == [text for text, _ in expected]
        assert sorted(self.plain.get_keys()) == sorted(k for k, v in self.model.items() if v)


TestConversations = Conversations.TestCase
TestConversations.settings = settings(max_examples=4, stateful_step_count=6, deadline=None)


@pytest.mark.defect(37)
def test_a_buffer_that_is_made_anew_of_what_it_was_saved_as_has_its_messages(tmp_path):
    with LanceContextChatStore(str(tmp_path / "saved")) as chats:
        buffer = ChatMemoryBuffer.from_defaults(chat_store=chats, chat_store_key="k")
        buffer.put(say("hello"))
        text = json.dumps(buffer.to_dict())
    with pytest.raises(ValueError, match="LanceContextChatStore"):
        ChatMemoryBuffer.from_dict(json.loads(text))
    saved = json.loads(text)
    with LanceContextChatStore(saved["chat_store"]["store"]) as chats:
        again = ChatMemoryBuffer.from_defaults(
            chat_store=chats, chat_store_key=saved["chat_store_key"]
        )
        assert texts(again.get()) == ["hello"]
