"""Anthropic's memory tool over a store, beside the SDK's own one over a directory."""

import asyncio
import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool
from hypothesis import given
from hypothesis import strategies as st
from lance_context_anthropic import AsyncMemoryTool, MemoryTool

from lance_context_core import ContextStore

PATHS = ["/memories", "/memories/a.md", "/memories/b.md", "/memories/d/a.md", "/memories/d", "/memories/d/e/f.md", "/memories/.x"]  # fmt: skip
TEXTS = ["", "one\ntwo\nthree\n", "one", "two\none\ntwo", "\n\n"]


def said(tool, command):
    """What a model is told: the result, or the error; directories' own sizes are the disk's."""
    try:
        told = tool.call(command)
    except ToolError as error:
        told = f"error: {error}"
    if "levels deep" in told:
        told = re.sub(r"^[\d.]+[BKMG]\t(\S+/|/memories\S*)$", r"\t\1", told, flags=re.MULTILINE)
        told = re.sub(r"^[\d.]+[BKMG]\t", "\t", told, flags=re.MULTILINE)
    return told


def commands():
    path, text = st.sampled_from(PATHS), st.sampled_from(TEXTS)
    words = st.sampled_from(["one", "two", "e", "absent"])
    lines = st.integers(-1, 4)
    of = st.fixed_dictionaries
    return st.one_of(
        of({"command": st.just("view"), "path": path}),
        of(
            {
                "command": st.just("view"),
                "path": path,
                "view_range": st.tuples(lines, lines).map(list),
            }
        ),
        of({"command": st.just("create"), "path": path, "file_text": text}),
        of({"command": st.just("str_replace"), "path": path, "old_str": words, "new_str": text}),
        of({"command": st.just("insert"), "path": path, "insert_line": lines, "insert_text": text}),
        of({"command": st.just("delete"), "path": path}),
        of({"command": st.just("rename"), "old_path": path, "new_path": path}),
    )


def is_of_directories_alone(tool, command):
    """Whether it asks for what only a disk has: directories without files, or a file as one."""
    root = tool.memory_root
    paths = [command.get(name) for name in ("path", "old_path", "new_path") if name in command]
    places = [root / path.removeprefix("/memories").lstrip("/") for path in paths]
    empty = [
        one
        for one in root.rglob("*")
        if one.is_dir() and not any(two.is_file() for two in one.rglob("*"))
    ]
    inside = any(above.is_file() for one in places for above in one.parents)
    itself = command["command"] == "rename" and (
        places[1] == places[0] or places[0] in places[1].parents
    )
    return bool(empty) or inside or itself


@pytest.mark.slow
@given(st.lists(commands(), max_size=12))
def test_each_command_says_what_it_says_over_a_directory(tmp_path_factory, sequence):
    compare(tmp_path_factory.mktemp("theirs"), sequence)


A, D = "/memories/a.md", "/memories/d/a.md"


def test_each_command_in_a_row_says_what_it_says_over_a_directory(tmp_path):
    compare(
        tmp_path,
        [
            {"command": "view", "path": A},
            *({"command": "view", "path": A, "view_range": [first, last]} for first, last in ((1, 1), (2, 3), (2, -1), (3, 2), (0, 9))),
            {"command": "create", "path": A, "file_text": "x"},
            {"command": "create", "path": D, "file_text": "one\none\n"},
            {"command": "view", "path": "/memories"},
            {"command": "view", "path": "/memories/d"},
            {"command": "view", "path": "/memories/none"},
            *({"command": "str_replace", "path": D, "old_str": old, "new_str": "2\n2"} for old in ("one", "absent", "one\none")),
            {"command": "view", "path": D},
            *({"command": "insert", "path": A, "insert_line": line, "insert_text": f"at {line}\n"} for line in (0, 1, 5, 6, -1)),
            {"command": "view", "path": A},
            {"command": "str_replace", "path": A, "old_str": "three", "new_str": "3"},
            {"command": "rename", "old_path": A, "new_path": D},
            {"command": "rename", "old_path": A, "new_path": "/memories/b.md"},
            {"command": "rename", "old_path": A, "new_path": "/memories/c.md"},
            {"command": "rename", "old_path": "/memories/d", "new_path": "/memories/e"},
            {"command": "view", "path": "/memories/e"},
            {"command": "view", "path": "/memories/b.md"},
            {"command": "delete", "path": "/memories/none"},
            {"command": "delete", "path": "/memories"},
            {"command": "delete", "path": "/memories/e"},
            {"command": "view", "path": "/memories"},
        ],
    )  # fmt: skip


