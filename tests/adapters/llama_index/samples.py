"""Chat messages with every block that LlamaIndex has."""

from datetime import UTC, datetime
from io import BytesIO

from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.schema import ImageDocument

PNG = b"\x89PNG\r\n\x1a\n"

MESSAGES = {
    "user": ChatMessage("Is there tea?"),
    "empty": ChatMessage(""),
    "without blocks": ChatMessage(role="assistant"),
    "named": ChatMessage("hi", additional_kwargs={"name": "ada"}),
    "system": ChatMessage(role="system", content="Be brief."),
    "developer": ChatMessage(role="developer", content="Be brief."),
    "model": ChatMessage(role="model", content="Yes."),
    "chatbot": ChatMessage(role="chatbot", content="Yes."),
    "several texts": ChatMessage([TextBlock(text="a"), TextBlock(text="b")]),
    "image as bytes": ChatMessage([ImageBlock(image=PNG, detail="low")]),
    "image by url": ChatMessage([ImageBlock(url="https://example.org/a.png")]),
    "image without anything": ChatMessage([ImageBlock()]),
    "sound": ChatMessage([AudioBlock(audio=PNG, format="mp3")]),
    "film": ChatMessage([VideoBlock(video=PNG, fps=2, video_mimetype="video/mp4")]),
    "document": ChatMessage([DocumentBlock(data=b"%PDF-1", title="a.pdf")]),
    "document by url": ChatMessage([DocumentBlock(url="s3://bucket/a.pdf")]),
    "document that looks like base64": ChatMessage([DocumentBlock(data=b"abcd")]),
    "thinking": ChatMessage(
        role="assistant",
        content=[
            ThinkingBlock(
                content="hm", num_tokens=3, additional_information={"signature": "s", "n": (1, 2)}
            ),
            TextBlock(text="Yes."),
        ],
    ),
    "thinking that is withheld": ChatMessage(role="assistant", content=[ThinkingBlock()]),
    "tool calls": ChatMessage(
        role="assistant",
        content=[
            ToolCallBlock(tool_call_id="c1", tool_name="brew", tool_kwargs={"cups": 2}),
            ToolCallBlock(tool_name="pour", tool_kwargs="{oops"),
        ],
    ),
    "tool calls of OpenAI": ChatMessage(
        role="assistant",
        additional_kwargs={
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "brew", "arguments": '{"cups": 2}'},
                }
            ]
        },
    ),
    "tool": ChatMessage(
        role="tool", content="2 cups", additional_kwargs={"tool_call_id": "c1", "name": "brew"}
    ),
    "function": ChatMessage(role="function", content="2 cups", additional_kwargs={"name": "brew"}),
    "cache": ChatMessage([CachePoint(cache_control=CacheControl(type="ephemeral"))]),
    "citable": ChatMessage([CitableBlock(title="T", source="S", content="tea is hot")]),
    "citation": ChatMessage(
        role="assistant",
        content=[
            CitationBlock(
                cited_content="hot", source="S", title="T", additional_location_info={"page": 1}
            )
        ],
    ),
    "more than JSON": ChatMessage(
        "hi",
        additional_kwargs={
            "raw": b"\x00\xff",
            "at": datetime(2024, 1, 2, tzinfo=UTC),
            "set": {1, 2},
            "pair": (1, None),
            "big": 2**70,
            "by number": {1: "one"},
            "lance_context:type": "mine",
        },
    ),
    "image of old": ChatMessage(
        "look", additional_kwargs={"images": [ImageDocument(image="aGk=")]}
    ),
    "hostile text": ChatMessage('\'; DROP TABLE x; -- "q" \\ \n\u2028 \U0001f375'),
}


def opened(data=PNG):
    """A message that holds an open file instead of bytes."""
    return ChatMessage([ImageBlock(image=BytesIO(data), image_mimetype="image/png")])


def say(text, role="user"):
    return ChatMessage(role=role, content=text)


def texts(messages):
    return [one.content for one in messages]
