"""Messages of the APIs of OpenAI and Anthropic are read as they come, or refused in words."""

import base64
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from lance_context_core import ContextStore, InvalidRequestError, Message
from lance_context_core.messages import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from lance_context_core.messages.wire import from_wire, wire_time
from lance_context_core.transfer.conversations import from_openai

DOT = base64.b64encode(b"dot").decode()


def one(**said):
    (message,) = from_wire(said, "content[0]")
    return message


def parts(*content, role="user"):
    return one(role=role, content=list(content)).parts


def test_a_text_is_what_the_role_said():
    said = one(role="user", content="tea", name="ada", id="m1", metadata={"k": 1})
    assert said == Message.user("tea", name="ada", id="m1", metadata={"k": 1})


def test_the_parts_of_openai_are_ours():
    assert parts(
        {"type": "text", "text": "hi"},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "input_image", "image_url": f"data:image/png;base64,{DOT}"},
        {"type": "input_audio", "input_audio": {"data": DOT, "format": "mp3"}},
        {"type": "file", "file": {"file_id": "f1"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": DOT}},
        {"type": "refusal", "refusal": "no"},
    ) == (
        TextPart(text="hi"),
        ImagePart(url="https://x/y.png"),
        ImagePart(data=b"dot", media_type="image/png"),
        AudioPart(data=b"dot", media_type="audio/mp3"),
        FilePart(file_id="f1"),
        FilePart(data=b"dot", media_type="application/pdf", name="a.pdf"),
        TextPart(text="no"),
    )


def test_the_blocks_of_anthropic_are_ours():
    source = {"type": "base64", "media_type": "image/png", "data": DOT}
    assert parts(
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}},
        {"type": "image", "source": source},
        {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}, "title": "Y"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
        {"type": "server_thing", "x": 1},
        role="assistant",
    ) == (
        ReasoningPart(text="hm", signature="s"),
        TextPart(text="hi", extra={"cache_control": {"type": "ephemeral"}}),
        ImagePart(data=b"dot", media_type="image/png"),
        FilePart(url="https://x/y.pdf", name="Y"),
        ToolCallPart(call_id="t", name="f", arguments={"a": 1}),
        UnknownPart(type="server_thing", payload={"x": 1}),
    )


def test_calls_of_tools_come_without_a_content():
    function = {"name": "f", "arguments": '{"a": 1}'}
    calls = [{"id": "c1", "type": "function", "function": function}]
    said = one(role="assistant", content=None, refusal=None, tool_calls=calls)
    assert said.parts == (ToolCallPart(call_id="c1", name="f", arguments={"a": 1}),)
    broken = one(role="assistant", function_call={"name": "f", "arguments": '{"a": '})
    assert broken.parts == (ToolCallPart(name="f", arguments='{"a": '),)


def test_a_result_of_a_tool_is_nobodys_words():
    assert one(role="tool", tool_call_id="c1", content="42") == Message.tool("42", call_id="c1")
    result = {"type": "tool_result", "tool_use_id": "t", "content": "42", "is_error": True}
    assert one(role="user", content=[result]).role == "tool"
    said = {"type": "text", "text": "and now?"}
    answered, asked = from_wire({"role": "user", "content": [result, said], "id": "m"}, "content")
    assert answered.parts == (
        ToolResultPart(call_id="t", content=(TextPart(text="42"),), is_error=True),
    )
    assert asked == Message.user("and now?", id="m")
    assert answered.role == "tool"
    assert answered.id not in {None, asked.id}


def test_the_items_of_the_responses_api_are_messages():
    call = one(type="function_call", call_id="c1", name="f", arguments="{}")
    assert call == Message.assistant([ToolCallPart(call_id="c1", name="f")])
    output = one(type="function_call_output", call_id="c1", output="42")
    assert output == Message.tool("42", call_id="c1")


