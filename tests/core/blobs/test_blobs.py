"""Blobs in a store: who holds them, what happens to them with branches and merges, and that they go."""

import asyncio
import random
from datetime import timedelta
from pathlib import Path

import pytest
from core.conformance.back_door import BackDoor
from core.conformance.doubles import ManualClock

from lance_context_core import ContextStore, DocumentScope
from lance_context_core.documents import ReadDocument
from lance_context_core.errors import (
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
)
from lance_context_core.storage.table import Table
from lance_context_core.types import Blob

MIB = 1024 * 1024


def noise(seed, size):
    """Bytes that no encoding makes fewer of."""
    return random.Random(seed).randbytes(size)


def text_file(marker):
    return f"The office has a {marker} that nobody needs.\n".encode() * 50


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(tmp_path, clock):
    with ContextStore.open(tmp_path / "store", clock=clock) as store:
        yield store


def rows(store):
    return asyncio.run(BackDoor(store.aio).rows("blobs"))


def files_with(path, marker):
    """The files of a store in which the bytes stand, here or in any of the folders."""
    return [one for one in Path(path).rglob("*") if one.is_file() and marker in one.read_bytes()]


class Tea:
    """Reads whatever it is given as a word."""

    def read(self, content, *, name):
        return ReadDocument(text="tea")


# Pieces


def test_a_large_blob_is_read_by_the_pieces_that_are_asked_for(store, monkeypatch):
    content = noise(1, 5 * MIB)
    blob = store.blobs.put(content)
    read = []
    select = Table.select

    async def counted(self, where, *, columns):
        found = await select(self, where, columns=columns)
        if "data" in columns:
            read.append(sum(len(one or b"") for one in found["data"].to_pylist()))
        return found

    monkeypatch.setattr(Table, "select", counted)
    assert store.blobs.read(blob, start=3 * MIB + 5, length=10) == content[3 * MIB + 5 :][:10]
    assert sum(read) == MIB


