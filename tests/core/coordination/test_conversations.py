"""Whose conversation the code that runs belongs to: to nobody's unless that was said."""

import asyncio
import threading

import pytest

from lance_context_core.coordination import Conversation, conversation, current_conversation
from lance_context_core.errors import InvalidRequestError
from lance_context_core.sync import ContextStore


async def test_a_tool_finds_the_board_of_the_agent_that_calls_it_and_of_no_other(store):
    async def tool(title):
        await asyncio.sleep(0)
        await store.tasks.here().add(title)

    async def agent(name):
        with conversation("s", agent_id=name):
            await asyncio.gather(*(tool(f"{name} {n}") for n in range(2)))

    await asyncio.gather(*(agent(name) for name in ("ann", "b/n", "b")))
    with conversation("s"):
        await tool("root")
    with conversation("s/b"):
        await tool("another")
    assert await store.tasks.boards() == ["s", "s%2Fb", "s/ann", "s/b", "s/b%2Fn"]
    for name in ("ann", "b"):
        titles = [one.title for one in await store.tasks.board(f"s/{name}").list()]
        assert sorted(titles) == [f"{name} 0", f"{name} 1"]


async def test_outside_a_conversation_nothing_is_written_to_a_board_of_all(store):
    inside = []

    async def serve():
        with conversation("s"):
            inside.append(True)
            await asyncio.sleep(60)

    server = asyncio.create_task(serve())
    await asyncio.sleep(0.01)
    assert inside
    # What another task has set is not seen here.
    with pytest.raises(InvalidRequestError, match="no conversation is set here"):
        store.tasks.here()
    server.cancel()
    with pytest.raises(InvalidRequestError):
        current_conversation()
    assert await store.tasks.boards() == []


def test_a_block_inside_another_one_ends_where_it_ends():
    with conversation("s", agent_id="ann", label="Ann") as outer:
        with conversation("s", agent_id="ben", parent_agent_id="ann") as inner:
            assert current_conversation() is inner
            assert inner.parent_agent_id == "ann"
        assert current_conversation() == outer
        assert outer == Conversation(session_id="s", agent_id="ann", label="Ann")


def test_threads_know_the_conversation_that_they_were_given(tmp_path):
    seen = []

    def work():
        try:
            seen.append(current_conversation().session_id)
        except InvalidRequestError:
            seen.append(None)

    with ContextStore.open(tmp_path) as store, conversation("s", agent_id="ann"):
        assert store.tasks.here().name == "s/ann"
        asyncio.run(asyncio.to_thread(work))
        by_hand = threading.Thread(target=work)
        by_hand.start()
        by_hand.join()
    assert seen[0] == "s"


@pytest.mark.parametrize(
    "wrong", [{"session_id": ""}, {"agent_id": ""}, {"label": 1}, {"parent_agent_id": ""}]
)
def test_a_wrong_conversation_is_refused(wrong):
    with pytest.raises(InvalidRequestError), conversation(**{"session_id": "s", **wrong}):
        pass
