"""The hooks in the settings of coding agents: what is there is kept, and only our own are changed."""

import json
import os
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

AGENTS = ("claude-code", "codex")
"""The coding agents that have hooks."""

EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
"""The events of Claude Code at which the store is asked, the first two, or written to."""

_SECONDS = 60
"""How long the agent waits for a hook."""


def settings_file(agent: str, project: Path | None) -> Path:
    """Return the file of the agent's settings: of a project, or of the user.

    Raises UsageError for Codex in a project, which has settings for users alone.
    """
    if agent == "codex":
        if project is not None:
            raise click.UsageError("codex has settings for users alone: leave out --project")
        return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"
    if project is not None:
        return project / ".claude" / "settings.local.json"
    home = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(home) if home else Path.home() / ".claude") / "settings.json"


def with_hooks(agent: str, text: str, file: Path, command: Sequence[str] | None) -> str:
    """Return the settings with our hooks, which run the command, and without any for None.

    What else stands there is kept. Raises UsageError if the file cannot be read, or if its only
    place for a hook is taken.
    """
    return _CHANGES[agent](text, file, command)


def _claude_code(text: str, file: Path, command: Sequence[str] | None) -> str:
    try:
        settings = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise click.UsageError(f"{file} is not JSON: {error}. Fix it first") from error
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(one, list) for one in hooks.values()):
        raise click.UsageError(f'{file}: "hooks" has no lists by event: fix it first')
    kept = {event: [*filter(None, map(_without_ours, some))] for event, some in hooks.items()}
    kept = {event: some for event, some in kept.items() if some or not hooks[event]}
    if command is not None:
        own = {"type": "command", "command": shlex.join(command), "timeout": _SECONDS}
        for event in EVENTS:
            kept[event] = [*kept.get(event, ()), {"hooks": [own]}]
    settings = {key: value for key, value in settings.items() if key != "hooks"}
    if kept:
        settings["hooks"] = kept
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def _without_ours(matcher: Any) -> Any:
    """A list of hooks without ours; None if it had ours alone."""
    if not isinstance(matcher, dict) or not isinstance(matcher.get("hooks"), list):
        return matcher
    kept = [one for one in matcher["hooks"] if not _is_ours(one)]
    if len(kept) == len(matcher["hooks"]):
        return matcher
    return {**matcher, "hooks": kept} if kept else None


def _is_ours(hook: Any) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    return words[-3:] == ["hooks", "run", "claude-code"]


def _codex(text: str, file: Path, command: Sequence[str] | None) -> str:
    try:
        there = tomllib.loads(text).get("notify")
    except ValueError as error:
        raise click.UsageError(f"{file} is not TOML: {error}. Fix it first") from error
    if isinstance(there, list) and there[-3:] == ["hooks", "run", "codex"]:
        lines = [line for line in text.splitlines(keepends=True) if not _notifies(line, there)]
        text, there = "".join(lines), tomllib.loads("".join(lines)).get("notify")
    if there is not None:
        if command is None:
            return text
        raise click.UsageError(
            f"{file}: notify runs {there!r} already, and Codex runs one program: have that one run "
            f"{shlex.join(command)} with its argument, or remove it"
        )
    # Before the first table, else it would be a key of the last one.
    return text if command is None else f"notify = {json.dumps([*command])}\n{text}"


def _notifies(line: str, there: Sequence[str]) -> bool:
    try:
        return bool(tomllib.loads(line) == {"notify": there})
    except ValueError:
        return False


_CHANGES: Mapping[str, Callable[[str, Path, Sequence[str] | None], str]] = {
    "claude-code": _claude_code,
    "codex": _codex,
}
