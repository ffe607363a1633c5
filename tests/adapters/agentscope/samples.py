"""Messages of agentscope-runtime, of every kind that the installed line has."""

import base64
import json

from agentscope_runtime.engine.schemas import agent_schemas as schemas
from agentscope_runtime.engine.schemas.agent_schemas import (
    DataContent,
    ImageContent,
    Message,
    TextContent,
)

PNG = b"\x89PNG\r\n\x1a\n"
PNG_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
CALL = {"call_id": "c1", "name": "brew", "arguments": '{"cups": 2}'}
BLOCKS = [
    {"type": "text", "text": "two cups"},
    {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
]


def said(text, role="user", **fields):
    return Message(role=role, content=[TextContent(text=text)], **fields)


def texts(messages):
    return [one.content[0].text for one in messages]


MESSAGES = {
    "user": said("Is there tea?"),
    "assistant": said("Yes.", "assistant", status="completed", usage={"tokens": 3}),
    "without a role": said("hm", None),
    "no content": Message(role="user", content=None),
    "empty content": Message(role="user", content=[]),
    "empty text": said(""),
    "no text": Message(role="user", content=[TextContent()]),
    "several contents": Message(
        role="user",
        content=[
            TextContent(text="What is it?", index=0, msg_id="m", status="completed"),
            ImageContent(image_url="https://example.org/a.png"),
            ImageContent(image_url=PNG_URL),
            ImageContent(image_url="data:image/png;base64,no base64!"),
            ImageContent(),
            TextContent(text="Say it."),
        ],
    ),
    "data": Message(role="user", content=[DataContent(data={"a": [1, None, 2.5, {"b": True}]})]),
    "call": Message(type="plugin_call", role="assistant", content=[DataContent(data=CALL)]),
    "broken call": Message(
        type="function_call",
        content=[DataContent(data={"call_id": "", "name": "sip", "arguments": "{oops"})],
    ),
    "output": Message(
        type="plugin_call_output",
        role="system",
        content=[DataContent(data={"call_id": "c1", "output": json.dumps(BLOCKS)})],
    ),
    "output that is text": Message(
        type="function_call_output",
        content=[DataContent(data={"call_id": "c1", "output": "two cups"})],
    ),
    "reasoning": said("Let me think", "assistant", type="reasoning"),
    "error": Message(type="error", code="500", message="no water", status="failed"),
    "quotes": said("\"; DROP TABLE records; -- ' OR 1=1 \\ \n\x07"),
}
if hasattr(schemas, "AudioContent"):
    MESSAGES["audio"] = Message(
        role="user",
        content=[
            schemas.AudioContent(data=PNG_URL, format="audio/wav"),
            schemas.AudioContent(data=base64.b64encode(PNG).decode(), format="mp3"),
            schemas.AudioContent(data="https://example.org/a.mp3"),
        ],
    )
    MESSAGES["files"] = Message(
        role="user",
        content=[
            schemas.FileContent(file_url="https://example.org/a.pdf", filename="a.pdf"),
            schemas.FileContent(file_id="file-1"),
            schemas.FileContent(file_data=base64.b64encode(PNG).decode()),
            schemas.FileContent(),
            schemas.RefusalContent(refusal="I will not."),
        ],
    )
if "metadata" in Message.model_fields:
    MESSAGES["metadata"] = said("hi", metadata={"original_id": "o1", "original_name": "Ada"})


def dumps(messages):
    """All that is in messages, so that it may be compared."""
    return [one.model_dump() for one in messages]
