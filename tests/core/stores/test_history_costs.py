"""Verbs that change few messages cost what an append does: no flush, no commit, and no look into the table."""

from contextlib import asynccontextmanager

import pytest
from core.conformance.doubles import WordVectors

from lance_context_core import AsyncContextStore, Message
from lance_context_core.messages import TextPart
from lance_context_core.storage.flush import Flushing
from lance_context_core.storage.lance.committer import Committer
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.table import Table

HERE = {"session_id": "s"}


def said(text, id):
    return Message(role="user", parts=(TextPart(text=text),), id=id)


async def replace(history, n):
    await history.replace("a", [said(f"r{n}", f"r{n}")], **HERE, filter={"id": f"m{n}"})


async def annotate(history, n):
    assert await history.annotate("a", {"n": n}, **HERE, filter={"id": f"m{n}"}) == [f"m{n}"]


async def rewrite(history, n):
    await history.rewrite("a", said(f"again {n}", f"m{n}"), **HERE)


async def touch(history, n):
    assert await history.touch("a", **HERE, expires_at=None) > 0


async def pop(history, n):
    assert await history.pop("a", **HERE) is not None


async def replace_tail(history, n):
    await history.replace_tail("a", [said(f"t{n}", f"t{n}")], **HERE, after="m0")


async def clear(history, n):
    assert await history.clear("a", **HERE, filter={"id": f"m{n}"}) == 1


VERBS = [replace, annotate, rewrite, touch, pop, replace_tail, clear]


@pytest.fixture
def slow(monkeypatch):
    """What was done beside one transaction of the log: flushes, commits, and looks into a table."""
    seen = []

    def note(owner, name):
        do = getattr(owner, name)

        async def noted(*args, **options):
            seen.append(name)
            return await do(*args, **options)

        monkeypatch.setattr(owner, name, noted)

    note(Flushing, "fold")
    note(Committer, "commit")
    note(TableHandle, "read_at")
    note(TableHandle, "look")
    return seen


@asynccontextmanager
async def warm(tmp_path, *, is_flushed, embedder=None):
    """A conversation that was read and changed before."""
    async with AsyncContextStore.open(tmp_path, embedder=embedder, maintenance=None) as store:
        messages = [said(f"text {n}", f"m{n}") for n in range(8)]
        await store.history.append_many("a", messages, **HERE)
        if is_flushed:
            await store.flush()
        await store.history.annotate("a", {"x": 1}, **HERE)
        await store.history.annotate("a", {"x": 2}, **HERE)
        await store.history.clear("a", **HERE, filter={"id": "m6"})
        await store.history.append("a", said("last", "z"), **HERE)
        yield store


@pytest.mark.parametrize("embedder", [None, WordVectors()], ids=["words alone", "with vectors"])
@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_is_one_transaction_of_the_log(tmp_path, slow, verb, is_flushed, embedder):
    async with warm(tmp_path, is_flushed=is_flushed, embedder=embedder) as store:
        await store.history.get_messages("a", **HERE)
        for n in (1, 2):
            slow.clear()
            await verb(store.history, n)
            assert slow == []
            wanted = await store.history.get_messages("a", **HERE)
            assert slow == []
        await store.flush()
        assert await store.history.get_messages("a", **HERE) == wanted
    async with AsyncContextStore.open(tmp_path, search_cache=None) as other:
        assert await other.history.get_messages("a", **HERE) == wanted


@pytest.mark.parametrize("is_flushed", [False, True])
async def test_replace_takes_what_others_keep_saying_meanwhile(tmp_path, monkeypatch, is_flushed):
    real, late = Table.write, []

    async def overtaken(self, batch):
        if batch.where is None or not batch.rows:
            return await real(self, batch)
        late.append(id := f"late {len(late)}")
        answer = Message(role="assistant", parts=(TextPart(text=id),), id=f"answer to {id}")
        await store.history.append_many("a", [said(id, id), answer], **HERE)
        return await real(self, batch)

    async with warm(tmp_path, is_flushed=is_flushed) as store:
        monkeypatch.setattr(Table, "write", overtaken)
        for n in range(2):
            await store.history.replace(
                "a", [said("new", f"new {n}")], **HERE, filter={"role": "user"}
            )
        await store.history.append("a", said("after", "after"), **HERE)
        wanted = ["answer to late 0", "answer to late 1", "new 1", "after"]
        for _ in range(2):
            ids = [one.id for one in await store.history.get_messages("a", **HERE)]
            assert ids == wanted
            await store.flush()


@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_sees_what_another_handle_has_just_written(tmp_path, verb):
    async with warm(tmp_path, is_flushed=True) as store, AsyncContextStore.open(tmp_path) as other:
        await store.history.get_messages("a", **HERE)
        await other.history.rewrite("a", said("by another", "m0"), **HERE)
        await verb(store.history, 1)
        for one in (store, other):
            first, *rest = await one.history.get_messages("a", **HERE)
            assert (first.id, first.text) == ("m0", "by another")
            assert rest == (await store.history.get_messages("a", **HERE))[1:]
