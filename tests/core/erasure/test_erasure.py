"""Erasure: what is erased is in no file any more, and everything else is as it was."""

import asyncio
import hashlib
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import time
import warnings
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import lancedb
import numpy as np
import pytest
from efforts import in_proofs

import lance_context_core.storage.lance.purge as steps
from lance_context_core import ContextStore, DataPart, Document, Item, Message
from lance_context_core.erasure import cascade as traces
from lance_context_core.errors import (
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
)
from lance_context_core.results import Erasure
from lance_context_core.settings import IndexPolicy

SPAWN = multiprocessing.get_context("spawn")

ALL_INDEXES = IndexPolicy(scalar_rows=1, vector_rows=1, max_segments=1)

VECTOR = [0.123456789, -0.987654321, 0.55555, 0.77777]
UNIT = np.array(VECTOR, "<f4") / np.linalg.norm(np.array(VECTOR, "<f4"))

TEXTS = {
    name: f"zq{number:02}vx"
    for number, name in enumerate(
        [
            *("user", "id", "text", "speaker", "native", "data", "metadata_key", "metadata_value"),
            *("state", "tag", "target", "relation", "source", "session", "blob", "external"),
            *("title", "session_metadata", "document", "document_text", "document_metadata"),
            *("earlier", "forgotten", "forgotten_text", "branch", "deeper", "derived"),
            *("namespace", "item", "item_value", "item_data"),
        ]
    )
}
"""One marker for each place that a person's data can be in."""

MARKERS = {
    **{name: text.encode() for name, text in TEXTS.items()},
    "vector": np.array(VECTOR, "<f4").tobytes(),
    "indexed_vector": UNIT.tobytes(),
}

WORDS = ["".join(random.Random(n).choices("abcdefghijkl", k=7)) for n in range(200)]


@pytest.fixture
def place(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def store(place):
    """One whose every write is a version of its table; test_journal.py has those that are none."""
    with ContextStore.open(place, journal=None) as store:
        yield store


# What the files hold


def contents(place):
    """The bytes of every file of the tables, by path."""
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file() and not path.name.startswith("journal.")
    }


def journal(place):
    """The bytes of the journal's files, by name.

    Another process reads them: one that holds the store and closed them would lose its locks.
    """
    return {
        path.name: subprocess.run(["cat", path], capture_output=True, check=False).stdout
        for path in sorted(place.glob("journal.*"))
    }


def holding(place, marker):
    """The files that hold the bytes, or whose name does."""
    return [
        name
        for name, data in {**contents(place), **journal(place)}.items()
        if marker in data or marker in os.fsencode(name)
    ]


def kinds(names):
    """What sorts of files these are."""
    return {part for name in names for part in Path(name).parts if part in KINDS}


KINDS = {"data", "_indices", "_transactions", "_versions", "_deletions", "tree"}


def tokens(place):
    """The digests of the words of the full-text indexes, whatever their encoding."""
    return {
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (place / "records.lance").rglob("part_*_tokens.lance")
    }


# What readers see


def everything(store):
    """All that one handle shows: records, sessions, documents."""
    documents = {
        name: [(one.id, one.text, one.metadata) for one in store.vectors(name).list()]
        for name in store.vectors().list_collections()
    }
    records = store.context().list(include_expired=True, include_retired=True)
    return {
        "records": {one["id"]: one for one in records},
        "sessions": {one.id: (one.title, one.metadata) for one in store.sessions.list()},
        "documents": {name: {one[0]: one for one in all_} for name, all_ in documents.items()},
        "items": {one.key: one.value for one in store.kv("app").list()},
    }


def without(seen, *, records=(), sessions=(), documents=(), items=()):
    """What was seen, less these ids."""
    return {
        "records": {k: v for k, v in seen["records"].items() if k not in records},
        "sessions": {k: v for k, v in seen["sessions"].items() if k not in sessions},
        "documents": {
            name: {k: v for k, v in all_.items() if k not in documents}
            for name, all_ in seen["documents"].items()
        },
        "items": {k: v for k, v in seen["items"].items() if k not in items},
    }


def views(store):
    """Every present state of the store that has a name."""
    return {
        "main": store,
        **{f"branch {one.name}": store.branch(one.name) for one in store.branches()},
        **{f"tag {tag}": store.checkout(tag) for tag in store.tags()},
    }


