"""Messages of every type that LangChain has."""

import base64

from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

PNG = b"\x89PNG\r\n\x1a\n"
PNG_64 = base64.b64encode(PNG).decode()
USAGE = {
    "input_tokens": 350,
    "output_tokens": 240,
    "total_tokens": 590,
    "input_token_details": {"cache_read": 100},
}

MESSAGES = {
    "human": HumanMessage("Is there tea?", id="h1", name="ada"),
    "empty": HumanMessage(""),
    "blocks": HumanMessage(["Look:", {"type": "text", "text": "a cup", "cache_control": {"a": 1}}]),
    "image by url": HumanMessage(
        [
            {"type": "text", "text": "What is it?"},
            {"type": "image", "url": "https://example.org/a.png", "mime_type": "image/png"},
        ]
    ),
    "all media": HumanMessage(
        [
            {"type": "image", "base64": PNG_64, "mime_type": "image/png"},
            {"type": "audio", "base64": PNG_64, "mime_type": "audio/wav"},
            {"type": "video", "file_id": "file-1"},
            {
                "type": "file",
                "base64": PNG_64,
                "mime_type": "application/pdf",
                "extras": {"filename": "a.pdf"},
            },
        ]
    ),
    "image of OpenAI": HumanMessage(
        [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG_64}"}}]
    ),
    "image of the first version": HumanMessage(
        [{"type": "image", "source_type": "base64", "data": PNG_64, "mime_type": "image/png"}]
    ),
    "system": SystemMessage("Be brief."),
    "developer": SystemMessage("Be brief.", additional_kwargs={"__openai_role__": "developer"}),
    "ai": AIMessage(
        "Yes.",
        id="run-1",
        usage_metadata=USAGE,
        response_metadata={"model_name": "m", "logprobs": None, "finish_reason": "stop"},
        additional_kwargs={"refusal": None},
    ),
    "ai that thinks": AIMessage(
        [
            {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "s"}},
            {"type": "text", "text": "Yes."},
        ]
    ),
    "tool calls": AIMessage(
        "",
        tool_calls=[
            {"name": "brew", "args": {"cups": 2, "kind": None}, "id": "c1"},
            {"name": "pour", "args": {}, "id": None},
        ],
        invalid_tool_calls=[{"name": "sip", "args": "{oops", "id": "c3", "error": "no JSON"}],
    ),
    "tool calls among the content": AIMessage(
        content_blocks=[
            {"type": "text", "text": "One moment."},
            {"type": "tool_call", "name": "brew", "args": {"cups": 2}, "id": "c1"},
        ]
    ),
    "tool calls of OpenAI": AIMessage(
        "",
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
    "tool": ToolMessage("2 cups", tool_call_id="c1", name="brew"),
    "tool that failed": ToolMessage("no water", tool_call_id="c1", status="error", id="t1"),
    "tool with an artifact": ToolMessage(
        [{"type": "text", "text": "2 cups"}],
        tool_call_id="c1",
        artifact={"rows": [(1, 2.5), (None, True)], "raw": b"\x00\xff"},
    ),
    "tool with documents": ToolMessage(
        "found", tool_call_id="c1", artifact=[Document("tea", id="d1", metadata={"page": 1})]
    ),
    "function": FunctionMessage("2 cups", name="brew"),
    "chat": ChatMessage("Order!", role="moderator"),
    "remove": RemoveMessage(id="h1"),
    "more than it has fields": HumanMessage("hi", example=True, note={"a": 1}),
}
