"""The message bus of agentscope's app, in the store: as AgentScope's own behave, in all processes."""

import asyncio
import json
import random
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta

import pytest
from agentscope.app.message_bus import InMemoryMessageBus, MessageBusKeys
from agentscope_lance_context import LanceContextMessageBus

from lance_context_core import AsyncContextStore, ContextStore, InvalidRequestError

KEYS = ("a", "a:1", "")


@pytest.fixture
def bus(tmp_path):
    with ContextStore.open(tmp_path) as store:
        yield LanceContextMessageBus(store)


class Clock:
    def __init__(self):
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        return self.time

    def pass_by(self, seconds):
        self.time += timedelta(seconds=seconds)


# The same calls on AgentScope's own bus.


class Drawn:
    """Random calls, each made on both; ids are told by the order in which entries were made."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.logged = {key: [(None, None)] for key in KEYS}

    def payload(self):
        return self.rng.choice(
            [{}, {"n": self.rng.randrange(9)}, {"text": "é\ud800\n", "of": [None, {"a": 1.5}]}]
        )

    async def both(self, ours, theirs, verb, *args, **options):
        mine = await getattr(ours, verb)(*args, **options)
        other = await getattr(theirs, verb)(*args, **options)
        return mine, other

    async def step(self, ours, theirs):
        key, rng = self.rng.choice(KEYS), self.rng
        verb = rng.choice(
            [
                *("queue_push", "log_append", "registry_set") * 3,
                *("queue_drain", "log_read", "registry_set_if", "registry_pop", "registry_get"),
                *("queue_delete", "log_trim", "registry_del", "registry_exists"),
                *("registry_getall", "registry_drop", "try_lock", "unlock", "is_locked"),
            ]
        )
        if verb == "queue_push":
            await self.both(ours, theirs, verb, key, self.payload())
        elif verb == "queue_drain":
            mine, other = await self.both(ours, theirs, verb, key, rng.choice([0, 1, 2, 100]))
            assert [payload for _, payload in mine] == [payload for _, payload in other]
        elif verb == "log_append":
            limit = rng.choice([None, None, 1, 3, 5])
            ids = await self.both(ours, theirs, verb, key, self.payload(), max_len=limit)
            self.logged[key].append(ids)
        elif verb == "log_read":
            since, n = rng.choice(self.logged[key]), rng.choice([0, 1, 3, 100])
            mine = await ours.log_read(key, since[0], n)
            other = await theirs.log_read(key, since[1], n)
            names = dict(self.logged[key])
            assert [(names[id], payload) for id, payload in mine] == other
        elif verb == "log_trim":
            before = rng.choice(self.logged[key])
            await ours.log_trim(key, before[0])
            await theirs.log_trim(key, before[1])
        elif verb in {"registry_getall", "registry_drop"}:
            mine, other = await self.both(ours, theirs, verb, key)
            assert mine == other
        elif verb.startswith("registry"):
            args = [key, rng.choice("xy")]
            if verb.startswith("registry_set"):
                args.append(rng.choice("12"))
            options = {"expected": rng.choice("12")} if verb == "registry_set_if" else {}
            mine, other = await self.both(ours, theirs, verb, *args, **options)
            assert mine == other
        else:
            mine, other = await self.both(ours, theirs, verb, key)
            assert mine == other
        return verb


@pytest.mark.parametrize("seed", range(6))
async def test_any_calls_have_the_outcome_that_they_have_on_agentscope_s_own_bus(seed, tmp_path):
    drawn, theirs = Drawn(seed), InMemoryMessageBus()
    n_steps = 0
    for _restart in range(3):
        async with (
            LanceContextMessageBus(tmp_path) as first,
            LanceContextMessageBus(tmp_path) as second,
        ):
            for _ in range(60):
                await drawn.step(drawn.rng.choice([first, second]), theirs)
                n_steps += 1
    assert n_steps == 180


async def test_a_log_longer_than_what_is_deleted_together_shows_its_last_entries(bus):
    theirs = InMemoryMessageBus()
    for n in range(300):
        await bus.log_append("log", {"n": n}, max_len=100)
        await theirs.log_append("log", {"n": n}, max_len=100)
    mine = [payload for _, payload in await bus.log_read("log", max_count=1000)]
    assert mine == [payload for _, payload in await theirs.log_read("log", max_count=1000)]
    n_kept = await bus._items.count(prefix=("bus", "logs", "log"))
    assert n_kept < 100 + 64


async def test_ids_grow_also_where_a_log_was_removed(bus):
    before = await bus.log_append("log", {"n": 1})
    await bus.log_trim("log")
    await bus.log_append("log", {"n": 2})
    assert [payload for _, payload in await bus.log_read("log", before)] == [{"n": 2}]


# Expiry, which Redis has and AgentScope's bus in memory has not.


async def test_a_queue_a_log_and_a_registry_expire_as_a_whole():
    clock = Clock()
    async with await AsyncContextStore.open("memory://", clock=clock) as store:
        bus = LanceContextMessageBus(store)
        for n in range(2):
            await bus.queue_push("q", {"n": n}, ttl_secs=10)
            await bus.log_append("l", {"n": n}, ttl_secs=10)
            await bus.registry_set("r", f"f{n}", "1", ttl_secs=10)
            clock.pass_by(6)
        # Each call began the time anew, and one without a time leaves it as it is.
        await bus.queue_push("q", {"n": 2})
        await bus.registry_set("r", "f2", "1")
        assert len(await bus.log_read("l")) == 2
        assert await bus.registry_getall("r") == {"f0": "1", "f1": "1", "f2": "1"}
        clock.pass_by(4)
        assert await bus.queue_drain("q") == await bus.log_read("l") == []
        assert await bus.registry_getall("r") == {}
        await bus.queue_push("q", {"n": 3})
        clock.pass_by(1000)
        assert [payload for _, payload in await bus.queue_drain("q")] == [{"n": 3}]
        await bus.log_append("l", {"n": 4})
        assert await bus._items.count(prefix=("bus", "queues", "q")) == 0
        assert await bus._items.count(prefix=("bus", "logs", "l")) == 1


async def test_a_claim_ends_with_its_time():
    clock = Clock()
    async with await AsyncContextStore.open("memory://", clock=clock) as store:
        bus = LanceContextMessageBus(store)
        assert await bus.try_lock("k", ttl_secs=10)
        assert not await bus.try_lock("k")
        clock.pass_by(10)
        assert not await bus.is_locked("k")
        assert await bus.try_lock("k")


# At the same time.


async def test_entries_that_many_push_at_once_are_all_there_and_each_is_drained_once(tmp_path):
    async with LanceContextMessageBus(tmp_path) as one, LanceContextMessageBus(tmp_path) as other:
        await asyncio.gather(*((one, other)[n % 2].queue_push("q", {"n": n}) for n in range(60)))
        drained = await asyncio.gather(
            *((one, other)[n % 2].queue_drain("q", 7) for n in range(12))
        )
        numbers = [payload["n"] for batch in drained for _, payload in batch]
        assert sorted(numbers) == list(range(60))
        assert [len(batch) for batch in drained].count(7) == 8


async def test_of_many_who_pop_a_field_one_gets_it(bus):
    await bus.registry_set("r", "f", "1")
    popped = await asyncio.gather(*(bus.registry_pop("r", "f") for _ in range(10)))
    assert sorted(popped, key=str) == ["1", *[None] * 9]


async def test_a_lock_keeps_others_out_until_its_block_ends(tmp_path):
    order = []
    async with LanceContextMessageBus(tmp_path) as one, LanceContextMessageBus(tmp_path) as other:

        async def hold(bus, name):
            async with bus.acquire_lock("k"):
                order.append(("begins", name))
                assert await other.is_locked("k")
                assert not await other.try_lock("k")
                await asyncio.sleep(0.02)
                order.append(("ends", name))

        await asyncio.gather(*(hold(bus, n) for n, bus in enumerate([one, other, one])))
        assert [what for what, _ in order] == ["begins", "ends"] * 3
        assert [name for _, name in order[::2]] == [name for _, name in order[1::2]]
        assert not await one.is_locked("k")


async def test_a_block_waits_for_one_who_tried_the_lock(bus):
    assert await bus.try_lock("k")
    waiting = asyncio.create_task(_enter(bus))
    await asyncio.sleep(0.15)
    assert not waiting.done()
    await bus.unlock("k")
    async with asyncio.timeout(5):
        await waiting


async def _enter(bus):
    async with bus.acquire_lock("k"):
        pass


async def test_the_error_of_a_block_is_the_one_that_was_raised(bus):
    with pytest.raises(ValueError, match="mine"):
        async with bus.acquire_lock("k"):
            raise ValueError("mine")
    assert not await bus.is_locked("k")


# Broadcasts.


async def received(bus, key, n, into, ready):
    async for payload in bus.subscribe(key, on_ready=ready.set):
        into.append(payload)
        if len(into) == n:
            return


async def test_subscribers_get_what_is_published_from_then_on_in_order(tmp_path):
    async with LanceContextMessageBus(tmp_path) as one, LanceContextMessageBus(tmp_path) as other:
        await one.publish("c", {"n": "before"})
        heard = [[] for _ in range(4)]
        ready = [Ready() for _ in heard]
        tasks = [
            asyncio.create_task(received(bus, "c", 20, into, flag))
            for bus, into, flag in zip([one, one, other, other], heard, ready, strict=True)
        ]
        await asyncio.gather(*(one.wait() for one in ready))
        for n in range(20):
            await (one, other)[n % 2].publish("c", {"n": n})
            await one.publish("d", {"n": "to others"})
        async with asyncio.timeout(10):
            await asyncio.gather(*tasks)
        assert heard == [[{"n": n} for n in range(20)]] * 4


class Ready:
    """A flag that the subscriber sets, and that the test waits for."""

    def __init__(self):
        self.set_ones = 0

    def set(self):
        self.set_ones += 1

    async def wait(self):
        for _ in range(10_000):
            if self.set_ones:
                return
            await asyncio.sleep(0.001)
        raise AssertionError("not ready")


async def test_a_subscription_ends_with_the_bus(tmp_path):
    bus, ready, heard = LanceContextMessageBus(tmp_path), Ready(), []
    task = asyncio.create_task(received(bus, "c", 1, heard, ready))
    await ready.wait()
    await bus.aclose()
    async with asyncio.timeout(5):
        await task
    assert (heard, ready.set_ones) == ([], 1)


async def test_a_subscription_that_is_cancelled_leaves_nothing_behind(bus):
    ready = Ready()
    task = asyncio.create_task(received(bus, "c", 1, [], ready))
    await ready.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not bus._channels._listeners
    assert bus._channels._watch is None


# Several processes.

OTHER = """
    import asyncio, json, sys
    from agentscope_lance_context import LanceContextMessageBus

    async def main(path):
        async with LanceContextMessageBus(path) as bus:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(work(bus))

    async def work(bus):
        print("ready", flush=True)
        async for payload in bus.subscribe("go", on_ready=lambda: print("hears", flush=True)):
            break
        for n in range(100):
            await bus.queue_push("q", {"by": "other", "n": n})
        drained = []
        while batch := await bus.queue_drain("work", 3):
            drained += [one["n"] for _, one in batch]
            await asyncio.sleep(0)
        print(json.dumps(drained), flush=True)
        async with bus.acquire_lock("k", ttl_secs=600):
            print("locked", flush=True)
            await asyncio.sleep(60)

    asyncio.run(main(sys.argv[1]))
