"""The storage of CrewAI's memory: what is saved is found, listed, counted and changed."""

import asyncio
import random

import pytest
from adapters.crewai.samples import LENGTH, contents, fields, found_in, on, record, vector
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai_lance_context import LanceMemoryStorage


def test_it_is_a_storage_backend(storage):
    assert isinstance(storage, StorageBackend)


def test_a_record_comes_back_as_it_was_saved(storage):
    saved = record(
        scope="/team/research",
        categories=["travel", "ada's"],
        metadata={"n": 1, "deep": {"a": [1, None, "x"]}, "when": on(3), "inf": float("inf")},
        importance=0.25,
        created_at=on(1),
        last_accessed=on(2),
        source="ada",
    )
    storage.save([saved])
    found = storage.get_record(saved.id)
    assert fields(found) == fields(saved)
    assert found.embedding == pytest.approx(saved.embedding)
    assert storage.get_record("unknown") is None
    ((best, score),) = storage.search(saved.embedding)
    assert (fields(best), score) == (fields(saved), pytest.approx(1.0))
    (listed,) = storage.list_records()
    assert fields(listed) == fields(saved)


def test_scores_are_those_of_the_shipped_storage_for_vectors_of_length_one(storage, tmp_path):
    shipped = LanceDBStorage(path=tmp_path / "shipped", compact_every=0)
    saved = [record(text) for text in ("trains are fast", "planes are fast", "tea is hot")]
    for one in (shipped, storage):
        one.save(saved)
    for question in ("trains", "fast planes", "tea is"):
        expected = shipped.search(vector(question))
        found = storage.search(vector(question))
        assert [score for _, score in found] == pytest.approx([score for _, score in expected])
        least = (expected[0][1] + expected[1][1]) / 2
        assert len(storage.search(vector(question), min_score=least)) == len(
            shipped.search(vector(question), min_score=least)
        )


def test_conditions_are_met_before_the_limit_counts(storage):
    question = vector("tea")
    near = [record("tea", metadata={"kind": "near"}) for _ in range(90)]
    far = [
        record(f"cup {n}", categories=["rare", "x"], metadata={"kind": "far", "deep": {"n": [n]}})
        for n in range(10)
    ]
    storage.save([*near, *far])
    asked = {"categories": ["none", "rare"], "metadata_filter": {"kind": "far"}, "limit": 10}
    found = [one for one, _ in storage.search(question, **asked)]
    assert {one.id for one in found} == {one.id for one in far}
    # What the store cannot compare is compared as Python does.
    (odd,) = storage.search(question, metadata_filter={"deep": {"n": [3]}}, limit=5)
    assert odd[0].content == "cup 3"
    without = storage.search(question, metadata_filter={"deep": None}, limit=200)
    assert {one.id for one, _ in without} == {one.id for one in near}
    # No category is no condition; a metadata key that no record has matches none.
    assert len(storage.search(question, categories=[], limit=200)) == 100
    assert storage.search(question, metadata_filter={"other": 1}) == []
    assert storage.search(question, limit=0) == []


def test_records_are_listed_newest_first_in_pages(storage):
    days = list(range(1, 29))
    random.Random(1).shuffle(days)
    storage.save([record(f"day {day}", created_at=on(day)) for day in days])
    newest = [f"day {day}" for day in range(28, 0, -1)]
    assert contents(storage.list_records()) == newest
    assert contents(storage.list_records(limit=5, offset=20)) == newest[20:25]
    assert contents(storage.list_records(limit=5, offset=26)) == newest[26:]
    assert storage.list_records(limit=0) == storage.list_records(offset=-1) == []


