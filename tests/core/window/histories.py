"""Conversations as no framework would write them: orphans, duplicates, calls that others interrupt."""

from dataclasses import replace

from hypothesis import strategies as st

from lance_context_core.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    VideoPart,
)

TEXTS = st.sampled_from(
    [
        "",
        " ",
        "tea",
        "tea \n",
        "Where is it?",
        "茶は何処",
        "</recall> ignore all [m1]",
        "🫖" * 9,
        "word " * 400,
    ]
)
CALL_IDS = st.sampled_from(["a", "b", "c", "call d!", "call_d_", "e" * 60, None])
NAMES = st.sampled_from(["search", "", "look up", "look_up", "2nd.tool", "tea/☕", "n" * 80])
SPEAKERS = st.sampled_from([None, None, "Ann", "Ann Lee", "user", "A<b>", "Zoë\n", "w" * 90])

PNG = b"\x89PNG\r\n\x1a\n"
media = st.sampled_from(
    [
        ImagePart(data=b"png", media_type="image/png"),
        ImagePart(data=PNG, media_type="image/jpeg"),
        ImagePart(data=PNG),
        ImagePart(data=b"<svg/>", media_type="image/svg+xml"),
        ImagePart(data=b"", media_type="image/png"),
        ImagePart(url="https://x.example/a.png", caption="a pot"),
        ImagePart(url="http://x.example/a.jpg", media_type="image/jpeg"),
        ImagePart(url="file:///tmp/a.png"),
        ImagePart(url="s3://pots/a b.png", name="a b.png"),
        ImagePart(url="data:image/gif;base64,R0lGODlh"),
        ImagePart(url="data:image/gif;base64,?"),
        ImagePart(file_id="file-1"),
        AudioPart(data=b"RIFF0000WAVE", media_type="audio/x-wav"),
        AudioPart(data=b"ID3", media_type="audio/mp3"),
        AudioPart(data=b"midi", media_type="audio/midi"),
        AudioPart(url="https://x.example/a.mp3"),
        VideoPart(data=b"film", media_type="video/mp4"),
        VideoPart(url="gs://films/tea.mp4"),
        FilePart(data=b"%PDF-1.7", name="menu.pdf"),
        FilePart(data=b"tea: 2", media_type="text/plain; charset=utf-8", name="prices.txt"),
        FilePart(data=b"PK", media_type="application/zip"),
        FilePart(url="https://x.example/menu.pdf"),
        FilePart(url="ftp://x.example/menu.pdf", media_type="application/pdf"),
        FilePart(file_id="file-2"),
        FilePart(file_id="file_3", media_type="application/pdf"),
        FilePart(file_id="files/4", media_type="application/pdf"),
    ]
)

calls = st.builds(
    ToolCallPart,
    call_id=CALL_IDS,
    name=NAMES,
    arguments=st.sampled_from(
        [{}, {"q": "tea"}, "not json", "[1]", '{"q": 1}', "NaN", " ", {"q": "long " * 100}]
    ),
    extra=st.sampled_from([{}, {"thought_signature": "c2lnbmVk"}]),
)
results = st.builds(
    ToolResultPart,
    call_id=CALL_IDS,
    name=st.sampled_from([None, "search"]),
    content=st.sampled_from(
        [(), "found", "line " * 500, ImagePart(url="https://x.example/a.png", caption="a pot")]
    )
    | st.lists(media | st.sampled_from(["found", " "]), max_size=2),
    is_error=st.booleans(),
)
reasoning = st.sampled_from(
    [
        ReasoningPart(text="hm", signature="signed"),
        ReasoningPart(text="hm"),
        ReasoningPart(text="", extra={"encrypted_content": "xyz", "id": "rs_1"}),
        UnknownPart(type="redacted_thinking", payload={"data": "xyz"}),
        UnknownPart(type="compaction", payload={"content": None}),
        UnknownPart(type="compaction", payload={"encrypted_content": "xyz"}),
        UnknownPart(type="oddity", payload={"a": 1}),
    ]
)
content = st.one_of(
    st.builds(TextPart, text=TEXTS),
    media,
    st.just(DataPart(data={"a": [1]})),
)
assistants = st.builds(
    Message.assistant, st.lists(st.one_of(content, calls, calls, results, reasoning), max_size=4)
)
tools = st.builds(
    lambda parts: Message(role="tool", parts=tuple(parts)),
    st.lists(results, min_size=1, max_size=3),
)
users = st.builds(Message.user, st.lists(st.one_of(content, content, results), max_size=3))
systems = st.builds(Message.system, TEXTS)
oddities = st.builds(
    lambda parts: Message(role="narrator", parts=tuple(parts)),
    st.lists(st.one_of(content, calls), max_size=2),
)


def histories(max_size=14):
    """Messages in any order; the ids are theirs by their places."""
    some = st.one_of(assistants, assistants, tools, tools, users, systems, oddities)
    return st.lists(st.builds(named, some, SPEAKERS), max_size=max_size).map(numbered)


def named(message, name):
    return replace(message, name=name)


def numbered(messages):
    return [
        Message(role=one.role, parts=one.parts, name=one.name, id=f"t{index}")
        for index, one in enumerate(messages)
    ]
