"""What is known of a user, as the long-term memory of agents of agentscope 1.x."""

import pytest
from agentscope.message import Msg, TextBlock
from agentscope.model import ChatModelBase, ChatResponse
from agentscope_lance_context import LanceContextKnowledgeMemory, language_model

from lance_context_core import ContextStore, InvalidRequestError

ANSWER = '{"facts": [{"text": "Ada keeps bees.", "turn": 1, "quote": "I keep bees"}]}'


class Answering(ChatModelBase):
    """Always answers the same, at once or piece by piece."""

    def __init__(self, *, stream=False):
        super().__init__("answering", stream)
        self.heard = []

    async def __call__(self, messages, **kwargs):
        self.heard.append(messages)
        return self._pieces() if self.stream else _said(ANSWER)

    async def _pieces(self):
        for end in (20, len(ANSWER)):
            yield _said(ANSWER[:end])


def _said(text):
    return ChatResponse(content=[TextBlock(type="text", text=text)])


def said(text, name="Ada"):
    return Msg(name, text, "user")


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(tmp_path) as opened:
        yield opened.aio


async def test_what_is_recorded_becomes_facts_and_the_newer_one_is_retrieved(store):
    memory = LanceContextKnowledgeMemory(store, user_id="ada")
    await memory.record([said("I live in Oslo.")])
    await memory.record([said("I moved to Bergen.")])
    assert await memory.retrieve(said("live Oslo Bergen")) == "I moved to Bergen."


async def test_the_same_message_recorded_again_is_one_fact(store):
    memory = LanceContextKnowledgeMemory(store, user_id="ada")
    message = said("I live in Oslo.")
    for _ in range(2):
        await memory.record([message])
    assert len(await store.knowledge.jobs.list()) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_model_finds_the_facts(store, stream):
    model = Answering(stream=stream)
    memory = LanceContextKnowledgeMemory(store, user_id="ada", model=language_model(model))
    await memory.record([said("I keep bees, you know.")])
    assert await memory.retrieve(said("bees")) == "Ada keeps bees."
    assert [one["role"] for one in model.heard[0]] == ["system", "user"]


async def test_the_tools_of_an_agent_keep_and_find_facts(store):
    memory = LanceContextKnowledgeMemory(store, user_id="ada")
    await memory.record_to_memory("It matters.", ["Ada likes tea.", " "])
    found = await memory.retrieve_from_memory(["tea"])
    assert found.content[0]["text"] == "Ada likes tea."
    nothing = await LanceContextKnowledgeMemory(store, user_id="bob").retrieve_from_memory(["tea"])
    assert nothing.content[0]["text"] == "No memories found."


async def test_left_for_later_no_reply_waits(store):
    memory = LanceContextKnowledgeMemory(store, user_id="ada", infer="later")
    await memory.record([said("I live in Oslo.")])
    assert await memory.retrieve(said("live Oslo")) == ""
    await store.knowledge.jobs.run_due()
    assert await memory.retrieve(said("live Oslo")) == "I live in Oslo."


def test_what_is_no_chat_model_is_refused():
    with pytest.raises(InvalidRequestError, match="chat model of AgentScope"):
        language_model("gpt")
