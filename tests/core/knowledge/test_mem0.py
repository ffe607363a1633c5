"""What mem0 has exported is imported as facts, once."""

import json
from datetime import UTC, datetime

import pytest
from core.knowledge.living import facts

from lance_context_core import InvalidRequestError, ManagedMemory, NotFoundError

EXPORT = [
    {
        "id": "b7",
        "memory": "Lives in Bergen",
        "hash": "x",
        "user_id": "ada",
        "metadata": {"topic": "home"},
        "categories": ["places"],
        "created_at": "2025-07-25T23:57:00.108347-07:00",
        "updated_at": None,
    },
    {
        "id": "a3",
        "memory": "Loves hiking",
        "user_id": "ada",
        "created_at": "2024-05-01T00:00:00Z",
    },
    {"id": "c1", "memory": "Prefers tea", "user_id": "bob", "agent_id": "cook", "run_id": "r"},
]


def test_each_memory_is_a_fact_of_its_owner_with_its_date_and_metadata(store):
    memory = ManagedMemory(store)
    added = memory.import_mem0(EXPORT)
    assert [one.decisions for one in added] == [{"add": 2}, {"add": 1}]
    assert sorted(facts(store)) == ["Lives in Bergen", "Loves hiking", "Prefers tea"]
    hits = memory.search("hiking", user_id="ada", search_type="facts")
    (hiking,) = [one.record for one in hits if one.record.text == "Loves hiking"]
    assert hiking.created_at == datetime(2024, 5, 1, tzinfo=UTC)
    assert memory.get("b7").metadata == {"topic": "home", "categories": ["places"]}
    assert [one.text for one in memory.list(agent_id="cook", run_id="r")] == ["Prefers tea"]


@pytest.mark.parametrize("form", ["list", "results", "file"])
def test_it_is_read_from_a_list_a_result_and_a_file_and_never_doubled(store, tmp_path, form):
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps({"results": EXPORT}), encoding="utf-8")
    source = {"list": EXPORT, "results": {"results": EXPORT}, "file": str(file)}[form]
    memory = ManagedMemory(store)
    memory.import_mem0(source)
    memory.import_mem0(file)
    assert len(facts(store)) == 3
    assert len(store.context().list()) == 3


def test_an_import_is_undone_by_its_jobs(store):
    memory = ManagedMemory(store)
    for one in memory.import_mem0(EXPORT):
        memory.undo(one.job_id)
    assert facts(store) == []


@pytest.mark.parametrize(
    ("source", "says"),
    [
        pytest.param("x", "does not exist", id="no file"),
        pytest.param({"id": "a"}, "give a list of memories", id="no list"),
        pytest.param([EXPORT[0], "x"], r"memories\[1\] is 'x'", id="no object"),
        pytest.param([EXPORT[0], {"id": "a"}], r"memories\[1\]\['memory'\]", id="no text"),
        pytest.param([{"memory": "x"}], r"memories\[0\]\['id'\]", id="no id"),
        pytest.param([{**EXPORT[0], "created_at": "soon"}], "soon", id="no date"),
        pytest.param([{**EXPORT[0], "user_id": 3}], "user_id", id="no user"),
    ],
)
def test_what_is_no_memory_is_refused_before_anything_is_written(store, source, says):
    with pytest.raises((InvalidRequestError, NotFoundError), match=says):
        ManagedMemory(store).import_mem0(source)
    assert store.context().list() == []
