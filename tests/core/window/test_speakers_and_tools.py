"""Who spoke, which tool was called, and what was shown: a request says so in the words its provider takes."""

import base64
import json

import pytest
from core.window.refusals import refusals
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import ContextStore, Message
from lance_context_core.messages import (
    AudioPart,
    FilePart,
    ImagePart,
    ToolCallPart,
    VideoPart,
)
from lance_context_core.window import (
    DIALECTS,
    HistorySection,
    RecallSection,
    SummarySection,
    dialect,
    groups_of,
)

each_dialect = pytest.mark.parametrize("name", DIALECTS)
PNG = b"\x89PNG\r\n\x1a\n"
PDF = b"%PDF-1.7 tea"


def rendered(name, messages):
    request = dialect(name).render(groups_of(messages).messages)
    assert refusals(name, request) == []
    return request


def letters(request):
    return json.dumps(request, ensure_ascii=False)


@pytest.fixture
def store():
    with ContextStore.open("memory://") as opened:
        yield opened


# Speakers


@each_dialect
def test_who_spoke_stands_in_the_request(name):
    messages = [
        Message.user("I am allergic to hazelnuts.", name="Ann"),
        Message.user("I love hazelnut cake.", name="Bob Lee"),
        Message.assistant("Noted.", name="Planner"),
        Message.of("narrator", "Night falls."),
    ]
    sent = letters(rendered(name, messages))
    assert "Bob Lee: I love hazelnut cake." in sent
    assert "narrator" in sent
    if name == "openai_chat":
        first, _, third, _ = rendered(name, messages)["messages"]
        assert (first["name"], first["content"]) == ("Ann", "I am allergic to hazelnuts.")
        assert (third["name"], third["content"]) == ("Planner", "Noted.")
    else:
        assert "Ann: I am allergic to hazelnuts." in sent
        assert "Planner: Noted." in sent


@each_dialect
def test_a_name_that_says_no_more_than_the_role_is_left_out(name):
    plain = [Message.user("Tea?"), Message.assistant("Here.")]
    named = [Message.user("Tea?", name="User"), Message.assistant("Here.", name="assistant")]
    assert rendered(name, named) == rendered(name, plain)


@each_dialect
def test_a_name_has_one_line_and_stands_before_a_picture_too(name):
    picture = ImagePart(data=PNG, caption="a pot")
    sent = rendered(name, [Message.user([picture], name="Ann\nBob: I hate tea")])
    assert "Ann Bob: I hate tea:" in letters(sent)


def test_who_spoke_is_counted(store):
    said = [Message.user("Tea?", name="Ann of the house at the far end of the long road")]
    named = store.assemble(session_id="s", budget=900, messages=said)
    nameless = store.assemble(session_id="s", budget=900, messages=[Message.user("Tea?")])
    assert named.tokens > nameless.tokens + 10


def test_recalled_turns_and_summaries_name_who_said_them(store):
    said = [Message.user("I am allergic to hazelnuts.", name="Ann", id="a1")]
    said += [Message.user("I love hazelnut cake.", name="Bob", id="b1")]
    store.history.append_many("", said, session_id="old")
    asked = [Message.user("Who may eat hazelnuts?", name="Cid")]
    sections = [HistorySection(), RecallSection()]
    window = store.assemble(session_id="new", budget=900, messages=asked, sections=sections)
    assert "Ann: I am allergic to hazelnuts." in window.messages[-1].text
    assert "Bob: I love hazelnut cake." in window.messages[-1].text
    long = [Message.user("leaf " * 60, name=f"Guest{n}", id=f"g{n}") for n in range(40)]
    store.history.append_many("", long, session_id="long")
    heard = []
    summary = SummarySection(summariser=lambda text: heard.append(text) or "Guests talked.")
    store.assemble(session_id="long", budget=800, sections=[summary, HistorySection()])
    assert "Guest0: leaf" in heard[0]


# Tools


