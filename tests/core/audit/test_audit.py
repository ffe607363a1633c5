"""The audit tells who did what, and shows what was changed behind its back."""

import asyncio
import json
from datetime import timedelta

import lancedb
import pytest
from core.conformance.doubles import ManualClock

from lance_context_core import (
    AlreadyExistsError,
    AsyncContextStore,
    ContextStore,
    Document,
    InvalidRequestError,
    Item,
    Message,
)
from lance_context_core.audit import log
from lance_context_core.results import AuditHead
from lance_context_core.settings import VersionRetention


@pytest.fixture
def place(tmp_path):
    return tmp_path / "memory"


@pytest.fixture
def store(place):
    with ContextStore.open(place, clock=ManualClock(), author="tutor") as store:
        yield store


def say(store, text, id):
    store.history.append("bot", Message.user(text, id=id), session_id="s")


def did(store, id):
    return [(row.did, row.author) for entry in store.audit.of(id) for row in entry.rows]


def kept(place):
    """The rows of the audit, as they stand in its table."""
    table = lancedb.connect(place).open_table("audit")
    return {row["key"]: row for row in table.to_arrow().to_pylist()}


def forge(place, key, **values):
    lancedb.connect(place).open_table("audit").update(where=f"key = '{key}'", values=values)


def wrong(store, **options):
    return [(one.kind, one.where) for one in store.audit.verify(**options).problems]


def files(place):
    return b"".join(file.read_bytes() for file in place.rglob("*") if file.is_file())


# What it tells


def test_it_tells_who_added_changed_and_removed_a_record(store):
    say(store, "I like tea.", "tea")
    store.audit.seal()
    store.writing_as("ada").context().update(id="tea", metadata={"is": "changed"})
    store.audit.seal()
    store.memory.add([Message.user("stays", id="stays")], user_id="ada")
    store.history.clear("bot", session_id="s")
    store.audit.seal()
    assert did(store, "tea") == [("added", "tutor"), ("changed", "ada"), ("removed", None)]
    assert did(store, "stays") == [("added", "tutor")]
    assert store.audit.verify().is_whole


def test_an_audit_that_begins_late_tells_each_version_that_is_kept(store):
    say(store, "I like tea.", "tea")
    store.flush()
    store.writing_as("ada").context().update(id="tea", metadata={"is": "changed"})
    store.audit.seal()
    assert did(store, "tea") == [("added", "tutor"), ("changed", "ada")]


def test_nothing_is_noted_before_it_begins(store, place):
    say(store, "I like tea.", "tea")
    store.tag("monday")
    store.maintain()
    assert store.audit.entries() == []
    assert store.audit.head() is None
    assert store.audit.verify().is_whole
    assert not (place / "audit.lance").exists()


def test_sealing_again_notes_nothing_new(store):
    say(store, "I like tea.", "tea")
    head = store.audit.seal()
    assert store.audit.seal() == head == store.audit.head()
    say(store, "I like rain.", "rain")
    assert store.audit.verify().n_unsealed == 1
    assert store.audit.seal().n == head.n + 1
    assert store.audit.verify().n_unsealed == 0


def test_what_is_done_beside_writes_is_noted_with_its_name_and_author(store):
    say(store, "I like tea.", "tea")
    store.audit.seal()
    ada = store.writing_as("ada")
    ada.tag("monday")
    branch = ada.create_branch("try")
    branch.memory.add([Message.user("new", id="new")], user_id="ada")
    ada.merge("try")
    ada.delete_branch("try")
    ada.delete_tag("monday")
    ada.restore(1)
    noted = [
        (entry.action, [(row.id, row.author) for row in entry.rows])
        for entry in store.audit.entries()
        if entry.table is None
    ]
    assert noted == [
        ("begin", [(None, "tutor")]),
        ("tag", [("monday", "ada")]),
        ("branch", [("try", "ada")]),
        ("merge", [("try", "ada")]),
        ("drop branch", [("try", "ada")]),
        ("untag", [("monday", "ada")]),
        ("restore", [("1", "ada")]),
    ]
    assert did(store, "new")[:2] == [("added", "ada"), ("added", "ada")]  # There, and by the merge.
    assert store.audit.verify().is_whole


