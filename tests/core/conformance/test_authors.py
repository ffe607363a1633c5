"""Each thing that is kept says who wrote it last, and is found by that."""

from dataclasses import replace

import pytest

from lance_context_core import AsyncContextStore, ContextStore, Document, InvalidRequestError, Item
from lance_context_core.messages import Message
from lance_context_core.settings import JournalPolicy
from lance_context_core.versioning.locations import differing


@pytest.fixture
def ada(store):
    return store.writing_as("ada")


@pytest.fixture
def bob(store):
    return store.writing_as("bob")


async def write_all(store, n):
    """Something in each room."""
    await store.history.append("a", Message.user("tea", id=f"m{n}"), session_id=f"s{n}")
    await store.memory.add([Message.user("tea", id=f"k{n}")], user_id="u")
    await store.context().upsert("user", "tea", external_id=f"e{n}")
    await store.sessions.create(f"s{n}")
    await store.vectors().add([Document(id=f"d{n}", text="tea")])
    await store.kv().put([Item(key=f"i{n}", value={"n": n})])


async def authors(store):
    """Who wrote what, by what it is called."""
    records = {
        one["external_id"] or one["id"]: one["author"] for one in await store.context().list()
    }
    documents = {one.id: one.author for one in await store.vectors().list()}
    items = {one.key: one.author for one in await store.kv().list()}
    sessions = {one.id: one.author for one in await store.sessions.list()}
    return records | documents | items | sessions


def all_of(n, author):
    return {f"{sort}{n}": author for sort in "mkedis"}


async def test_everything_knows_who_wrote_it_before_and_after_a_fold(store, ada, bob):
    await write_all(ada, 1)
    await write_all(bob, 2)
    await write_all(store, 3)
    written = all_of(1, "ada") | all_of(2, "bob") | all_of(3, None)
    assert await authors(store) == written
    await store.flush()
    assert await authors(ada) == written


async def test_filters_name_the_author(store, ada, bob):
    await write_all(ada, 1)
    await store.flush()
    await write_all(bob, 2)
    await write_all(store, 3)
    for _ in range(2):
        for author, n in (("ada", 1), ("bob", 2), (None, 3)):
            by = {"written_by": author} if author else {"written_by": {"$exists": False}}
            records = await store.context().list(filters=by)
            assert {one["external_id"] or one["id"] for one in records} == {
                f"m{n}",
                f"k{n}",
                f"e{n}",
            }
            assert [one.id for one in await store.vectors().list(filter=by)] == [f"d{n}"]
            assert [one.key for one in await store.kv().list(filter=by)] == [f"i{n}"]
            assert await store.history.count("a", session_id=f"s{n}", filter=by) == 1
            for mode in ("text", "vector", "hybrid"):
                found = await store.search("tea", mode=mode, filter=by)
                assert {hit.record.author for hit in found} == {author}
                assert len(found) == 3
        await store.flush()


async def test_metadata_and_values_have_authors_of_their_own(store, ada):
    of_a_book = {"author": "Austen"}
    await ada.vectors().add([Document(id="d", text="Emma", metadata=of_a_book)])
    await ada.kv().put([Item(key="i", value=of_a_book)])
    await ada.context().add("user", "Emma", metadata=of_a_book)
    assert await store.vectors().count(filter=of_a_book) == 1
    assert [one.key for one in await store.kv().list(filter=of_a_book)] == ["i"]
    (record,) = await store.context().list(filters=of_a_book)
    assert (record["author"], record["metadata"]) == ("ada", of_a_book)


async def test_the_author_is_who_wrote_last(store, ada, bob):
    await write_all(ada, 1)
    await bob.context().update(external_id="e1", source="changed")
    await bob.history.rewrite("a", Message.user("black tea", id="m1"), session_id="s1")
    await bob.sessions.update("s1", title="Tea")
    await bob.vectors().upsert([Document(id="d1", text="black tea")])
    await bob.kv().put([Item(key="i1", value={})])
    assert await authors(store) == all_of(1, "bob") | {"k1": "ada"}