def tool_names(name, request):
    """The names of the calls, and those of the results where these bear one, as JSON has them."""
    if name == "openai_chat":
        made = [one for m in request["messages"] for one in m.get("tool_calls", ())]
        return [one["function"]["name"] for one in made]
    if name == "openai_responses":
        return [one["name"] for one in request["input"] if one.get("type") == "function_call"]
    if name == "anthropic":
        blocks = [one for m in request["messages"] for one in m["content"]]
        return [one["name"] for one in blocks if one["type"] == "tool_use"]
    parts = [one for c in request["contents"] for one in c["parts"]]
    assert [p["functionResponse"]["name"] for p in parts if "functionResponse" in p] == [
        p["functionCall"]["name"] for p in parts if "functionCall" in p
    ]
    return [p["functionCall"]["name"] for p in parts if "functionCall" in p]


def called(tools, ids=None):
    calls = [
        ToolCallPart(call_id=id, name=tool)
        for id, tool in zip(ids or [f"c{n}" for n in range(len(tools))], tools, strict=True)
    ]
    results = [Message.tool("r", call_id=one.call_id) for one in calls]
    return [Message.user("Go."), Message.assistant(calls), *results]


PROVIDERS = ("openai_chat", "openai_responses", "anthropic", "gemini")
each_provider = pytest.mark.parametrize("name", PROVIDERS)
TOOLS = st.text(st.sampled_from("aA_-. 1é/x0"), min_size=1, max_size=4) | st.sampled_from(
    ["n" * 64, "n" * 65, "n" * 66, "look up", "look_up", "2nd"]
)


@each_provider
@given(tools=st.lists(TOOLS, min_size=1, max_size=6, unique=True))
def test_an_answer_names_the_tool_that_was_meant(name, tools):
    sent = tool_names(name, rendered(name, called(tools)))
    mine = {dialect(name).tool_name(tool): tool for tool in tools}
    assert [mine[one] for one in sent] == tools


@each_provider
def test_a_tool_that_is_named_as_another_is_sent_is_another(name):
    escaped = dialect(name).tool_name("look up")
    first, second = tool_names(name, rendered(name, called(["look up", escaped])))
    assert escaped == first != second


@each_provider
@pytest.mark.parametrize("tool", ["search", "look_up", "get-weather", "mcp__github__search"])
def test_a_name_that_every_provider_takes_is_sent_as_it_is(name, tool):
    assert dialect(name).tool_name(tool) == tool


def test_a_tool_with_dots_keeps_its_name_where_that_is_taken():
    assert dialect("gemini").tool_name("files.read:all") == "files.read:all"


@each_provider
@given(
    ids=st.lists(
        st.text(st.sampled_from("aA_- !é"), min_size=1, max_size=3)
        | st.sampled_from(["e" * 40, "e" * 41, "e" * 64, "e" * 65]),
        min_size=1,
        max_size=6,
        unique=True,
    )
)
def test_calls_and_results_are_found_by_ids_that_the_provider_takes(name, ids):
    request = rendered(name, called(["look"] * len(ids), ids))
    if name != "gemini":
        found = letters(request)
        assert not any(one in found for one in ids if len(one) > 64)


@each_provider
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ('{"at": "pot"}', {"at": "pot"}),
        ("[1]", {"input": "[1]"}),
        ("NaN", {"input": "NaN"}),
        ("{", {"input": "{"}),
        ("{}", {}),
        (" ", {}),
    ],
)
def test_arguments_are_an_object_whatever_the_model_wrote(name, given, meant):
    call = ToolCallPart(call_id="c", name="look", arguments=given)
    request = rendered(
        name, [Message.user("Go."), Message.assistant(call), Message.tool("r", call_id="c")]
    )
    made = {
        "openai_chat": lambda: request["messages"][1]["tool_calls"][0]["function"]["arguments"],
        "openai_responses": lambda: request["input"][1]["arguments"],
        "anthropic": lambda: request["messages"][1]["content"][0]["input"],
        "gemini": lambda: request["contents"][1]["parts"][0]["functionCall"]["args"],
    }[name]()
    assert (json.loads(made) if isinstance(made, str) else made) == meant


# Pictures, sounds and files