def test_items_and_collections_are_noted_also_when_they_are_dropped(store):
    notes, items = store.vectors("notes"), store.kv("items")
    notes.add([Document(id="d", text="tea", embedding=[1.0, 0.0])])
    items.put([Item(key="k", namespace=("a",), value={"n": 1})])
    store.audit.seal()
    items.put([Item(key="k", namespace=("a",), value={"n": 2})])
    store.vectors("notes").delete_collection()
    store.audit.seal()
    assert [one for one, _ in did(store, "d")] == ["added", "removed"]
    assert [one for one, _ in did(store, "k")][:2] == ["added", "changed"]
    assert store.audit.verify().is_whole


def test_it_is_kept_through_thinning(store, place):
    for n in range(3):
        say(store, f"said {n}", f"m{n}")
        store.flush()
    store.audit.seal()
    before = store.audit.entries()
    store.clock.advance(days=3)
    store.thin(retention=VersionRetention(all_for=timedelta(0), hourly_for=timedelta(0)))
    assert store.audit.entries()[: len(before)] == before
    assert store.audit.verify().is_whole


def test_who_was_shown_what_is_noted_where_it_is_told(store):
    say(store, "I like tea.", "tea")
    store.audit.note_read(["tea"], reader="doctor")
    assert did(store, "tea") == [("added", "tutor"), ("read", "doctor")]


def test_why_it_was_found_is_told_of_any_version(store):
    say(store, "I like tea.", "tea")
    store.tag("monday")
    say(store, "Tea, tea and tea again.", "again")
    store.audit.seal()
    now = store.audit.why("tea", "tea")
    then = store.audit.why("tea", "tea", at="monday")
    assert (now.rank, then.rank) == (2, 1)
    assert then.hit == store.checkout("monday").search("tea")[0]
    assert [row.author for entry in then.entries for row in entry.rows] == ["tutor"]
    assert store.audit.why("tea", "again", at="monday").rank is None


def test_an_export_is_a_line_of_json_for_each_entry(store, tmp_path):
    say(store, "I like tea.", "tea")
    store.audit.seal()
    assert store.audit.export(tmp_path / "audit.jsonl") == len(store.audit.entries())
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [line["hash"] for line in lines] == [one.hash for one in store.audit.entries()]
    assert [row["id"] for line in lines for row in line["rows"]] == [None, "tea"]
    assert "I like" not in json.dumps(lines)
    with pytest.raises(AlreadyExistsError, match="already exists"):
        store.audit.export(tmp_path / "audit.jsonl")


# What an erasure leaves


def test_an_erasure_leaves_no_id_of_it_and_the_chain_whole(store, place):
    ada, bob = store.scope(user_id="user-ada-1815"), store.scope(user_id="bob")
    ada.history.append("bot", Message.user("I am Ada.", id="ada-said"), session_id="s")
    ada.memory.add([Message.user("Was removed", id="ada-removed")])
    bob.history.append("bot", Message.user("I am Bob.", id="bob-said"), session_id="s")
    store.audit.note_read(["ada-said", "bob-said"], reader="doctor")
    ada.memory.delete(ids=["ada-removed"])
    store.audit.seal()
    before = {entry.n: entry.hash for entry in store.audit.entries()}
    ada.erase()
    for word in (b"ada-said", b"ada-removed", b"user-ada-1815"):
        assert word not in files(place)
    entries = store.audit.entries()
    assert {entry.n: entry.hash for entry in entries if entry.n in before} == before
    assert [entry.action for entry in entries].count("erase") == 1
    assert sum(entry.n_erased for entry in entries) == 4
    assert did(store, "bob-said") == [("added", "tutor"), ("read", "doctor")]
    assert store.audit.verify().is_whole
    say(store, "goes on", "on")
    store.audit.seal()
    assert store.audit.verify().is_whole


def test_what_is_left_of_an_erased_row_cannot_be_guessed(store, place):
    say(store, "I am Ada.", "ada-said")
    store.audit.seal()
    [(key, row)] = [one for one in kept(place).items() if "ada-said" in (one[1]["rows"] or "")]
    (salt, *told) = json.loads(row["rows"])[0]
    store.erase(ids=["ada-said"])
    [left] = [one for name, one in kept(place).items() if name.split("/")[0] == key.split("/")[0]
              and one["rows"]]  # fmt: skip
    assert json.loads(left["rows"]) == [[log.unpacked(row["rows"])[0].digest]]
    assert salt.encode() not in files(place)
    assert log.salted([log.AuditRow(*told)])[0].digest != json.loads(left["rows"])[0][0]


