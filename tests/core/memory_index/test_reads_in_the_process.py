"""A few records that are read again are read from memory: the same, in the same order, as fresh."""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest
from core.conformance.doubles import ManualClock, WordVectors
from core.storage.journaling import SMALL, opened
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lance_context_core import AsyncContextStore, Message
from lance_context_core.memory_index import scopes
from lance_context_core.settings import FragmentPolicy, IndexPolicy, SearchCache
from lance_context_core.storage.lance import fragments
from lance_context_core.storage.lance.fragments import FragmentMerges
from lance_context_core.storage.lance.table_handle import TableHandle

USERS, SESSIONS = ("ann", "bob"), ("s", "t")
KITE_OR_VASE = {"$or": [{"text": {"$text": "KITE"}}, {"text": {"$text": "vase"}}]}


def open_at(path, **options):
    options = {"search_cache": SearchCache(), "journal": SMALL} | options
    return AsyncContextStore.open(path, maintenance=None, **options)


@pytest.fixture
def store(tmp_path):
    store = open_at(tmp_path / "store")
    yield store
    asyncio.run(store.close())


def of(store, user="ann"):
    return store.scope(user_id=user)


async def say(store, *texts, session="s", user="ann", **more):
    messages = [Message.user(text, metadata={"n": len(text)}) for text in texts]
    return await of(store, user).history.append_many("", messages, session_id=session, **more)


async def read(store, session="s", user="ann", **span):
    messages = await of(store, user).history.get_messages("", session_id=session, **span)
    return [one.text for one in messages]


@pytest.fixture
def without_the_engine(monkeypatch):
    """Whatever asks the engine from now on fails."""

    def fail():
        async def asked(*_):
            raise AssertionError("the engine was asked")

        for name in ("peek", "snapshot", "schema_at"):
            monkeypatch.setattr(TableHandle, name, asked)

    return fail


# Which


async def test_a_session_that_was_read_whole_is_read_from_memory(store, without_the_engine):
    await say(store, "a red kite", "a blue vase")
    await store.flush()
    await read(store)
    without_the_engine()
    assert await read(store) == ["a red kite", "a blue vase"]
    assert await read(store, last=1) == ["a blue vase"]
    assert await of(store).history.count("", session_id="s") == 2
    assert await read(store, session="t") == []


async def test_what_is_said_by_this_store_or_another_one_is_read_from_memory(
    tmp_path, store, without_the_engine
):
    await say(store, "a red kite")
    await store.flush()
    await read(store)
    async with open_at(tmp_path / "store") as other:
        await say(other, "a blue vase")
        await say(store, "a green leaf")
        without_the_engine()
        assert await read(store) == ["a red kite", "a blue vase", "a green leaf"]


async def test_upkeep_leaves_what_is_in_memory_as_it_is(store, without_the_engine):
    for number in range(12):
        await say(store, f"kite {number}")
        await store.flush()
    await read(store)
    records = store._resources.records
    merged = await fragments.merge_fragments(records, FragmentMerges(FragmentPolicy()))
    built = await fragments.build_indexes(records, IndexPolicy(scalar_rows=1))
    assert merged.fragments_added
    assert "session_id" in built
    without_the_engine()
    assert await read(store) == [f"kite {number}" for number in range(12)]


async def test_the_latest_memories_that_have_words_are_read_from_memory(store, without_the_engine):
    memory = of(store).memory
    for session, text in [
        ("t", "a red kite"),
        ("s", "a blue vase"),
        ("t", "a leaf"),
        ("t", "Kites"),
    ]:
        await memory.add([text], session_id=session)
    await store.flush()
    for _ in range(2):
        await memory.latest()
    without_the_engine()
    found = await memory.latest(filter=KITE_OR_VASE, limit=2, by_session=True)
    assert [one.text for one in found] == ["a blue vase", "Kites"]
    assert [one.text for one in await memory.latest(limit=2)] == ["Kites", "a leaf"]


async def test_a_part_that_is_asked_for_once_leaves_nothing_in_memory(store):
    await say(store, "a red kite", "a blue vase")
    await store.flush()
    assert await read(store, last=1) == ["a blue vase"]
    assert (await store.stats()).search_cache.n_bytes < 10_000
    assert await read(store, last=1) == ["a blue vase"]
    assert (await store.stats()).search_cache.n_bytes > 2_000


async def test_a_session_of_a_user_of_many_records_is_read_from_memory_by_itself(
    store, monkeypatch, without_the_engine
):
    monkeypatch.setattr(scopes, "_FEW_TO_READ", 3)
    await say(store, "a red kite", "a blue vase")
    await say(store, "one", "two", "three", "four", session="t")
    await store.flush()
    for _ in range(2):
        assert await read(store) == ["a red kite", "a blue vase"]
        assert await read(store, session="t") == ["one", "two", "three", "four"]
    without_the_engine()
    assert await read(store) == ["a red kite", "a blue vase"]
    with pytest.raises(AssertionError, match="the engine was asked"):
        await read(store, session="t")


