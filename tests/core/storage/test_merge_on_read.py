"""Whatever part of it is folded: what a store shows is what was acknowledged, once, in its order."""

import asyncio
import contextlib
import tempfile
from dataclasses import dataclass, field

import pytest
from core.storage.journaling import SMALL
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lance_context_core import AsyncContextStore, Item, Message

IDS = [f"m{n}" for n in range(6)]
KEYS = [(("a",), "x"), (("a",), "y"), (("a", "b"), "x"), (("c",), "x")]
MAIN, LEFT = "main", "left"


@dataclass
class Oracle:
    """What a branch holds, in plain words."""

    messages: dict[str, int] = field(default_factory=dict)
    """The numbers of the session's messages by their ids, in order."""
    items: dict[tuple[tuple[str, ...], str], int] = field(default_factory=dict)


handles = st.sampled_from(["one", "two", "plain"])
branches = st.sampled_from([MAIN, LEFT])
numbers = st.integers(0, 9)
acts = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5), numbers),
    st.tuples(st.just("append known"), st.lists(st.sampled_from(IDS), min_size=1, max_size=5)),
    st.tuples(st.just("delete"), st.integers(0, 20)),
    st.tuples(st.just("clear"), numbers),
    st.tuples(st.just("annotate"), numbers, numbers),
    st.tuples(st.just("put"), st.lists(st.sampled_from(KEYS), min_size=1, unique=True), numbers),
    st.tuples(st.just("add"), st.sampled_from(KEYS), numbers),
    st.tuples(st.just("take away"), st.lists(st.sampled_from(KEYS), min_size=1, unique=True)),
    st.tuples(st.just("take away under"), st.sampled_from([("a",), ("a", "b"), ("c",)])),
)
steps = st.lists(
    st.one_of(st.tuples(handles, branches, acts), st.sampled_from(["flush", "filter"])),
    min_size=3,
    max_size=12,
)

X = KEYS[:1]


