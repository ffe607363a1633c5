"""What each provider refuses with an error 400 is refused here, by a rule with a name."""

import pytest

from lance_context_core import InvalidRequestError, Message
from lance_context_core.messages import (
    ImagePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from lance_context_core.window import dialect, groups_of

TALK = [
    Message.system("You pour tea."),
    Message.user("Two things."),
    Message.assistant(
        [
            TextPart(text="I look."),
            ToolCallPart(call_id="c1", name="look", arguments={"at": "pot"}),
            ToolCallPart(call_id="c2", name="look", arguments={"at": "cup"}),
        ]
    ),
    Message.tool("full", call_id="c1"),
    Message.tool("empty", call_id="c2", is_error=True),
    Message.assistant("The pot is full."),
]


def rendered(name, messages=TALK, **given):
    return dialect(name).render(groups_of(messages).messages, **given)


def test_openai_chat():
    sent = rendered("openai_chat")["messages"]
    assert [one["role"] for one in sent] == [
        "system", "user", "assistant", "tool", "tool", "assistant"
    ]  # fmt: skip
    assert sent[2] == {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {
                "id": f"c{n}",
                "type": "function",
                "function": {"name": "look", "arguments": f'{{"at":"{at}"}}'},
            }
            for n, at in ((1, "pot"), (2, "cup"))
        ],
    }
    assert sent[3] == {"role": "tool", "tool_call_id": "c1", "content": "full"}


def test_openai_responses():
    items = rendered("openai_responses")["input"]
    assert [one.get("type") or one["role"] for one in items] == [
        "developer", "user", "assistant", "function_call", "function_call",
        "function_call_output", "function_call_output", "assistant",
    ]  # fmt: skip
    assert items[3] == {
        "type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":"pot"}'
    }  # fmt: skip


def test_anthropic():
    request = rendered("anthropic", breakpoints=[0, 1])
    mark = {"cache_control": {"type": "ephemeral"}}
    assert request["system"] == [{"type": "text", "text": "You pour tea.", **mark}]
    assert [one["role"] for one in request["messages"]] == ["user", "assistant"] * 2
    assert request["messages"][0]["content"][-1] == {"type": "text", "text": "Two things.", **mark}
    assert request["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "full"}]},
        {
            "type": "tool_result",
            "tool_use_id": "c2",
            "content": [{"type": "text", "text": "empty"}],
            "is_error": True,
        },
    ]


def test_gemini():
    request = rendered("gemini")
    assert request["systemInstruction"] == {"parts": [{"text": "You pour tea."}]}
    assert [one["role"] for one in request["contents"]] == ["user", "model"] * 2
    first, second = request["contents"][1]["parts"][1:]
    assert first["functionCall"] == {"name": "look", "args": {"at": "pot"}}
    assert first["thoughtSignature"] == "skip_thought_signature_validator"
    assert "thoughtSignature" not in second  # only the first of a step is signed
    assert [one["functionResponse"]["response"] for one in request["contents"][2]["parts"]] == [
        {"output": "full"}, {"error": "empty"}
    ]  # fmt: skip


def test_plain():
    sent = rendered("plain")["messages"]
    assert sent[2]["content"] == (
        'I look.\n[call c1] look({"at":"pot"})\n[call c2] look({"at":"cup"})'
    )
    assert sent[3] == {"role": "tool", "content": "[result c1] full"}


def test_pictures_go_where_they_are_taken_and_are_told_of_elsewhere():
    picture = ImagePart(data=b"png", media_type="image/png", caption="a pot")
    messages = [
        Message.user([picture, "What?"]),
        Message.assistant(ToolCallPart(call_id="c", name="draw")),
        Message.tool([picture], call_id="c"),
    ]
    chat = rendered("openai_chat", messages)["messages"]
    assert chat[0]["content"][0]["image_url"]["url"] == "data:image/png;base64,cG5n"
    assert chat[2]["content"] == "[image: a pot, image/png]"
    claude = rendered("anthropic", messages)["messages"]
    assert claude[2]["content"][0]["content"][0]["source"]["data"] == "cG5n"
    gemini = rendered("gemini", messages)["contents"]
    assert gemini[0]["parts"][0] == {"inlineData": {"mimeType": "image/png", "data": "cG5n"}}