def compare(place, sequence):
    """Both answer alike, as long as there is nothing that only a disk has."""
    theirs = BetaLocalFilesystemMemoryTool(str(place))
    with ContextStore.open("memory://") as store:
        ours = MemoryTool(store)
        first = {"command": "create", "path": A, "file_text": TEXTS[1]}
        for command in [first, *sequence]:
            if is_of_directories_alone(theirs, command):
                continue
            assert said(ours, command) == said(theirs, command), command


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(tmp_path / "memory", maintenance=None) as store:
        yield store


def test_files_last_and_another_process_sees_them(store):
    assert MemoryTool(store).to_dict() == {"type": "memory_20250818", "name": "memory"}
    MemoryTool(store).call(
        {"command": "create", "path": "/memories/ada.md", "file_text": "Likes trains."}
    )
    told = MemoryTool(store).call({"command": "view", "path": "/memories/ada.md"})
    assert (
        told == "Here's the content of /memories/ada.md with line numbers:\n     1\tLikes trains."
    )
    (item,) = store.kv("memories").list()
    assert (item.key, item.value) == ("/memories/ada.md", {"text": "Likes trains."})


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "/memories/../etc/passwd", "/memories/a/../../b", "memories/a", "/memoriesx/a",
     "/memories/./a", "/memories\\..\\a", "/memories/a\x00b", "", "/"],
)  # fmt: skip
@pytest.mark.parametrize("command", ["view", "create", "delete", "insert", "str_replace", "rename"])
def test_a_path_that_leads_elsewhere_is_refused_and_nothing_is_written(store, command, path):
    more = {
        "create": {"file_text": "x"},
        "insert": {"insert_line": 0, "insert_text": "x"},
        "str_replace": {"old_str": "x", "new_str": "y"},
        "rename": {"old_path": "/memories/a.md", "new_path": path},
    }
    with pytest.raises(ToolError):
        MemoryTool(store).call({"command": command, "path": path, **more.get(command, {})})
    assert store.kv("memories").list() == []


def test_a_line_is_not_inserted_into_what_somebody_else_changed_since_it_was_viewed(store):
    mine, theirs = MemoryTool(store), MemoryTool(store)
    mine.call({"command": "create", "path": "/memories/a.md", "file_text": "one\ntwo\n"})
    insert = {
        "command": "insert",
        "path": "/memories/a.md",
        "insert_line": 1,
        "insert_text": "mine",
    }
    theirs.call(
        {"command": "str_replace", "path": "/memories/a.md", "old_str": "one", "new_str": "0\n1"}
    )
    with pytest.raises(ToolError, match="view it again"):
        mine.call(insert)
    mine.call({"command": "view", "path": "/memories/a.md"})
    mine.call(insert)
    assert store.kv("memories").list()[0].value == {"text": "0\nmine\n1\ntwo\n"}


async def test_of_many_edits_at_once_none_is_lost(store):
    tools = [AsyncMemoryTool(store) for _ in range(8)]
    text = "\n".join(f"[{number}]" for number in range(8))
    await tools[0].call({"command": "create", "path": "/memories/a.md", "file_text": text})
    await asyncio.gather(
        *(
            tool.call({"command": "str_replace", "path": "/memories/a.md", "old_str": f"[{number}]", "new_str": f"done {number}"})
            for number, tool in enumerate(tools)
        )
    )  # fmt: skip
    (item,) = await store.aio.kv("memories").list()
    assert item.value["text"].split("\n") == [f"done {number}" for number in range(8)]


async def test_of_many_who_create_a_file_one_does(store):
    create = {"command": "create", "path": "/memories/a.md", "file_text": "x"}
    ended = await asyncio.gather(
        *(AsyncMemoryTool(store).call(create) for _ in range(8)), return_exceptions=True
    )
    assert sorted(map(str, ended)) == [
        *["File /memories/a.md already exists"] * 7,
        "File created successfully at: /memories/a.md",
    ]


