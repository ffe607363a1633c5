"""Agents whose model is a script, and messages with everything that they can hold."""

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)

PNG = b"\x89PNG\r\n\x1a\n\0\0"


def user(text, **more):
    return Message("user", [text], **more)


def model(text, **more):
    return Message("assistant", [text], **more)


def call(call_id="c1", name="weather", **arguments):
    """A model that calls a tool."""
    return Message("assistant", [Content.from_function_call(call_id, name, arguments=arguments)])


def answer(text, call_id="c1"):
    return Message("tool", [Content.from_function_result(call_id, result=text)])


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A model that says one line after the other, and notes what it was given."""

    def __init__(self, *script):
        super().__init__(middleware=[])
        self._script = list(script)
        self.given = []

    def _inner_get_response(self, *, messages, stream, options, **_):
        self.given.append(list(messages))
        self.instructions = options.get("instructions")
        said = self._script.pop(0) if self._script else "Yes."
        message = said if isinstance(said, Message) else model(said)

        async def respond():
            return ChatResponse(messages=message)

        async def stream_it():
            yield ChatResponseUpdate(contents=message.contents, role="assistant")

        if not stream:
            return respond()
        return ResponseStream(stream_it(), finalizer=ChatResponse.from_updates)

    @property
    def last_given(self):
        """What it was given last, as pairs of role and text."""
        return said(self.given[-1])


def agent_with(*providers, script=(), **more):
    """An agent with these providers, and its model."""
    client = ScriptedClient(*script)
    return Agent(client, context_providers=[*providers], **more), client


def said(messages):
    return [(one.role, one.text) for one in messages]


def forms(messages):
    """What is compared: messages have no equality of their own."""
    return [one.to_dict() for one in messages]


EVERYTHING = [
    Message(
        "user",
        [
            "Look: é, 漢字, 🙂",
            Content.from_data(PNG, "image/png", name="mole.png"),
            Content.from_uri("https://example.org/a.wav", media_type="audio/wav"),
            Content.from_uri("https://example.org/a.mp4", media_type="video/mp4"),
            Content.from_data(b"%PDF", "application/pdf"),
            Content.from_hosted_file("file-1", name="a.txt", media_type="text/plain"),
            Content.from_hosted_vector_store("vs-1"),
        ],
        author_name="Ada",
        message_id="m-1",
        additional_properties={"_excluded": True, "nested": {"n": [1, 2.5, None]}},
    ),
    Message(
        "assistant",
        [
            Content.from_text_reasoning(id="rs_1", text="A picture.", protected_data="secret"),
            Content.from_text("I see.", annotations=[{"type": "citation", "title": "a"}]),
            Content.from_function_call("c1", "weather", arguments='{"city": "Oslo"}'),
            Content.from_function_call("c2", "weather", arguments={"city": "Rome"}),
            Content.from_function_call("c3", "weather", arguments="not JSON"),
        ],
    ),
    Message(
        "tool",
        [
            Content.from_function_result("c1", result="sunny"),
            Content.from_function_result(
                "c2", result=[Content.from_text("rain"), Content.from_data(PNG, "image/png")]
            ),
            Content.from_function_result("c3", exception="no such city"),
        ],
    ),
    Message(
        "assistant",
        [
            Content.from_mcp_server_tool_call(
                "c4", "search", server_name="web", arguments={"q": "x"}
            ),
            Content.from_mcp_server_tool_result("c4", output=[Content.from_text("found")]),
            Content.from_code_interpreter_tool_call(
                call_id="c5", inputs=[Content.from_text("print(1)")]
            ),
            Content.from_code_interpreter_tool_result(
                call_id="c5", outputs=[Content.from_text("1")]
            ),
            Content.from_shell_tool_call(call_id="c6", commands=["ls"], timeout_ms=5),
            Content.from_shell_tool_result(
                call_id="c6",
                outputs=[Content.from_shell_command_output(stdout="a.txt", exit_code=0)],
            ),
            Content.from_image_generation_tool_call(image_id="i1"),
            Content.from_image_generation_tool_result(
                image_id="i1", outputs=Content.from_data(PNG, "image/png")
            ),
            Content.from_error(message="slow down", error_code="429"),
            Content.from_usage({"input_token_count": 3}),
            Content.from_oauth_consent_request("https://example.org/consent"),
        ],
    ),
    Message(
        "assistant",
        [
            Content.from_function_approval_request(
                "a1", Content.from_function_call("c7", "send", arguments={"to": "Ben"})
            )
        ],
    ),
    Message(
        "user",
        [
            Content.from_function_approval_response(
                True, "a1", Content.from_function_call("c7", "send", arguments={"to": "Ben"})
            )
        ],
    ),
    Message("system", ["Be brief."]),
    Message("developer", []),
]
