"""`lance-ctx`: what it prints, how it ends, and that looking changes nothing."""

import io
import json
import os
import pty
import subprocess
import sys

import pytest

from lance_context_core import ContextStore, Message

LANCE_CTX = (sys.executable, "-m", "lance_context_cli")

LOOKING = [
    ["status"],
    ["sessions"],
    ["ls"],
    ["show", "nuts"],
    ["history", "monday"],
    ["search", "nuts"],
    ["ask", "who", "is", "allergic?"],
    ["log", "--stat"],
    ["diff", "before-lunch"],
    ["tag"],
    ["branch"],
    ["merge", "try", "--dry-run"],
    ["erase", "nuts", "--dry-run"],
    ["thin", "--dry-run"],
    ["facts", "nuts"],
    ["jobs"],
    ["context", "monday"],
    ["sql", "SELECT id FROM messages"],
    ["why", "allergic", "nuts"],
    ["doctor"],
]
each_that_looks = pytest.mark.parametrize("command", LOOKING, ids=" ".join)


@each_that_looks
def test_looking_changes_nothing(ctx, place, command):
    with ContextStore.open(place) as store:
        before = store.version(), store.context().list()
    assert ctx(*command).code == 0
    with ContextStore.open(place) as store:
        assert (store.version(), store.context().list()) == before


@pytest.mark.parametrize(
    "command", [one for one in LOOKING if one[0] not in ("merge", "erase")], ids=" ".join
)
def test_what_looks_with_read_only_changes_no_file(ctx, place, command):
    with ContextStore.open(place) as store:
        store.tags()  # The place is a copy.
    files = [path for path in place.rglob("*") if path.is_file()]
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
    assert ctx("--read-only", *command).code == 0
    assert {path for path in place.rglob("*") if path.is_file()} == {*files}
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files} == before


def test_what_writes_is_refused_with_read_only(ctx, place):
    ended = ctx("--read-only", "tag", "now")
    assert ended.code != 0
    assert "read_only=True" in ended.err
    with ContextStore.open(place) as store:
        assert "now" not in store.tags()


@each_that_looks
def test_programs_are_given_json(ctx, command):
    ended = ctx("--json", *command)
    assert ended.code == 0
    assert json.loads(ended.out) or ended.out == "[]\n"
    lines = [json.loads(line) for line in ctx("--jsonl", *command).out.splitlines()]
    answer = json.loads(ended.out)
    if command[0] == "context":  # It tells when it was made.
        assert answer.pop("at") <= lines[0].pop("at")
    assert lines == (answer if isinstance(answer, list) else [answer])


@each_that_looks
def test_a_place_without_a_store_is_not_found_and_not_made(ctx, tmp_path, command):
    nowhere = tmp_path / "nowhere"
    ended = ctx("-C", str(nowhere), *command)
    assert (ended.code, ended.out) == (3, "")
    assert f"no store at '{nowhere}'" in ended.err
    assert not nowhere.exists()


def test_a_store_has_to_be_named(ctx, monkeypatch):
    monkeypatch.delenv("LANCE_CONTEXT_STORE")
    ended = ctx("status")
    assert ended.code == 2
    assert "-C PLACE" in ended.err


def test_records_are_listed_newest_first(ctx):
    assert [row[0] for row in ctx("ls").rows] == ["lunch", "trains", "yes", "nuts"]
    assert [row[0] for row in ctx("ls", "--oldest", "-n", "2").rows] == ["nuts", "yes"]
    assert [row[0] for row in ctx("ls", "--filter", '{"kind": "memory"}').rows] == ["trains"]


def test_a_scope_is_a_wall(ctx):
    assert [row[0] for row in ctx("--user", "ada", "ls").rows] == ["trains"]
    assert ctx("--user", "bob", "ls").out == ""
    ended = ctx("--user", "bob", "show", "trains")
    assert (ended.code, ended.out) == (3, "")


def test_a_branch_and_a_moment_show_what_is_there_and_then(ctx):
    assert [row[0] for row in ctx("--branch", "try", "ls", "-n", "1").rows] == ["soup"]
    assert [row[0] for row in ctx("--at", "before-lunch", "ls", "-n", "1").rows] == ["trains"]
    version = json.loads(ctx("--json", "tag").out)[0]["version"]
    assert ctx("--at", str(version), "ls").out == ctx("--at", "before-lunch", "ls").out
    assert ctx("--at", "no-such-tag", "ls").code == 3


def test_a_conversation_is_shown_in_its_order(ctx):
    said = ["Ada is allergic to nuts.", "I shall remember that.", "Lunch was great, Ada had soup."]
    shown = ctx("history", "monday").out
    assert sorted(said, key=shown.index) == said
    tail = json.loads(ctx("--json", "history", "monday", "--tail", "2").out)
    assert [one["text"] for one in tail] == said[1:]
    assert ctx("history", "tuesday").code == 3