def test_reasoning_goes_back_in_the_form_of_its_maker():
    item = ReasoningPart(text="hm", extra={"id": "rs_1", "encrypted_content": "xyz"})
    messages = [Message.user("a"), Message.assistant([item, TextPart(text="b")])]
    assert rendered("openai_responses", messages)["input"][1] == {
        "type": "reasoning", "id": "rs_1", "encrypted_content": "xyz",
        "summary": [{"type": "summary_text", "text": "hm"}],
    }  # fmt: skip


def test_results_come_behind_their_calls_wherever_they_stood():
    calls = [Message.assistant(ToolCallPart(call_id=f"c{n}", name="look")) for n in (1, 2)]
    results = [Message.tool(f"r{n}", call_id=f"c{n}") for n in (1, 2)]
    messages = [Message.user("Go."), *calls, Message.user("Well?"), *results]
    for name in ("openai_chat", "openai_responses", "anthropic", "gemini"):
        assert dialect(name).validate(rendered(name, messages)) == []
    moved = [group for group in groups_of(messages).groups if "result_moved" in group.notes]
    assert len(moved) == 2


def test_an_answer_that_holds_calls_and_their_results_is_told_step_by_step():
    parts = (
        ToolCallPart(call_id="c1", name="look"),
        ToolResultPart(call_id="c1", content="full"),
        TextPart(text="It is full."),
        ToolCallPart(call_id="c2", name="pour"),
        ToolResultPart(call_id="c2", content="poured"),
    )
    answer = Message(role="assistant", parts=parts, id="a")
    found = groups_of([Message.user("Pour."), answer])
    assert [group.kind for group in found.groups] == ["user", "call", "call"]
    assert found.rejected == ()
    assert [one.role for one in found.messages] == ["user", *["assistant", "tool"] * 2]
    for name in ("openai_chat", "openai_responses", "anthropic", "gemini"):
        assert dialect(name).validate(rendered(name, [Message.user("Pour."), answer])) == []


# What is refused


def chat(*messages):
    return {"messages": list(messages)}


USER = {"role": "user", "content": "a"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "r"}
SAID = {"role": "assistant", "content": "b"}

USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]}
USED = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}
TEXT = {"type": "text", "text": "a"}

F_CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
F_OUT = {"type": "function_call_output", "call_id": "c", "output": "r"}

G_USER = {"role": "user", "parts": [{"text": "a"}]}
G_CALL = {"role": "model", "parts": [{"functionCall": {"name": "f"}, "thoughtSignature": "s"}]}
G_OUT = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]}


def calling(id="c", **function):
    call = CALL["tool_calls"][0]
    return {
        **CALL,
        "tool_calls": [{**call, "id": id, "function": {**call["function"], **function}}],
    }


def using(**block):
    return {**USE, "content": [{**USE["content"][0], **block}]}


def picture(url):
    return {"type": "image_url", "image_url": {"url": url}}


SHOWN = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}