async def test_a_session_that_outgrows_memory_is_read_from_the_table(store, monkeypatch):
    monkeypatch.setattr(scopes, "_FEW_TO_READ", 3)
    for number in range(6):
        await say(store, f"kite {number}")
        assert await read(store) == [f"kite {n}" for n in range(number + 1)]


async def test_what_was_read_and_is_then_searched_is_found_by_words_and_vectors(tmp_path):
    async with open_at(tmp_path, embedder=WordVectors()) as store:
        await say(store, "a red kite", "a blue vase", run_id="r")
        await store.flush()
        await read(store)
        for options in ({}, {"mode": "text"}, {"filter": {"run_id": "r"}}):
            hits = await of(store).history.search("vase", **options)
            assert hits[0].record.text == "a blue vase"
        assert await read(store, filter={"run_id": {"$ne": "r"}}) == []


@pytest.mark.parametrize(
    "options", [{"search_cache": None}, {"journal": None}], ids=["cache", "journal"]
)
async def test_without_it_the_table_is_read(tmp_path, options):
    async with open_at(tmp_path, **options) as store:
        for number in range(3):
            await say(store, f"kite {number}")
            assert await read(store) == [f"kite {n}" for n in range(number + 1)]
        told = (await store.stats()).search_cache
        assert told is None or told.n_scopes == 0


# What


async def test_a_caller_may_change_what_he_was_given(store):
    await say(store, "a red kite")
    for _ in range(3):
        (message,) = await of(store).history.get_messages("", session_id="s")
        assert message.metadata == {"n": 10}
        message.metadata["n"] = "changed"


async def test_a_memory_that_is_bytes_has_them(store):
    await of(store).memory.add(["a red kite"], session_id="s")
    await store.context().add("user", b"\0\1", kind="memory", user_id="ann", session_id="s")
    for _ in range(3):
        found = await of(store).memory.latest()
        assert [(one.text, one.blob) for one in found] == [(None, b"\0\1"), ("a red kite", None)]
    assert [one.blob for one in await of(store).memory.latest(limit=1, offset=1)] == [None]


async def test_what_another_program_writes_into_the_table_is_read(store):
    await say(store, "a red kite", "a blue vase")
    await store.flush()
    await read(store)
    table = await opened(store, "records")
    await table.delete("text = 'a red kite'")
    assert await read(store) == ["a blue vase"]


async def test_of_what_is_erased_nothing_is_left_in_memory(store):
    gone, _ = await say(store, "a red kite", "a blue vase")
    await store.flush()
    await read(store)
    await store.erase(ids=[gone])
    assert (await store.stats()).search_cache.n_scopes == 0
    assert await read(store) == ["a blue vase"]


async def test_an_earlier_version_and_a_branch_are_read_as_they_are(store):
    await say(store, "a red kite")
    await read(store)
    left = await store.create_branch("left")
    await say(left, "a blue vase")
    await store.tag("then")
    await say(store, "a green leaf")
    then = await store.checkout("then")
    for _ in range(2):
        assert await read(store) == ["a red kite", "a green leaf"]
        assert await read(left) == ["a red kite", "a blue vase"]
        assert await read(then) == ["a red kite"]


# The same as the table's


texts = st.lists(st.sampled_from(["kite", "Kites", "vase", "leaf", "İkite"]), max_size=2).map(
    " ".join
)
handles = st.sampled_from(["one", "two", "cold", "left"])
places = st.tuples(st.sampled_from(USERS), st.sampled_from(SESSIONS))
which = st.integers(0, 9)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["say", "say in a run", "say for a day"]),
            *(handles, places, st.lists(texts, min_size=1, max_size=4)),
        ),
        st.tuples(st.just("remember"), handles, places, texts.filter(bool)),
        st.tuples(st.sampled_from(["rewrite", "annotate", "hand over", "retire"]), handles, which),
        st.tuples(st.sampled_from(["erase", "delete"]), handles, which),
        st.tuples(
            st.sampled_from(["pop", "replace", "clear", "let expire", "forget"]), handles, places
        ),
        st.tuples(st.sampled_from(["fold", "maintain"]), handles),
        st.sampled_from([("wait a day",), ("branch",), ("tag",), ("restore",)]),
    ),
    min_size=2,
    max_size=7,
)
WAYS = {
    "all": lambda s, name: s.history.get_messages("", session_id=name),
    "the last": lambda s, name: s.history.get_messages("", session_id=name, last=2),
    "before the last": lambda s, name: s.history.get_messages(
        "", session_id=name, last=2, offset=1
    ),
    "a page": lambda s, name: s.history.get_messages("", session_id=name, limit=2, offset=1),
    "some": lambda s, name: s.history.get_messages(
        "", session_id=name, filter={"metadata.n": {"$gte": 5}}, last=3
    ),
    "of a run": lambda s, name: s.history.get_messages("", session_id=name, filter={"run_id": "r"}),
    "how many": lambda s, name: s.history.count("", session_id=name),
    "how many of some": lambda s, name: s.history.count("", session_id=name, filter=KITE_OR_VASE),
    "memories": lambda s, name: s.memory.latest(limit=3, offset=1),
    "memories of a session": lambda s, name: s.memory.latest(session_id=name, filter=KITE_OR_VASE),
    "memories by session": lambda s, _: s.memory.latest(filter=KITE_OR_VASE, by_session=True),
}


