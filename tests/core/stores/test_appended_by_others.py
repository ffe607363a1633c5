"""What `append` tells of other writers: since when nothing can have gone."""

import random

import pytest

from lance_context_core import AsyncContextStore, Item


async def change(kv, store, rng, n):
    verb = rng.choice(["append"] * 8 + ["put", "put new", "delete", "delete_under", "maintain"])
    key = f"{rng.randrange(max(n, 1)):03}"
    if verb == "append":
        await kv.append([Item(key=f"{n:03}")])
    elif verb == "put":
        await kv.put([Item(key=key, data=b"x")])
    elif verb == "put new":
        await kv.put([Item(key=f"{n:03}", data=b"x")])
    elif verb == "delete":
        await kv.delete([((), key)])
    elif verb == "delete_under":
        await kv.delete_under(())
    else:
        await store.maintain()


@pytest.mark.parametrize("seed", range(12))
async def test_what_was_there_since_then_is_there_whoever_else_writes(seed, tmp_path):
    rng, seen, told = random.Random(seed), [], []
    async with (
        await AsyncContextStore.open(tmp_path) as one,
        await AsyncContextStore.open(tmp_path) as other,
    ):
        kvs = [one.kv("app"), other.kv("app")]
        for n in range(80):
            # By both, one of whom may not have read for long.
            which = rng.choice([0, 0, 1])
            await change(kvs[which], (one, other)[which], rng, n)
            if rng.random() < 0.5:
                done = await kvs[0].append([Item(key=f"own {n:03}")])
                there = {key for _, key in await kvs[0].keys()}
                since = [keys for version, keys in seen if version >= done.grows_since]
                assert all(keys <= there for keys in since)
                told.append(len(since))
            seen.append((await kvs[0].version(), {key for _, key in await kvs[0].keys()}))
    assert max(told) > 1


async def test_what_others_only_append_does_not_end_it(tmp_path):
    async with (
        await AsyncContextStore.open(tmp_path) as one,
        await AsyncContextStore.open(tmp_path) as other,
    ):
        first = await one.kv("app").append([Item(key="a")])
        for n in range(3):
            await other.kv("app").append([Item(key=f"{n}")])
            done = await one.kv("app").append([Item(key=f"own {n}")])
            assert done.grows_since <= first.version
        await other.kv("app").delete([((), "a")])
        gone = await one.kv("app").version()
        assert (await one.kv("app").append([Item(key="b")])).grows_since >= gone