BROKEN = {
    "openai_chat": [
        ("call_without_result", chat(USER, CALL, USER)),
        ("result_without_call", chat(USER, RESULT)),
        ("duplicate_result", chat(USER, CALL, RESULT, RESULT)),
        ("duplicate_call_id", chat(USER, CALL, RESULT, CALL, RESULT)),
        ("empty_content", chat(USER, {"role": "user", "content": ""})),
        ("no_messages", chat()),
        ("bad_tool_name", chat(USER, calling(name="look up"), RESULT)),
        ("bad_tool_name", chat(USER, calling(name="n" * 65), RESULT)),
        ("bad_call_id", chat(USER, calling(id="c" * 41), {**RESULT, "tool_call_id": "c" * 41})),
        ("arguments_are_no_object", chat(USER, calling(arguments="[1]"), RESULT)),
        ("arguments_are_no_object", chat(USER, calling(arguments="tea"), RESULT)),
        ("bad_speaker_name", chat({**USER, "name": "Ann Lee"})),
        ("empty_text", chat({"role": "user", "content": [{**TEXT, "text": " "}]})),
        ("media_out_of_place", chat(USER, {"role": "assistant", "content": [picture("a")]})),
        ("bad_picture", chat({"role": "user", "content": [picture("file:///a.png")]})),
        ("bad_picture", chat({"role": "user", "content": [picture("data:image/tiff;base64,AA==")]})),
        ("bad_sound", chat({"role": "user", "content": [{"type": "input_audio", "input_audio": {"format": "ogg"}}]})),
        ("bad_file", chat({"role": "user", "content": [{"type": "file", "file": {}}]})),
    ],
    "openai_responses": [
        ("call_without_result", {"input": [USER, F_CALL, USER]}),
        ("result_without_call", {"input": [USER, F_OUT]}),
        ("duplicate_result", {"input": [USER, F_CALL, F_OUT, F_OUT]}),
        ("duplicate_call_id", {"input": [USER, F_CALL, F_CALL, F_OUT]}),
        ("reasoning_without_item", {"input": [USER, {"type": "reasoning"}, USER]}),
        ("no_messages", {"input": []}),
        ("bad_tool_name", {"input": [USER, {**F_CALL, "name": "look up"}, F_OUT]}),
        ("bad_call_id", {"input": [USER, {**F_CALL, "call_id": "c" * 41}, {**F_OUT, "call_id": "c" * 41}]}),
        ("bad_speaker_name", {"input": [{**USER, "name": "Ann"}]}),
        ("empty_content", {"input": [USER, F_CALL, {**F_OUT, "output": ""}]}),
        ("media_out_of_place", {"input": [{**SAID, "content": [{"type": "input_image", "image_url": "https://x.y/a"}]}]}),
    ],
    "anthropic": [
        ("first_is_not_user", {"messages": [SAID, USER]}),
        ("call_without_result", {"messages": [USER, USE, USER]}),
        ("result_without_call", {"messages": [USER, SAID, USED]}),
        ("results_not_first", {"messages": [USER, USE, {**USED, "content": [TEXT, *USED["content"]]}]}),
        ("duplicate_result", {"messages": [USER, USE, {**USED, "content": USED["content"] * 2}]}),
        ("duplicate_call_id", {"messages": [USER, USE, USED, USE, USED]}),
        ("call_of_a_user", {"messages": [{**USE, "role": "user"}, USED]}),
        ("empty_text", {"messages": [{"role": "user", "content": [{**TEXT, "text": " "}]}]}),
        ("assistant_twice", {"messages": [USER, SAID, SAID]}),
        ("unknown_role", {"messages": [USER, {"role": "system", "content": "a"}]}),
        ("too_many_breakpoints", {"messages": [{**USER, "content": [{**TEXT, "cache_control": {}}] * 5}]}),
        ("no_messages", {"messages": []}),
        ("no_messages", {"system": [TEXT], "messages": []}),
        ("bad_tool_name", {"messages": [USER, using(name="look up"), USED]}),
        ("bad_call_id", {"messages": [USER, using(id="c!"), {**USED, "content": [{**USED["content"][0], "tool_use_id": "c!"}]}]}),
        ("arguments_are_no_object", {"messages": [USER, using(input=[1]), USED]}),
        ("media_out_of_place", {"messages": [USER, {"role": "assistant", "content": [SHOWN]}]}),
        ("media_out_of_place", {"messages": [USER, USE, {**USED, "content": [{**USED["content"][0], "is_error": True, "content": [SHOWN]}]}]}),
        ("bad_image_type", {"messages": [{"role": "user", "content": [{**SHOWN, "source": {**SHOWN["source"], "media_type": "image/tiff"}}]}]}),
        ("bad_base64", {"messages": [{"role": "user", "content": [{**SHOWN, "source": {**SHOWN["source"], "data": "?"}}]}]}),
        ("bad_address", {"messages": [{"role": "user", "content": [{**SHOWN, "source": {"type": "url", "url": "http://x.y/a"}}]}]}),
        ("ends_in_spaces", {"messages": [USER, {"role": "assistant", "content": [{**TEXT, "text": "So "}]}]}),
    ],
    "gemini": [
        ("first_is_not_user", {"contents": [G_CALL, G_OUT]}),
        ("responses_differ_from_calls", {"contents": [G_USER, G_CALL, G_USER]}),
        ("result_without_call", {"contents": [G_OUT]}),
        ("roles_do_not_alternate", {"contents": [G_USER, G_USER]}),
        ("call_without_signature", {"contents": [G_USER, {**G_CALL, "parts": [{"functionCall": {"name": "f"}}]}]}),
        ("call_of_a_user", {"contents": [{**G_CALL, "role": "user"}]}),
        ("no_messages", {"contents": []}),
        ("bad_tool_name", {"contents": [G_USER, {**G_CALL, "parts": [{"functionCall": {"name": "2nd"}, "thoughtSignature": "s"}]}]}),
        ("arguments_are_no_object", {"contents": [G_USER, {**G_CALL, "parts": [{"functionCall": {"name": "f", "args": "a"}}]}]}),
        ("empty_text", {"contents": [{"role": "user", "parts": [{"text": " "}]}]}),
        ("bad_media_type", {"contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "image/gif", "data": "AA=="}}]}]}),
        ("bad_address", {"contents": [{"role": "user", "parts": [{"fileData": {"mimeType": "image/png", "fileUri": "s3://a"}}]}]}),
        ("media_out_of_place", {"contents": [G_USER, {"role": "model", "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]}]}),
    ],
    "plain": [("no_messages", chat()), ("empty_content", chat({"role": "user", "content": " "}))],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rule", "request_"),
    [
        pytest.param(name, rule, request, id=f"{name}-{number}-{rule}")
        for name, cases in BROKEN.items()
        for number, (rule, request) in enumerate(cases)
    ],
)
def test_a_broken_rule_has_a_name(name, rule, request_):
    assert rule in {one.rule for one in dialect(name).validate(request_)}


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        pytest.param("openai_chat", chat(USER, CALL, RESULT, SAID), id="openai_chat"),
        pytest.param("openai_responses", {"input": [USER, F_CALL, F_OUT]}, id="openai_responses"),
        pytest.param("anthropic", {"messages": [USER, USE, USED, SAID]}, id="anthropic"),
        pytest.param("gemini", {"contents": [G_USER, G_CALL, G_OUT]}, id="gemini"),
        pytest.param("plain", chat(USER), id="plain"),
    ],
)
def test_what_a_provider_takes_breaks_no_rule(name, request_):
    assert dialect(name).validate(request_) == []


def test_an_unknown_dialect_is_refused():
    with pytest.raises(InvalidRequestError, match="anthropic"):
        dialect("klingon")


def test_ids_that_anthropic_refuses_are_made_alike_in_calls_and_results():
    messages = [
        Message.user("Go."),
        Message.assistant(ToolCallPart(call_id="call d!", name="look")),
        Message(role="tool", parts=(ToolResultPart(call_id="call d!", content="r"),)),
    ]
    sent = rendered("anthropic", messages)["messages"]
    id = sent[1]["content"][0]["id"]
    assert id == sent[2]["content"][0]["tool_use_id"]
    assert id.startswith("call_d__")
    assert id.isascii()