def ids(store):
    return sorted(one["id"] for one in store.context().list(include_retired=True))


def texts(store):
    return [one["text"] for one in store.context().list()]


# A person in every corner of the store


def fill_with_others(store, n=40):
    random_ = random.Random(1)
    store.context().add_many(
        [
            {
                "role": "user",
                "content": " ".join(random_.choices(WORDS, k=10)),
                "id": f"other{number}",
                "embedding": [random_.uniform(-1, 1) for _ in VECTOR],
                "metadata": {"number": number},
            }
            for number in range(n)
        ]
    )
    store.history.append("h", Message.user("We meet on Monday.", id="turn"), session_id="theirs")
    store.sessions.create("theirs", title="Others")
    store.kv("app").put([Item(namespace=("users", "bob"), key="k", value={"city": "Oslo"})])
    store.vectors("notes").add(
        [
            Document(id=f"note{number}", text=WORDS[number], embedding=[1.0, 0, 0, number])
            for number in range(n)
        ]
    )


def fill_with_person(store):
    """Puts every marker that belongs on the main branch somewhere; returns the person's handle."""
    person = store.scope(user_id=TEXTS["user"])
    person.context().add(
        "user",
        Message.user(
            TEXTS["text"],
            id=TEXTS["id"],
            name=TEXTS["speaker"],
            native={"framework": "x", "kept": TEXTS["native"]},
        ),
        embedding=VECTOR,
        metadata={TEXTS["metadata_key"]: TEXTS["metadata_value"]},
        state_metadata={"state": TEXTS["state"]},
        tags=[TEXTS["tag"]],
        relationships=[{"target_id": TEXTS["target"], "relation": TEXTS["relation"]}],
        source=TEXTS["source"],
        session_id=TEXTS["session"],
    )
    person.context().add("user", TEXTS["blob"].encode() * 50, external_id=TEXTS["external"])
    person.context().add("user", Message.user([DataPart(data={"d": TEXTS["data"]})], id="data"))
    person.sessions.create(
        TEXTS["session"], title=TEXTS["title"], metadata={"m": TEXTS["session_metadata"]}
    )
    person.vectors("notes").add(
        [
            Document(
                id=TEXTS["document"],
                text=TEXTS["document_text"],
                embedding=VECTOR,
                metadata={"m": TEXTS["document_metadata"]},
            )
        ]
    )
    person.kv("app").put(
        [
            Item(
                namespace=("users", TEXTS["namespace"]),
                key=TEXTS["item"],
                value={"v": TEXTS["item_value"]},
                data=TEXTS["item_data"].encode(),
            )
        ]
    )
    person.context().upsert("user", TEXTS["earlier"], id="changed", key="id")
    person.context().upsert("user", "later", id="changed", key="id")
    person.context().add("user", TEXTS["forgotten_text"], id=TEXTS["forgotten"])
    person.context().add(
        "user", TEXTS["derived"], id="derived", source_ids=[TEXTS["id"]], embedding=VECTOR
    )
    return person


@pytest.fixture(scope="session")
def inhabited_place(tmp_path_factory):
    """A store with a person in every corner, made once: each test has a copy."""
    place = tmp_path_factory.mktemp("inhabited") / "store"
    with ContextStore.open(place, journal=None) as store:
        inhabit(store)
    return place


@pytest.fixture
def inhabited(inhabited_place, place):
    shutil.copytree(inhabited_place, place)
    with ContextStore.open(place, journal=None) as store:
        yield store


def inhabit(store):
    fill_with_others(store)
    person = fill_with_person(store)
    store.context().add(
        "user",
        "stays",
        id="witness",
        relationships=[
            {"target_id": TEXTS["id"], "relation": "knows"},
            {"target_id": "other1", "relation": "knows"},
        ],
        supersedes_id=TEXTS["id"],
    )
    store.tag("early")
    store.maintain(policy=ALL_INDEXES)
    person.context().delete(id=TEXTS["forgotten"])
    store.tag("late")
    branch = store.create_branch("one")
    branch.scope(user_id=TEXTS["user"]).context().add("user", TEXTS["branch"], id="on-branch")
    branch.context().add("user", "of the branch", id="branch-other")
    deeper = branch.create_branch("two")
    deeper.scope(user_id=TEXTS["user"]).context().add("user", TEXTS["deeper"], id="on-deeper")
    deeper.tag("leaf")
    store.context().add("user", "afterwards", id="afterwards")