# What shows


def test_an_entry_that_was_changed_shows(store, place):
    say(store, "I like tea.", "tea")
    store.audit.seal()
    text = kept(place)["000000000001"]["entry"]
    forge(place, "000000000001", entry=text.replace('"begin"', '"write"'))
    assert ("chain", "entry 2") in wrong(store)


def test_rows_that_were_changed_show(store, place):
    say(store, "I like tea.", "tea")
    store.audit.seal()
    rows = kept(place)["000000000002/0"]["rows"]
    forge(place, "000000000002/0", rows=rows.replace("tutor", "eve"))
    assert wrong(store) == [("rows", "entry 2")]


def test_an_entry_that_is_missing_shows(store, place):
    for n in range(3):
        say(store, "again", f"m{n}")
        store.audit.seal()
    lancedb.connect(place).open_table("audit").delete("key = '000000000003'")
    assert ("chain", "entry 4") in wrong(store)


def test_entries_that_were_cut_off_show_to_who_kept_the_head(store, place):
    say(store, "again", "m")
    store.audit.seal()
    say(store, "again", "n")
    head = store.audit.seal()
    lancedb.connect(place).open_table("audit").delete("key >= '000000000003'")
    assert wrong(store) == []
    assert wrong(store, head=head) == [("chain", "entry 3")]
    assert wrong(store, head=AuditHead(n=2, hash="other")) == [("chain", "entry 2")]


def test_rows_that_no_entry_tells_of_show(store, place):
    say(store, "I like tea.", "tea")
    say(store, "I like rain.", "rain")
    store.audit.seal()
    # Who forges the chain as a whole cannot forge what the table is.
    [rows] = [row for key, row in kept(place).items() if key == "000000000002/0"]
    left = [one for one in log.unpacked(rows["rows"]) if one.row.id != "rain"]
    told = json.loads(kept(place)["000000000002"]["entry"])
    forge(place, "000000000002/0", rows=log.packed(left))
    forge(place, "000000000002", entry=json.dumps({**told, "root": log.root(left)}))
    [problem] = store.audit.verify().problems
    assert (problem.kind, problem.where) == ("table", "records")
    assert "'rain' was written, but has no audit entry" in problem.what


def test_versions_that_went_unnoted_show_as_a_gap(store, place):
    say(store, "one", "m1")
    store.audit.seal()
    say(store, "two", "m2")
    store.flush()
    lancedb.connect(place).open_table("records").optimize(
        cleanup_older_than=timedelta(milliseconds=1)
    )
    store.audit.seal()
    assert did(store, "m2") == [("added", "tutor")]
    assert [kind for kind, _ in wrong(store)] == ["gap"]


def test_a_write_of_another_program_is_told_without_an_author(store, place):
    say(store, "one", "m1")
    store.audit.seal()
    lancedb.connect(place).open_table("records").delete("id = 'm1'")
    store.audit.seal()
    assert did(store, "m1") == [("added", "tutor"), ("removed", None)]


# Beside others


def test_two_who_seal_at_once_make_one_chain(place):
    async def run():
        async with (
            await AsyncContextStore.open(place, author="a") as one,
            await AsyncContextStore.open(place, author="b") as other,
        ):
            await one.memory.add([Message.user("first", id="m")], user_id="u")
            await one.audit.seal()

            async def work(store, name):
                for n in range(3):
                    await store.memory.add([Message.user("x", id=f"{name}{n}")], user_id="u")
                    await store.audit.seal()

            await asyncio.gather(work(one, "a"), work(other, "b"))
            assert (await one.audit.verify()).is_whole
            rows = [row for entry in await one.audit.entries() for row in entry.rows]
            assert sorted(row.id for row in rows if row.did == "added") == sorted(
                ["m", *(f"{name}{n}" for name in "ab" for n in range(3))]
            )

    asyncio.run(run())


def test_it_is_of_the_whole_store(store):
    with pytest.raises(InvalidRequestError, match="scope"):
        store.scope(user_id="ada").audit.seal()


def test_a_head_that_is_none_is_refused(store):
    with pytest.raises(InvalidRequestError, match="head"):
        store.audit.verify(head="abc")