def test_a_search_tells_why(ctx):
    best = json.loads(ctx("--json", "search", "who", "is", "allergic").out)[0]
    assert best["record"]["id"] == "nuts"
    assert best["score"] == pytest.approx(sum(best["why"].values()))
    assert "channels +" in ctx("search", "allergic", "--explain").rows[0][-1]


def test_a_difference_is_shown_record_by_record(ctx):
    assert ctx("diff", "before-lunch").rows == [
        ["+", "lunch", "message", "monday", "Lunch was great, Ada had soup.", ""]
    ]
    assert ctx("diff", "before-lunch", "before-lunch", "--quiet").code == 0
    assert ctx("diff", "before-lunch", "--quiet").code == 1


def test_what_a_version_brought_adds_up_to_what_there_is(ctx):
    versions = json.loads(ctx("--json", "log", "--stat").out)
    assert [one["number"] for one in versions] == sorted(
        (one["number"] for one in versions), reverse=True
    )
    assert sum(one.get("added", 0) for one in versions) == 4


def test_a_tag_comes_and_goes(ctx):
    assert ctx("tag", "now").code == 0
    assert [row[0] for row in ctx("tag").rows] == ["before-lunch", "now"]
    assert ctx("tag", "--delete", "now").code == 0
    assert ctx("tag", "--delete", "now").code == 3
    assert ctx("tag", "far", "99999").code == 3


def test_a_merge_is_what_its_dry_run_said(ctx):
    told = ctx("merge", "try", "--dry-run").out
    assert "soup" not in ctx("ls").out.split("\t")[0]
    assert ctx("merge", "try").out == told
    assert ctx("ls").rows[0][0] == "soup"
    assert ctx("merge", "no-such-branch").code == 3


def test_a_branch_begins_where_it_is_told_and_goes_when_that_is_confirmed(ctx, monkeypatch):
    assert ctx("branch", "old", "--from", "before-lunch").code == 0
    assert [row[0] for row in ctx("--branch", "old", "ls", "-n", "1").rows] == ["trains"]
    assert ctx("branch", "old").code == 4
    assert ctx("branch", "--delete", "old", "--yes").code == 0
    assert [row[0] for row in ctx("branch").rows] == ["try"]


def test_the_store_becomes_what_it_was(ctx):
    assert ctx("restore", "before-lunch", "--yes").code == 0
    assert [row[0] for row in ctx("ls", "-n", "1").rows] == ["trains"]


@pytest.mark.parametrize(
    "command",
    [["forget", "nuts"], ["erase", "nuts"], ["restore", "before-lunch"], ["branch", "-d", "try"]],
    ids=" ".join,
)
def test_what_cannot_be_undone_is_refused_unless_somebody_says_yes(
    ctx, place, monkeypatch, command
):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    ended = ctx(*command)
    assert ended.code == 5
    assert "--yes" in ended.err
    with ContextStore.open(place) as store:
        assert [one["id"] for one in store.context().list()] == ["nuts", "yes", "trains", "lunch"]
        assert [one.name for one in store.branches()] == ["try"]


