"""The memory of an agent."""

import asyncio
import json
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
from adapters.llama_index.agent import agent
from adapters.llama_index.samples import MESSAGES, say, texts
from llama_index.core.base.llms.types import MessageRole
from llama_index.core.memory import BaseMemoryBlock, StaticMemoryBlock
from llama_index.core.memory.memory import InsertMethod
from llama_index.core.prompts import RichPromptTemplate
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.workflow import Context
from llama_index_lance_context import LanceContextMemory, LanceContextMemoryBlock
from llama_index_lance_context._overflow import overflow
from pydantic import PrivateAttr
from workflows.context.state_store import UnserializableKeyWarning

from lance_context_core import InvalidRequestError

ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
AGENT = Path(__file__).with_name("agent.py")


def words(text):
    """A token for each word."""
    return text.split()


class Taker(BaseMemoryBlock[str]):
    """Remembers what it was given; may take its time, fail, or spoil it."""

    name: str = "taker"
    delay: float = 0
    _taken: list = PrivateAttr(default_factory=list)
    _fails: bool = PrivateAttr(default=False)

    async def _aget(self, messages=None, **kwargs):
        return ""

    async def _aput(self, messages):
        await asyncio.sleep(self.delay)
        if self._fails:
            raise LookupError("no room")
        self._taken += texts(messages)
        for one in messages:
            one.blocks.clear()


def memory_of(store, **fields):
    """Ten words fit into the conversation."""
    own = {"session_id": "s", "token_limit": 10, "token_flush_size": 1, "tokenizer_fn": words}
    return LanceContextMemory(store, **{**own, "chat_history_token_ratio": 1.0, **fields})


def turns(n, *, start=0):
    """Messages of four words."""
    return [say(f"this is message {i}") for i in range(start, start + n)]


def run(work):
    return asyncio.run(work)


# Keeping


@pytest.mark.defect(25)
def test_what_was_put_is_there_for_the_next_memory_of_the_session(store):
    memory = LanceContextMemory.from_defaults(store, session_id="s")
    memory.put_messages(list(MESSAGES.values()))
    memory.put_messages([])
    assert LanceContextMemory(store, session_id="s").get() == list(MESSAGES.values())
    assert LanceContextMemory(store, session_id="t").get() == []
    assert LanceContextMemory(store).session_id != LanceContextMemory(store).session_id


def test_the_blocking_and_the_awaited_methods_do_the_same(store):
    memory = LanceContextMemory.from_defaults(store, session_id="s", chat_history=[say("a")])

    async def main():
        await memory.aput(say("b"))
        memory.put(say("c"))
        return await memory.aget()

    assert texts(run(main())) == texts(memory.get_all()) == ["a", "b", "c"]
    memory.set([say("d")])
    assert texts(memory.get()) == ["d"]
    memory.reset()
    assert memory.get_all() == []


def test_old_messages_leave_the_conversation_and_stay_in_the_history(store):
    memory = memory_of(store)
    for one in turns(4):
        memory.put(one)
    assert memory.get() == turns(2, start=2)
    assert memory.get_all(ARCHIVED) == turns(2)
    assert memory.get_all() == turns(4)


def test_setting_the_conversation_keeps_what_has_left_it(store):
    memory = memory_of(store)
    memory.put_messages(turns(4))
    memory.set([say("new")])
    assert texts(memory.get_all()) == [*texts(turns(2)), "new"]


@pytest.mark.defect(35)
def test_instructions_never_leave_the_conversation(store):
    memory = memory_of(store)
    memory.put(say("be kind", "system"))
    for one in turns(6):
        memory.put(one)
    assert texts(memory.get()) == ["be kind", *texts(turns(2, start=4))]


def test_a_tool_result_never_stands_without_its_call(store):
    memory = memory_of(store)
    memory.put_messages(
        [*turns(1), say("calling it now please", "assistant"), say("the result is four", "tool")]
    )
    assert len(memory.get()) == 3
    memory.put(say("thanks"))
    assert texts(memory.get()) == ["thanks"]


