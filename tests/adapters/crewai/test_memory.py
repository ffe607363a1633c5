"""CrewAI's `Memory`, agents and crews over the storage, with a model that follows a script."""

import json

import pytest
from adapters.crewai.samples import ScriptedLLM, contents, embedded, found_in
from crewai import Agent, Crew, Memory, Task
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai_lance_context import LanceMemoryStorage, LanceRecallTool

from lance_context_core import Message
from lance_context_core.errors import StorageError

SAID = {"categories": ["c"], "importance": 0.5}


def recalled(memory, text, **asked):
    return [one.record.content for one in memory.recall(text, depth="shallow", **asked)]


def test_what_is_remembered_is_recalled_in_its_scope(memory):
    memory.remember("Ada prefers trains", scope="/ada", **SAID)
    memory.remember("Ben prefers planes", scope="/ben", **SAID)
    assert recalled(memory, "prefers", scope="/ada") == ["Ada prefers trains"]
    assert recalled(memory, "planes", limit=1) == ["Ben prefers planes"]
    assert memory.scope("/ben").recall("prefers", depth="shallow")[0].record.scope == "/ben"
    assert memory.tree() == "/ (2 records)\n  /ada (1 records)\n  /ben (1 records)"
    assert memory.forget("/ada") == 1
    assert recalled(memory, "trains") == ["Ben prefers planes"]


def test_private_memories_of_another_source_are_not_recalled(memory):
    for who in ("ada", "ben"):
        memory.remember(f"the secret of {who}", scope="/", source=who, private=True, **SAID)
    memory.remember("no secret", scope="/", **SAID)
    assert set(recalled(memory, "secret")) == {"no secret"}
    assert set(recalled(memory, "secret", source="ada")) == {"no secret", "the secret of ada"}
    assert len(recalled(memory, "secret", include_private=True)) == 3


def test_saves_in_the_background_are_recalled_and_touch_what_is_found(memory, storage):
    memory.remember_many([f"tea number {n}" for n in range(8)], scope="/", **SAID)
    assert len(recalled(memory, "tea", limit=8)) == 8
    saved = storage.list_records()
    assert all(one.last_accessed > one.created_at for one in saved)


def test_similar_memories_are_consolidated_as_the_model_says(storage):
    storage.save([])
    memory = Memory(
        storage=storage, embedder=embedded, llm=ScriptedLLM(), consolidation_threshold=0.9
    )
    first = memory.remember("Ada lives in Oslo", scope="/", **SAID)
    plan = {
        "actions": [
            {"action": "update", "record_id": first.id, "new_content": "Ada lives in Bergen"}
        ],
        "insert_new": False,
    }
    memory = Memory(
        storage=storage,
        embedder=embedded,
        llm=ScriptedLLM(answers={first.id: json.dumps(plan)}),
        consolidation_threshold=0.5,
    )
    memory.remember("Ada lives in Bergen now", scope="/", **SAID)
    assert contents(storage.list_records()) == ["Ada lives in Bergen"]
    assert storage.get_record(first.id).created_at == first.created_at
    memory.close()


def test_the_shipped_storage_recalls_the_same(memory, tmp_path):
    own = Memory(storage=LanceDBStorage(path=tmp_path / "own"), embedder=embedded, llm="none")
    texts = ["trains are fast", "planes are faster", "tea is hot", "Ada likes trains and tea"]
    for one in (own, memory):
        for text in texts:
            one.remember(text, scope="/x", **SAID)
    for question, n in (("trains", 2), ("tea", 2), ("planes are", 1), ("Ada likes", 1)):
        assert recalled(memory, question)[:n] == recalled(own, question)[:n]
    own.close()


def test_an_agent_remembers_in_one_crew_what_it_recalls_in_another(store, storage):
    def crew(llm):
        agent = Agent(role="tutor", goal="teach", backstory="old", llm=llm, verbose=False)
        task = Task(description="Plan a trip for Ada", expected_output="a plan", agent=agent)
        memory = Memory(storage=storage, embedder=embedded, llm=llm)
        return Crew(agents=[agent], tasks=[task], memory=memory, verbose=False)

    llm = ScriptedLLM(memories=["Ada prefers trains on every trip"])
    made = crew(llm)
    assert made.kickoff().raw == "It is done."
    made._memory.drain_writes()
    assert contents(storage.list_records()) == ["Ada prefers trains on every trip"]
    assert [hit.record.text for hit in store.search("trains")] == contents(storage.list_records())

    later = ScriptedLLM()
    crew(later).kickoff()
    assert any("Ada prefers trains on every trip" in prompt for prompt in later.heard)


def test_an_agent_finds_what_another_framework_wrote(store):
    ada = store.scope(user_id="ada")
    ada.history.append("tutor", Message.user("I am allergic to nuts"), session_id="monday")
    ada.memory.add(["Ada prefers trains"])
    store.memory.add(["Ben is allergic to milk"], user_id="ben")
    tool = LanceRecallTool(store, user_id="ada", limit=2)
    assert "- I am allergic to nuts (user, " in tool.run(query="allergic")
    assert "milk" not in tool.run(query="allergic milk")
    assert "(memory, " in tool.run(query="trains")
    assert tool.run(query="zebra") == "Nothing was found."
    assert list(tool.args_schema.model_fields) == ["query"]


def test_an_error_of_the_store_is_no_runtime_error(place):
    # CrewAI drops a save in the background that raises one.
    storage = LanceMemoryStorage(place)
    store = storage._handle.sync
    passed = LanceMemoryStorage(store)
    memory = Memory(storage=passed, embedder=embedded, llm="none")
    store.close()
    with pytest.raises(StorageError, match="closed") as raised:
        memory.remember("tea", scope="/", **SAID)
    assert not isinstance(raised.value, RuntimeError)


def test_a_memory_saves_after_it_was_closed(place):
    memory = Memory(storage=LanceMemoryStorage(place), embedder=embedded, llm="none")
    memory.remember_many(["tea"], scope="/", **SAID)
    memory.close()
    memory.remember_many(["milk"], scope="/", **SAID)
    with LanceMemoryStorage(place) as storage:
        assert set(found_in(storage, "tea milk")) == {"tea", "milk"}
    memory.close()
