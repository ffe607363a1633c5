"""An agent of agentscope 1.x whose model says what it is told to, and what it is made of."""

import base64
import hashlib

from agentscope.agent import ReActAgent
from agentscope.embedding import EmbeddingModelBase, EmbeddingResponse
from agentscope.formatter import FormatterBase
from agentscope.message import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.tool import Toolkit, ToolResponse

DIMENSIONS = 64
PNG = b"\x89PNG\r\n\x1a\n"
DATA = base64.b64encode(PNG).decode()
BASE64 = {"type": "base64", "media_type": "image/png", "data": DATA}
URL = {"type": "url", "url": "https://example.org/a.png"}


def text(said):
    return TextBlock(type="text", text=said)


def call(name, id="c1", **arguments):
    return ToolUseBlock(type="tool_use", id=id, name=name, input=arguments)


CONVERSATION = [
    Msg("Ada", "Is there tea?", "user", metadata={"mood": "thirsty"}),
    Msg(
        "Cook",
        [
            ThinkingBlock(type="thinking", thinking="Let me look"),
            text("One moment."),
            call("look", **{"for": "tea", "cups": 2}),
        ],
        "assistant",
    ),
    Msg(
        "system",
        [ToolResultBlock(type="tool_result", id="c1", name="look", output=[text("two cups")])],
        "system",
    ),
    Msg(
        "Ada",
        [
            text("Look and listen:"),
            {"type": "image", "source": BASE64},
            {"type": "image", "source": URL},
            {"type": "audio", "source": {**BASE64, "media_type": "audio/wav"}},
            {"type": "video", "source": {"type": "url", "url": "https://example.org/a.mp4"}},
            {"type": "hologram", "of": ["tea"]},
        ],
        "user",
    ),
    Msg("Ada", "\"; DROP TABLE records; -- ' OR 1=1 \\ \n", "user"),
    Msg("Ada", [], "user"),
]


def plain(messages):
    """All that is in messages, so that it may be compared."""
    return [(one.to_dict(), getattr(one, "invocation_id", None)) for one in messages]


def texts(messages):
    return [one.get_text_content() for one in messages]


class ScriptedModel(ChatModelBase):
    """Answers with what comes next in the script, and keeps what it was asked."""

    def __init__(self, *script, summary=None):
        super().__init__("scripted", stream=False)
        self.script = list(script)
        self.asked = []
        self.summary = summary

    async def __call__(self, prompt, tools=None, tool_choice=None, structured_model=None):
        if structured_model is not None:
            return ChatResponse(content=[], metadata=self.summary)
        self.asked.append([said for _, said in prompt])
        said = self.script.pop(0)
        return ChatResponse(content=[text(said)] if isinstance(said, str) else said)


class PlainFormatter(FormatterBase):
    async def format(self, msgs):
        return [(one.role, one.get_text_content() or repr(one.content)) for one in msgs]


def agent(model, **options):
    made = ReActAgent("Cook", "You cook.", model, PlainFormatter(), **options)
    made.set_console_output_enabled(False)
    return made


def toolkit_with(*functions):
    toolkit = Toolkit()
    for function in functions:
        toolkit.register_tool_function(function)
    return toolkit


def look_into_the_cupboard(shelf: str) -> ToolResponse:
    """Look what there is.

    Args:
        shelf (str): Which shelf.
    """
    return ToolResponse([text(f"green tea on {shelf}")])


class WordEmbedding(EmbeddingModelBase):
    """Texts that share words are near to each other."""

    supported_modalities = ("text",)

    def __init__(self):
        super().__init__("words", DIMENSIONS)

    async def __call__(self, blocks):
        return EmbeddingResponse([vector_of(block["text"]) for block in blocks])


def vector_of(said):
    vector = [0.0] * DIMENSIONS
    for word in said.lower().split():
        vector[hashlib.sha256(word.encode()).digest()[0] % DIMENSIONS] += 1.0
    return vector
