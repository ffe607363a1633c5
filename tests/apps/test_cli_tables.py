"""Lists on screens of any width, ids by their beginnings, chosen columns, and texts that are cut."""

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys

import pytest
from efforts import in_proofs
from lance_context_cli.ids import shortened
from lance_context_cli.output import fitting

from lance_context_core import ContextStore, Message

LISTED = [
    (["ls"], ["Prefers", "trains", "planes", "text"]),
    (["search", "trains"], ["Prefers", "trains", "planes", "score", "session"]),
    (["facts"], ["doctor", "session", "text"]),
]


@pytest.fixture
def told(tmp_path, monkeypatch):
    """A place whose records have ids that were made there."""
    place = tmp_path / "told"
    with ContextStore.open(place) as store:
        ada = store.scope(user_id="ada")
        ada.memory.add(["Prefers trains to planes"])
        ada.knowledge.add(Message.user("I work as a doctor."), session_id="ada-0")
    monkeypatch.setenv("LANCE_CONTEXT_STORE", str(place))
    return place


def screen(place, columns, *command):
    """What a terminal of so many columns shows."""
    ours, theirs = pty.openpty()
    environ = os.environ | {"COLUMNS": str(columns), "TERM": "xterm", "PAGER": "cat"}
    command = [sys.executable, "-m", "lance_context_cli", "-C", str(place), *command]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=environ) as process:
        os.close(theirs)
        printed = b""
        while b"\n" not in printed or process.poll() is None:
            try:
                printed += os.read(ours, 1 << 16)
            except OSError:
                break
        assert process.wait(60) == 0
    os.close(ours)
    return re.sub(r"\x1b\[\d*m", "", printed.decode())


@pytest.mark.process
@pytest.mark.parametrize("columns", [60, *in_proofs(80)])
@pytest.mark.parametrize(("command", "words"), LISTED, ids=["ls", "search", "facts"])
def test_on_a_narrow_screen_no_word_is_broken_and_no_text_is_gone(told, columns, command, words):
    printed = screen(told, columns, *command)
    assert [word for word in words if word not in printed] == []
    assert max(map(len, printed.splitlines())) <= columns


def test_columns_give_way_in_a_known_order_and_are_named(ctx, told):
    heading = ("id", "created", "kind", "session", "who", "text")
    row = ["f" * 8, "2026-05-04 09:01Z", "message", "monday", "user", "word " * 9]
    orders = [fitting(heading, [row], width) for width in (69, 68, 62, 53, 20)]
    assert [[one for one in heading if one not in kept] for kept in orders] == [
        [],
        ["who"],
        ["kind", "who"],
        ["created", "kind", "who"],
        ["created", "kind", "who"],
    ]
    assert "left out, for want of room: kind, who" in ctx("--width", "60", "ls").err
    assert ctx("--width", "200", "ls").err == ""


def test_times_on_a_screen_are_short_and_elsewhere_whole(ctx):
    assert "2026-05-04 09:01Z" in ctx("--width", "120", "ls").out
    assert "2026-05-04 09:01:00Z" in ctx("ls").out


def test_ids_are_as_short_as_tells_them_apart():
    made = ["aaaaaaaa" + "0" * 24, "aaaaaaaa" + "0" * 7 + "1" * 17, "fact-" + "1" * 32]
    assert shortened([*made, "monday", "a"]) == {
        made[0]: "a" * 8 + "0" * 8,
        made[1]: "a" * 8 + "0" * 7 + "1",
        made[2]: "fact-" + "1" * 8,
        "monday": "monday",
        "a": "a",
    }


def test_the_beginning_of_an_id_is_taken_wherever_an_id_is(ctx, told):
    with ContextStore.open(told) as store:
        (memory,) = store.memory.list(user_id="ada").items
        (fact,) = store.context("knowledge").records(filters={"kind": "fact"})
        (job,) = store.knowledge.jobs.list()
        store.audit.seal()
    shown = ctx("--width", "100", "ls").out.split()
    assert memory.id[:8] in shown
    assert memory.id not in shown
    short = memory.id[:8]
    assert json.loads(ctx("--json", "show", short).out)["id"] == memory.id
    assert "I work as a doctor." in ctx("show", fact.id[:13]).out
    assert "doctor" in ctx("explain", fact.id[:13]).out
    assert "doctor" in ctx("history", "ada").out
    assert ctx("context", "ada").code == 0
    assert json.loads(ctx("--json", "why", "trains", short).out)["found"]
    assert json.loads(ctx("--json", "erase", short, "--dry-run").out)["records"] == 1
    assert ctx("undo", job.id[:12], "--dry-run").code == 0
    assert memory.id in ctx("--json", "audit", short).out
    assert ctx("distill", "--session", "ada").code == 0
    assert ctx("forget", short, "--yes").code == 0
    assert ctx("forget", short, "--yes").code != 0
    with ContextStore.open(told) as store:
        assert store.memory.list(user_id="ada").total == 0


def test_a_beginning_of_several_ids_or_of_none_is_refused_and_names_them(ctx, place):
    with ContextStore.open(place) as store:
        store.memory.add([Message.user("x", id="twin-1"), Message.user("y", id="twin-2")])
        store.memory.add([Message.user("z", id="twin")], session_id="s")
    assert json.loads(ctx("--json", "show", "twin").out)["text"] == "z"
    ended = ctx("forget", "twin-", "--yes")
    assert (ended.code, "twin-1, twin-2" in ended.err) == (2, True)
    ended = ctx("show", "nothing")
    assert (ended.code, "lance-ctx ls lists them" in ended.err) == (3, True)


@pytest.mark.parametrize(
    "words",
    [("show",), ("forget", "--yes"), ("erase", "--yes"), ("history",), ("undo", "--yes")],
    ids=lambda words: words[0],
)
def test_an_empty_id_means_nothing_also_where_there_is_one_record_alone(ctx, tmp_path, words):
    place = str(tmp_path / "one")
    with ContextStore.open(place) as store:
        store.memory.add([Message.user("Ada prefers trains.", id="only")])
    command, *options = words
    ended = ctx("-C", place, command, "", *options)
    assert (ended.code, "an id is missing where '' stands" in ended.err) == (2, True)
    with ContextStore.open(place) as store:
        assert store.memory.list().total == 1


def test_the_columns_and_fields_that_are_named_are_printed(ctx):
    assert ctx("--fields", "text,id", "ls", "-n", "1").rows == [
        ["Lunch was great, Ada had soup.", "lunch"]
    ]
    assert json.loads(ctx("--json", "--fields", "id,kind", "ls", "-n", "1").out) == [
        {"id": "lunch", "kind": "message"}
    ]
    printed = list(csv.reader(io.StringIO(ctx("--csv", "--fields", "who,id", "ls").out)))
    assert printed[0] == ["who", "id"]
    ended = ctx("--fields", "colour", "ls")
    assert (ended.code, "--fields colour: there are id, created, kind" in ended.err) == (2, True)


def test_a_long_text_is_cut_in_a_pipe_unless_it_is_asked_for(ctx, place):
    long = "word " * 1_000
    with ContextStore.open(place) as store:
        store.memory.add([Message.user(long, id="long")])
    (cut,) = [row[-1] for row in ctx("ls").rows if row[0] == "long"]
    assert cut == long[:200] + "…"
    (whole,) = [row[-1] for row in ctx("--whole", "ls").rows if row[0] == "long"]
    assert whole == long
    assert json.loads(ctx("--json", "ls", "-n", "1").out)[0]["text"] == long
