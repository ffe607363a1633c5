"""Tags and branches are made and removed by one at a time: half of one is nobody else's to tidy up."""

import asyncio

import pytest

from lance_context_core import AlreadyExistsError, ConflictError, Item, Message
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.versioning import locations


async def write(store, number):
    await store.kv().put([Item(key=f"{number}", value={})])
    await store.history.append("a", Message.user(f"{number}"), session_id="s")


async def seen(store):
    messages = await store.history.get_messages("a", session_id="s")
    return [one.text for one in messages], sorted(one.key for one in await store.kv().list())


class Paused:
    """The first fork of a table waits, before or after it is made, until it may go on."""

    def __init__(self, monkeypatch, *, is_made):
        self.is_reached = asyncio.get_running_loop().create_future()
        self.may_go_on = asyncio.get_running_loop().create_future()
        fork = TableHandle.fork

        async def pausing(access, *args, **options):
            if self.is_reached.done():
                return await fork(access, *args, **options)
            self.is_reached.set_result(None)
            done = await fork(access, *args, **options) if is_made else None
            await self.may_go_on
            return done if is_made else await fork(access, *args, **options)

        monkeypatch.setattr(TableHandle, "fork", pausing)


@pytest.mark.parametrize("verb", ["tag", "create_branch"])
@pytest.mark.parametrize("is_made", [False, True], ids=["before a table has it", "once one has it"])
async def test_who_makes_the_same_name_waits_and_is_refused(open_store, monkeypatch, verb, is_made):
    one, other = open_store(), open_store()
    await write(one, 0)
    paused = Paused(monkeypatch, is_made=is_made)
    first = asyncio.create_task(getattr(one, verb)("name"))
    await paused.is_reached
    await write(other, 1)
    second = asyncio.create_task(getattr(other, verb)("name"))
    done, _ = await asyncio.wait([second], timeout=0.3)
    assert not done
    paused.may_go_on.set_result(None)
    await first
    with pytest.raises(AlreadyExistsError):
        await second
    for store in (one, other):
        assert await seen(await store.checkout("name")) == (["0"], ["0"])
        assert await seen(store) == (["0", "1"], ["0", "1"])


async def test_who_waits_for_a_stopped_process_is_told(open_store, monkeypatch):
    one, other = open_store(), open_store()
    await write(one, 0)
    paused = Paused(monkeypatch, is_made=True)
    first = asyncio.create_task(one.create_branch("b"))
    await paused.is_reached
    with monkeypatch.context() as patch:
        patch.setattr(locations, "_PATIENCE_SECONDS", 0.1)
        for work in (other.create_branch("c"), other.delete_branch("b"), other.tag("t")):
            with pytest.raises(ConflictError, match=r"for 0\.1 seconds: nothing was done"):
                await work
    paused.may_go_on.set_result(None)
    await first
    await other.create_branch("c")
    assert [branch.name for branch in await one.branches()] == ["b", "c"]