def test_what_is_forgotten_is_hidden_and_what_is_erased_is_in_no_version(ctx, place):
    assert ctx("forget", "nuts", "--yes").code == 0
    assert ctx("show", "nuts").code == 3
    assert ctx("--at", "before-lunch", "show", "nuts").code == 0
    told = json.loads(ctx("--json", "erase", "yes", "--dry-run").out)
    done = json.loads(ctx("--json", "erase", "yes", "--yes").out)
    assert (told["records"], done["records"]) == (1, 1)
    assert ctx("show", "yes").code == 3
    assert ctx("--at", "before-lunch", "show", "yes").code == 3
    assert ctx("forget", "yes", "--yes").code == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--at", "before-lunch", "tag", "x"], "--at names a moment"),
        (["--user", "ada", "tag", "x"], "leave out --tenant"),
        (["ls", "--filter", "{"], "--filter '{' is not JSON"),
        (["ls", "--filter", '{"kind": {"$like": 1}}'], "$like"),
        (["ls", "-n", "0"], "-n"),
        (["search"], "WORDS"),
        (["search", "nuts", "--mode", "vector"], "embedder"),
        (["nonsense"], "nonsense"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_a_wrong_request_is_told_with_the_way_out(ctx, arguments, words):
    ended = ctx(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err


def test_a_fact_is_explained_by_the_turn_that_says_so_until_its_job_is_undone(ctx, place):
    with ContextStore.open(place) as store:
        store.knowledge.add("I live in Oslo.", user_id="ada", session_id="spring")
    [fact] = json.loads(ctx("--json", "facts", "Oslo").out)
    id, job = fact["record"]["id"], fact["evidence"][0]["evidence"]["job_id"]
    explained = ctx("explain", id).out
    assert "user says" in explained
    assert [id, "made_by", job] in [line.split("\t") for line in explained.splitlines()]
    assert json.loads(ctx("--json", "jobs", "--state", "succeeded").out)[0]["id"] == job
    told = json.loads(ctx("--json", "undo", job, "--dry-run").out)
    assert id in told["retired"]
    assert ctx("facts", "Oslo").out
    assert json.loads(ctx("--json", "undo", job, "--yes").out)["retired"] == told["retired"]
    assert ctx("facts", "Oslo").out == ""
    assert ctx("explain", "no-such-fact").code == 3
    assert ctx("jobs", "--state", "no-such-state").code == 2


def test_all_that_is_known_is_listed_since_when_and_from_where(ctx, place):
    with ContextStore.open(place) as store:
        for text, session in (("I live in Oslo.", "spring"), ("My cat is called Ida.", "summer")):
            said = [Message.user(text, id=session[:2])]
            store.knowledge.add(said, user_id="ada", session_id=session)
    id, since, text, session, turn = ctx("--user", "ada", "facts").rows[0]
    assert (text, session, turn) == ("My cat is called Ida.", "summer", "su")
    assert (
        since
        == json.loads(ctx("--json", "show", id).out)["created_at"][:19].replace("T", " ") + "Z"
    )
    assert [row[3] for row in ctx("facts").rows] == ["summer", "spring"]
    assert [row[3] for row in ctx("facts", "-n", "1").rows] == ["summer"]
    assert ctx("--user", "bob", "facts").out == ""


def test_what_was_said_is_distilled_on_a_branch_unless_it_shall_count_at_once(ctx, place):
    with ContextStore.open(place) as store:
        said = Message.user("I live in Oslo.", name="Ada")
        store.history.append("tutor", said, session_id="tuesday")
    proposed = json.loads(ctx("--json", "distill", "--session", "tuesday").out)
    assert ctx("facts", "Oslo").out == ""
    assert "Oslo" in ctx("--branch", proposed["branch"], "facts", "Oslo").out
    assert ctx("distill", "--merge").code == 0


def test_the_window_is_shown_part_by_part(ctx):
    told = ctx("context", "monday", "--budget", "500")
    assert [(row[0], row[1], row[4]) for row in told.rows] == [
        ("history", "kept", one) for one in ("nuts", "yes", "lunch")
    ]
    assert "tokens of" in told.err
    window = json.loads(ctx("--json", "context", "monday", "--budget", "500").out)
    assert [one["id"] for one in window["messages"]] == ["nuts", "yes", "lunch"]
    assert ctx("context", "monday", "--budget", "5").code == 2


HOSTILE = "red \x1b[31m clip \x1b]52;c;eA==\x07 back \r over \u202e gnp \x9b2J \x00 end"


@pytest.mark.parametrize("form", ["people", "json", "jsonl"])
def test_what_was_remembered_does_not_drive_the_terminal(ctx, place, form):
    with ContextStore.open(place) as store:
        store.history.append("\x1b[2J", Message.user(HOSTILE, id="bad"), session_id="\u202ebad")
    for command in (
        ["ls"],
        ["show", "bad"],
        ["history", "\u202ebad"],
        ["sessions"],
        ["search", "red"],
    ):
        arguments = command if form == "people" else [f"--{form}", *command]
        out = ctx(*arguments).out
        assert "52;c" in out or "bad" in out
        assert not set(out) & set("\x1b\x07\r\u202e\x9b\x00"), command
        if form == "jsonl" and command == ["show", "bad"]:
            assert json.loads(out)["text"] == HOSTILE


def test_on_a_terminal_there_are_headings_and_colours_unless_they_are_declined(place):
    def printed(**more):
        ours, theirs = pty.openpty()
        environ = os.environ | {"COLUMNS": "120", "TERM": "xterm"} | more
        done = subprocess.run(
            [*LANCE_CTX, "-C", place, "tag"], stdout=theirs, env=environ, timeout=60, check=True
        )
        os.close(theirs)
        assert done.returncode == 0
        with os.fdopen(ours, "rb", buffering=0) as screen:
            return screen.read(4096).decode()

    coloured = printed()
    assert "tag" in coloured
    assert "before-lunch" in coloured
    assert "\x1b[1m" in coloured
    assert "\x1b[3" not in printed(NO_COLOR="1")


def test_help_is_told_without_the_engine(place):
    program = (
        "import sys; from lance_context_cli import main; sys.argv = ['lance-ctx', '--help'];"
        "code = main._ended(); print(code, sorted({'lancedb', 'pyarrow', 'rich', 'lance_context_core'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert "Inspect, search, version and erase an agent's memory" in done.stdout
    assert done.stdout.endswith("0 []\n")


def test_who_reads_no_further_is_not_told_of_a_broken_pipe(place):
    with ContextStore.open(place) as store:
        store.memory.add([f"number {n} {'x' * 200}" for n in range(2000)], user_id="many")
    command = [*LANCE_CTX, "-C", place, "ls", "-n", "2000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1