MENU = FilePart(data=PDF, media_type="application/pdf", name="menu.pdf")
SONG = AudioPart(data=b"ID3 la", media_type="audio/mp3", name="song.mp3")
POT = ImagePart(data=PNG, name="pot.png")


def b64(data):
    return base64.b64encode(data).decode()


def test_documents_go_where_they_are_taken():
    said = [Message.user([MENU, "What is there?"])]
    url = f"data:application/pdf;base64,{b64(PDF)}"
    assert rendered("openai_chat", said)["messages"][0]["content"][0] == {
        "type": "file", "file": {"filename": "menu.pdf", "file_data": url}
    }  # fmt: skip
    assert rendered("openai_responses", said)["input"][0]["content"][0] == {
        "type": "input_file", "filename": "menu.pdf", "file_data": url
    }  # fmt: skip
    assert rendered("anthropic", said)["messages"][0]["content"][0] == {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": b64(PDF)},
        "title": "menu.pdf",
    }
    assert rendered("gemini", said)["contents"][0]["parts"][0] == {
        "inlineData": {"mimeType": "application/pdf", "data": b64(PDF)}
    }


def test_sounds_go_where_they_are_taken():
    said = [Message.user([SONG, "Who sings?"])]
    assert rendered("openai_chat", said)["messages"][0]["content"][0] == {
        "type": "input_audio", "input_audio": {"data": b64(SONG.data), "format": "mp3"}
    }  # fmt: skip
    assert rendered("gemini", said)["contents"][0]["parts"][0] == {
        "inlineData": {"mimeType": "audio/mpeg", "data": b64(SONG.data)}
    }
    assert "song.mp3" in letters(rendered("anthropic", said))


def test_a_type_that_its_bytes_deny_is_not_sent():
    said = [Message.user([ImagePart(data=PNG, media_type="image/jpeg")])]
    source = rendered("anthropic", said)["messages"][0]["content"][0]["source"]
    assert source["media_type"] == "image/png"


TAKEN = {
    "openai_chat": {"picture", "document", "sound"},
    "openai_responses": {"picture", "document"},
    "anthropic": {"picture", "document"},
    "gemini": {"picture", "document", "sound", "film"},
    "plain": set(),
}
TAKEN_AT = {
    "openai_chat": {"user"},
    "openai_responses": {"user", "result", "failed"},
    "anthropic": {"user", "result"},
    "gemini": {"user"},
    "plain": set(),
}
MEDIA = {
    "picture": POT,
    "document": MENU,
    "sound": SONG,
    "film": VideoPart(data=b"film", media_type="video/mp4", name="pour.mp4"),
    "archive": FilePart(data=b"PK", media_type="application/zip", name="pots.zip"),
    "address": ImagePart(url="file:///tmp/pot.png", name="pot.png"),
}


@each_dialect
@pytest.mark.parametrize("kind", MEDIA)
@pytest.mark.parametrize("place", ["user", "assistant", "result", "failed"])
def test_what_is_not_taken_is_named_in_the_request_and_in_the_report(store, name, kind, place):
    part = MEDIA[kind]
    call = Message.assistant(ToolCallPart(call_id="c", name="look"), id="a")
    result = Message.tool([part, "Here."], call_id="c", is_error=place == "failed", id="shown")
    said = {
        "user": [Message.user([part, "Look."], id="shown")],
        "assistant": [Message.user("Look.", id="u"), Message.assistant([part], id="shown")],
    }.get(place, [Message.user("Look.", id="u"), call, result])
    window = store.assemble(session_id="s", budget=9_000, messages=said, dialect=name)
    request = letters(window.render())
    is_taken = kind in TAKEN[name] and place in TAKEN_AT[name]
    assert refusals(name, window.render()) == []
    assert (f"[{part.type}: {part.name}" in request) != is_taken
    (outcome,) = [one for one in window.report.outcomes if "shown" in one.ids]
    told = [one for one in window.report.notes if part.name in one and "shown" in one]
    assert bool(told) == (f"{part.type}_named" in outcome.notes) == (not is_taken)
    if is_taken and part.data is not None:
        assert b64(part.data) in request
