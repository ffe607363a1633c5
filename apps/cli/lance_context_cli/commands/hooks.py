"""`lance-ctx hooks`: a coding agent remembers its turns in a store, and recalls them."""

import difflib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lance_context_cli.agent_settings import AGENTS, settings_file, with_hooks
from lance_context_cli.call import Call, pass_call
from lance_context_cli.named import check_place
from lance_context_cli.place import Place

if TYPE_CHECKING:
    from lance_context_core import ContextStore

_RECALLED = 6
"""The most messages in one recall."""
_LONGEST = 400
"""The longest text of a recalled message, in characters."""

_agent = click.argument("agent", type=click.Choice(AGENTS))
_project = click.option(
    "--project", "is_project", is_flag=True, help="For this folder alone, with a store in .memory."
)
_dry_run = click.option(
    "--dry-run", is_flag=True, help="Show the change of the file; write nothing."
)


@click.group
def hooks() -> None:
    """Have a coding agent remember its turns, and recall them at the start of a session."""


@hooks.command
@_agent
@_project
@_dry_run
@pass_call
def install(call: Call, agent: str, is_project: bool, dry_run: bool) -> None:
    """Write hooks into AGENT's own settings, and show what changes there.

    The turns go to the store of -C; without it to ~/.lance-context/memory, for all projects.
    """
    place = _place_of(call.place, is_project=is_project)
    _change(call, agent, is_project, dry_run, _command(agent, place, call.place))
    call.output.note(f"the turns of {agent} go to {place}: lance-ctx -C {place} ask WORDS")


@hooks.command
@_agent
@_project
@_dry_run
@pass_call
def uninstall(call: Call, agent: str, is_project: bool, dry_run: bool) -> None:
    """Take our hooks out of AGENT's settings; others and the store stay."""
    _change(call, agent, is_project, dry_run, None)


@hooks.command(hidden=True)
@_agent
@click.argument("event", required=False)
@pass_call
def run(call: Call, agent: str, event: str | None) -> None:
    """Do what an event of AGENT asks for: EVENT, or stdin, tells it in JSON.

    The agent goes on whatever happens here: a failure is one line on stderr.
    """
    try:
        _RUN[agent](call.place, dict(json.loads(sys.stdin.read() if event is None else event)))
    except Exception as error:  # noqa: BLE001 - the agent's work is more important than its memory
        call.output.note(f"lance-ctx hooks: {type(error).__name__}: {error}")


def _place_of(place: Place, *, is_project: bool) -> str:
    if place.uri is not None:
        return check_place(place.uri)
    folder = Path.cwd() / ".memory" if is_project else Path.home() / ".lance-context" / "memory"
    return str(folder)


def _command(agent: str, place: str, given: Place) -> list[str]:
    options = {"--tenant": given.tenant, "--user": given.user_id, "--embedder": given.embedder}
    named = [word for name, value in options.items() if value for word in (name, value)]
    return [sys.executable, "-m", "lance_context_cli", "-C", place, *named, "hooks", "run", agent]


def _change(
    call: Call, agent: str, is_project: bool, dry_run: bool, command: list[str] | None
) -> None:
    file = settings_file(agent, Path.cwd() if is_project else None)
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    after = with_hooks(agent, before, file, command)
    if command is None and not before:
        after = before
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1):
        click.echo(line)
    if not dry_run and after != before:
        file.parent.mkdir(parents=True, exist_ok=True)
        # In one piece: the agent may read it at any moment.
        written = file.with_name(f".{file.name}.{os.getpid()}")
        written.write_text(after, encoding="utf-8")
        if file.exists():
            written.chmod(file.stat().st_mode & 0o777)
        written.replace(file)
    call.output.note(f"{file}: {'not changed' if dry_run or after == before else 'changed'}")


# The events of the agents


def _claude_code(place: Place, told: Mapping[str, Any]) -> None:
    event = told.get("hook_event_name")
    if event in ("Stop", "SessionEnd"):
        file = told.get("transcript_path")
        if isinstance(file, str) and Path(file).is_file():
            place.making().import_(file, format="claude-code")
        return
    store, session = place.making(), str(told.get("session_id", ""))
    if event == "SessionStart":
        lines = [*_latest(store, str(told.get("cwd", "")), session)]
    elif event == "UserPromptSubmit":
        lines = [*_answers(store, str(told.get("prompt", "")), session)]
    else:
        raise ValueError(f"the event {event!r} has no hook here")
    if not lines:
        return
    first = (
        "From the memory of earlier sessions, which may be out of date "
        f"(lance-ctx -C {place.uri} ask WORDS finds more):"
    )
    known = {"hookEventName": event, "additionalContext": "\n".join((first, *lines))}
    click.echo(json.dumps({"hookSpecificOutput": known}))


def _latest(store: "ContextStore", project: str, session: str) -> Iterator[str]:
    """What was asked for last in a project, and the newest memories."""
    where = {"kind": "message", "role": "user", "metadata.project": project}
    asked = store.context().records(50, filters=where, newest_first=True)
    others = [one for one in asked if one.session_id != session and one.text]
    yield from map(_line, others[:_RECALLED])
    yield from map(
        _line, store.context().records(_RECALLED, filters={"kind": "memory"}, newest_first=True)
    )


def _answers(store: "ContextStore", prompt: str, session: str) -> Iterator[str]:
    """What other sessions have about a prompt."""
    if not prompt.strip() or not store.context().records(1):
        return
    found = [hit.record for hit in store.search(prompt, limit=4 * _RECALLED)]
    others = [one for one in found if one.session_id != session and one.text]
    yield from map(_line, others[:_RECALLED])


def _line(record: Any) -> str:
    text = " ".join(record.text.split())
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
    project = (record.metadata or {}).get("project")
    said = ", ".join(filter(None, (f"{record.created_at:%Y-%m-%d}", record.role, project)))
    return f"- {cut} ({said})"


def _codex(place: Place, told: Mapping[str, Any]) -> None:
    thread = told.get("thread-id")
    if told.get("type") != "agent-turn-complete" or not isinstance(thread, str) or not thread:
        return
    folder = settings_file("codex", None).parent / "sessions"
    for file in folder.rglob(f"rollout-*{Path(thread).name}.jsonl"):
        place.making().import_(file, format="codex")


_RUN = {"claude-code": _claude_code, "codex": _codex}

COMMANDS = (hooks,)