PERSONS_RECORDS = {
    *(TEXTS["id"], "data", "changed", TEXTS["forgotten"], "derived", "on-branch", "on-deeper")
}


def erase_person(store, **options):
    """The records with what names them, then whatever else is the person's."""
    records = store.erase(filter={"user_id": TEXTS["user"]}, **options)
    return records, store.scope(user_id=TEXTS["user"]).erase(**options)


def left(place):
    """The markers that are in some file."""
    return {name for name, marker in MARKERS.items() if holding(place, marker)}


@pytest.mark.slow
def test_every_marker_is_in_the_files_before_and_in_none_after(inhabited, place):
    before = {name: holding(place, marker) for name, marker in MARKERS.items()}
    assert [name for name, files in before.items() if not files] == []
    # The search of the files sees all sorts of them.
    found = {file for files in before.values() for file in files}
    assert kinds(found) >= {"data", "_indices", "_transactions", "_versions", "tree"}
    assert {Path(one).name for one in found} >= {
        *("page_data.lance", "page_lookup.lance", "bitmap_page_lookup.lance", "auxiliary.idx"),
    }

    records, rest = erase_person(inhabited, sole_writer=True)

    assert left(place) == set()
    # One more has no id of the test's own: that with the external id.
    assert (records.records, records.derived) == (len(PERSONS_RECORDS) + 1, 0)
    assert (records.mentions, records.sessions) == (1, 1)
    assert (rest.records, rest.documents, rest.items) == (0, 1, 1)
    assert records.branches == ("main", "one", "two")
    assert records.tags == ("early", "late", "leaf")
    assert records.bytes_removed > 0
    assert not records.may_linger


@pytest.mark.slow
def test_all_else_is_as_it_was_on_every_branch_and_under_every_tag(inhabited):
    external = inhabited.context().get(external_id=TEXTS["external"])["id"]
    gone = {
        "records": {*PERSONS_RECORDS, external, "witness"},
        "sessions": {TEXTS["session"]},
        "documents": {TEXTS["document"]},
        "items": {TEXTS["item"]},
    }
    before = {name: without(everything(view), **gone) for name, view in views(inhabited).items()}
    erase_person(inhabited)
    after = {name: everything(view) for name, view in views(inhabited).items()}
    witnesses = [seen["records"].pop("witness") for seen in after.values()]
    assert after == before
    assert [one["relationships"] for one in witnesses] == [
        [{"target_id": "other1", "relation": "knows", "weight": None}]
    ] * len(after)
    assert [one["supersedes_id"] for one in witnesses] == [None] * len(after)


@pytest.mark.slow
def test_searches_find_the_rest_everywhere(inhabited):
    def found(view):
        by_words = view.search(WORDS[3], mode="text", limit=50)
        by_vector = view.search(VECTOR, limit=50)
        documents = view.vectors("notes").search(WORDS[3])
        return [{hit.record.id for hit in hits} for hits in (by_words, by_vector, documents)]

    before = {name: found(view) for name, view in views(inhabited).items()}
    assert all(all(hits) for hits in before.values())
    erase_person(inhabited)
    gone = {*PERSONS_RECORDS, TEXTS["document"]}
    after = {name: found(view) for name, view in views(inhabited).items()}
    assert after == {name: [hits - gone for hits in channels] for name, channels in before.items()}
    assert inhabited.search(TEXTS["text"], mode="text") == []


@pytest.mark.slow
def test_the_words_of_an_index_are_those_of_a_store_that_never_knew(tmp_path):
    # Its files are compressed, so that they cannot be searched: they are compared.
    with ContextStore.open(tmp_path / "clean") as clean:
        fill_with_others(clean)
        clean.maintain(policy=ALL_INDEXES)
        reference = tokens(tmp_path / "clean")
    with ContextStore.open(tmp_path / "store") as store:
        fill_with_others(store)
        store.scope(user_id="ada").context().add("user", "unheard unmentioned", id="a")
        store.maintain(policy=ALL_INDEXES)
        store.tag("t")
        assert not tokens(tmp_path / "store") & reference
        store.scope(user_id="ada").erase(sole_writer=True)
        assert tokens(tmp_path / "store") == tokens_made_anew(clean_place=tmp_path / "again")


