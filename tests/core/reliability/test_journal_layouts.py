"""A journal whose file was laid out by an earlier build: it becomes one of this layout when it is opened."""

import asyncio
import sqlite3

import pytest
from core.reliability.rights import rights, run
from core.reliability.test_journal_places import READ_AS_SOMEBODY, made, opened, read, say

EARLIER = """
CREATE TABLE former (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, ref TEXT NOT NULL,
    version INTEGER NOT NULL, folded INTEGER NOT NULL, token INTEGER NOT NULL,
    stamp INTEGER NOT NULL, UNIQUE (name, ref)
);
INSERT INTO former SELECT id, name, ref, version, folded, token, stamp FROM tables;
DROP TABLE tables;
ALTER TABLE former RENAME TO tables;
DROP INDEX rows_of;
CREATE TABLE former (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, tbl INTEGER NOT NULL, how INTEGER NOT NULL,
    key TEXT NOT NULL, payload BLOB
);
INSERT INTO former SELECT seq, tbl, how, key, payload FROM rows;
DROP TABLE rows;
ALTER TABLE former RENAME TO rows;
CREATE INDEX rows_of ON rows (tbl);
DROP TABLE removals;
DROP TABLE names;
PRAGMA user_version = 1;
"""


def as_before(place):
    """Lay its journal out as the first layout was."""
    with sqlite3.connect(place / "journal.sqlite") as connection:
        connection.executescript(EARLIER)
    connection.close()


async def made_earlier(place):
    """A store that is closed, whose journal of the first layout holds two of its three messages."""
    await made(place)
    as_before(place)


async def test_what_an_earlier_layout_holds_is_read_written_behind_and_folded(place):
    await made_earlier(place)
    async with opened(place) as store:
        assert await read(store) == ["first", "second", "third"]
        await say(store, "fourth")
        await store.flush()
        assert await read(store) == ["first", "second", "third", "fourth"]
        last = (await store.versions())[-1].number
    async with opened(place) as store, await store.checkout(last) as then:
        assert await read(then) == ["first", "second", "third", "fourth"]


async def test_the_number_that_a_write_returned_before_leads_to_what_was_written(place):
    async with opened(place) as store:
        await store.flush()
        done = await store.context().add("user", "one")
    as_before(place)
    async with opened(place) as store:
        await store.context().add("user", "two")
        then = await (await store.checkout(done.version)).context().list()
        assert "one" in [one["text"] for one in then]


async def test_two_that_open_an_earlier_layout_at_once_lose_nothing(place):
    await made_earlier(place)
    async with opened(place) as one, opened(place) as other:
        seen = await asyncio.gather(*map(read, [one, other] * 4))
        assert seen == [["first", "second", "third"]] * 8
        await asyncio.gather(say(one, "mine"), say(other, "yours"))
        assert sorted((await read(one))[3:]) == ["mine", "yours"]
        await one.flush()
        assert await read(other) == await read(one)


async def test_processes_that_open_an_earlier_layout_at_once_lose_nothing(place):
    await made_earlier(place)
    seen = await asyncio.gather(
        *[asyncio.to_thread(run, SAY_ONE, place, name) for name in ("a", "b", "c")]
    )
    assert all(said[:3] == ["first", "second", "third"] for said in seen)
    async with opened(place) as store:
        texts = await read(store)
    assert texts[:3] == ["first", "second", "third"]
    assert sorted(texts[3:]) == ["a", "b", "c"]


SAY_ONE = """
import sys
from lance_context_core import ContextStore, Message
with ContextStore.open(sys.argv[1], maintenance=None) as store:
    store.history.append("a", Message.user(sys.argv[2]), session_id="s")
    for message in store.history.get_messages("a", session_id="s"):
        print(message.text)
"""


async def test_where_it_may_not_be_written_one_error_names_it_and_the_way_out(public):
    place = public / "store"
    await made_earlier(place)
    with rights(place, folders=0o555, files=0o444):
        seen, *_ = await asyncio.to_thread(run, READ_AS_SOMEBODY, place)
    assert seen.startswith(
        f"StorageError: the write-ahead log {str(place / 'journal.sqlite')!r} has format 1"
    )
    assert "open the store once where it may be written" in seen
    async with opened(place) as store:
        assert await read(store) == ["first", "second", "third"]


@pytest.fixture
def place(tmp_path):
    return tmp_path / "store"