def test_a_writer_that_was_killed_leaves_nothing_that_is_seen_and_the_sweep_takes_it(
    store, clock, monkeypatch
):
    content = noise(2, 3 * MIB)
    write = Table.write

    async def cut_short(self, batch):
        if any(row["kind"] == "blob" for row in batch.rows):
            raise RuntimeError("killed")
        return await write(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(Table, "write", cut_short)
        with pytest.raises(RuntimeError, match="killed"):
            store.blobs.put(content)
    assert store.blobs.list() == []
    assert len(rows(store)) == 3
    assert store.blobs.sweep() == 0
    assert len(rows(store)) == 3  # its writer may still be at it
    clock.advance(hours=2)
    store.blobs.sweep()
    assert rows(store) == []
    assert store.blobs.get(store.blobs.put(content)) == content


def test_bytes_that_are_others_by_now_are_not_returned(store):
    blob = store.blobs.put(b"tea" * 50_000)

    async def spoil():
        await store.aio.flush()
        engine = await store.aio._resources.database.connection.engine()
        handle = await engine.open_table("blobs")
        await handle.update(where="kind = 'piece'", updates_sql={"data": "X'00'"})

    asyncio.run(spoil())
    with pytest.raises(StorageError, match="not those that were put"):
        store.blobs.get(blob)


# Who holds them


def test_the_file_of_a_document_is_a_blob_that_goes_with_the_last_one(store):
    ada, bob = DocumentScope(conversation_id="ada"), DocumentScope(conversation_id="bob")
    content = text_file("kettle")
    first = store.documents.add(content, name="a.txt", scope=ada)
    second = store.documents.add(content, name="b.txt", scope=bob)
    (blob,) = store.blobs.list()
    assert (blob.content_type, blob.hash) == ("text/plain", first.hash)
    assert sorted(store.blobs.holders(blob)) == sorted([first.id, second.id])
    with pytest.raises(InvalidRequestError, match="names it"):
        store.blobs.delete(blob)
    store.documents.delete(first.id)
    assert store.documents.content(second.id) == content
    store.documents.delete(second.id)
    assert store.blobs.list() == []


@pytest.mark.parametrize("keep", ["uri", "hash"])
def test_a_document_whose_bytes_are_not_kept_holds_none(store, keep):
    content = text_file("kettle")
    kept = store.documents.add(content, scope=DocumentScope(project_id="a"))
    other = store.documents.add(content, scope=DocumentScope(project_id="b"), keep=keep)
    assert store.documents.content(other.id) is None
    store.documents.delete(kept.id)
    assert store.blobs.list() == []


def test_a_document_that_is_replaced_lets_go_of_what_it_was(store):
    one = store.documents.add(text_file("kettle"), name="a.txt")
    store.documents.update(one.id, text_file("teapot"))
    (blob,) = store.blobs.list()
    assert store.blobs.get(blob) == text_file("teapot") == store.documents.content(one.id)
    store.documents.update(one.id, metadata={"a": 1})
    assert store.documents.content(one.id) == text_file("teapot")


def test_what_a_caller_put_stays_when_the_document_goes(store):
    blob = store.blobs.put(text_file("kettle"))
    added = store.documents.add(text_file("kettle"), name="a.txt")
    store.documents.delete(added.id)
    assert store.blobs.exists(blob)


def test_what_something_names_outlives_its_time(store, clock):
    blob = store.blobs.put(b"tea", ttl=timedelta(minutes=1))
    store.context().add("user", "look", id="r", payload_uri=blob.uri)
    clock.advance(hours=1)
    assert store.blobs.sweep() == 0
    assert store.blobs.get(blob) == b"tea"


def test_a_document_that_is_added_while_another_of_the_same_content_goes_keeps_its_bytes(store):
    content = text_file("kettle")

    async def race(n):
        first = await store.aio.documents.add(content, scope=DocumentScope(project_id=f"a{n}"))
        scope = DocumentScope(project_id=f"b{n}")
        _, second = await asyncio.gather(
            store.aio.documents.delete(first.id), store.aio.documents.add(content, scope=scope)
        )
        assert await store.aio.documents.content(second.id) == content
        await store.aio.documents.delete(second.id)

    for n in range(10):
        asyncio.run(race(n))
    assert store.blobs.list() == []


# Scopes, branches, versions


def test_blobs_of_one_scope_are_not_there_for_another(store):
    ada, bob = store.scope(user_id="ada"), store.scope(user_id="bob")
    blob = ada.blobs.put(b"Dear Ada")
    assert not bob.blobs.exists(blob)
    for ask in (bob.blobs.get, bob.blobs.pin, bob.blobs.url, bob.blobs.read):
        with pytest.raises(NotFoundError):
            ask(blob)
    assert not bob.blobs.delete(blob)
    mine = bob.blobs.put(b"Dear Ada")
    assert ada.blobs.delete(blob)
    assert bob.blobs.get(mine) == b"Dear Ada"
    assert store.blobs.info(blob).user_id == "bob"


def test_the_content_of_a_narrower_scope_s_document_can_be_opened_from_a_wider_one(store):
    added = store.scope(user_id="ada").documents.add(text_file("kettle"))
    assert store.documents.content(added.id) == text_file("kettle")
    assert store.documents.delete(added.id)
    assert store.blobs.list() == []


def test_blobs_are_branched_merged_and_looked_back_at(store):
    big = noise(3, 2 * MIB)
    old = store.blobs.put(b"old")
    store.memory.add(["the records tell which branches there are"])
    store.tag("before")
    store.create_branch("draft")
    with store.branch("draft") as draft:
        new = draft.blobs.put(big)
        assert draft.blobs.delete(old)
        assert not store.blobs.exists(new)
    store.merge("draft")
    assert store.blobs.get(new) == big
    assert not store.blobs.exists(old)
    past = store.checkout("before")
    assert past.blobs.get(old) == b"old"
    with pytest.raises(ReadOnlyError):
        past.blobs.put(b"more")


def test_a_conflict_of_blobs_is_told_as_blobs(store):
    blob = store.blobs.put(b"tea")
    store.memory.add(["the records tell which branches there are"])
    draft = store.create_branch("draft")
    draft.blobs.pin(blob)
    store.blobs.delete(blob)
    told = []

    def theirs(conflict):
        told.append((conflict.ours, type(conflict.theirs)))
        return conflict.theirs

    store.merge("draft", policy=theirs)
    assert told == [(None, Blob)]
    assert store.blobs.info(blob).is_pinned


@pytest.mark.parametrize(("deletes", "policy"), [("the branch", "theirs"), ("the store", "ours")])
def test_a_large_file_stays_whole_if_one_side_deletes_it_and_the_other_takes_hold_of_it(
    store, deletes, policy
):
    content = noise(6, MIB + 1)
    document = store.documents.add(content, name="a.bin", reader=Tea())
    draft = store.create_branch("draft")
    one, other = (draft, store) if deletes == "the branch" else (store, draft)
    one.documents.delete(document.id)
    mine = DocumentScope(project_id="mine")
    held = other.documents.add(content, name="b.bin", scope=mine, reader=Tea())
    store.merge("draft", policy=policy)
    assert store.documents.content(held.id) == content
    assert len(rows(store)) == 3
    assert not store.merge("draft")


def test_a_large_file_that_one_side_deletes_and_a_policy_gives_up_is_gone_with_its_pieces(store):
    content = noise(7, MIB + 1)
    blob = store.blobs.put(content)
    store.memory.add(["the records tell which branches there are"])
    draft = store.create_branch("draft")
    draft.blobs.delete(blob)
    store.blobs.pin(blob)
    told = []

    def nothing(conflict):
        told.append(conflict.id)

    store.merge("draft", policy=nothing)
    assert told == [blob.hash]
    assert rows(store) == []


# Erasing


def test_erasing_the_last_document_takes_its_bytes_out_of_every_file(store, tmp_path):
    marker = noise(4, 48)
    content = b"A text with bytes in it. " + marker.hex().encode()
    kept = noise(5, 2 * MIB)
    document = store.documents.add(content, name="a.txt")
    other = store.blobs.put(kept)
    store.memory.add(["the records tell which branches there are"])
    store.create_branch("draft")
    store.tag("monday")
    store.documents.update(document.id, b"Another text that says less.")
    store.flush()
    assert files_with(tmp_path, marker.hex().encode())
    planned = store.documents.erase(document.id, dry_run=True)
    erased = store.documents.erase(document.id, sole_writer=True)
    assert (planned.blobs, erased.blobs) == (2, 2)
    assert not erased.may_linger
    assert files_with(tmp_path, marker.hex().encode()) == []
    assert files_with(tmp_path, b"Another text that says") == []
    assert store.blobs.get(other) == kept


def test_erasing_records_takes_the_bytes_that_only_they_name(store, tmp_path):
    shared, own, pinned, free = (noise(seed, 80_000) for seed in range(10, 14))
    named = {name: store.blobs.put(data) for name, data in (("shared", shared), ("own", own))}
    named["pinned"] = store.blobs.put(pinned, pinned=True)
    unnamed = store.blobs.put(free)
    context = store.context()
    for name, blob in named.items():
        context.add("user", name, id=name, payload_uri=blob.uri)
    context.add("user", "also", id="staying", payload_uri=named["shared"].uri)
    store.flush()
    erased = store.erase(ids=["shared", "own", "pinned"], sole_writer=True)
    assert (erased.records, erased.blobs) == (3, 1)
    assert files_with(tmp_path, own[:64]) == []
    for blob, data in ((named["shared"], shared), (named["pinned"], pinned), (unnamed, free)):
        assert store.blobs.get(blob) == data


def test_erasing_a_person_takes_all_bytes_of_the_scope_and_nobody_else_s(store, tmp_path):
    mine, shared = noise(20, 70_000), noise(21, 70_000)
    ada, bob = store.scope(user_id="ada"), store.scope(user_id="bob")
    ada.blobs.put(mine, pinned=True)
    ada.blobs.put(shared)
    theirs = bob.blobs.put(shared)
    ada.documents.add(text_file("ada's kettle"))
    store.flush()
    assert ada.erase(sole_writer=True)
    assert files_with(tmp_path, mine[:64]) == []
    assert ada.blobs.list() == []
    assert bob.blobs.get(theirs) == shared
    assert len(rows(store)) == 1 + 1


def test_erasing_what_was_replaced_or_deleted_long_ago_takes_its_bytes(store, tmp_path):
    data = noise(22, 70_000)
    blob = store.blobs.put(data)
    context = store.context()
    context.add("user", "look", id="r", payload_uri=blob.uri)
    store.flush()
    context.delete(id="r")
    assert store.erase(ids=["r"], sole_writer=True).blobs == 1
    assert files_with(tmp_path, data[:64]) == []