@pytest.mark.slow
@example([
    ("one", MAIN, ("append", 2, 0)),
    ("one", MAIN, ("append known", IDS[:2])),
    "flush",
    ("two", MAIN, ("append", 3, 1)),
    ("plain", MAIN, ("append", 1, 2)),
    ("one", MAIN, ("append known", IDS[1:3])),
])  # fmt: skip
@example([
    ("one", MAIN, ("put", KEYS, 1)),
    "flush",
    ("one", MAIN, ("put", X, 2)),
    ("two", MAIN, ("take away", X)),
    ("one", MAIN, ("add", *X, 3)),
])  # fmt: skip
# Each opens three stores, which takes a second.
@settings(max_examples=settings.default.max_examples // 2)
@given(steps)
def test_reads_equal_those_of_a_list_and_a_dict_however_much_is_folded(steps):
    async def main():
        with tempfile.TemporaryDirectory() as folder:
            async with contextlib.AsyncExitStack() as opened:
                stores = {
                    name: await opened.enter_async_context(
                        AsyncContextStore.open(folder, maintenance=None, journal=journal)
                    )
                    for name, journal in [("one", SMALL), ("two", SMALL), ("plain", None)]
                }
                await follow(stores, steps)

    asyncio.run(main())


async def follow(stores, steps):
    oracles = {MAIN: Oracle(), LEFT: Oracle()}
    await stores["one"].create_branch(LEFT)
    on = {
        (name, branch): store if branch == MAIN else await store.branch(branch)
        for name, store in stores.items()
        for branch in oracles
    }
    for step in steps:
        if step == "flush":
            await stores["one"].flush()
        elif step == "filter":
            await compare_filtered(stores["two"], oracles[MAIN])
        else:
            name, branch, (act, *arguments) = step
            await ACTS[act](on[name, branch], oracles[branch], *arguments)
            for (_, of), store in on.items():
                if of == branch:
                    await compare(store, oracles[of])
    for (_, of), store in on.items():
        await compare(store, oracles[of])
        await compare_filtered(store, oracles[of])


# What is done, to the store and to the oracle


async def append(store, oracle, n, number):
    messages = [Message.user(f"says {number}", metadata={"n": number})] * n
    ids = await store.history.append_many("a", messages, session_id="s")
    oracle.messages.update(dict.fromkeys(ids, number))


async def append_known(store, oracle, ids):
    ids = list(dict.fromkeys(ids))
    messages = [Message.user("known", id=id, metadata={"n": 0}) for id in ids]
    await store.history.append_many("a", messages, session_id="s", keep_existing=True)
    for id in ids:
        oracle.messages.setdefault(id, 0)


async def delete(store, oracle, place):
    ids = [*oracle.messages, "nobody's"]
    id = ids[place % len(ids)]
    assert await store.context().delete(id=id) == (oracle.messages.pop(id, None) is not None)


async def clear(store, oracle, number):
    gone = [id for id, one in oracle.messages.items() if one == number]
    n_gone = await store.history.clear("a", session_id="s", filter={"metadata.n": number})
    assert n_gone == len(gone)
    for id in gone:
        del oracle.messages[id]


async def annotate(store, oracle, number, other):
    changed = [id for id, one in oracle.messages.items() if one == number]
    told = await store.history.annotate(
        "a", {"n": other}, session_id="s", filter={"metadata.n": number}
    )
    assert told == changed
    oracle.messages.update(dict.fromkeys(changed, other))


def item(where, number):
    namespace, key = where
    return Item(key=key, namespace=namespace, value={"n": number})


async def put(store, oracle, keys, number):
    before = await store.kv().version()
    await store.kv().put([item(key, number) for key in keys])
    assert await store.kv().version() != before
    oracle.items.update(dict.fromkeys(keys, number))


async def add(store, oracle, key, number):
    assert await store.kv().add([item(key, number)]) == [key not in oracle.items]
    oracle.items.setdefault(key, number)


async def take_away(store, oracle, keys):
    assert await store.kv().delete(keys) == [key in oracle.items for key in keys]
    for key in keys:
        oracle.items.pop(key, None)


async def take_away_under(store, oracle, prefix):
    gone = [key for key in oracle.items if key[0][: len(prefix)] == prefix]
    assert await store.kv().delete_under(prefix) == len(gone)
    for key in gone:
        del oracle.items[key]


ACTS = {
    "append": append,
    "append known": append_known,
    "delete": delete,
    "clear": clear,
    "annotate": annotate,
    "put": put,
    "add": add,
    "take away": take_away,
    "take away under": take_away_under,
}


# What is compared


async def compare(store, oracle):
    """All that the store shows, through each verb that reads without a fold."""
    wanted = list(oracle.messages)
    for span in [
        {},
        {"last": 2},
        {"last": 3, "offset": 2},
        {"limit": 3},
        {"offset": 2},
        {"offset": 1, "limit": 3},
        {"offset": len(wanted)},
    ]:
        there = await store.history.get_messages("a", session_id="s", **span)
        assert [one.id for one in there] == _part(wanted, **span), span
    there = await store.history.get_messages("a", session_id="s")
    assert {one.id: one.metadata["n"] for one in there} == oracle.messages
    assert await store.history.count("a", session_id="s") == len(wanted)
    for id in IDS[:2]:
        assert (await store.context().get(id=id) is not None) == (id in oracle.messages)
    kv = store.kv()
    found = await kv.get(KEYS)
    assert [one and one.value["n"] for one in found] == [oracle.items.get(key) for key in KEYS]
    assert await kv.keys() == sorted(oracle.items)
    assert await kv.count() == len(oracle.items)
    under_a = [key for key in oracle.items if key[0][0] == "a"]
    assert await kv.count(prefix=("a",)) == len(under_a)
    there = await kv.list()
    assert {(one.namespace, one.key): one.value["n"] for one in there} == oracle.items


async def compare_filtered(store, oracle):
    """What is asked for by what only the engine understands, which folds."""
    zeros = [id for id, number in oracle.messages.items() if number == 0]
    only = {"session_id": "s", "filter": {"metadata.n": 0}}
    assert await store.history.count("a", **only) == len(zeros)
    there = await store.history.get_messages("a", last=2, **only)
    assert [one.id for one in there] == zeros[-2:]
    there = await store.kv().list(filter={"n": 0})
    zeros = sorted(key for key, number in oracle.items.items() if number == 0)
    assert [(one.namespace, one.key) for one in there] == zeros


def _part(ids, *, offset=0, limit=None, last=None):
    if last is not None:
        end = max(len(ids) - offset, 0)
        ids, offset = ids[max(end - last, 0) : end], 0
    return ids[offset:][:limit]