"""


def started(*command):
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.process
async def test_two_processes_share_queues_broadcasts_and_locks(tmp_path):
    async with LanceContextMessageBus(tmp_path) as bus:
        for n in range(50):
            await bus.queue_push("work", {"n": n})
        command = [sys.executable, "-c", textwrap.dedent(OTHER), str(tmp_path)]
        with started(*command) as other:
            try:

                async def line():
                    return (await asyncio.to_thread(other.stdout.readline)).strip()

                assert await line() == "ready"
                assert await line() == "hears"
                await bus.publish("go", {})
                for n in range(100):
                    await bus.queue_push("q", {"by": "this", "n": n})
                mine = []
                while batch := await bus.queue_drain("work", 3):
                    mine += [one["n"] for _, one in batch]
                theirs = json.loads(await line())
                assert sorted(mine + theirs) == list(range(50))
                assert await line() == "locked"
                assert await bus.is_locked("k")
                pushed = [one for _, one in await bus.queue_drain("q", 1000)]
                for name in ("this", "other"):
                    assert [one["n"] for one in pushed if one["by"] == name] == list(range(100))
            finally:
                other.kill()
        # The lock of a process that is no more is free at once.
        async with asyncio.timeout(20), bus.acquire_lock("k"):
            pass


# Refusals, and the calls of the app itself


async def test_bad_input_is_refused_before_anything_is_written(bus):
    with pytest.raises(InvalidRequestError, match="payload"):
        await bus.queue_push("q", {"n": object()})
    with pytest.raises(InvalidRequestError, match="since='x'"):
        await bus.log_read("l", since="x")
    with pytest.raises(InvalidRequestError, match="before_id"):
        await bus.log_trim("l", before_id="x")
    assert await bus._items.version() == 0


async def test_the_helpers_of_agentscope_work_over_it(bus):
    from agentscope.app._bus_ops import (
        deliver_to_inbox,
        has_pending_inbox_or_release,
        publish_session_event,
        register_inbox_consumer,
    )

    entry = await publish_session_event(bus, "s", {"type": "delta"})
    assert await bus.log_read(MessageBusKeys.session_events("s")) == [(entry, {"type": "delta"})]
    await register_inbox_consumer(bus, "s")
    await deliver_to_inbox(bus, user_id="ada", session_id="s", agent_id="a", payload={"n": 1})
    assert await bus.queue_drain(MessageBusKeys.wakeup_queue()) == []
    assert await has_pending_inbox_or_release(bus, "s")
    assert [one for _, one in await bus.queue_drain(MessageBusKeys.inbox("s"))] == [{"n": 1}]
    assert not await has_pending_inbox_or_release(bus, "s")
    await deliver_to_inbox(bus, user_id="ada", session_id="s", agent_id="a", payload={"n": 2})
    (woken,) = await bus.queue_drain(MessageBusKeys.wakeup_queue())
    assert woken[1]["kind"] == "wake"
