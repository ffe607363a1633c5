"""Commits that are being made while versions are removed: none is told too little of the others."""

import asyncio

import pytest

from lance_context_core import Message
from lance_context_core.storage.lance import indexes, writes

# What happens between a commit and another's, where nobody's lock keeps them apart.
pytestmark = pytest.mark.usefixtures("each_write_commits")


async def texts_of(store):
    return sorted(one["text"] for one in await store.context().list())


async def test_an_erasure_removes_no_version_that_a_commit_was_begun_on(open_store, monkeypatch):
    writer, eraser = open_store(maintenance=None), open_store(maintenance=None)
    await writer.context().add("user", "old", id="kept")
    await writer.scope(user_id="ada").context().add("user", "secret", id="erased")
    loop = asyncio.get_running_loop()
    begun, may_go = loop.create_future(), loop.create_future()
    merge = writes.merge

    async def slow(handle, data, **how):
        if not begun.done():
            begun.set_result(None)
            await may_go
        return await merge(handle, data, **how)

    removed, remove = [], indexes.optimize

    async def removes(handle, **options):
        removed.append(options)
        return await remove(handle, **options)

    monkeypatch.setattr(writes, "merge", slow)
    monkeypatch.setattr(indexes, "optimize", removes)
    change = asyncio.create_task(writer.context().upsert("user", "new", id="kept", key="id"))
    await begun
    erasure = asyncio.create_task(eraser.erase(filter={"user_id": "ada"}))
    done, _ = await asyncio.wait([erasure], timeout=3)
    assert not done
    assert removed == []
    # Who only adds while an erasure waits goes behind it, and waits no longer than for the commit.
    other = asyncio.create_task(eraser.history.append("a", Message.user("more"), session_id="s"))
    may_go.set_result(None)
    await asyncio.gather(change, erasure, other)
    assert removed
    for store in (writer, eraser):
        assert await texts_of(store) == ["more", "new"]


async def test_a_writer_without_a_pause_does_not_keep_an_erasure_waiting(open_store):
    writers, eraser = [open_store(maintenance=None) for _ in range(3)], open_store(maintenance=None)
    await writers[0].scope(user_id="ada").context().add("user", "secret", id="erased")
    is_erased = False

    async def write(w, store):
        n = 0
        while not is_erased:
            await store.context().upsert("user", f"{n}", id=f"w{w}", key="id")
            n += 1
        return f"{n - 1}"

    writing = asyncio.gather(*(write(w, store) for w, store in enumerate(writers)))
    await asyncio.sleep(0.2)
    assert (await asyncio.wait_for(eraser.erase(filter={"user_id": "ada"}), 300)).records == 1
    is_erased = True
    last = await writing
    assert await texts_of(eraser) == sorted(last)
