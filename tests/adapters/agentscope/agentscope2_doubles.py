"""An agent of agentscope 2.x whose model says what it is told to, and what it is made of."""

import base64
import hashlib
import json
from types import SimpleNamespace
from typing import Literal

from agentscope.agent import Agent
from agentscope.credential import CredentialBase
from agentscope.embedding import EmbeddingModelBase, EmbeddingResponse
from agentscope.message import (
    AssistantMsg,
    Base64Source,
    DataBlock,
    HintBlock,
    SystemMsg,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    URLSource,
    UserMsg,
)
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.rag import Chunk

DIMENSIONS = 64
PNG = b"\x89PNG\r\n\x1a\n"
IMAGE = Base64Source(data=base64.b64encode(PNG).decode(), media_type="image/png")


def call(name, id="c1", **arguments):
    return ToolCallBlock(id=id, name=name, input=json.dumps(arguments))


def conversation():
    """Messages with all that they may have."""
    return [
        UserMsg("Ada", "Is there tea?", metadata={"mood": "thirsty"}),
        AssistantMsg("memory", [HintBlock(hint="Ada likes tea")]),
        AssistantMsg(
            "Cook",
            [
                ThinkingBlock(thinking="Let me look", signature="s"),
                TextBlock(text="One moment."),
                call("look", **{"for": "tea"}),
                ToolResultBlock(
                    id="c1",
                    name="look",
                    output=[TextBlock(text="two cups"), DataBlock(source=IMAGE, name="a.png")],
                    state="success",
                ),
                HintBlock(hint="Be quick"),
                TextBlock(text="There is."),
            ],
        ),
        UserMsg(
            "Ada",
            [
                TextBlock(text="Look and listen:"),
                DataBlock(source=IMAGE),
                DataBlock(
                    source=URLSource(url="https://example.org/a.mp3", media_type="audio/mpeg")
                ),
                DataBlock(
                    source=URLSource(url="https://example.org/a.pdf", media_type="application/pdf"),
                    name="a.pdf",
                ),
            ],
        ),
        SystemMsg("system", "\"; DROP TABLE records; -- ' OR 1=1 \\ \n"),
    ]


def dumps(messages):
    """All that is in messages, so that it may be compared."""
    return [one.model_dump() for one in messages]


def texts(messages):
    return [one.get_text_content() for one in messages]


class ScriptedModel(ChatModelBase):
    """Answers with what comes next in the script, and keeps what it was asked."""

    def __init__(self, *script):
        super().__init__(
            CredentialBase(), "scripted", self.Parameters(), stream=False, context_size=100_000
        )
        self.formatter = SimpleNamespace(supported_input_media_types=["image/png"])
        self.script = list(script)
        self.asked = []

    async def _call_api(self, model_name, messages, tools=None, tool_choice=None, **_):
        self.asked.append([one for message in messages for one in _told(message)])
        said = self.script.pop(0)
        if isinstance(said, Exception):
            raise said
        content = [TextBlock(text=said)] if isinstance(said, str) else said
        return ChatResponse(content=content, is_last=True)

    async def count_tokens(self, messages, tools=None, **_):
        return 1


def _told(message):
    for block in message.content:
        told = {"text": "text", "hint": "hint", "tool_result": "output"}.get(block.type)
        if told is not None:
            yield getattr(block, told)


def agent(model, **options):
    return Agent("Cook", "You cook.", model, **options)


class WordEmbedding(EmbeddingModelBase):
    """Texts that share words are near to each other."""

    def __init__(self):
        super().__init__(
            CredentialBase(),
            "words",
            DIMENSIONS,
            None,
            context_size=1_000,
            batch_size=100,
            max_retries=0,
            retry_delay=0,
        )

    async def _call_api(self, inputs, **_):
        return EmbeddingResponse([vector_of(one) for one in inputs])


def vector_of(said):
    vector = [0.0] * DIMENSIONS
    for word in said.lower().split():
        vector[hashlib.sha256(word.encode()).digest()[0] % DIMENSIONS] += 1.0
    return vector


def chunk(content, index=0, total=1, source="a.txt", **metadata):
    block = TextBlock(text=content) if isinstance(content, str) else content
    return Chunk(
        content=block, source=source, chunk_index=index, total_chunks=total, metadata=metadata
    )


class WordCredential(CredentialBase):
    """What `WordModel` asks for."""

    type: Literal["word_credential"] = "word_credential"

    @classmethod
    def get_embedding_model_class(cls):
        return WordModel


class WordModel(WordEmbedding):
    """A `WordEmbedding`, as the app makes one of a credential."""

    def __init__(self, **_):
        super().__init__()

    @classmethod
    def list_models(cls):
        return []
