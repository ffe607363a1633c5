"""How `lance-ctx` ends where something is in the way: one line, the code of it, and nothing by half."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from efforts import in_proofs

from lance_context_core import ContextStore

LANCE_CTX = (sys.executable, "-m", "lance_context_cli")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-C", "{file}", "ls"], 3, "is a file, and no store"),
        (["export", "{file}/out"], 1, "name a place that is there"),
        (["sql", "SELECT 1", "--arrow", "{file}/out"], 1, "name a place that is there"),
        (["context", "no-such"], 3, "lance-ctx sessions lists them"),
        (["tasks", "no-such"], 3, "lance-ctx tasks --boards"),
        (["sql", "SELECT 1", "--timeout", "0"], 2, "--timeout"),
        (["sql", "SELECT 1", "--timeout", "nan"], 2, "timeout_seconds=nan"),
        (["ls", "--json"], 2, "comes before the command: lance-ctx --json"),
        (["ls", "--no-such"], 2, "--no-such"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_what_is_in_the_way_is_said_in_one_line(ctx, tmp_path, arguments, code, words):
    (tmp_path / "file").write_text("no store")
    given = [one.replace("{file}", str(tmp_path / "file")) for one in arguments]
    ended = ctx(*given)
    assert (ended.code, ended.out) == (code, "")
    assert words in ended.err.splitlines()[-1]
    assert "Traceback" not in ended.err


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-", *in_proofs("<&-", ">&-")])
def test_streams_that_are_closed_are_missed_by_nobody(place, closed):
    before = sorted(one.name for one in Path(place).iterdir())
    command = f'"{sys.executable}" -m lance_context_cli -C "{place}"'
    for asked, code in (("ls", 0), ("erase nuts", 5)):
        ended = subprocess.run(
            ["/bin/sh", "-c", f"{command} {asked} {closed}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (ended.returncode, "Traceback" in ended.stderr) == (code, False)
        assert ("nuts" in ended.stdout) == (asked == "ls" and closed in ("<&-", "2>&-"))
    assert sorted(one.name for one in Path(place).iterdir()) == before
    with ContextStore.open(place) as store:
        assert store.verify().files


@pytest.mark.process
def test_ten_million_letters_do_not_hold_up_a_terminal(place):
    with ContextStore.open(place) as store:
        store.memory.add(["word " * 2_000_000], user_id="many")
    ours, theirs = pty.openpty()
    environ = os.environ | {"COLUMNS": "120", "LINES": "2000", "TERM": "xterm", "PAGER": "cat"}
    with subprocess.Popen(
        [*LANCE_CTX, "-C", place, "ls"], stdout=theirs, stderr=theirs, env=environ
    ) as process:
        os.close(theirs)
        printed = b""
        while b"nuts" not in printed:
            printed += os.read(ours, 1 << 16)
        assert process.wait(60) == 0
    os.close(ours)
    assert "(9,998,000 more characters)" in " ".join(printed.decode().split())


INTERRUPTED = """
import asyncio, os, signal, time
from lance_context_cli.main import main
from lance_context_core.transfer import importing

signal.signal(signal.SIGINT, signal.default_int_handler)
at = os.environ["INTERRUPT_AT"]
read, load = importing._Stage._write, importing.load

def reading(stage, *given):
    read(stage, *given)
    os.kill(os.getpid(), signal.SIGINT)
    while not stage.is_stopped:
        time.sleep(0.01)

async def loading(*given, **named):
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(0.2)
    return await load(*given, **named)

if at == "reading":
    importing._Stage._write = reading
else:
    importing.load = loading
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", ["reading", "writing"])
def test_an_import_that_is_interrupted_leaves_all_or_nothing(ctx, tmp_path, at):
    assert ctx("export", str(tmp_path / "out.jsonl")).code == 0
    scratch, place = tmp_path / "scratch", tmp_path / "new"
    scratch.mkdir()
    command = [sys.executable, "-c", INTERRUPTED, "-C", str(place), "import"]
    ended = subprocess.run(
        [*command, str(tmp_path / "out.jsonl")],
        env=os.environ | {"INTERRUPT_AT": at, "TMPDIR": str(scratch)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr.strip() == "lance-ctx: interrupted"
    assert list(scratch.iterdir()) == []
    shown = ctx("-C", str(place), "ls")
    assert shown.code == (3 if at == "reading" else 0)
    assert shown.out == ("" if at == "reading" else ctx("ls").out)
