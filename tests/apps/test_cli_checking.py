"""`lance-ctx doctor`, `bench` and `why`; and what shells and spreadsheets are given."""

import csv
import io
import json
import subprocess
import sys

import pytest

from lance_context_core import ContextStore, Message


def test_what_is_due_is_told_with_the_command_that_does_it(ctx, place):
    assert (ctx("doctor").code, ctx("doctor").rows) == (0, [])
    with ContextStore.open(place, maintenance=None) as store:
        for n in range(40):  # So many files that they are to be merged.
            store.context().add_many([{"role": "user", "content": f"{n}"}] * 40)
            store.flush()
    ended = ctx("doctor")
    assert ended.code == 1
    assert {row[2] for row in ended.rows} == {"lance-ctx maintain"}
    assert ctx("maintain").code == 0
    assert ctx("doctor").code == 0


def test_what_the_store_answers_is_measured_and_nothing_is_written(ctx, place):
    with ContextStore.open(place) as store:
        before = store.version()
    told = json.loads(ctx("--json", "bench", "-n", "2").out)
    assert [one["times"] for one in told] == [1, 2, 2, 2, 2]
    assert all(0 < one["median_ms"] <= one["p95_ms"] for one in told)
    with ContextStore.open(place) as store:
        assert store.version() == before


def test_why_something_is_found_and_why_not(ctx, place):
    found = json.loads(ctx("--json", "why", "who is allergic", "nuts").out)
    assert (found["found"], found["rank"]) == (True, 1)
    assert found["score"] == pytest.approx(sum(found["why"].values()))
    ended = ctx("why", "volcano", "lunch")
    assert ended.code == 1
    assert "nothing of the query" in ended.out
    with ContextStore.open(place) as store:
        store.context().update(id="nuts", lifecycle_status="deprecated")
    ended = ctx("why", "allergic", "nuts")
    assert ended.code == 1
    assert "its lifecycle_status is deprecated" in ended.out
    assert ctx("why", "allergic", "nowhere").code == 3


def test_the_words_of_a_changed_text_are_marked(ctx, place):
    with ContextStore.open(place) as store:
        new = Message.assistant("I shall never remember that", id="yes")
        store.history.rewrite("tutor", new, session_id="monday")
    [row] = [row for row in ctx("diff", "before-lunch", "--word").rows if row[0] == "~"]
    assert row[4] == "I shall {+never+} remember [-that.-] {+that+}"


def test_a_list_is_printed_for_a_spreadsheet(ctx, place):
    with ContextStore.open(place) as store:
        store.memory.add([Message.user("=1+1", id="sum")], user_id="ada")
    heading, first, *_ = csv.reader(io.StringIO(ctx("--csv", "ls").out))
    assert heading[0] == "id"
    assert (first[0], first[-1]) == ("sum", "'=1+1")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_shell_is_told_how_to_complete(ctx, shell):
    printed = ctx("completion", shell).out
    assert f"_LANCE_CTX_COMPLETE={shell}_complete" in printed
    assert "lance-ctx" in printed
    assert ctx("completion", "abacus").code == 2


def test_commands_are_completed(tmp_path):
    words = {"COMP_WORDS": "lance-ctx hist", "COMP_CWORD": "1"}
    program = (
        "import sys; sys.argv = ['lance-ctx']; from lance_context_cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**words, "_LANCE_CTX_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "plain,history\n"