@pytest.mark.parametrize(
    ("roles", "sizes", "limit", "flush_size", "leaving"),
    [
        ("uau", [4, 4, 2], 10, 1, []),
        ("uauau", [4, 4, 4, 4, 4], 10, 1, [0, 1, 2, 3]),
        ("uauau", [4, 4, 4, 4, 4], 15, 1, [0, 1]),
        ("uauau", [4, 4, 4, 4, 4], 15, 9, [0, 1, 2, 3]),
        ("suau", [4, 4, 4, 4], 10, 1, [1, 2]),
        ("uatat", [9, 9, 9, 9, 9], 10, 1, []),
        ("auatat", [1, 9, 9, 9, 9, 9], 10, 1, [0]),
        ("aaa", [9, 9, 9], 10, 1, [0, 1]),
        ("s", [99], 10, 1, []),
        ("", [], 10, 1, []),
    ],
)
def test_what_leaves_are_the_oldest_whole_turns(roles, sizes, limit, flush_size, leaving):
    names = {"u": "user", "a": "assistant", "t": "tool", "s": "system"}
    said = [MessageRole(names[one]) for one in roles]
    assert overflow(said, sizes, limit=limit, flush_size=flush_size) == leaving


# Memory blocks


def test_a_block_is_given_what_leaves_and_cannot_spoil_it(store):
    blocks = [Taker(name="a"), Taker(name="b")]
    memory = memory_of(store, memory_blocks=blocks)
    memory.put_messages(turns(4))
    assert [one._taken for one in blocks] == [texts(turns(2))] * 2
    assert memory.get_all() == turns(4)


def test_what_a_block_could_not_take_is_offered_again(store):
    block = Taker()
    memory = memory_of(store, memory_blocks=[block])
    block._fails = True
    with pytest.raises(LookupError, match="no room"):
        memory.put_messages(turns(4))
    assert memory.get_all(ACTIVE) == turns(4)
    block._fails = False
    memory.put(*turns(1, start=4))
    assert block._taken == texts(turns(3))


# At the same time


@pytest.mark.defect(30)
def test_two_puts_at_once_over_the_limit_lose_nothing(store):
    block = Taker(delay=0.05)
    memory = memory_of(store, memory_blocks=[block])
    memory.put_messages(turns(2))

    async def both():
        await asyncio.gather(*[memory.aput(one) for one in turns(2, start=2)])

    run(both())
    # As if they had been put one after the other.
    assert sorted(texts(memory.get())) == texts(turns(2, start=2))
    assert block._taken == texts(turns(2))
    assert len(memory.get_all()) == 4


