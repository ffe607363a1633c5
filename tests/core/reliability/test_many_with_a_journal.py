"""Many processes and tasks over one journal: folds without a pause, beside readers, upkeep and bulk."""

import asyncio
import itertools
import multiprocessing
import warnings
from contextlib import suppress

import pytest
from core.conformance.writers import append, assert_all_in_order, messages_of, read

from lance_context_core.errors import AlreadyExistsError, ContextStoreError
from lance_context_core.messages import Message
from lance_context_core.settings import JournalPolicy
from lance_context_core.store.store import AsyncContextStore
from lance_context_core.types import Item

OFTEN_FOLDED = JournalPolicy(rows=8)
N_PROCESSES = 3
PATIENCE_SECONDS = 300
BULK = 200
"""Messages in a batch that is too large for the journal."""

# The server that forks the processes has loaded the engine, but never run it.
warnings.filterwarnings("ignore", message="lancedb fork support is experimental")


def together(uri, works, *, journal=OFTEN_FOLDED):
    """What processes return that each do one of the `works` with a store, begun at the same moment."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lance_context_core.store.store", __name__])
    barrier = context.Barrier(len(works))
    members = []
    for number, work in enumerate(works):
        heard, said = context.Pipe(duplex=False)
        given = journal[number] if isinstance(journal, list) else journal
        process = context.Process(
            target=_take_part, args=(uri, work, number, given, barrier, said), daemon=True
        )
        process.start()
        said.close()
        members.append((process, heard))
    answers = []
    for process, heard in members:
        assert heard.poll(PATIENCE_SECONDS)
        answers.append(heard.recv())
        process.join(PATIENCE_SECONDS)
        assert process.exitcode == 0
    return answers


def _take_part(uri, work, number, journal, barrier, said):
    async def act():
        async with await AsyncContextStore.open(uri, journal=journal) as store:
            barrier.wait(PATIENCE_SECONDS)
            return await work(store, number)

    said.send(asyncio.run(act()))


def store_at(uri):
    return AsyncContextStore.open(uri)


# One session


async def write(store, number):
    """Several tasks append batches, some with ids of their own and some without."""

    async def task(t):
        names = [f"{number}-{t}-{n}" for n in range(4)]
        return [await append(store, name, with_ids=t % 2 == 0) for name in names]

    return [*itertools.chain(*await asyncio.gather(*(task(t) for t in range(3))))]


async def write_in_bulk(store, number):
    """Batches that are commits of their own, and small ones."""
    batches = []
    for n in range(2):
        batches.append(await append(store, f"{number}-{n}", with_ids=n % 2 == 0))
        messages = [Message.user(f"{n}.{m}", metadata={"of": f"{number}"}) for m in range(BULK)]
        await store.history.append_many("a", messages, session_id="bulk")
    return batches


async def look(store, number):
    """What was seen stays, and nothing comes in between; whole batches, counted as they are shown."""
    seen = []
    while len(seen) < 3 * 12:
        shown = await read(store)
        assert shown[: len(seen)] == seen
        seen = shown
        for last in (1, 9):
            n_before = 4 * len(await read(store))
            newest = await store.history.get_messages("a", session_id="s", last=last)
            n_after = 4 * len(await read(store))
            assert min(last, n_before) <= len(newest) <= min(last, n_after)
        n_before = 4 * len(seen)
        assert await store.context().entries() >= n_before
    return []


async def keep(store, number):
    """Upkeep of all sorts, and what names versions."""
    for n in range(2):
        await store.maintain()
        await store.tag(f"{number}-{n}")
        await store.thin()
        await store.erase(ids=[f"nobody-{n}"])
    return []


def test_a_session_that_many_append_to_is_read_in_order_while_others_keep_it_up(local_backend, run):
    batches = together(local_backend.uri, [write, write, write, look, keep])
    run(_in_order(local_backend, batches))


def test_bulk_and_small_writes_of_processes_with_and_without_a_journal_are_in_order(
    local_backend, run
):
    batches = together(
        local_backend.uri,
        [write_in_bulk, write, write, write_in_bulk],
        journal=[OFTEN_FOLDED, None, OFTEN_FOLDED, None],
    )
    run(_in_order(local_backend, batches))

    async def bulk():
        async with await store_at(local_backend.uri) as store:
            found = await store.history.get_messages("a", session_id="bulk")
            texts = [(one.metadata["of"], one.text) for one in found]
            batches = [texts[n : n + BULK] for n in range(0, len(texts), BULK)]
            wanted = [
                [(f"{number}", f"{n}.{m}") for m in range(BULK)]
                for number in (0, 3)
                for n in range(2)
            ]
            assert sorted(batches) == sorted(wanted)
            for number in ("0", "3"):
                own = [batch for batch in batches if batch[0][0] == number]
                assert own == [one for one in wanted if one[0][0] == number]

    run(bulk())


async def _in_order(backend, batches):
    async with await store_at(backend.uri) as store:
        for _ in range(2):
            await assert_all_in_order(store, [*itertools.chain(*batches)])
            await store.flush()


# The same thing at once


async def make(store, number):
    """What each process makes: it is there once, or refused as being there."""
    made = {"versions": [], "branch": 0, "claims": 0}
    await store.history.append_many("a", messages_of("same", with_ids=True), session_id="s")
    await append(store, f"{number}", with_ids=False)
    items = [Item(key=f"{n}", value={"by": number}) for n in range(20)]
    for item in items:
        made["claims"] += (await store.kv("claims").add([item])) == [True]
    try:
        with suppress(AlreadyExistsError):
            made["versions"].append(await store.tag("tag"))
        with suppress(AlreadyExistsError):
            await store.create_branch("branch")
            made["branch"] += 1
            branch = await store.branch("branch")
            await branch.kv("claims").put([Item(key="mine", value={"by": number})])
    except ContextStoreError as error:
        return f"{type(error).__name__}: {error}"
    return made


def test_what_several_processes_make_at_once_is_there_once(local_backend, run):
    made = together(local_backend.uri, [make] * N_PROCESSES)
    assert all(isinstance(one, dict) for one in made), made
    assert sum(one["claims"] for one in made) == 20
    # Who tags the version that is tagged is told the same.
    (version,) = {*itertools.chain(*(one["versions"] for one in made))}
    assert sum(one["branch"] for one in made) == 1

    async def check():
        async with await store_at(local_backend.uri) as store:
            for _ in range(2):
                assert sorted(await read(store)) == ["0", "1", "2", "same"]
                assert await store.kv("claims").count() == 20
                assert await store.tags() == {"tag": version}
                assert [one.name for one in await store.branches()] == ["branch"]
                assert await (await store.branch("branch")).kv("claims").count() == 21
                await store.flush()

    run(check())


async def count_up(store, number):
    """Take a number that nobody else has, again and again: by claims, which the first one gets."""
    taken = []
    n = 0
    while len(taken) < 8:
        if await store.kv("numbers").add([Item(key=f"{n}", value={"by": number})]) == [True]:
            taken.append(n)
        n += 1
    return taken


@pytest.mark.parametrize(
    "journal",
    [OFTEN_FOLDED, None, [OFTEN_FOLDED, None, OFTEN_FOLDED]],
    ids=["with a journal", "without one", "one without"],
)
def test_a_key_is_given_to_one_of_many_processes(local_backend, journal, run):
    taken = together(local_backend.uri, [count_up] * N_PROCESSES, journal=journal)
    assert sorted(itertools.chain(*taken)) == [*range(8 * N_PROCESSES)]

    async def check():
        async with await store_at(local_backend.uri) as store:
            items = await store.kv("numbers").list()
            by = {int(one.key): one.value["by"] for one in items}
            assert by == {n: number for number, mine in enumerate(taken) for n in mine}

    run(check())
