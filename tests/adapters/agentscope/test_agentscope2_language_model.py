"""AgentScope 2's chat models as models of the store."""

from agentscope.message import TextBlock
from agentscope.model import ChatResponse
from agentscope_lance_context import language_model

from lance_context_core import AsyncContextStore

ANSWER = '{"facts": [{"text": "Ada keeps bees.", "turn": 1, "quote": "I keep bees"}]}'


class Answering:
    """As a chat model is called: it answers piece by piece, the last of which has all."""

    model = "answering"

    def __init__(self):
        self.heard = []

    async def __call__(self, messages, **kwargs):
        self.heard.append(messages)
        return self._pieces()

    async def _pieces(self):
        for end in (20, len(ANSWER)):
            text = [TextBlock(text=ANSWER[:end])]
            yield ChatResponse(content=text, is_last=end == len(ANSWER))


async def test_a_chat_model_of_agentscope_2_finds_the_facts(tmp_path):
    model = Answering()
    async with await AsyncContextStore.open(tmp_path) as store:
        knowing = store.knowledge.using(model=language_model(model))
        added = await knowing.add("I keep bees, you know.", session_id="s")
        assert added.decisions == {"add": 1}
    assert [one.role for one in model.heard[0]] == ["system", "user"]
    assert "I keep bees, you know." in model.heard[0][1].get_text_content()