def test_memories_of_one_session_in_several_threads_lose_nothing(store):
    blocks = [Taker(delay=0.01) for _ in range(4)]
    memories = [memory_of(store, memory_blocks=[one]) for one in blocks]

    def talk(n):
        for one in turns(4, start=10 * n):
            memories[n].put(one)

    threads = [threading.Thread(target=talk, args=[n]) for n in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    everything = texts(memories[0].get_all())
    assert sorted(everything) == sorted(
        f"this is message {10 * n + i}" for n in range(4) for i in range(4)
    )
    taken = [text for block in blocks for text in block._taken]
    assert sorted(taken) == sorted(texts(memories[0].get_all(ARCHIVED)))
    assert len(memories[0].get()) == 2


PUTTER = """
import sys
from llama_index.core.llms import ChatMessage
from llama_index_lance_context import LanceContextMemory

with LanceContextMemory(
    sys.argv[1], session_id="s", token_limit=10, token_flush_size=1,
    tokenizer_fn=str.split, chat_history_token_ratio=1.0,
) as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(6):
        memory.put(ChatMessage(f"this is {sys.argv[2]} {i}"))
"""


def test_processes_that_put_into_one_session_lose_nothing(tmp_path):
    uri = str(tmp_path / "s")
    with (
        memory_of(uri) as memory,
        subprocess.Popen(
            [sys.executable, "-c", PUTTER, uri, "theirs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as other,
    ):
        memory.put(say("hello"))
        assert other.stdout.readline() == "ready\n"
        other.stdin.write("go\n")
        other.stdin.flush()
        for i in range(6):
            memory.put(say(f"this is ours {i}"))
        assert other.wait(timeout=300) == 0
        everything = texts(memory.get_all())
        assert sorted(everything) == sorted(
            ["hello", *[f"this is {n} {i}" for n in ("ours", "theirs") for i in range(6)]]
        )
        assert texts(memory.get()) == everything[-2:]


# Killed, and serialised


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_agent_that_was_killed_goes_on_in_another_process(tmp_path):
    uri = str(tmp_path / "s")
    with subprocess.Popen([sys.executable, str(AGENT), uri], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"waiting\n"
        other.send_signal(signal.SIGKILL)
        assert other.wait(timeout=300) == -signal.SIGKILL

    async def go_on():
        async with LanceContextMemory(uri, session_id="s") as memory:
            await agent().run(user_msg="what is my cat called?", memory=memory)
            return [(one.role.value, one.content) for one in await memory.aget()]

    assert run(go_on()) == [
        ("user", "my cat is called Ada"),
        ("assistant", "I have heard: my cat is called Ada"),
        ("user", "note: swordfish"),
        ("assistant", None),
        ("tool", "noted swordfish"),
        ("assistant", "I have heard: noted swordfish"),
        ("user", "wait: for it"),
        ("user", "what is my cat called?"),
        ("assistant", "I have heard: what is my cat called?"),
    ]


@pytest.mark.defect(31)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_workflow_context_brings_the_memory_back(tmp_path):
    uri = str(tmp_path / "s")

    async def main():
        workflow = agent()
        context = Context(workflow)
        with LanceContextMemory(uri, session_id="s") as memory:
            await workflow.run(user_msg="I am Ada", memory=memory, ctx=context)
            with warnings.catch_warnings():
                warnings.simplefilter("error", UnserializableKeyWarning)
                kept = json.dumps(context.to_dict())
        restored = Context.from_dict(workflow, json.loads(kept))
        await workflow.run(user_msg="who am I?", ctx=restored)
        again = await restored.store.get("memory")
        async with again:
            return type(again), texts(await again.aget())

    assert run(main()) == (
        LanceContextMemory,
        ["I am Ada", "I have heard: I am Ada", "who am I?", "I have heard: who am I?"],
    )


def test_a_dict_and_a_pickle_restore_all_that_was_chosen(tmp_path):
    uri = str(tmp_path / "s")
    chosen = {
        "session_id": "s",
        "agent_id": "a",
        "token_limit": 77,
        "token_flush_size": 7,
        "chat_history_token_ratio": 0.5,
        "insert_method": InsertMethod.USER,
        "memory_blocks_template": RichPromptTemplate("{{ memory_blocks }}!"),
        "memory_blocks": [
            StaticMemoryBlock(name="static", static_content="be kind"),
            LanceContextMemoryBlock(uri, name="recalled", limit=3, scope="user", user_id="u"),
        ],
    }
    with LanceContextMemory(uri, **chosen) as memory:
        memory.put(say("hi"))
        data = json.loads(json.dumps(memory.to_dict()))
        for again in (LanceContextMemory.from_dict(data), pickle.loads(pickle.dumps(memory))):  # noqa: S301 - what has just been pickled
            assert again.to_dict() == memory.to_dict()
            assert again.get() == memory.get()
            for name in (
                "session_id",
                "agent_id",
                "token_limit",
                "token_flush_size",
                "insert_method",
            ):
                assert getattr(again, name) == chosen[name]
            again.close()
        other = LanceContextMemory.from_dict(data, session_id="t", memory_blocks=[])
        assert (other.get(), other.memory_blocks) == ([], [])
        other.close()


def test_a_block_that_cannot_be_restored_is_asked_for(tmp_path):
    with LanceContextMemory(str(tmp_path / "s")) as memory:
        data = memory.to_dict()
    data["memory_blocks"] = [{"type": "os.system", "value": {}}]
    with pytest.raises(InvalidRequestError, match="pass memory_blocks"):
        LanceContextMemory.from_dict(data)


def test_the_memory_of_an_open_store_cannot_be_serialised(store):
    with pytest.raises(InvalidRequestError, match="URI"):
        LanceContextMemory(store).to_dict()


def test_a_store_of_another_kind_is_refused(store):
    with pytest.raises(InvalidRequestError, match="sql_store"):
        LanceContextMemory(store, sql_store=None)
