"""Records of CrewAI's own LanceDB folder come over once, whole, and the folder is not changed."""

import pytest
from adapters.crewai.samples import contents, fields, found_in, on, record
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai_lance_context import LanceMemoryStorage, import_memories
from crewai_lance_context.__main__ import main

from lance_context_core import NotFoundError

SAVED = [
    record(
        f"record {n}",
        scope=f"/team/{n % 3}",
        categories=[f"c{n % 2}"],
        metadata={"n": n, "deep": {"a": [n]}},
        created_at=on(1 + n % 20),
        source="ada" if n % 2 else None,
        private=n % 7 == 0,
        importance=n / 450,
        **({"embedding": None} if n == 3 else {}),
    )
    for n in range(450)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("crewai") / "memory"
    own = LanceDBStorage(path=made, compact_every=0)
    for start in range(0, 450, 150):
        own.save(SAVED[start : start + 150])
    return made


def files(folder):
    return {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def test_all_come_over_once_and_the_folder_is_not_changed(folder, storage, store):
    before = files(folder)
    assert import_memories(folder, storage) == (450, 0)
    changed = storage.get_record(SAVED[5].id).model_copy(update={"content": "changed since"})
    storage.update(changed)
    assert import_memories(folder, storage) == (0, 450)
    assert files(folder) == before
    assert storage.get_record(SAVED[5].id).content == "changed since"
    found = {one.id: fields(one) for one in storage.list_records(limit=1_000)}
    expected = {one.id: fields(one) for one in SAVED}
    expected[SAVED[5].id]["content"] = "changed since"
    assert found == expected
    assert found_in(storage, "record 77", limit=1) == ["record 77"]
    assert storage.get_record(SAVED[3].id).embedding is None
    assert store.memory.list().total == sum(not one.private for one in SAVED)


def test_an_interrupted_import_goes_on(folder, storage):
    storage.save(SAVED[100:300])
    assert import_memories(folder, storage) == (250, 200)


def test_the_command_imports_for_a_user_below_a_path(folder, place, capsys):
    arguments = [str(folder), str(place), "--user", "ada", "--scope", "/old"]
    assert main(arguments) == 0
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines() == [
        "450 records imported, 0 were there.",
        "0 records imported, 450 were there.",
    ]
    with LanceMemoryStorage(place, user_id="ada") as storage:
        assert storage.count("/old/team/1") == 150
    with LanceMemoryStorage(place) as nobody:
        assert nobody.count() == 0


def test_what_cannot_be_imported_is_named(folder, storage, tmp_path, capsys):
    with pytest.raises(NotFoundError, match="no such folder"):
        import_memories(tmp_path / "nothing", storage)
    with pytest.raises(NotFoundError, match="has no table 'other'"):
        import_memories(folder, storage, table="other")
    assert not (tmp_path / "nothing").exists()
    assert main([str(tmp_path / "nothing"), str(tmp_path / "store")]) == 1
    assert "no such folder" in capsys.readouterr().err
    storage.save([record("short", embedding=[1.0, 0.0])])
    with pytest.raises(EmbeddingDimensionMismatchError):
        import_memories(folder, storage)
    assert contents(storage.list_records()) == ["short"]
