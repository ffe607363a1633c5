"""What a board is looked up by, beside the journal: by whom it is made anew, and when it need not be."""

import asyncio
import sqlite3

import pytest

from lance_context_core.coordination.task_changes import NAME, Changes
from lance_context_core.settings import FragmentPolicy
from lance_context_core.storage.lance import fragments
from lance_context_core.storage.lance.fragments import FragmentMerges
from lance_context_core.storage.lance.schema import KEY_VALUES
from lance_context_core.storage.names import kv_table_of
from lance_context_core.storage.table import Table
from lance_context_core.storage.wal import sqlite_tasks


@pytest.fixture
def reads(monkeypatch):
    """Which tables were read whole, one after the other."""
    found, select = [], Table.select

    async def counted(table, *args, **options):
        found.append(table.label)
        await asyncio.sleep(0)
        return await select(table, *args, **options)

    monkeypatch.setattr(Table, "select", counted)
    return found


async def test_after_a_merge_of_fragments_the_next_claim_reads_no_table(open_store, reads):
    store = open_store()
    board = store.tasks.board("plan")
    for n in range(12):
        await board.add(f"task {n}", id=str(n))
        await store.flush()
    table = store._resources.writable().table(kv_table_of(NAME), KEY_VALUES)
    merged = await fragments.merge_fragments(table, FragmentMerges(FragmentPolicy()))
    assert merged.fragments_added
    reads.clear()
    claimed = [(await board.claim("ann")).id for _ in range(12)]
    assert not reads
    assert claimed == [str(n) for n in range(12)]
    assert {one.status for one in await board.list()} == {"in_progress"}


async def test_of_many_who_find_a_board_changed_by_a_merge_one_reads_it(open_store, reads):
    stores = [open_store() for _ in range(4)]
    boards = [one.tasks.board("plan") for one in stores]
    await boards[0].add_many([{"title": f"task {n}", "id": str(n)} for n in range(8)])
    branch = await stores[0].create_branch("try")
    await branch.tasks.board("plan").skip("0")
    await stores[0].merge("try")
    reads.clear()
    claimed = await asyncio.gather(*(board.claim("ann") for board in boards))
    assert len(reads) == 1
    assert sorted(one.id for one in claimed) == ["1", "2", "3", "4"]


async def test_the_first_task_of_a_store_is_a_small_write_as_every_other(open_store, monkeypatch):
    async def whole(*_):
        raise AssertionError("read and written whole")

    monkeypatch.setattr(Changes, "_in_items", whole)
    board = open_store().tasks.board("plan")
    assert [(await board.add("a")).title, (await board.add("b")).title] == ["a", "b"]


def test_who_died_making_it_anew_is_waited_for_no_longer_than_that_takes():
    connection = sqlite3.connect(":memory:")
    assert sqlite_tasks.take_turn(connection, 1, 100.0)
    assert not sqlite_tasks.take_turn(connection, 1, 101.9)
    assert sqlite_tasks.take_turn(connection, 2, 101.9)
    assert sqlite_tasks.take_turn(connection, 1, 102.0)
    # The machine was booted anew.
    assert sqlite_tasks.take_turn(connection, 1, 3.0)
    sqlite_tasks.end_turn(connection, 1)
    assert sqlite_tasks.take_turn(connection, 1, 3.1)
