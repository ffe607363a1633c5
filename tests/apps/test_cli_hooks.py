"""Hooks of coding agents: what is written into their settings, what they remember and recall."""

import io
import json
import shlex
import subprocess
import sys
import tomllib

import pytest
from core.transfer import coding_histories as histories
from core.transfer.coding_histories import PROJECT

from lance_context_core import ContextStore, Message

THERE = {
    "model": "opus",
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check 'it"}]}],
    },
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.chdir(home / "project")
    return home


def commands(file, event):
    """What an event runs."""
    events = json.loads(file.read_text()).get("hooks", {}).get(event, [])
    return [one["command"] for some in events for one in some["hooks"]]


def happens(ctx, monkeypatch, event, *words, **told):
    """Runs a hook of Claude Code; returns what the model is told."""
    given = json.dumps({"hook_event_name": event, **told})
    monkeypatch.setattr(sys, "stdin", io.StringIO(given))
    ended = ctx(*words, "hooks", "run", "claude-code")
    assert (ended.code, ended.err) == (0, "")
    if not ended.out:
        return ""
    found = json.loads(ended.out)["hookSpecificOutput"]
    assert found["hookEventName"] == event
    return found["additionalContext"]


def test_installed_twice_hooks_are_there_once_and_what_was_there_stays(ctx, home, place):
    file = home / ".claude" / "settings.json"
    file.parent.mkdir()
    before = json.dumps(THERE, indent=2, ensure_ascii=False) + "\n"
    file.write_text(before)
    for _ in range(2):
        assert ctx("hooks", "install", "claude-code").code == 0
    assert commands(file, "PreToolUse") == ["check 'it"]
    (said, own) = commands(file, "Stop")
    words = [sys.executable, "-m", "lance_context_cli", "-C", str(place)]
    assert (said, shlex.split(own)) == ("say done", [*words, "hooks", "run", "claude-code"])
    assert commands(file, "SessionStart") == commands(file, "UserPromptSubmit") == [own]
    assert ctx("hooks", "uninstall", "claude-code").code == 0
    assert file.read_text() == before


def test_a_dry_run_shows_the_change_and_writes_nothing(ctx, home):
    ended = ctx("hooks", "install", "claude-code", "--dry-run")
    assert "+  " in ended.out
    assert "SessionStart" in ended.out
    assert "not changed" in ended.err
    assert not (home / ".claude").exists()


def test_hooks_of_a_project_stand_in_its_own_settings_with_a_store_there(ctx, home, monkeypatch):
    monkeypatch.delenv("LANCE_CONTEXT_STORE")
    assert ctx("hooks", "install", "claude-code", "--project").code == 0
    file = home / "project" / ".claude" / "settings.local.json"
    assert str(home / "project" / ".memory") in commands(file, "Stop")[0]
    assert not (home / ".claude").exists()
    assert ctx("hooks", "install", "codex", "--project").code == 2


def test_codex_s_settings_get_one_line_which_goes_again(ctx, home):
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    before = '# mine\nmodel = "o4"\n\n[tools]\nweb = true\n'
    file.write_text(before)
    for _ in range(2):
        assert ctx("hooks", "install", "codex").code == 0
    found = tomllib.loads(file.read_text())
    assert found["notify"][-3:] == ["hooks", "run", "codex"]
    assert (found["model"], found["tools"]) == ("o4", {"web": True})
    assert ctx("hooks", "uninstall", "codex").code == 0
    assert file.read_text() == before
    file.write_text('notify = ["other"]\n')
    ended = ctx("hooks", "install", "codex")
    assert (ended.code, "['other'] already" in ended.err) == (2, True)
    assert file.read_text() == 'notify = ["other"]\n'


@pytest.mark.parametrize(
    "text", ["{not JSON", '{"hooks": []}', "[1]"], ids=["no JSON", "list", "array"]
)
def test_settings_that_cannot_be_read_are_left_as_they_are(ctx, home, text):
    file = home / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(text)
    ended = ctx("hooks", "install", "claude-code")
    assert (ended.code, str(file) in ended.err, file.read_text()) == (2, True, text)


