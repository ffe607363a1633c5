"""Many puts over the limit at the same time, into LlamaIndex's `Memory` and into ours."""

import asyncio
import threading

import pytest
from adapters.llama_index.samples import say, texts
from llama_index.core.memory import BaseMemoryBlock, Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index_lance_context import LanceContextAsyncChatStore, LanceContextMemory
from pydantic import PrivateAttr

# About our own code, whatever the release of the framework.
pytestmark = pytest.mark.one_release

N_TRIES = 3


class Keeper(BaseMemoryBlock[str]):
    """Remembers what it was given."""

    name: str = "keeper"
    _kept: list = PrivateAttr(default_factory=list)

    async def _aget(self, messages=None, **kwargs):
        return ""

    async def _aput(self, messages):
        await asyncio.sleep(0)
        self._kept += texts(messages)


def _fields(session):
    # Seven messages of a word fit; too many, four of them leave.
    return {
        "session_id": session,
        "token_limit": 10,
        "token_flush_size": 4,
        "tokenizer_fn": str.split,
        "memory_blocks": [Keeper()],
    }


def ours(store, session):
    return LanceContextMemory(store, **_fields(session))


def theirs(store, session):
    return Memory.from_defaults(chat_store=LanceContextAsyncChatStore(store), **_fields(session))


def filled(make, store, session):
    memory = make(store, session)
    memory.put_messages([say(f"before{n}") for n in range(6)])
    return memory


def require_whole(memory, said):
    """Nothing is lost: what left is what was said first, the blocks have it, and the rest is there."""
    everything = texts(memory.get_all())
    active = texts(memory.get())
    assert sorted(everything) == sorted(said)
    assert 1 <= len(active) <= 7
    assert everything[-len(active) :] == active
    assert texts(memory.get_all(MessageStatus.ARCHIVED)) == everything[: -len(active)]
    (block,) = memory.memory_blocks
    assert set(block._kept) == set(everything[: -len(active)])


@pytest.mark.parametrize("n_puts", [2, 12])
@pytest.mark.parametrize("make", [ours, theirs])
@pytest.mark.defect(30)
def test_puts_at_once_in_coroutines_leave_a_conversation(store, make, n_puts):
    for session in map(str, range(N_TRIES)):
        memory = filled(make, store, session)
        new = [f"new{n}" for n in range(n_puts)]

        async def put_all(memory=memory, new=new):
            await asyncio.gather(*(memory.aput(say(one)) for one in new))

        asyncio.get_event_loop().run_until_complete(put_all())
        require_whole(memory, [*(f"before{n}" for n in range(6)), *new])


@pytest.mark.parametrize("make", [ours, theirs])
def test_puts_at_once_in_threads_leave_a_conversation(store, make):
    for session in map(str, range(N_TRIES)):
        memory = filled(make, store, session)
        new = [f"new{n}" for n in range(8)]
        threads = [threading.Thread(target=memory.put, args=[say(one)]) for one in new]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        require_whole(memory, [*(f"before{n}" for n in range(6)), *new])


def test_two_memories_of_one_session_let_go_of_the_same_once(store):
    first, second = filled(theirs, store, "s"), theirs(store, "s")

    async def put_both():
        both = [first.aput(say("new0")), second.aput(say("new1"))]
        await asyncio.gather(*both)

    asyncio.get_event_loop().run_until_complete(put_both())
    assert texts(first.get()) == texts(second.get())
    assert sorted(texts(first.get())) == ["before4", "before5", "new0", "new1"]


# What a task has read


def spoken(chats, *told):
    return chats.add_messages("k", [say(one) for one in told])


async def read(chats):
    return texts(await chats.get_messages("k"))


@pytest.mark.parametrize("let_go", ["archive_oldest_messages", "delete_oldest_messages"])
async def test_a_task_lets_go_of_what_it_has_read(store, let_go):
    mine, others = LanceContextAsyncChatStore(store), LanceContextAsyncChatStore(store)
    await spoken(mine, *"abcdef")
    assert await read(mine) == list("abcdef")
    await getattr(others, let_go)("k", 2)
    # Three of those that it saw: two are gone already.
    assert texts(await getattr(mine, let_go)("k", 3)) == ["c"]
    # And then the next ones of these.
    assert texts(await getattr(mine, let_go)("k", 2)) == ["d", "e"]
    # Beyond them those that are there.
    await spoken(others, "g")
    assert texts(await getattr(mine, let_go)("k", 9)) == ["f", "g"]


@pytest.mark.parametrize("let_go", ["archive_oldest_messages", "delete_oldest_messages"])
async def test_a_task_that_has_not_read_lets_go_of_what_is_there(store, let_go):
    mine, others = LanceContextAsyncChatStore(store), LanceContextAsyncChatStore(store)
    await spoken(mine, *"abcd")
    await read(mine)
    await asyncio.create_task(getattr(others, let_go)("k", 1))
    # Another task, another conversation, another read.
    assert texts(await asyncio.create_task(getattr(mine, let_go)("k", 1))) == ["b"]
    await read(mine)
    assert texts(await getattr(mine, let_go)("k", 1)) == ["c"]
    await mine.get_messages("other")
    await getattr(others, let_go)("k", 1)
    assert await getattr(mine, let_go)("k", 1) == []


async def test_a_task_that_has_changed_the_conversation_means_what_is_there_now(store):
    chats = LanceContextAsyncChatStore(store)
    await spoken(chats, *"abc")
    await read(chats)
    await chats.set_messages("k", [say(one) for one in "xyz"])
    assert texts(await chats.archive_oldest_messages("k", 1)) == ["x"]
    await read(chats)
    await chats.delete_message("k", 0)
    assert texts(await chats.archive_oldest_messages("k", 1)) == ["z"]
