"""Files that are added again: each is there once, as it is now, with all that was said of it."""

import pytest

from lance_context_core import ContextStore, DocumentScope, InvalidRequestError

SHOP = DocumentScope(project_id="shop")


@pytest.fixture
def documents():
    with ContextStore.open("memory://") as store:
        yield store.documents


def test_a_file_that_has_changed_is_there_once_when_it_is_added_again(documents, tmp_path):
    path = tmp_path / "rules.md"
    path.write_text("The limit is 20.")
    first = documents.add(path, metadata={"team": "office"})
    path.write_text("The limit is 25.")
    second = documents.add(path, metadata={"year": 2026})
    assert [hit.record.text for hit in documents.search("limit")] == ["The limit is 25."]
    assert (second.id, second.metadata) == (first.id, {"team": "office", "year": 2026})
    assert documents.content(second.id) == b"The limit is 25."
    assert documents.add(path) == second
    path.write_text("The limit is 20.")
    assert documents.add(path).id == first.id
    assert [hit.record.text for hit in documents.search("limit")] == ["The limit is 20."]


def test_many_files_of_which_one_has_changed_are_each_there_once(documents, tmp_path):
    paths = [tmp_path / f"{n}.txt" for n in range(3)]
    for path in paths:
        path.write_text(f"tea of {path.name}")
    documents.add_many(paths)
    paths[1].write_text("coffee now")
    documents.add_many(paths)
    texts = sorted(documents.text(one.id) for one in documents.list())
    assert texts == ["coffee now", "tea of 0.txt", "tea of 2.txt"]


def test_bytes_with_a_uri_replace_what_came_from_there(documents):
    first = documents.add(b"one", name="a.txt", uri="https://x.y/a")
    second = documents.add(b"two", uri="https://x.y/a")
    assert (second.id, second.name, documents.count()) == (first.id, "a.txt", 1)
    assert documents.add(b"three", uri="https://x.y/b").id != first.id


def test_a_file_is_replaced_in_the_scope_alone_in_which_it_is_added(documents, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    documents.add(path)
    documents.add(path, scope=SHOP)
    path.write_text("two")
    documents.add(path, scope=SHOP)
    assert {documents.text(one.id): one.scope for one in documents.list()} == {
        "one": DocumentScope(),
        "two": SHOP,
    }


def test_a_changed_file_that_cannot_be_read_leaves_what_is_there(documents, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    added = documents.add(path)
    path.write_bytes(b"")
    with pytest.raises(InvalidRequestError, match="is empty"):
        documents.add(path)
    assert documents.list() == [added]


def test_metadata_of_bytes_that_are_there_is_merged(documents):
    documents.add(b"tea", name="a.txt", metadata={"team": "a", "year": 1})
    again = documents.add(b"tea", name="b.txt", metadata={"team": "b"})
    assert again.metadata == {"team": "b", "year": 1}
    found = documents.search("tea", filter={"team": "b"})
    assert [hit.record.name for hit in found] == ["a.txt"]


def test_an_update_of_the_content_keeps_where_it_came_from(documents, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    added = documents.add(path)
    assert documents.update(added.id, b"two").uri == path.as_uri()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d, _: d.add(b"x", metdata={}), r"add\(\).*'metdata'; did you mean 'metadata'"),
        (
            lambda d, _: d.add_many([b"x"], keeps="hash"),
            r"add_many\(\).*'keeps'; did you mean 'keep'",
        ),
        (lambda d, one: d.update(one, b"x", scope=SHOP), r"update\(\).*'scope'"),
    ],
)
def test_what_a_call_does_not_know_is_refused_by_its_name(documents, call, message):
    added = documents.add(b"tea", name="a.txt")
    with pytest.raises(TypeError, match=message):
        call(documents, added.id)
    assert documents.list() == [added]
