"""The end of a conversation is changed only if it is still what was read; a message is in its place."""

import asyncio
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from core.conformance.doubles import WordVectors
from core.conformance.interrupting import before

from lance_context_core import (
    AlreadyExistsError,
    AsyncContextStore,
    ConflictError,
    ContextStore,
    InvalidRequestError,
    Message,
    NotFoundError,
)
from lance_context_core.storage import preconditions
from lance_context_core.storage.optimistic import OptimisticTransaction
from lance_context_core.sync import History

PLACES = ["journal", "commits", "memory"]


@pytest.fixture(params=PLACES)
def store(request, tmp_path):
    uri = "memory://" if request.param == "memory" else str(tmp_path / "store")
    options = {"journal": None} if request.param == "commits" else {}
    store = ContextStore.open(uri, embedder=WordVectors(dimension=8), **options)
    yield store.aio
    store.close()


@pytest.fixture
def history(store):
    return store.history


@pytest.fixture(params=["journal", "commits"])
def between(request, monkeypatch):
    """Has something done by others after the look at what is there, before it is committed."""
    if request.param == "commits":
        request.getfixturevalue("each_write_commits")
        return partial(before, monkeypatch, preconditions, "_hidden")
    return partial(before, monkeypatch, OptimisticTransaction, "write")


async def said(history, ids="abc", session_id="s"):
    messages = [Message.user(f"I said {id}", id=id) for id in ids]
    await history.append_many("me", messages, session_id=session_id)


async def ids(history, session_id="s"):
    return [one.id for one in await history.get_messages("me", session_id=session_id)]


# The last message


async def test_the_last_message_is_taken_and_returned(history):
    await said(history)
    await said(history, "xyz", session_id="other")
    there = await history.get_messages("me", session_id="s")
    assert await history.pop("me", session_id="s") == there[-1]
    assert await history.pop("me", session_id="s", expected_id="b") == there[-2]
    assert await ids(history) == ["a"]
    assert await ids(history, "other") == ["x", "y", "z"]
    assert (await history.pop("me", session_id="s")).id == "a"
    assert await history.pop("me", session_id="s") is None
    assert await history.pop("me", session_id="unheard of") is None
    await said(history, "ca")
    assert await ids(history) == ["c", "a"]


async def test_nothing_is_taken_if_another_message_is_the_last(history):
    await said(history)
    with pytest.raises(ConflictError, match=r"'b'.*'c'.*nothing was written"):
        await history.pop("me", session_id="s", expected_id="b")
    with pytest.raises(ConflictError, match="None"):
        await history.pop("me", session_id="unheard of", expected_id="b")
    assert await ids(history) == ["a", "b", "c"]


@pytest.mark.slow
async def test_of_many_who_take_messages_each_gets_another_one(history):
    await said(history, "abcdef")

    async def take():
        return await history.pop("me", session_id="s")

    taken = await asyncio.gather(*(take() for _ in range(8)))
    assert Counter(one and one.id for one in taken) == Counter([*"abcdef", None, None])
    assert await ids(history) == []


# All that comes after one


async def test_what_comes_after_a_message_is_replaced(history):
    await said(history, "abcd")
    new = [Message.assistant("Then I said n", id="n"), Message.user("And b", id="b")]
    tail = {"after": "a", "expected_tail": ["b", "c", "d"]}
    assert await history.replace_tail("me", new, session_id="s", **tail) == ["n", "b"]
    found = await history.get_messages("me", session_id="s")
    assert [one.text for one in found] == ["I said a", "Then I said n", "And b"]
    assert await history.replace_tail("me", [], session_id="s", after="n") == []
    assert await ids(history) == ["a", "n"]
    unnamed = await history.replace_tail(
        "me", [Message.user("z")], session_id="s", after="n", expected_tail=[]
    )
    assert await ids(history) == ["a", "n", *unnamed]
    await history.replace_tail("me", new, session_id="s", after=None)
    assert await ids(history) == ["n", "b"]
    await said(history, "c")
    assert await ids(history) == ["n", "b", "c"]
    hits = await history.search("And b", session_id="s")
    assert hits[0].record.text == "And b"


