"""`lance-ctx tail` shows the end of a conversation, and goes on with what other processes write."""

import json
import signal
import subprocess
import sys

import pytest

from lance_context_core import ContextStore, Message

LANCE_CTX = (sys.executable, "-m", "lance_context_cli")


def test_the_last_messages_are_shown_in_their_order(ctx):
    printed = ctx("tail", "monday", "-n", "2").out.splitlines()
    assert [line for line in printed if line.endswith(".")] == [
        "I shall remember that.",
        "Lunch was great, Ada had soup.",
    ]
    assert ctx("tail", "monday", "-n", "0").out == ""
    assert ctx("--user", "nobody", "tail").out == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["tail", "no-such"], 3, "lance-ctx sessions lists them"),
        (["--at", "before-lunch", "tail", "-f"], 2, "--at names a past moment"),
        (["--json", "tail", "-f"], 2, "use --jsonl"),
        (["tail", "-n", "-1"], 2, "-n"),
    ],
    ids=["session", "at", "json", "lines"],
)
def test_what_cannot_be_followed_is_said_in_one_line(ctx, arguments, code, words):
    ended = ctx(*arguments)
    assert (ended.code, ended.out) == (code, "")
    assert words in ended.err.splitlines()[-1]


@pytest.mark.process
def test_what_another_process_writes_is_followed_until_it_is_interrupted(place):
    command = [*LANCE_CTX, "-C", str(place), "--jsonl", "--fields", "text", "tail", "monday", "-f"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        seen = [process.stdout.readline() for _ in range(3)]
        with ContextStore.open(place) as store:
            for text in ("One", "Two", "Three"):
                store.history.append("tutor", Message.user(text), session_id="monday")
            store.history.append("tutor", Message.user("Elsewhere"), session_id="tuesday")
        seen += [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    texts = [json.loads(line)["text"] for line in seen]
    assert texts[-4:] == ["Lunch was great, Ada had soup.", "One", "Two", "Three"]
    assert (process.returncode, errors) == (0, "")