@pytest.mark.slow
@example(
    [
        ("say", "one", ("ann", "s"), ["kite", "vase", "leaf"]),
        ("remember", "one", ("ann", "t"), "vase"),
        ("fold", "one"),
        ("say", "two", ("ann", "s"), ["Kites"]),
        ("rewrite", "cold", 1),
        ("hand over", "two", 0),
        ("remember", "cold", ("ann", "s"), "kite"),
        ("pop", "two", ("ann", "s")),
        ("erase", "one", 0),
    ]
)
@example(
    [
        ("say for a day", "one", ("ann", "s"), ["kite"]),
        ("say in a run", "two", ("ann", "s"), ["vase", "", "leaf", "kite"]),
        ("branch",),
        ("say", "left", ("ann", "s"), ["leaf"]),
        ("tag",),
        ("wait a day",),
        ("maintain", "two"),
        ("restore",),
    ]
)
@settings(max_examples=8)
@given(steps)
def test_what_is_read_in_the_process_is_what_the_table_has(steps):
    async def run():
        clock = ManualClock()
        async with AsyncExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            stores = {}
            for name in ("one", "two", "cold"):
                cache = None if name == "cold" else SearchCache()
                store = open_at(directory, clock=clock, search_cache=cache)
                stores[name] = await stack.enter_async_context(store)
            for step in steps:
                await take(step, stores, clock)
                cold = stores["cold"]
                for name in ("one", "two"):
                    await compare(stores[name], cold, USERS)
                if "left" in stores:
                    await compare(stores["left"], await cold.branch("left"), USERS[:1])
                if "tagged" in stores:
                    await compare(stores["tagged"], await cold.checkout("then"), USERS[:1])

    asyncio.run(run())


async def compare(hot, cold, users):
    """Both ways; the first read of a scope brings it into memory, where it was not."""
    for user in users:
        for session in SESSIONS:
            for way, ask in WAYS.items():
                expected = await ask(of(cold, user), session)
                assert await ask(of(hot, user), session) == expected, way


async def take(step, stores, clock):
    name, *arguments = step
    if name == "wait a day":
        clock.advance(days=1)
    elif name == "branch":
        if "left" not in stores and await stores["one"].version():
            stores["left"] = await stores["two"].create_branch("left")
    elif name == "tag":
        if "tagged" not in stores and await stores["one"].version():
            await stores["one"].tag("then")
            stores["tagged"] = await stores["one"].checkout("then")
    elif name == "restore":
        if "tagged" in stores:
            await stores["two"].restore("then")
    else:
        handle, *arguments = arguments
        store = stores.get(handle, stores["one"])
        if arguments and isinstance(arguments[0], int):
            await change(name, store, arguments[0])
        else:
            await write(name, store, clock, *arguments)


async def write(name, store, clock, place=("ann", "s"), given=()):
    user, session = place
    history, memory = of(store, user).history, of(store, user).memory
    if name.startswith("say"):
        until = clock.now() + timedelta(days=1) if name == "say for a day" else None
        run = "r" if name == "say in a run" else ""
        await say(store, *given, session=session, user=user, run_id=run, expires_at=until)
    elif name == "remember":
        await memory.add([given], session_id=session)
    elif name == "pop":
        await history.pop("", session_id=session)
    elif name == "replace":
        await history.replace("", [Message.user("kite anew")], session_id=session)
    elif name == "clear":
        await history.clear("", session_id=session)
    elif name == "forget":
        await memory.delete(session_id=session)
    elif name == "let expire":
        until = clock.now() + timedelta(days=1)
        await history.touch("", session_id=session, expires_at=until)
    elif name == "fold":
        await store.flush()
    else:
        await store.maintain()


async def change(name, store, number):
    there = await store.context().list()
    if not there:
        return
    one = there[number % len(there)]
    if name == "erase":
        await store.erase(ids=[one["id"]])
    elif name == "delete":
        await store.context().delete(id=one["id"])
    elif name == "hand over":
        await store.context().update(id=one["id"], user_id="bob")
    elif name == "retire":
        await store.context().update(id=one["id"], lifecycle_status="retired")
    elif one["kind"] == "message":
        history = of(store, one["user_id"]).history
        if name == "annotate":
            await history.annotate("", {"n": 9}, session_id=one["session_id"])
        else:
            message = Message.user("a vase instead", id=one["id"])
            await history.rewrite("", message, session_id=one["session_id"])