@pytest.mark.parametrize(
    ("tail", "error"),
    [
        ({"after": "a", "expected_tail": ["b"]}, ConflictError),
        ({"after": "a", "expected_tail": ["c", "b"]}, ConflictError),
        ({"after": "a", "expected_tail": []}, ConflictError),
        ({"after": "c", "expected_tail": ["x"]}, ConflictError),
        ({"after": None, "expected_tail": ["b", "c"]}, ConflictError),
        ({"after": "x"}, NotFoundError),
        ({"after": "x", "expected_tail": []}, NotFoundError),
        ({"after": "b"}, AlreadyExistsError),
        ({"after": "c", "expected_tail": ["x", "x"]}, InvalidRequestError),
        ({"after": 1}, InvalidRequestError),
        ({"after": "c", "expected_tail": "x"}, InvalidRequestError),
    ],
    ids=str,
)
async def test_nothing_is_replaced_if_something_is_not_as_expected(history, tail, error):
    await said(history)
    before = await history.get_messages("me", session_id="s")
    with pytest.raises(error):
        await history.replace_tail("me", [Message.user("no", id="a")], session_id="s", **tail)
    assert await history.get_messages("me", session_id="s") == before


async def append(history):
    await history.append("me", Message.user("too", id="more"), session_id="s")


async def clear(history):
    await history.clear("me", session_id="s", filter={"id": "b"})


async def replace_all(history):
    await history.replace_tail("me", [Message.user("o", id="b")], session_id="s", after=None)


async def pop(history):
    await history.pop("me", session_id="s")


@pytest.mark.parametrize("other", [append, clear, replace_all, pop], ids=lambda one: one.__name__)
async def test_an_end_that_others_change_meanwhile_stays_as_they_left_it(tmp_path, between, other):
    uri = str(tmp_path / "shared")
    async with await AsyncContextStore.open(uri) as one, await AsyncContextStore.open(uri) as two:
        await said(one.history)
        seen = []

        async def work():
            async with await AsyncContextStore.open(uri) as three:
                await other(three.history)
                seen.append(await three.history.get_messages("me", session_id="s"))

        between(work)
        with pytest.raises((ConflictError, NotFoundError)):
            await one.history.replace_tail(
                "me",
                [Message.user("mine", id="b"), Message.user("mine", id="n")],
                session_id="s",
                after="a",
                expected_tail=["b", "c"],
            )
        (before,) = seen
        assert await one.history.get_messages("me", session_id="s") == before
        assert await two.history.get_messages("me", session_id="s") == before
        assert await one.history.count("me", session_id="s") == len(before)


# In its place


async def test_a_message_says_something_else_at_its_place(history):
    await said(history)
    was = (await history.get_messages("me", session_id="s"))[1]
    new = Message.assistant("green tea", id="b", name="Ann", metadata={"n": 1})
    await history.rewrite("me", new, session_id="s", expected=was)
    found = await history.get_messages("me", session_id="s")
    assert [one.id for one in found] == ["a", "b", "c"]
    assert found[1] == replace(new, created_at=was.created_at)
    assert (await history.search("green tea", session_id="s"))[0].record.id == "b"
    with pytest.raises(ConflictError, match=r"'b'.*differs"):
        await history.rewrite("me", Message.user("late", id="b"), session_id="s", expected=was)
    with pytest.raises(NotFoundError, match="'x'"):
        await history.rewrite("me", Message.user("late", id="x"), session_id="s")
    for wrong in (Message.user("no id"), "b"):
        with pytest.raises(InvalidRequestError):
            await history.rewrite("me", wrong, session_id="s")
    with pytest.raises(InvalidRequestError, match="expected"):
        await history.rewrite("me", new, session_id="s", expected="b")
    assert await history.get_messages("me", session_id="s") == found


async def test_the_blocking_calls_do_the_same(history):
    await said(history)

    def work():
        blocking = History(history)
        blocking.rewrite("me", Message.user("otherwise", id="a"), session_id="s")
        assert blocking.pop("me", session_id="s").id == "c"
        new = [Message.user("new", id="n")]
        assert blocking.replace_tail("me", new, session_id="s", after="a") == ["n"]

    await asyncio.to_thread(work)
    assert await ids(history) == ["a", "n"]
