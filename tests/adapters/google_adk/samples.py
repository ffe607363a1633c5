"""Events of every kind, and what is written in a word in the tests."""

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes
from google.adk.auth.auth_schemes import CustomAuthScheme
from google.adk.auth.auth_tool import AuthConfig
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types
from pydantic import Field

APP, USER = "tutor", "ada"
OF_ADA = {"app_name": APP, "user_id": USER}
PNG = b"\x89PNG\r\n\x1a\n\x00"


def said(text, *, author="user", state=None, **fields):
    """An event with a text, and what it changes."""
    role = "user" if author == "user" else "model"
    return Event(
        author=author,
        content=types.Content(role=role, parts=[types.Part(text=text)]),
        actions=EventActions(state_delta=state or {}),
        **fields,
    )


def texts(session):
    """What was said in a session; "" for an event without a text."""
    return [
        "".join(part.text or "" for part in (event.content.parts if event.content else ()) or ())
        for event in session.events
    ]


def recent(n=None, after=None):
    return GetSessionConfig(num_recent_events=n, after_timestamp=after)


async def get(service, session_id="1", *, user=USER, app=APP, config=None):
    return await service.get_session(
        app_name=app, user_id=user, session_id=session_id, config=config
    )


async def create(service, session_id="1", *, user=USER, app=APP, state=None):
    return await service.create_session(
        app_name=app, user_id=user, session_id=session_id, state=state
    )


CALL = types.Part(
    function_call=types.FunctionCall(id="c1", name="weather", args={"city": "Oslo", "days": 2})
)


def answered(response, *, id="c1", name="weather", **more):
    """A part with what a tool answered."""
    return types.Part(
        function_response=types.FunctionResponse(id=id, name=name, response=response, **more)
    )


PARTS = {
    "text": types.Part(text="It is sunny. ☀ \0"),
    "empty text": types.Part(text=""),
    "thought": types.Part(text="They want tea.", thought=True, thought_signature=b"\0sig"),
    "call": CALL,
    "call without an id": types.Part(function_call=types.FunctionCall(name="now", args={})),
    "signed call": types.Part(
        function_call=types.FunctionCall(id="c2", name="now", args=None), thought_signature=b"s"
    ),
    "answer": answered({"result": "sunny"}),
    "answer as JSON": answered({"degrees": 21, "wind": {"from": "north"}}),
    "failure": answered({"error": "no such city"}),
    "answer with a picture": answered(
        {"output": "see"},
        parts=[
            types.FunctionResponsePart(
                inline_data=types.FunctionResponseBlob(data=PNG, mime_type="image/png")
            )
        ],
    ),
    "picture": types.Part(
        inline_data=types.Blob(data=PNG, mime_type="image/png", display_name="a.png")
    ),
    "sound": types.Part(inline_data=types.Blob(data=b"RIFF", mime_type="audio/wav")),
    "file": types.Part(
        file_data=types.FileData(file_uri="gs://b/a.pdf", mime_type="application/pdf")
    ),
    "film": types.Part(
        file_data=types.FileData(file_uri="https://a/b.mp4", mime_type="video/mp4"),
        video_metadata=types.VideoMetadata(fps=1),
    ),
    "code": types.Part(executable_code=types.ExecutableCode(code="1+1", language="PYTHON")),
    "output of code": types.Part(
        code_execution_result=types.CodeExecutionResult(outcome="OUTCOME_OK", output="2")
    ),
}

EVENTS = {
    **{
        name: Event(author="bot", content=types.Content(parts=[part]))
        for name, part in PARTS.items()
    },
    "nothing": Event(author="bot"),
    "no parts": Event(author="bot", content=types.Content(role="model")),
    "all fields": Event(
        invocation_id="i1",
        author="bot",
        branch="root.bot",
        content=types.Content(role="model", parts=[types.Part(text="yes")]),
        turn_complete=True,
        partial=False,
        error_code="E",
        error_message="none",
        interrupted=True,
        long_running_tool_ids={"c1", "c2"},
        custom_metadata={"a": [1, 2.5, None, "x"]},
        grounding_metadata=types.GroundingMetadata(
            web_search_queries=["q"], search_entry_point=types.SearchEntryPoint(sdk_blob=b"\0")
        ),
        usage_metadata=types.GenerateContentResponseUsageMetadata(total_token_count=3),
        citation_metadata=types.CitationMetadata(),
        input_transcription=types.Transcription(text="in", finished=True),
        output={"any": ["thing"]},
        node_path="wf@1/node@2",
        actions=EventActions(
            skip_summarization=True,
            state_delta={"k": {"deep": [None, True]}, "user:k": 2**70, "app:k": None},
            artifact_delta={"a.txt": 1},
            transfer_to_agent="other",
            escalate=True,
            requested_auth_configs={
                "c1": AuthConfig(
                    auth_scheme=CustomAuthScheme(type="x"),
                    raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.API_KEY),
                    credential_key="key",
                )
            },
            requested_tool_confirmations={"c2": ToolConfirmation(hint="sure?", payload={"a": 1})},
            compaction=EventCompaction(
                start_timestamp=1.5,
                end_timestamp=2.5,
                compacted_content=types.Content(parts=[types.Part(text="short")]),
            ),
            agent_state={"at": "start"},
            route=["a", 1],
        ),
    ),
}
"""One of each kind, by a name."""


class ScriptedModel(BaseLlm):
    """A model that answers with the given parts, and notes what it was asked."""

    model: str = "script"
    answers: list[Any] = Field(default_factory=list)
    asked: list[Any] = Field(default_factory=list)

    async def generate_content_async(self, llm_request, **_):
        self.asked.append(llm_request.model_copy(deep=True))
        parts = self.answers[len(self.asked) - 1]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def agent_of(*answers, name="bot", **options):
    """An agent that says a text or does what the parts of each answer say."""
    answers = [[types.Part(text=one)] if isinstance(one, str) else one for one in answers]
    return LlmAgent(name=name, model=ScriptedModel(answers=answers), **options)


def call(name, **arguments):
    """An answer that calls a tool."""
    return [types.Part(function_call=types.FunctionCall(name=name, args=arguments))]


async def talk(runner, text, *, session_id="1", **options):
    """What is said in a run, as one text for each event."""
    message = types.Content(role="user", parts=[types.Part(text=text)])
    return [
        "".join(part.text or "" for part in event.content.parts) if event.content else ""
        async for event in runner.run_async(
            user_id=USER, session_id=session_id, new_message=message, **options
        )
    ]