def test_a_conversation_that_is_imported_keeps_its_sounds():
    sound = {"type": "input_audio", "input_audio": {"data": DOT, "format": "wav"}}
    said = {"role": "user", "content": [sound]}
    assert from_openai(said).parts == (AudioPart(data=b"dot", media_type="audio/wav"),)


def test_what_an_answer_has_besides_is_passed_over_or_said():
    said = one(role="assistant", content=None, refusal="I cannot.", annotations=[], audio=None)
    assert said.parts == (TextPart(text="I cannot."),)
    assert one(role="developer", content="be brief").role == "developer"
    answer = one(type="message", role="assistant", content=[], model="m", usage={"input_tokens": 1})
    assert answer.parts == ()


@pytest.mark.parametrize("name", ["created_at", "timestamp"])
@pytest.mark.parametrize(
    "when",
    [
        datetime(2024, 5, 1, tzinfo=UTC),
        1714521600,
        1714521600000,
        1714521600.0,
        "2024-05-01T00:00:00Z",
        "2024-05-01T02:00:00+02:00",
        "2024-05-01",
    ],
)
def test_a_time_is_a_number_a_text_or_a_datetime(name, when):
    said = one(role="user", content="x", **{name: when})
    assert said.created_at == datetime(2024, 5, 1, tzinfo=UTC)


def test_a_day_may_be_meant_to_its_end():
    end = wire_time("2029-12-31", "expiration_date", through_the_day=True)
    assert end == datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        pytest.param({"content": "x"}, "role", id="no role"),
        pytest.param({"role": "user"}, "content", id="no content"),
        pytest.param({"role": 3, "content": "x"}, "role", id="a role that is not text"),
        pytest.param({"role": "user", "content": 3}, "a list of parts", id="a number"),
        pytest.param({"role": "user", "content": [3]}, r"\['content'\]\[0\]", id="a part"),
        pytest.param({"role": "user", "content": [{"text": "x"}]}, "type", id="no type"),
        pytest.param({"role": "user", "content": [{"type": "text"}]}, "text", id="no text"),
        pytest.param(
            {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
            "file_id|url",
            id="no picture",
        ),
        pytest.param({"role": "user", "content": "x", "colour": 1}, "'colour'", id="a key"),
        pytest.param({"role": "user", "content": "x", "timestamp": "soon"}, "soon", id="a time"),
        pytest.param(
            {"role": "user", "content": "x", "created_at": "2024-05-01T09:00:00"},
            "time zone",
            id="no zone",
        ),
        pytest.param({"role": "user", "content": "x", "timestamp": True}, "True", id="a bool"),
        pytest.param({"role": "assistant", "tool_calls": "f"}, "tool_calls", id="calls"),
        pytest.param({"role": "assistant", "tool_calls": [{}]}, "name", id="a nameless call"),
    ],
)
def test_what_is_no_message_is_refused_by_its_place(said, says):
    with pytest.raises(InvalidRequestError, match=says) as caught:
        from_wire(said, "content[0]")
    assert str(caught.value).startswith("content[0]")


def test_a_turn_of_any_of_these_forms_is_kept_by_the_knowledge(tmp_path):
    with ContextStore.open(str(tmp_path / "store")) as store:
        client = SimpleNamespace(model_dump=lambda: {"role": "assistant", "content": "Fine."})
        calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
        store.knowledge.add(
            [
                {"role": "user", "content": [{"type": "text", "text": "I love jazz."}]},
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": "c", "content": "I love rock."},
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t", "content": "I love pop."}
                    ],
                },
                client,
            ],
            session_id="s",
            user_id="ada",
        )
        found = store.context("knowledge").list(filters={"kind": "fact"})
        assert [fact["text"] for fact in found] == ["I love jazz."]
        kept = store.scope(user_id="ada").history.get_messages("", session_id="s")
        assert [one.role for one in kept] == ["user", "assistant", "tool", "tool", "assistant"]
