"""Odd input comes back as it was, or is refused with one clear error, and nothing is written."""

import math

import pytest
from adapters.crewai.samples import LENGTH, fields, found_in, record, vector
from crewai_lance_context import LanceKnowledgeStorage, LanceMemoryStorage, LanceRecallTool, install

from lance_context_core import InvalidRequestError

ODD = ("x" * 10_000, "../x", "a/b", "👩‍👩‍👧", "O'Hara \"%_\\", " ", "\n")
HALF = {"content": "half \ud83d"}
REFUSED = ("", "a\0b", "half \ud83d")


@pytest.mark.parametrize("text", ODD, ids=lambda one: repr(one)[:12])
def test_odd_texts_come_back_from_every_place(storage, flows, text):
    saved = record(
        text, id=text, scope=f"/{text}", categories=[text], metadata={text: text}, source=text
    )
    saved.embedding = vector("tea")
    storage.save([saved, record("other")])
    found = storage.get_record(text)
    assert fields(found) == fields(saved)
    asked = {"categories": [text], "metadata_filter": {text: text}}
    assert found_in(storage, "tea", **asked) == [text]
    flows.save_state(text, text, {text: text})
    assert flows.load_state(text) == {text: text}
    assert storage.delete(record_ids=[text]) == 1


@pytest.mark.parametrize("text", REFUSED, ids=["empty", "NUL", "surrogate"])
def test_an_id_that_cannot_be_is_refused(storage, flows, text):
    storage.save([record("tea")])
    attempts = [
        lambda: storage.save([record("milk"), record(id=text)]),
        lambda: storage.update(record(id=text)),
        lambda: storage.get_record(text),
        lambda: storage.delete(record_ids=[text]),
        lambda: flows.save_state(text, "m", {}),
        lambda: flows.load_state(text),
    ]
    for n, attempt in enumerate(attempts):
        with pytest.raises(InvalidRequestError):
            pytest.fail(f"attempt {n} gives {attempt()}")
    assert storage.count() == 1


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda: record(embedding=[math.nan] * LENGTH), id="NaN in a vector"),
        pytest.param(lambda: record(metadata={"a": object()}), id="no JSON"),
        pytest.param(lambda: record("a").model_copy(update=HALF), id="surrogate in a text"),
        pytest.param(lambda: record(metadata={"a": "half \ud83d"}), id="surrogate in metadata"),
        pytest.param(lambda: {"content": "no record"}, id="no record"),
    ],
)
def test_a_record_that_cannot_be_stored_stops_the_whole_save(store, storage, wrong):
    storage.save([record("tea")])
    with pytest.raises(InvalidRequestError):
        storage.save([record("milk"), wrong()])
    assert storage.count() == store.memory.list().total == 1


def test_wrong_arguments_are_named(storage, store):
    for attempt, name in (
        (lambda: storage.search(vector("tea"), limit=1.5), "limit"),
        (lambda: storage.list_records(offset="1"), "offset"),
        (lambda: storage.delete(older_than="yesterday"), "older_than"),
        (lambda: storage.delete(record_ids="r1"), "record_ids"),
        (lambda: storage.search("tea"), "query"),
        (lambda: storage.search([]), "query"),
        (lambda: storage.count(7), "scope"),
        (lambda: LanceMemoryStorage(7), "store"),
        (lambda: LanceMemoryStorage(store, scope=None), "scope"),
        (lambda: LanceMemoryStorage(store, user_id=""), "user_id"),
        (lambda: LanceRecallTool(store, limit=0), "limit"),
        (lambda: LanceKnowledgeStorage(store).search([]), "query"),
        (lambda: LanceKnowledgeStorage(store).save([7]), "documents"),
        (lambda: install(7), "store"),
    ):
        with pytest.raises(InvalidRequestError, match=name):
            pytest.fail(f"without an error about {name}: {attempt()}")
