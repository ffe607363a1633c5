"""What a crew remembers is a memory of every framework, of one user, and can be erased."""

import pytest
from adapters.crewai.samples import contents, found_in, record, vector
from crewai_lance_context import LanceFlowPersistence, LanceKnowledgeStorage, LanceMemoryStorage


def bytes_of(place):
    return b"".join(one.read_bytes() for one in sorted(place.rglob("*")) if one.is_file())


def test_a_record_is_a_memory_with_its_metadata(store, storage):
    saved = record("Ada prefers trains.", scope="/team", categories=["travel"], metadata={"n": 1})
    storage.save([saved])
    (hit,) = store.memory.search("trains", filter={"n": 1})
    assert (hit.record.id, hit.record.text) == (saved.id, "Ada prefers trains.")
    about = {"scope": "/team", "categories": ["travel"], "importance": 0.5, "source": None}
    assert hit.record.metadata == {"n": 1, "crewai": about}
    assert hit.record.created_at.replace(tzinfo=None) == saved.created_at
    assert [hit.record.id for hit in store.search("trains")] == [saved.id]


def test_a_private_record_is_not_shared(store, storage):
    secret = record("The code is 1234.", private=True, source="ada")
    storage.save([secret, record("tea")])
    assert [one.text for one in store.memory.list().items] == ["tea"]
    assert found_in(storage, "code 1234", limit=1) == ["The code is 1234."]
    # It may become private, and be shared again.
    shared = secret.model_copy(update={"private": False})
    storage.update(shared)
    assert store.memory.get(secret.id).text == "The code is 1234."
    storage.update(secret)
    assert store.memory.get(secret.id) is None
    assert storage.get_record(secret.id).private
    assert storage.delete(record_ids=[secret.id]) == 1


def test_what_another_framework_deletes_is_gone(store, storage):
    saved = [record(f"tea {n}", scope="/a", categories=["x"]) for n in range(6)]
    storage.save(saved)
    store.memory.delete(ids=[one.id for one in saved[:4]])
    rest = {one.id for one in saved[4:]}
    assert {one.id for one, _ in storage.search(vector("tea"), limit=2)} == rest
    assert {one.id for one in storage.list_records()} == rest
    assert storage.get_record(saved[0].id) is None
    assert (storage.count(), storage.list_categories()) == (2, {"x": 2})
    assert storage.get_scope_info("/a").record_count == 2
    # It counts as deleted, and may be saved again.
    assert storage.delete(record_ids=[saved[0].id, saved[4].id]) == 1
    storage.save([saved[1]])
    assert storage.count() == 2
    store.memory.delete()
    assert (storage.search(vector("tea")), storage.list_scopes()) == ([], [])


def test_what_another_framework_changes_is_changed(store, storage):
    saved = record("Ada likes tea.")
    storage.save([saved])
    store.memory.update(saved.id, "Ada likes milk.")
    assert contents([storage.get_record(saved.id), *storage.list_records()]) == [
        *("Ada likes milk.", "Ada likes milk.")
    ]


def test_users_are_apart_in_every_class(store):
    everybody = {name: LanceMemoryStorage(store, user_id=name) for name in ("ada", "ben")}
    everybody[None] = LanceMemoryStorage(store)
    for name, one in everybody.items():
        one.save([record(f"of {name}", id="same", scope="/s", categories=[f"{name}"])])
    for name, one in everybody.items():
        assert contents(one.list_records()) == [f"of {name}"] == found_in(one, "of")
        assert one.get_record("same").content == f"of {name}"
        assert (one.count(), one.list_categories()) == (1, {f"{name}": 1})
        flows = LanceFlowPersistence(store, user_id=name)
        assert flows.load_state("same") is None
        flows.save_state("same", "m", {"of": name})
        knowledge = LanceKnowledgeStorage(store, collection=f"k{name}", user_id=name)
        knowledge.save([f"known to {name}"])
    assert everybody["ada"].delete() == 1
    everybody["ada"].reset("/s")
    assert everybody["ada"].count() == 0
    assert [everybody[name].count() for name in ("ben", None)] == [1, 1]
    assert LanceFlowPersistence(store, user_id="ben").load_state("same") == {"of": "ben"}
    bens = LanceKnowledgeStorage(store, collection="kada", user_id="ben")
    assert bens.search(["known"]) == []


def test_an_erasure_of_a_user_leaves_no_byte(place, store):
    ada, ben = (LanceMemoryStorage(store, user_id=name) for name in ("ada", "ben"))
    for one, word in ((ada, "zebra"), (ben, "ocelot")):
        one.save(
            [record(f"{word} shared", metadata={word: 1}), record(f"{word} own", private=True)]
        )
    LanceFlowPersistence(store, user_id="ada").save_state("1", "m", {"seen": "zebra"})
    LanceKnowledgeStorage(store, user_id="ada").save(["the zebra"])
    store.flush()
    assert b"zebra" in bytes_of(place)
    store.scope(user_id="ada").erase()
    assert b"zebra" not in bytes_of(place)
    assert b"ocelot" in bytes_of(place)
    assert (ada.count(), ben.count()) == (0, 2)


def test_an_erasure_by_words_removes_the_text_of_a_record(place, store, storage):
    storage.save([record("the zebra"), record("tea")])
    store.flush()
    store.erase(filter={"text": {"$contains": "zebra"}})
    assert b"zebra" not in bytes_of(place)
    assert contents(storage.list_records()) == ["tea"] == found_in(storage, "zebra")


def test_a_version_of_the_store_shows_the_memory_as_it_was(store, storage):
    saved = record("tea")
    storage.save([saved])
    store.tag("before")
    storage.delete()
    before = LanceMemoryStorage(store.checkout("before"))
    assert contents(before.list_records()) == ["tea"] == found_in(before, "tea")
    with pytest.raises(PermissionError):
        before.save([record("milk")])
    assert storage.count() == 0