def tokens_made_anew(clean_place):
    """The same for a store of the others alone whose indexes were built in one go."""
    with ContextStore.open(clean_place) as clean:
        fill_with_others(clean)
        clean.maintain(policy=ALL_INDEXES)
        clean.scope(user_id="ada").erase(sole_writer=True)
    return tokens(clean_place)


@pytest.mark.slow
def test_no_file_outlives_an_erasure_where_pages_are_compressed(store, place):
    ada = store.scope(user_id="ada")
    line = "a long and quite repetitive sentence about nothing, number "
    for scope, first in ((store, 0), (ada, 3_000)):
        scope.context().add_many(
            [
                {"role": "user", "content": f"{line}{n}", "id": f"r{n}", "embedding": VECTOR}
                for n in range(first, first + 3_000)
            ]
        )
    store.maintain(policy=ALL_INDEXES)
    store.tag("t")
    # Most texts cannot be seen in the files.
    assert sum(bool(holding(place, f"{line}{n}".encode())) for n in range(3_000, 3_030)) < 30
    records = place / "records.lance"
    before = {name for name in contents(records) if kinds([name]) - {"tree"}}
    ada.erase(sole_writer=True)
    after = {name for name in contents(records) if kinds([name]) - {"tree"}}
    assert {name for name in before & after if not name.endswith("hint.json")} == set()
    for view in (store, store.checkout("t")):
        assert len(ids(view)) == 3_000
        assert len(view.search(f"{line}5", mode="text", limit=5)) == 5


# What is meant


def test_a_record_that_is_only_in_older_versions_is_erased(store, place):
    store.context().add("user", "zqgonevx", id="gone")
    store.context().add("user", "stays", id="stays")
    store.context().delete(id="gone")
    assert holding(place, b"zqgonevx")
    report = store.erase(ids=["gone"])
    assert (report.records, report.branches) == (1, ("main",))
    assert holding(place, b"zqgonevx") == []
    assert texts(store) == ["stays"]


def test_a_record_that_no_version_shows_any_more_is_erased_from_the_files(store, place):
    store.context().add_many(
        [{"role": "user", "content": f"zq{n}vx", "id": f"r{n}"} for n in range(50)]
    )
    store.context().delete(id="r7")
    asyncio.run(prune(place))
    assert [one.number for one in store.versions()] == [store.version()]
    assert holding(place, b"zq7vx")
    assert store.erase(ids=["r7"], dry_run=True).versions_removed == 1
    assert not store.erase(ids=["r7"])
    assert holding(place, b"zq7vx") == []
    assert len(texts(store)) == 49


async def prune(place):
    """As upkeep might: older versions go, deleted rows stay in the files."""
    handle = await (await lancedb.connect_async(place)).open_table("records")
    with warnings.catch_warnings(action="ignore"):
        for _ in range(2):
            await handle.optimize(cleanup_older_than=timedelta(0))


def test_what_a_record_was_before_it_was_changed_goes_with_it(store, place):
    store.context().upsert("user", "zqfirstvx", id="r", key="id")
    store.tag("then")
    store.context().upsert("user", "zqsecondvx", id="r", key="id")
    store.erase(ids=["r"])
    assert holding(place, b"zqfirstvx") == holding(place, b"zqsecondvx") == []
    assert ids(store) == ids(store.checkout("then")) == []


def test_a_filter_counts_for_what_a_record_once_was(store, place):
    store.context().upsert("user", "the number is zq1vx", id="r", key="id")
    store.context().upsert("user", "the number is hidden", id="r", key="id")
    store.context().add("user", "stays", id="s")
    assert store.erase(filter={"text": {"$contains": "zq1vx"}}).records == 1
    assert ids(store) == ["s"]
    assert holding(place, b"zq1vx") == []


