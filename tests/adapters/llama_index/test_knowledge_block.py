"""What is known of a user, as a block of LlamaIndex's memory; and its LLMs as models of the store."""

import asyncio

import pytest
from adapters.llama_index.samples import say
from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata, MockLLM
from llama_index.core.memory import Memory
from llama_index_lance_context import (
    LanceContextAsyncChatStore,
    LanceContextKnowledgeBlock,
    language_model,
)

from lance_context_core import InvalidRequestError

ANSWER = '{"facts": [{"text": "Ada keeps bees.", "turn": 1, "quote": "I keep bees"}]}'


class Answering(CustomLLM):
    """An LLM that completes texts, always with the same one."""

    heard: list = Field(default_factory=list)

    @property
    def metadata(self):
        return LLMMetadata(model_name="answering")

    def complete(self, prompt, **kwargs):
        self.heard.append(prompt)
        return CompletionResponse(text=ANSWER)

    def stream_complete(self, prompt, **kwargs):
        raise NotImplementedError


def put(block, *messages, session_id=None):
    asyncio.run(block.aput(list(messages), session_id=session_id))


def told(block, *messages):
    return asyncio.run(block.aget(list(messages)))


def test_facts_of_what_was_said_are_told_with_the_day_on_which_it_was(store):
    block = LanceContextKnowledgeBlock(store, user_id="ada")
    put(block, say("I live in Oslo."), say("How nice!", "assistant"), session_id="s")
    known = told(block, say("where do I live, Oslo?"))
    assert known.startswith("- I live in Oslo. (said on 20")
    assert "nice" not in known


def test_a_fact_that_is_true_no_more_is_not_told(store):
    block = LanceContextKnowledgeBlock(store, user_id="ada")
    put(block, say("I live in Oslo."), session_id="a")
    put(block, say("I moved to Bergen."), session_id="b")
    assert "Bergen" in told(block, say("live Oslo Bergen"))
    assert "Oslo" not in told(block, say("live Oslo Bergen"))


def test_an_llm_finds_the_facts_that_rules_do_not(store):
    llm = Answering()
    block = LanceContextKnowledgeBlock(store, user_id="ada", model=language_model(llm))
    put(block, say("I keep bees, you know."), session_id="s")
    assert told(block, say("bees?")).startswith("- Ada keeps bees.")
    assert "I keep bees, you know." in llm.heard[-1]


def test_an_llm_that_chats_is_asked_by_messages(store):
    model = language_model(MockLLM(), name="mock")
    added = store.knowledge.using(model=model).add("I keep bees.", session_id="s")
    # It says back what it was told, which is no answer: and that is no success.
    job = store.knowledge.jobs.get(added.job_id)
    assert (job.state, job.usage["calls"]) == ("scheduled", 2)


def test_left_for_later_nothing_waits_for_a_model(store):
    block = LanceContextKnowledgeBlock(store, user_id="ada", infer="later")
    put(block, say("I live in Oslo."), session_id="s")
    assert told(block, say("live Oslo")) == ""
    assert [one.state for one in store.knowledge.jobs.run_due()] == ["succeeded"]
    assert "Oslo" in told(block, say("live Oslo"))


def test_nobody_is_told_what_is_known_of_another(store):
    put(LanceContextKnowledgeBlock(store, user_id="ada"), say("I live in Oslo."), session_id="s")
    assert told(LanceContextKnowledgeBlock(store, user_id="bob"), say("live Oslo")) == ""


def test_what_is_cut_off_are_the_facts_that_matter_least(store):
    block = LanceContextKnowledgeBlock(store, user_id="ada")
    assert asyncio.run(block.atruncate("- one fact\n- another fact", 1)) == "- one fact"
    assert asyncio.run(block.atruncate("- one fact", 100)) is None
    assert (
        asyncio.run(block.atruncate("- one\u2028fact\n- another\u2028fact", 1)) == "- one\u2028fact"
    )


def test_it_is_a_block_of_a_memory(store):
    block = LanceContextKnowledgeBlock(store, user_id="ada")
    put(block, say("I live in Oslo."), session_id="s")
    chats = LanceContextAsyncChatStore(store)
    memory = Memory.from_defaults(session_id="new", chat_store=chats, memory_blocks=[block])
    memory.put(say("where do I live, Oslo?"))
    assert "I live in Oslo." in str(memory.get()[0].content)


@pytest.mark.parametrize("given", [{}, {"user_id": ""}])
def test_without_a_user_there_is_no_block(store, given):
    with pytest.raises(InvalidRequestError, match="user_id"):
        LanceContextKnowledgeBlock(store, **given)


def test_what_is_no_llm_is_refused():
    with pytest.raises(InvalidRequestError, match="LLM of LlamaIndex"):
        language_model("gpt")
