"""What is known of users as AgentScope's memory service, on all lines of the runtime."""

import pytest
from adapters.agentscope.samples import MESSAGES, said, texts
from agentscope_lance_context import (
    LanceContextKnowledgeService,
    LanceContextSessionHistoryService,
)
from agentscope_lance_context._runtime import MemoryService

from lance_context_core import ContextStore, InvalidRequestError
from lance_context_core.models import FunctionModel

ANSWER = '{"facts": [{"text": "Ada keeps bees.", "turn": 1, "quote": "I keep bees"}]}'


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(tmp_path) as opened:
        yield opened.aio


@pytest.fixture
def service(store):
    return LanceContextKnowledgeService(store)


async def found(service, question, user="ada", **filters):
    return texts(await service.search_memory(user, [said(question)], filters))


async def known(service, user="ada", **filters):
    return texts(await service.list_memory(user, filters))


def test_it_is_what_agentscope_calls_one(tmp_path):
    assert isinstance(LanceContextKnowledgeService(tmp_path), MemoryService)


async def test_what_is_added_becomes_facts_and_the_newer_one_is_found_in_another_process(tmp_path):
    async with LanceContextKnowledgeService(tmp_path) as first:
        await first.add_memory("ada", [said("I live in Oslo.")], "monday")
        await first.add_memory("ada", [said("I moved to Bergen.")], "tuesday")
    async with LanceContextKnowledgeService(tmp_path) as second:
        assert await found(second, "Oslo or Bergen?") == ["I moved to Bergen."]
        assert await known(second) == ["I moved to Bergen."]
        assert await found(second, "Oslo or Bergen?", user="ben") == []


async def test_a_message_that_is_found_is_a_fact_that_proves_itself(store, service):
    await service.add_memory("ada", [said("I have a dog.")])
    [hit] = await service.search_memory("ada", [said("dog")])
    [listed] = await service.list_memory("ada")
    assert (hit.id, hit.role, hit.type) == (listed.id, "user", "message")
    explained = await store.scope(user_id="ada").knowledge.explain(hit.id)
    assert explained.is_verified
    assert [quote.text for quote in explained.quotes] == ["I have a dog."]


async def test_a_message_that_is_added_again_is_one_turn_and_one_job(store, service):
    message = said("I have a dog.", id="m1", status="created")
    for _ in range(2):
        await service.add_memory("ada", [message, message], "monday")
        message = said("I have a dog.", id="m1", status="completed")
    assert len(await store.knowledge.jobs.list()) == 1
    # What is called so too, but says something else, counts as well.
    await service.add_memory("ada", [said("I have a cat.", id="m1")], "monday")
    assert await known(service) == ["I have a dog.", "I have a cat."]


async def test_only_what_is_said_in_words_is_kept(store, service):
    for nothing in (None, [], [None]):
        await service.add_memory("ada", nothing)
    silent = [one for one in MESSAGES.values() if one.type != "message" or one.content is None]
    await service.add_memory("ada", [*silent, said("I have a dog.", "system"), said(" ")])
    assert await store.sessions.list() == []


async def test_questions_and_pages_are_bounded_as_asked(service):
    pets = ["dog", "cat", "horse"]
    await service.add_memory("ada", [said(f"I have a {pet}.") for pet in pets])
    assert len(await found(service, "have")) == 3
    assert len(await found(service, "have", top_k=2)) == 2
    assert await found(service, "have", top_k=0) == []
    assert await found(service, "  ") == []
    assert await service.search_memory("ada", []) == []
    pages = [await known(service, page_num=number, page_size=2) for number in (0, 1, 2, 3)]
    assert pages == [[], ["I have a dog.", "I have a cat."], ["I have a horse."], []]
    for wrong in ({"page_num": "1"}, {"page_size": True}):
        with pytest.raises(InvalidRequestError, match="give a whole number"):
            await service.list_memory("ada", wrong)
    with pytest.raises(InvalidRequestError, match="give a whole number"):
        await service.search_memory("ada", [said("have")], {"top_k": "many"})


async def test_a_model_finds_the_facts_and_no_question_calls_it(store):
    asked = []

    def answer(prompt):
        asked.append(prompt)
        return ANSWER

    service = LanceContextKnowledgeService(store, model=FunctionModel(answer))
    await service.add_memory("ada", [said("I keep bees, you know.")])
    n_asked = len(asked)
    assert n_asked >= 1
    assert await found(service, "bees") == ["Ada keeps bees."]
    assert len(asked) == n_asked


async def test_left_for_later_no_turn_waits(store):
    service = LanceContextKnowledgeService(store, infer="later")
    await service.add_memory("ada", [said("I live in Oslo.")])
    assert await known(service) == []
    await store.knowledge.jobs.run_due()
    assert await known(service) == ["I live in Oslo."]


async def test_what_is_erased_takes_along_what_nothing_else_supports(store, service):
    dog, cat = said("I have a dog.", id="1"), said("I have a cat.", id="2")
    await service.add_memory("ada", [dog, cat], "monday")
    await service.add_memory("ada", [dog], "tuesday")
    await service.add_memory("ben", [cat], "monday")
    await service.delete_memory("ada", "monday")
    assert await known(service) == ["I have a dog."]
    await service.delete_memory("ada", "never")
    await service.delete_user_memory("ada")
    assert await known(service) == []
    assert await known(service, user="ben") == ["I have a cat."]
    assert await store.scope(user_id="ada").sessions.list() == []


async def test_the_conversation_beside_it_is_neither_doubled_nor_erased(store, service):
    history = LanceContextSessionHistoryService(store)
    session = await history.create_session("ada", "monday")
    await history.append_message(session, [said("I have a dog.")])
    told = service.add_memory("ada", session.messages, "monday")
    for change in (told, service.delete_memory("ada", "monday")):
        await change
        assert [one.id for one in await history.list_sessions("ada")] == ["monday"]
        kept = await history.get_session("ada", "monday")
        assert texts(kept.messages) == ["I have a dog."]


async def test_what_others_were_told_of_the_user_is_found_and_stays(store, service):
    of_ada = store.scope(user_id="ada").knowledge
    await of_ada.add("I live in Oslo.", session_id="elsewhere")
    assert await found(service, "Oslo") == ["I live in Oslo."]
    await service.add_memory("ada", [said("I moved to Bergen.")])
    assert await known(service) == ["I moved to Bergen."]
    await service.delete_user_memory("ada")
    assert await known(service) == ["I live in Oslo."]


@pytest.mark.parametrize("wrong", [{"infer": "never"}, {"model": "gpt"}])
def test_what_is_no_option_is_refused(tmp_path, wrong):
    with pytest.raises(InvalidRequestError):
        LanceContextKnowledgeService(tmp_path, **wrong)