def test_what_has_moved_out_of_a_scope_stays_where_it_is_now(store, place):
    store.scope(user_id="ada").context().add("user", "hers", id="r")
    store.tag("then")
    store.context().update(id="r", user_id="bob")
    store.scope(user_id="ada").erase()
    assert ids(store) == ["r"]
    assert ids(store.checkout("then")) == []


def test_ids_and_a_filter_must_both_hold(store):
    for id in "ab":
        store.context().add("user", id, id=id, metadata={"of": id})
    assert not store.erase(ids=["a"], filter={"metadata.of": "b"})
    assert store.erase(ids=["a", "b"], filter={"metadata.of": "b"}).records == 1
    assert ids(store) == ["a"]


def test_what_was_derived_goes_too_and_what_was_derived_from_that(store, place):
    context = store.context()
    context.add("user", "source", id="a")
    context.add("user", "zqmadevx", id="b", source_ids=["x", "a"])
    context.delete(id="b")
    context.add("user", "made of what is gone", id="c", source_ids=["b"])
    context.add("user", "made of others", id="d", source_ids=["x"])
    report = store.erase(ids=["a"])
    assert (report.records, report.derived) == (1, 2)
    assert ids(store) == ["d"]
    assert holding(place, b"zqmadevx") == []


def test_what_was_derived_stays_without_the_names_if_asked(store, place):
    store.context().add("user", "source", id="zqsrcvx")
    store.context().add("user", "made", id="b", source_ids=["zqsrcvx", "y"])
    report = store.erase(ids=["zqsrcvx"], derived=False)
    assert (report.records, report.derived, report.mentions) == (1, 0, 1)
    assert store.context().get(id="b")["source_ids"] == ["y"]
    assert holding(place, b"zqsrcvx") == []


def test_an_id_means_nothing_beyond_the_walls_of_its_record(store):
    for user in ("ada", "bob"):
        context = store.scope(user_id=user).context()
        context.add("user", "said", id="m")
        context.add("user", "made", id="n", source_ids=["m"])
    other = store.context("elsewhere")
    other.add("user", "made", id="o", source_ids=["m"])
    report = store.erase(filter={"user_id": "ada", "id": "m"})
    assert (report.records, report.derived) == (1, 1)
    assert ids(store.scope(user_id="bob")) == ["m", "n"]
    assert [one["id"] for one in other.list()] == ["o"]


def test_the_session_of_an_erased_conversation_loses_its_title(store, place):
    for session in ("one", "two"):
        store.history.append("h", Message.user("x", id=f"{session}1"), session_id=session)
        store.history.append("h", Message.user("x", id=f"{session}2"), session_id=session)
        store.sessions.create(session, title=f"zq{session}vx")
    assert store.erase(ids=["one1", "two1", "two2"]).sessions == 1
    assert [(one.id, one.title) for one in store.sessions.list()] == [("one", "zqonevx")]
    assert holding(place, b"zqtwovx") == []


def test_documents_of_one_collection_are_erased(store, place):
    for name in ("a", "b"):
        store.vectors(name).add(
            [Document(id=f"d{n}", text=f"zq{name}{n}vx", embedding=[n, 1.0]) for n in range(3)]
        )
    store.tag("t")
    report = store.vectors("a").erase(["d1"])
    assert (report.documents, report.records, report.tags) == (1, 0, ("t",))
    assert holding(place, b"zqa1vx") == []
    assert holding(place, b"zqb1vx")
    for view in (store, store.checkout("t")):
        assert [one.id for one in view.vectors("a").list()] == ["d0", "d2"]
        assert len(view.vectors("a").search([1.0, 1.0])) == 2
    assert store.vectors("a").erase(filter={"id": "d2"}).documents == 1
    with pytest.raises(InvalidRequestError, match=r"delete_collection\(\)"):
        store.vectors("a").erase()
    store.scope(user_id="ada").vectors("a").add([Document(id="mine", text="x", embedding=[1, 1])])
    assert store.scope(user_id="ada").vectors("a").erase().documents == 1
    assert store.vectors("a").count() == 1


def test_the_last_vector_of_an_indexed_collection_can_be_erased(store, place):
    store.vectors("a").add([Document(id="d", text="x", embedding=VECTOR)])
    store.maintain(policy=ALL_INDEXES)
    assert holding(place, MARKERS["vector"])
    store.vectors("a").erase(["d"], sole_writer=True)
    assert holding(place, MARKERS["vector"]) == holding(place, MARKERS["indexed_vector"]) == []
    store.vectors("a").add([Document(id="e", text="y", embedding=VECTOR)])
    assert [hit.record.id for hit in store.vectors("a").search(VECTOR)] == ["e"]