def test_an_update_replaces_a_record_and_creates_a_missing_one(storage):
    saved = record("Ada likes tea.", categories=["a"], created_at=on(1))
    storage.save([saved])
    changed = saved.model_copy(update={"content": "Ada likes milk.", "categories": ["b"]})
    changed.embedding = vector("Ada likes milk.")
    storage.update(changed)
    assert fields(storage.get_record(saved.id)) == fields(changed)
    assert storage.count() == 1
    # Without an embedding the one before it stays.
    storage.update(changed.model_copy(update={"importance": 0.9, "embedding": None}))
    found = storage.get_record(saved.id)
    assert found.importance == 0.9
    assert found.embedding == pytest.approx(changed.embedding)
    new = record("new")
    storage.update(new)
    assert fields(storage.get_record(new.id)) == fields(new)
    # A save of the same id does not make two of it.
    storage.save([saved])
    assert storage.count() == 2
    assert found_in(storage, "Ada likes tea.", limit=1) == ["Ada likes tea."]


def test_a_record_without_an_embedding_is_kept_and_not_found_by_meaning(storage):
    plain = record("no vector", embedding=None)
    storage.save([plain])
    storage.save([record("tea")])
    assert storage.get_record(plain.id) == plain
    assert storage.count() == 2
    assert found_in(storage, "no vector") == ["tea"]


def test_records_that_were_read_can_be_touched(storage):
    first, second = record("first", last_accessed=on(1)), record("second", last_accessed=on(1))
    storage.save([first, second])
    storage.touch_records([first.id, first.id])
    assert storage.get_record(first.id).last_accessed > on(2)
    assert storage.get_record(second.id).last_accessed == on(1)
    (best, _), *_ = storage.search(first.embedding, limit=1)
    assert best.last_accessed > on(2)
    # A touch changes nothing else, and survives an update that knows an earlier time.
    assert fields(best) | {"last_accessed": on(1)} == fields(first)
    storage.update(first)
    assert storage.get_record(first.id).last_accessed > on(2)
    storage.delete(record_ids=[first.id])
    storage.save([first])
    assert storage.get_record(first.id).last_accessed == on(1)


def test_another_embedder_is_refused_in_the_class_of_crewai_and_nothing_is_written(storage):
    storage.save([record("tea"), record("milk")])
    short = record("short", embedding=[1.0, 0.0])
    known = storage.list_records()[0].model_copy(update={"embedding": [1.0, 0.0]})
    for attempt in (
        lambda: storage.save([short]),
        lambda: storage.update(known),
        lambda: storage.search([1.0, 0.0]),
    ):
        with pytest.raises(EmbeddingDimensionMismatchError) as raised:
            attempt()
        assert (raised.value.stored_dim, raised.value.new_dim) == (LENGTH, 2)
    with pytest.raises(EmbeddingDimensionMismatchError) as raised:
        storage.save([record("tea"), short])
    assert (raised.value.stored_dim, raised.value.new_dim) == (LENGTH, 2)
    assert storage.count() == 2
    # As the error says: after a reset another embedder may be used.
    storage.reset()
    storage.save([short])
    assert contents(one for one, _ in storage.search([1.0, 0.0])) == ["short"]


def test_the_awaited_methods_do_the_same(storage):
    async def run():
        await storage.asave([record("tea", categories=["a"]), record("milk")])
        found = await storage.asearch(vector("tea"), categories=["a"])
        removed = await storage.adelete(categories=["a"])
        return contents(one for one, _ in found), removed

    assert asyncio.run(run()) == (["tea"], 1)
    assert contents(storage.list_records()) == ["milk"]


def test_blocking_calls_work_inside_of_an_event_loop(storage):
    async def run():
        storage.save([record("tea")])
        return found_in(storage, "tea")

    assert asyncio.run(run()) == ["tea"]


def test_no_number_of_records_is_too_large_for_a_save_or_a_removal(storage):
    storage.save([record(f"thing {n}", scope=f"/{n % 2}") for n in range(700)])
    assert storage.count() == 700
    assert len(storage.list_records(limit=1_000)) == 700
    assert storage.delete("/0") == 350
    assert storage.get_scope_info("/").record_count == storage.count("/1") == 350


def test_another_process_would_find_it(place, tmp_path):
    with LanceMemoryStorage(place) as first:
        first.save([record("tea")])
    with LanceMemoryStorage(place) as second:
        assert found_in(second, "tea") == ["tea"]
