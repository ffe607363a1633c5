"""`install` puts the store in place of the storages of all crews, and can be undone."""

import pytest
from adapters.crewai.samples import EMBEDDER, ScriptedLLM, embedded
from crewai import Agent, Crew, Memory, Task
from crewai.flow.flow import Flow, start
from crewai.flow.persistence import SQLiteFlowPersistence, persist
from crewai.flow.persistence.factory import default_flow_persistence
from crewai.knowledge.knowledge import Knowledge
from crewai.knowledge.source.string_knowledge_source import StringKnowledgeSource
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai_lance_context import LanceFlowPersistence, LanceKnowledgeStorage, install


def memory_of(**fields):
    return Memory(embedder=embedded, llm="none", **fields)


def test_memory_flows_and_knowledge_are_in_the_store(store):
    with install(store, user_id="ada", scope="/team") as installed:
        memory = memory_of()
        memory.remember("trains", scope="/x", categories=["c"], importance=0.5)
        assert memory._storage is installed.memory

        @persist()
        class Counting(Flow[dict]):
            @start()
            def count(self):
                self.state["n"] = 1

        Counting().kickoff(inputs={"id": "flow"})
        assert default_flow_persistence() is installed.flows
        source = StringKnowledgeSource(content="Oslo is large")
        knowledge = Knowledge(collection_name="crew", sources=[source])
        knowledge.add_sources()
        assert isinstance(knowledge.storage, LanceKnowledgeStorage)
    ada = store.scope(user_id="ada")
    assert [hit.record.metadata["crewai"]["scope"] for hit in ada.memory.search("trains")] == [
        "/team/x"
    ]
    assert LanceFlowPersistence(store, user_id="ada").load_state("flow") == {"id": "flow", "n": 1}
    assert [one.text for one in ada.vectors("knowledge_crew").list()] == ["Oslo is large"]


def test_a_crew_with_memory_uses_it(store):
    llm = ScriptedLLM(memories=["Ada prefers trains"])
    with install(store):
        agent = Agent(role="tutor", goal="teach", backstory="old", llm=llm)
        task = Task(description="Plan", expected_output="a plan", agent=agent)
        crew = Crew(
            name="Trips",
            agents=[agent],
            tasks=[task],
            memory=True,
            embedder=EMBEDDER,
            knowledge_sources=[StringKnowledgeSource(content="Oslo is large")],
        )
        crew.kickoff()
        crew._memory.drain_writes()
    (found,) = store.memory.list().items
    assert found.text == "Ada prefers trains"
    assert found.metadata["crewai"]["scope"].startswith("/crew/trips")
    known = LanceKnowledgeStorage(store, collection="knowledge_crew", embedder=EMBEDDER)
    assert [one["content"] for one in known.search(["Oslo"])] == ["Oslo is large"]


def test_after_it_is_undone_all_is_as_it_was(store, tmp_path, monkeypatch):
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "own"))
    with install(store) as outer, install(tmp_path / "second") as inner:
        assert memory_of()._storage is inner.memory
        inner.uninstall()
        assert memory_of()._storage is outer.memory
    assert isinstance(memory_of()._storage, LanceDBStorage)
    assert isinstance(default_flow_persistence(), SQLiteFlowPersistence)


def test_what_was_installed_since_stays_and_what_is_named_is_used(store, tmp_path):
    from crewai.flow.persistence.factory import set_flow_persistence_factory

    own = SQLiteFlowPersistence(str(tmp_path / "f.db"))
    installed = install(store)
    try:
        named = memory_of(storage=str(tmp_path / "named"))
        assert isinstance(named._storage, LanceDBStorage)
        set_flow_persistence_factory(lambda: own)
    finally:
        installed.uninstall()
    assert default_flow_persistence() is own
    set_flow_persistence_factory(None)


def test_a_store_that_was_passed_stays_open_and_one_that_was_opened_is_closed(store, tmp_path):
    with install(store):
        pass
    assert store.memory.list().total == 0
    with install(tmp_path / "opened") as installed:
        installed.flows.save_state("1", "m", {})
    with pytest.raises(RuntimeError, match="closed"):
        installed.flows.load_state("1")