@pytest.mark.parametrize(
    "request_", [{}, {"filter": {}}, {"filter": None, "ids": None}], ids=["none", "empty", "None"]
)
def test_a_whole_store_is_not_erased_by_leaving_something_out(store, request_):
    store.context().add("user", "x")
    with pytest.raises(InvalidRequestError, match="pass ids or filter"):
        store.erase(**request_)
    assert len(texts(store)) == 1


def test_a_past_version_cannot_be_erased_from(store):
    store.context().add("user", "x", id="x")
    with pytest.raises(ReadOnlyError):
        store.checkout(store.version()).erase(ids=["x"])


def test_nothing_is_asked_for_and_nothing_done(store, place):
    assert store.erase(ids=["x"]) == Erasure()
    store.context().add("user", "x", id="x")
    store.version()  # what the journal holds is folded
    before = contents(place)
    assert store.erase(ids=[]) == store.vectors("none").erase(["x"]) == Erasure()
    assert contents(place) == before


@pytest.mark.slow
def test_a_dry_run_tells_the_same_and_changes_nothing(inhabited, place):
    inhabited.version()  # what the journal holds is folded
    before = contents(place)
    asked = {"filter": {"user_id": TEXTS["user"]}}
    planned = inhabited.erase(**asked, dry_run=True)
    assert contents(place) == before
    done = inhabited.erase(**asked)
    assert planned.bytes_removed == 0
    assert done.bytes_removed > 0
    fields = [name for name in Erasure.__slots__ if name != "bytes_removed"]
    assert [getattr(planned, name) for name in fields] == [getattr(done, name) for name in fields]


# Branches and tags


def test_a_tag_from_before_is_left_alone(store, place):
    store.context().add("user", "first", id="a")
    store.tag("before")
    store.context().add("user", "second", id="b")
    store.tag("after")
    before = {name for name in contents(place) if "tags/before" in name}
    assert before
    report = store.erase(ids=["b"])
    assert report.tags == ("after",)
    assert {name for name in contents(place) if "tags/before" in name} == before
    assert ids(store.checkout("before")) == ids(store) == ["a"]


@pytest.mark.slow
def test_cleaned_branches_can_be_read_written_compared_tagged_and_deleted(inhabited):
    erase_person(inhabited)
    one = inhabited.branch("one")
    one.context().add("user", "new", id="new")
    assert "new" in ids(one)
    assert "new" not in ids(inhabited)
    assert {record.id for record in one.diff("late").added} == {"branch-other", "new"}
    assert {record.id for record in inhabited.diff("late").added} == {"afterwards"}
    assert inhabited.diff("early").changed == []
    again = inhabited.create_branch("again", at="early")
    assert ids(again) == ids(inhabited.checkout("early"))
    assert inhabited.delete_branch("again")
    assert inhabited.delete_tag("leaf")
    for branch in ("two", "one"):
        assert inhabited.delete_branch(branch)
    for tag in ("early", "late"):
        assert inhabited.delete_tag(tag)
    assert "afterwards" in ids(inhabited)


@pytest.mark.slow
def test_a_second_erasure_finds_its_way_through_cleaned_branches(inhabited, place):
    erase_person(inhabited)
    text = inhabited.context().get(id="other5")["text"].encode()
    assert holding(place, text)
    assert inhabited.erase(ids=["other5"]).records == 1
    assert holding(place, text) == []
    assert all("other5" not in ids(view) for view in views(inhabited).values())


def test_a_reader_of_a_removed_version_is_told_so(store):
    store.context().add("user", "a", id="a")
    number = store.version()
    past, unread = store.checkout(number), store.checkout(number)
    assert ids(past) == ["a"]
    store.context().add("user", "b", id="b")
    store.erase(ids=["a"])
    for reader in (past, unread):
        with pytest.raises((NotFoundError, StorageError)):
            reader.context().list()
    with pytest.raises(NotFoundError, match=f"version {number} was pruned"):
        store.checkout(number)