def test_a_directory_is_moved_and_deleted_in_one_commit(store):
    tool = MemoryTool(store)
    for name in ("a", "b/c"):
        tool.call({"command": "create", "path": f"/memories/d/{name}", "file_text": name})
    before = store.kv("memories").version()
    tool.call({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/e/f"})
    assert store.kv("memories").version() == before + 1
    assert [one.key for one in store.kv("memories").list()] == [
        "/memories/e/f/a",
        "/memories/e/f/b/c",
    ]
    for wrong in ("/memories/e/f/g", "/memories"):
        with pytest.raises(ToolError):
            tool.call({"command": "rename", "old_path": "/memories/e/f", "new_path": wrong})
    with pytest.raises(ToolError, match="is a file"):
        tool.call({"command": "create", "path": "/memories/e/f/a/x", "file_text": "x"})
    tool.call({"command": "delete", "path": "/memories/e"})
    assert store.kv("memories").list() == []


def test_an_earlier_version_shows_the_files_as_they_were_and_is_not_written(store):
    tool = MemoryTool(store)
    tool.call({"command": "create", "path": "/memories/a.md", "file_text": "before"})
    store.tag("monday")
    tool.call(
        {
            "command": "str_replace",
            "path": "/memories/a.md",
            "old_str": "before",
            "new_str": "after",
        }
    )
    then = MemoryTool(store.checkout("monday"))
    assert then.call({"command": "view", "path": "/memories/a.md"}).endswith("\tbefore")
    with pytest.raises(ToolError):
        then.call({"command": "delete", "path": "/memories/a.md"})


def test_each_scope_has_files_of_its_own(store):
    ada, bob = (MemoryTool(store.scope(user_id=name)) for name in ("ada", "bob"))
    ada.call({"command": "create", "path": "/memories/a.md", "file_text": "of Ada"})
    with pytest.raises(ToolError, match="does not exist"):
        bob.call({"command": "view", "path": "/memories/a.md"})
    assert bob.clear_all_memory() == "All memory cleared"
    assert ada.call({"command": "view", "path": "/memories/a.md"}).endswith("of Ada")


# In the SDK's own runner, with a model that says what it was told to


ASKED = (
    {"command": "create", "path": "/memories/ada.md", "file_text": "Likes planes."},
    {
        "command": "str_replace",
        "path": "/memories/ada.md",
        "old_str": "planes",
        "new_str": "trains",
    },
    {"command": "view", "path": "/memories/../etc/passwd"},
    {"command": "view", "path": "/memories/ada.md"},
)


@contextmanager
def model():
    """The address of a service whose model uses the tool, and what it was sent."""
    sent = []

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self):
            sent.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            n = len(sent) - 1
            is_done = n == len(ASKED)
            use = {
                "type": "tool_use",
                "id": f"t{n}",
                "name": "memory",
                "input": ASKED[n % len(ASKED)],
            }
            answer = {
                "id": f"m{n}",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [{"type": "text", "text": "Done."} if is_done else use],
                "stop_reason": "end_turn" if is_done else "tool_use",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", sent
        server.shutdown()


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "for coroutines"])
async def test_the_sdks_runner_uses_it_as_one_of_its_own(tmp_path, is_async):
    said = {"role": "user", "content": "Remember that I prefer trains."}
    asked = {"model": "m", "max_tokens": 9, "messages": [said]}
    with model() as (url, sent), ContextStore.open(tmp_path / "memory") as store:
        if is_async:
            async with AsyncAnthropic(api_key="x", base_url=url) as client:
                tools = [AsyncMemoryTool(store.aio.scope(user_id="ada"))]
                last = await client.beta.messages.tool_runner(**asked, tools=tools).until_done()
        else:

            def work():
                with Anthropic(api_key="x", base_url=url) as client:
                    tools = [MemoryTool(store.scope(user_id="ada"))]
                    return client.beta.messages.tool_runner(**asked, tools=tools).until_done()

            last = await asyncio.to_thread(work)
        assert last.content[0].text == "Done."
        assert sent[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
        told = [one["messages"][-1]["content"][0] for one in sent[1:]]
        assert [one.get("is_error", False) for one in told] == [False, False, True, False]
        assert "Likes trains." in told[-1]["content"]
        (file,) = store.scope(user_id="ada").kv("memories").list()
        assert file.value["text"] == "Likes trains."
