"""What many callers write at the same time is one commit, and nobody's concern but their own."""

import asyncio
import threading
from itertools import pairwise

import pytest

from lance_context_core import ContextStore, InvalidRequestError, Message
from lance_context_core.storage import group_commit


def turn(caller, *, given, n=1):
    """The messages of one turn."""
    return [Message.user(f"{caller}.{i}", id=f"{caller}.{i}" if given else None) for i in range(n)]


def texts(messages):
    return [message.text for message in messages]


@pytest.mark.slow
@pytest.mark.parametrize("given", [True, False], ids=["given ids", "made ids"])
async def test_a_hundred_tasks_need_a_handful_of_commits(store, given):
    await store.history.append("a", Message.user("the table is there"), session_id="first")
    before = await store.version()
    told = await asyncio.gather(
        *(
            store.history.append_many("a", turn(n, given=given, n=3), session_id=f"s{n % 5}")
            for n in range(100)
        )
    )
    assert await store.version() - before <= 10
    assert len({id for ids in told for id in ids}) == 300
    for number in range(5):
        there = texts(await store.history.get_messages("a", session_id=f"s{number}"))
        assert sorted(there) == sorted(
            f"{n}.{i}" for n in range(100) if n % 5 == number for i in range(3)
        )
        # No turn has another one's messages in its midst.
        assert all(
            there[k].split(".")[0] == there[k - k % 3].split(".")[0] for k in range(len(there))
        )


async def test_what_one_task_writes_one_after_the_other_stays_in_that_order(store):
    async def talk(caller):
        for i in range(10):
            await store.history.append("a", Message.user(f"{caller} {i}"), session_id="s")

    await asyncio.gather(*(talk(caller) for caller in "abcdefgh"))
    there = texts(await store.history.get_messages("a", session_id="s"))
    assert len(there) == 80
    for caller in "abcdefgh":
        own = [int(text.split()[1]) for text in there if text.startswith(caller)]
        assert all(earlier < later for earlier, later in pairwise(own))


async def test_the_same_ids_from_many_tasks_are_written_once(store):
    told = await asyncio.gather(
        *(
            store.history.append_many("a", turn(n % 4, given=True, n=2), session_id="s")
            for n in range(40)
        )
    )
    assert all(ids == [f"{n % 4}.0", f"{n % 4}.1"] for n, ids in enumerate(told))
    there = texts(await store.history.get_messages("a", session_id="s"))
    assert sorted(there) == sorted(f"{n}.{i}" for n in range(4) for i in range(2))


async def test_a_turn_of_known_and_new_messages_adds_the_new_ones_once(store):
    known = Message.user("known", id="k")
    await store.history.append("a", known, session_id="s")
    for _ in range(2):
        await store.history.append_many("a", [known, Message.user("new", id="n")], session_id="s")
    mixed = [known, Message.user("nameless")]
    await store.history.append_many("a", mixed, session_id="s")
    there = texts(await store.history.get_messages("a", session_id="s"))
    assert there == ["known", "new", "nameless"]


async def test_a_refused_batch_is_nobody_else_s_concern(store):
    bad = store.context().add("user", "x", embedding=[float("nan")])
    good = [store.context().add("user", f"{n}") for n in range(20)]
    *told, refusal = await asyncio.gather(*good, bad, return_exceptions=True)
    assert isinstance(refusal, InvalidRequestError)
    assert not [one for one in told if isinstance(one, Exception)]
    assert await store.context().entries() == 20


@pytest.mark.usefixtures("each_write_commits")
async def test_rows_that_cannot_be_written_fail_for_their_caller_alone(store, monkeypatch):
    await store.context().add("user", "the table is there")
    to_table = group_commit.to_table

    def picky(rows, *rest, **options):
        if any(row["text"] == "poison" for row in rows):
            raise ValueError("cannot be written")
        return to_table(rows, *rest, **options)

    monkeypatch.setattr(group_commit, "to_table", picky)
    words = [f"{n}" for n in range(20)] + ["poison"]
    told = await asyncio.gather(
        # Rows of different columns: some have a tag.
        *(store.context().add("user", word, tags=["odd"] * (int(word) % 2)) for word in words[:-1]),
        store.context().add("user", words[-1]),
        return_exceptions=True,
    )
    assert [isinstance(one, Exception) for one in told] == [word == "poison" for word in words]
    assert await store.context().entries() == 21


async def test_a_cancelled_caller_takes_nothing_from_the_others(store):
    await store.history.append("a", Message.user("the table is there"), session_id="first")
    tasks = [
        asyncio.ensure_future(store.history.append("a", Message.user(f"{n}"), session_id="s"))
        for n in range(30)
    ]
    await asyncio.sleep(0.001)
    for task in tasks[::3]:
        task.cancel()
    told = await asyncio.gather(*tasks, return_exceptions=True)
    acknowledged = {f"{n}" for n, one in enumerate(told) if isinstance(one, str)}
    assert len(acknowledged) >= 20
    there = texts(await store.history.get_messages("a", session_id="s"))
    assert acknowledged <= set(there)
    assert len(there) == len(set(there))


def test_threads_loops_and_both_apis_share_commits_and_outlive_each_other(tmp_path):
    with ContextStore.open(tmp_path / "store") as store:
        store.history.append("a", Message.user("the table is there"), session_id="first")
        before = store.version()

        def blocking(caller):
            for i in range(5):
                store.history.append("a", Message.user(f"{caller} {i}"), session_id="s")

        def on_a_loop(caller):
            async def main():
                await asyncio.gather(
                    *(
                        store.aio.history.append("a", Message.user(f"{caller} {i}"), session_id="s")
                        for i in range(5)
                    )
                )

            asyncio.run(main())

        threads = [
            threading.Thread(target=work, args=[f"{work.__name__}{n}"])
            for n in range(8)
            for work in (blocking, on_a_loop)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.history.count("a", session_id="s") == 80
        assert store.version() - before < 80