async def test_what_is_superseded_or_expires_keeps_its_author(store, ada, bob, clock):
    await write_all(ada, 1)
    await bob.context().add("user", "coffee", supersedes_id="k1")
    await bob.history.touch("a", session_id="s1", expires_at=clock.now().replace(year=2100))
    superseded = await store.context().list(include_retired=True, filters={"written_by": "ada"})
    assert {one["external_id"] or one["id"] for one in superseded} == {"m1", "k1", "e1"}


async def test_a_handle_that_writes_as_somebody_has_the_scope_that_it_was_made_of(store):
    mine = store.scope(tenant="acme").writing_as("ada").scope(user_id="u")
    await mine.context().add("user", "tea")
    (record,) = await mine.context().list()
    assert (record["tenant"], record["user_id"], record["author"]) == ("acme", "u", "ada")
    assert await store.scope(tenant="other").context().list() == []


async def test_branches_and_merges_keep_the_authors(store, ada, bob):
    await write_all(ada, 1)
    branch = await store.create_branch("b")
    await write_all(branch.writing_as("bob"), 2)
    await branch.writing_as("bob").context().update(external_id="e1", source="changed")
    await store.writing_as("eve").merge("b")
    assert await authors(store) == all_of(1, "ada") | all_of(2, "bob") | {"e1": "bob"}


async def test_what_two_wrote_alike_is_no_conflict(store, ada, bob):
    await ada.context().upsert("user", "tea", external_id="e")
    branch = await store.create_branch("b")
    await branch.writing_as("bob").context().upsert("user", "coffee", external_id="e")
    await ada.context().upsert("user", "coffee", external_id="e")
    assert (await store.merge("b")).conflicts == ()


async def test_what_a_policy_makes_is_of_who_merges(store, ada):
    await ada.context().upsert("user", "tea", external_id="e", source="1")
    branch = await store.create_branch("b")
    await branch.writing_as("bob").context().update(external_id="e", source="2")
    await ada.context().update(external_id="e", source="3")
    await store.writing_as("eve").merge("b", policy=third)
    assert (await store.context().get(external_id="e"))["author"] == "eve"


def third(conflict):
    """What neither has."""
    return replace(conflict.ours, source="4")


async def test_a_difference_tells_who_made_it_and_is_none_by_itself(store, ada, bob):
    await ada.context().upsert("user", "tea", external_id="e")
    await ada.context().upsert("user", "tea", external_id="same")
    before = await store.version()
    await bob.context().update(external_id="e", source="changed")
    await bob.context().upsert("user", "tea", external_id="same")
    await bob.context().add("user", "new")
    diff = await store.diff(before)
    assert [(one.before.author, one.after.author, one.fields) for one in diff.changed] == [
        ("ada", "bob", ("source",))
    ]
    assert [one.author for one in diff.added] == ["bob"]
    assert set(diff.to_arrow()["author"].to_pylist()) == {"ada", "bob"}
    (change,) = diff.changed
    assert differing(change.after, change.after) == ()


async def test_an_earlier_version_shows_who_had_written_it_by_then(store, ada, bob):
    await write_all(ada, 1)
    await store.tag("then")
    await bob.context().update(external_id="e1", source="changed")
    assert await authors(await store.checkout("then")) == all_of(1, "ada")
    await store.restore("then")
    assert await authors(store) == all_of(1, "ada")


@pytest.mark.parametrize("wrong", ["", "a\0b", 3, "\ud800"], ids=["empty", "nul", "number", "half"])
def test_what_is_no_name_is_refused(wrong, tmp_path):
    for opens in (AsyncContextStore.open, ContextStore.open):
        with pytest.raises(InvalidRequestError, match="author"):
            opens(tmp_path, author=wrong)
        with pytest.raises(InvalidRequestError, match="author"):
            opens(tmp_path).writing_as(wrong)
    assert list(tmp_path.iterdir()) == []


def test_who_opens_a_store_is_the_author_of_what_is_written(tmp_path):
    with ContextStore.open(tmp_path, author="ada", journal=JournalPolicy()) as store:
        store.history.append("a", Message.user("tea"), session_id="s")
        store.writing_as("bob").history.append("a", Message.user("tea"), session_id="s")
        assert [one["author"] for one in store.context().list()] == ["ada", "bob"]
    with ContextStore.open(tmp_path) as store:
        assert [one["author"] for one in store.context().list()] == ["ada", "bob"]