def test_turns_are_remembered_at_their_end_and_recalled_in_the_next_session(ctx, home, monkeypatch):
    file = histories.claude_code(home / ".claude" / "projects")
    for event in ("Stop", "SessionEnd"):
        happens(ctx, monkeypatch, event, session_id="claude-session", transcript_path=str(file))
    started = happens(ctx, monkeypatch, "SessionStart", session_id="next", cwd=PROJECT)
    assert "Why is the tax of an order rounded twice? (2026-03-01, user, /home/ada/shop)" in started
    asked = happens(
        ctx, monkeypatch, "UserPromptSubmit", session_id="next", prompt="where is Decimal rounded?"
    )
    assert "Decimal is rounded in two places." in asked
    # What this session itself has said, its model knows.
    own = {"session_id": "claude-session", "cwd": PROJECT}
    assert "rounded twice" not in happens(ctx, monkeypatch, "SessionStart", **own)
    assert "rounded" not in happens(
        ctx, monkeypatch, "UserPromptSubmit", **own, prompt="where is Decimal rounded?"
    )


def test_recall_is_bounded_and_says_nothing_of_an_empty_store(ctx, tmp_path, home, monkeypatch):
    empty = ("-C", str(tmp_path / "empty"))
    assert home.exists()
    for event in ("SessionStart", "UserPromptSubmit"):
        assert happens(ctx, monkeypatch, event, *empty, cwd=PROJECT, prompt="tax") == ""
    with ContextStore.open(tmp_path / "full") as store:
        for number in range(30):
            message = Message.user(f"tax {number} " + "word " * 500, metadata={"project": PROJECT})
            store.history.append("claude-code", message, session_id=f"s{number}")
    full = ("-C", str(tmp_path / "full"))
    for event in ("SessionStart", "UserPromptSubmit"):
        told = happens(ctx, monkeypatch, event, *full, cwd=PROJECT, prompt="which tax?")
        assert told.count("tax") == 6
        assert len(told) < 3_000


@pytest.mark.parametrize(
    "given",
    ["", "[]", '{"hook_event_name": "New"}', "{"],
    ids=["empty", "array", "newer event", "cut"],
)
def test_a_hook_that_fails_never_stops_the_agent(ctx, home, monkeypatch, given):
    assert home.exists()
    monkeypatch.setattr(sys, "stdin", io.StringIO(given))
    ended = ctx("hooks", "run", "claude-code")
    assert (ended.code, ended.out, ended.err.count("\n")) == (0, "", 1)


@pytest.mark.process
def test_codex_runs_the_line_that_was_installed_and_its_turns_are_found(ctx, home, place):
    histories.codex(home / ".codex" / "sessions")
    ctx("hooks", "install", "codex")
    command = tomllib.loads((home / ".codex" / "config.toml").read_text())["notify"]
    told = {"type": "agent-turn-complete", "thread-id": "codex-session", "cwd": PROJECT}
    ended = subprocess.run(
        [*command, json.dumps(told)], capture_output=True, text=True, check=True, timeout=120
    )
    assert (ended.stdout, ended.stderr) == ("", "")
    with ContextStore.open(place) as store:
        assert store.search("deployment region Frankfurt", limit=1)[0].record.agent_id == "codex"


def test_import_takes_the_history_from_where_the_agent_keeps_it(ctx, home, tmp_path):
    histories.claude_code(home / ".claude" / "projects")
    other = ("--json", "-C", str(tmp_path / "other"), "import", "--format", "claude-code")
    done = json.loads(ctx(*other).out)
    assert (done["added"], done["left_out"]["reasoning"]) == (6, 1)
    assert json.loads(ctx(*other).out)["added"] == 0
    assert json.loads(ctx(*other, "--project", str(tmp_path)).out)["added"] == 0
    assert ctx("import").code == 2
