"""A memory that manages itself is the knowledge of its store, by another door."""

import pytest
from core.knowledge.living import BERGEN, OSLO, Scripted, aloud, facts

from lance_context_core import AsyncContextStore, InvalidRequestError, ManagedMemory
from lance_context_core.knowledge import AsyncManagedMemory


def test_it_remembers_finds_and_takes_back_in_five_lines(store):
    memory = ManagedMemory(store)
    memory.add([OSLO], user_id="ada")
    moved = memory.add([BERGEN], user_id="ada")
    assert memory.search("where does Ada live?", user_id="ada")[0].record.text == BERGEN["content"]
    memory.undo(moved.job_id)
    assert facts(store) == [OSLO["content"]]


def test_it_says_things_in_the_words_of_its_model(store):
    model = Scripted(aloud)
    ManagedMemory(store, model=model, model_name="scripted").add([OSLO], user_id="ada")
    assert facts(store) == ["The user says: I live in Oslo."]
    assert store.knowledge.jobs.list()[0].producer.endswith("+scripted")


def test_what_it_keeps_is_the_knowledge_of_the_store_and_of_its_scope(store):
    ManagedMemory(store.scope(user_id="ada")).add([OSLO])
    hits = store.knowledge.search("Oslo", user_id="ada")
    assert [hit.record.user_id for hit in hits] == ["ada"]
    assert ManagedMemory(store).search("Oslo", user_id="bob") == []


async def test_it_may_be_awaited(tmp_path):
    async with AsyncContextStore.open(tmp_path / "store") as store:
        memory = AsyncManagedMemory(store)
        added = await memory.add([OSLO], user_id="ada")
        assert (await memory.jobs.get(added.job_id)).state == "succeeded"
        assert (await memory.search("Oslo", user_id="ada"))[0].record.text == OSLO["content"]


def test_it_may_go_on_with_another_model(store):
    memory = ManagedMemory(store).using(model=Scripted(aloud))
    memory.add([OSLO], user_id="ada")
    assert facts(store) == ["The user says: I live in Oslo."]


def test_what_is_no_model_is_refused(store):
    with pytest.raises(InvalidRequestError, match=r"OpenAIModel\('gpt'\)"):
        ManagedMemory(store, model="gpt")