def test_a_handle_that_never_looks_for_others_reads_on_after_its_own_erasure(place):
    with ContextStore.open(place, read_consistency=None) as store:
        store.context().add("user", "a", id="a")
        branch = store.create_branch("b")
        branch.context().add("user", "b", id="b")
        store.context().add("user", "c", id="c")
        store.erase(ids=["a"])
        assert ids(store) == ["c"]
        assert ids(branch) == ["b"]


# Crashes


@pytest.mark.parametrize("sole_writer", [False, True])
def test_files_of_unfinished_writes_go_only_when_nobody_else_writes(store, place, sole_writer):
    store.context().add("user", "a", id="a")
    store.context().add("user", "b", id="b")
    store.version()  # what the journal holds is folded
    orphan = place / "records.lance" / "data" / f"{'01' * 24}abcdef.lance"
    some = next(iter((place / "records.lance" / "data").iterdir()))
    shutil.copy(some, orphan)
    assert store.erase(ids=["a"], sole_writer=sole_writer).may_linger is not sole_writer
    assert orphan.exists() is not sole_writer
    assert ids(store) == ["b"]


class Crashed(BaseException):
    """The process ends here."""


STEPS = [
    (steps, "delete"), (traces, "scrub"), (steps, "_write_anew"), (steps.indexes, "build_anew"),
    (steps.indexes, "optimize"),
]  # fmt: skip
"""What is called in an erasure, and may be the last that is."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nth", "is_after"),
    [
        *[(1, False), (2, True)],
        *in_proofs((1, True), (2, False), (4, False), (4, True)),
    ],
    ids=lambda value: ("after" if value else "before") if isinstance(value, bool) else None,
)
@pytest.mark.parametrize(("module", "step"), STEPS, ids=[step for _, step in STEPS])
def test_an_erasure_that_was_interrupted_is_completed_by_the_next(
    place, monkeypatch, module, step, nth, is_after
):
    with ContextStore.open(place) as store:
        store.context().add_many(
            [{"role": "user", "content": f"zq{n}vx", "id": f"r{n}"} for n in range(5)]
        )
        store.context().add("user", "zqmadevx", id="made", source_ids=["r1"])
        store.context().add(
            "user", "w", id="w", relationships=[{"target_id": "made", "relation": "of"}]
        )
        store.tag("t")
        branch = store.create_branch("b")
        branch.context().add("user", "zqbranchvx", id="on-b", source_ids=["made"])
        branch.create_branch("bb")
        store.context().delete(id="made")
    real, calls = getattr(module, step), []

    async def interrupted(*args, **options):
        calls.append(step)
        if len(calls) == nth and not is_after:
            raise Crashed
        result = await real(*args, **options)
        if len(calls) == nth:
            raise Crashed
        return result

    with monkeypatch.context() as patch, ContextStore.open(place) as store:
        patch.setattr(module, step, interrupted)
        # A step that is not taken so often leaves a whole erasure, which may be repeated too.
        with suppress(Crashed):
            store.erase(ids=["r1"])
    with ContextStore.open(place) as store:
        store.erase(ids=["r1"], sole_writer=True)
        for marker in (b"zq1vx", b"zqmadevx", b"zqbranchvx"):
            assert holding(place, marker) == []
        for view in views(store).values():
            assert ids(view) == ["r0", "r2", "r3", "r4", "w"]
            assert view.context().get(id="w")["relationships"] == []


def erase_forever(place):
    with ContextStore.open(place) as store:
        for _ in range(1_000):
            store.erase(filter={"user_id": "ada"})


def test_an_erasure_that_was_killed_is_completed_by_the_next(place):
    moments = random.Random(5)
    with ContextStore.open(place) as store:
        fill_with_others(store)
    for round_ in range(3):
        with ContextStore.open(place) as store:
            store.scope(user_id="ada").context().add("user", f"zq{round_}vx", id=f"a{round_}")
            store.tag(f"t{round_}")
            before = {name: without(everything(v)) for name, v in views(store).items()}
        process = SPAWN.Process(target=erase_forever, args=(place,))
        process.start()
        started = time.monotonic()
        while holding(place, f"zq{round_}vx".encode()) and time.monotonic() - started < 20:
            if moments.random() < 0.1 and time.monotonic() - started > 1.2:
                break
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with ContextStore.open(place) as store:
            store.erase(filter={"user_id": "ada"}, sole_writer=True)
            assert holding(place, f"zq{round_}vx".encode()) == []
            gone = [f"a{n}" for n in range(round_ + 1)]
            assert {name: everything(view) for name, view in views(store).items()} == {
                name: without(seen, records=gone) for name, seen in before.items()
            }


# Others who write meanwhile


def write_forever(place, name, n, stop):
    """Appends, changes and deletes; leaves r0 to r{n-1}, each changed once."""
    with ContextStore.open(place) as store:
        for number in range(n):
            store.context().add("user", f"{name} {number}", id=f"{name}{number}")
            store.context().upsert("user", f"{name} {number} again", id=f"{name}{number}", key="id")
            store.context().add("user", "passing", id=f"{name}-passing")
            store.context().delete(id=f"{name}-passing")
    stop.set()


def test_others_who_write_meanwhile_lose_nothing(store, place):
    fill_with_others(store)
    stops = [SPAWN.Event() for _ in range(2)]
    writers = [
        SPAWN.Process(target=write_forever, args=(place, f"w{number}-", 15, stop))
        for number, stop in enumerate(stops)
    ]
    for writer in writers:
        writer.start()
    n_erased = 0
    while not all(stop.is_set() for stop in stops):
        if not any(writer.is_alive() for writer in writers):
            break
        store.scope(user_id="ada").context().add("user", f"zq{n_erased}vx", id=f"a{n_erased}")
        assert store.erase(filter={"user_id": "ada"}).records >= 1
        n_erased += 1
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert n_erased > 1
    store.erase(filter={"user_id": "ada"}, sole_writer=True)
    assert [n for n in range(n_erased) if holding(place, f"zq{n}vx".encode())] == []
    expected = {f"w{w}-{n}": f"w{w}- {n} again" for w in range(2) for n in range(15)}
    found = {one["id"]: one["text"] for one in store.context().list() if one["id"][0] == "w"}
    assert found == expected


def test_a_tag_that_is_made_meanwhile_is_cleaned_too(store, place, monkeypatch):
    store.context().add("user", "zqmvx", id="m")
    store.context().add("user", "stays", id="s")
    store.context().upsert("user", "stays!", id="s", key="id")
    real, made = steps.scour, []

    async def scour(table, gone, **options):
        if not made:
            made.append(await store.aio.tag("meanwhile"))
        return await real(table, gone, **options)

    monkeypatch.setattr(steps, "scour", scour)
    store.erase(ids=["m"], sole_writer=True)
    assert made
    assert ids(store.checkout("meanwhile")) == ["s"]
    assert holding(place, b"zqmvx") == []


def test_a_store_in_memory_is_erased_from_as_well():
    with ContextStore.open("memory://") as store:
        store.context().add("user", "a", id="a")
        store.context().add("user", "b", id="b")
        store.tag("t")
        store.erase(ids=["a"])
        assert ids(store) == ids(store.checkout("t")) == ["b"]


# How often it is looked


def test_an_erasure_opens_each_version_once_and_looks_again_only_where_it_is_gone_by_now(
    store, monkeypatch
):
    for n in range(4):
        store.history.append("ada", Message.user(f"{n}", id=f"m{n}"), session_id="s")
        store.context().update(id=f"m{n}", metadata={"seen": True})
    opened, looked = [], []
    open_, shows = steps.branches.opened, steps.shows

    async def opening(root, table, ref, version=None):
        opened.append((table, ref, version))
        return await open_(root, table, ref, version)

    async def looking(table, gone):
        looked.append((table.name, table.ref))
        return await shows(table, gone)

    monkeypatch.setattr(steps.branches, "opened", opening)
    monkeypatch.setattr(steps, "shows", looking)
    assert store.erase(ids=["m1"], derived=False, dry_run=True).records == 1
    versions = [one for one in opened if one[2] is not None]
    assert len(versions) == len(set(versions)) > 3
    assert looked == []
    store.context().delete(id="m1")
    assert store.erase(ids=["m1"], derived=False, dry_run=True).records == 1
    assert looked == [("records", None)]
