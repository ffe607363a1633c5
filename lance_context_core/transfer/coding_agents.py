"""Reads the histories that coding agents keep on disk: Claude Code, Codex and Gemini CLI.

Each file holds one conversation. A turn becomes a message with text, tool calls and tool results as
parts. What the person did not say or see is left out: reasoning, reminders of the system, pictures.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from lance_context_core._util.checks import check_name, shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import Message, Part, TextPart, ToolCallPart, ToolResultPart
from lance_context_core.transfer.secrets import redacted, redacted_json

CodingAgent: TypeAlias = Literal["claude-code", "codex", "gemini-cli"]
"""The name of a coding agent, which is the agent of its conversations in the store."""

MOST_CHARACTERS = 20_000
"""The longest text of one part: what a tool printed beyond it is cut."""

_MOST_FAULTS = 20

_LONGEST_LINE = 64 << 20
"""The longest line that is read, in bytes."""

_LARGEST_FILE = 256 << 20
"""The largest file that is one JSON document, in bytes."""

_REMINDER = re.compile(
    r"<(system-reminder|local-command-\w+|environment_context|user_instructions|command-\w+)>.*?</\1>",
    re.DOTALL,
)
"""What the agent's program has put into a person's message."""

Json: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class Reading:
    """What was left out of the files that were read, and how much of it."""

    left_out: Counter[str] = field(default_factory=Counter)
    """By what it was: `reasoning`, `pictures`, `secrets: API key`, `lines that cannot be read`."""
    faults: list[str] = field(default_factory=list)
    """The first lines that could not be read, each with its file, number and cause."""

    def fault(self, where: str, why: str) -> None:
        """Count a line that cannot be read."""
        self.left_out["lines that cannot be read"] += 1
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(f"{where}: {why}")

    def add(self, other: "Reading") -> None:
        """Count what was left out of another file, too."""
        self.left_out.update(other.left_out)
        self.faults += other.faults[: _MOST_FAULTS - len(self.faults)]

    def text(self, given: Any) -> str:
        """A text without secrets and reminders, and not too long."""
        if not isinstance(given, str):
            return ""
        text, reminders = _REMINDER.subn("", given)
        if reminders:
            self.left_out["reminders"] += reminders
            text = text.strip()
        found: Counter[str] = Counter()
        text = redacted(text.encode("utf-8", "replace").decode(), found)
        self._count(found)
        if len(text) > MOST_CHARACTERS:
            self.left_out["ends of long texts"] += 1
            text = f"{text[:MOST_CHARACTERS]} …"
        return text

    def json(self, given: Any) -> Any:
        """JSON without secrets; an argument that is longer than a text may be is cut."""
        found: Counter[str] = Counter()
        clean = redacted_json(given, found)
        self._count(found)
        return self._cut(clean)

    def _cut(self, given: Any) -> Any:
        if isinstance(given, str):
            given = given.encode("utf-8", "replace").decode()
            if len(given) > MOST_CHARACTERS:
                self.left_out["ends of long texts"] += 1
                return f"{given[:MOST_CHARACTERS]} …"
            return given
        if isinstance(given, list):
            return [self._cut(one) for one in given]
        if isinstance(given, dict):
            return {str(key): self._cut(one) for key, one in given.items()}
        return given

    def _count(self, found: Mapping[str, int]) -> None:
        for kind, number in found.items():
            self.left_out[f"secrets: {kind}"] += number


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of a conversation, and which one that is."""

    session_id: str
    message: Message
    project: str | None
    """The folder in which the agent worked; absent if the file does not tell."""


def default_folder(agent: CodingAgent) -> Path:
    """Return the folder in which the agent keeps its histories, whether it exists or not.

    Follows CLAUDE_CONFIG_DIR and CODEX_HOME, as the agents do.
    """
    home, set_by = Path.home(), os.environ
    if agent == "claude-code":
        return Path(set_by.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"
    if agent == "codex":
        return Path(set_by.get("CODEX_HOME") or home / ".codex") / "sessions"
    return home / ".gemini" / "tmp"


def files_of(agent: CodingAgent, source: Path) -> list[Path]:
    """Return the files of histories at a path, in the order of their names; the path itself if it is a file."""
    if source.is_file():
        return [source]
    pattern = "session-*.json" if agent == "gemini-cli" else "*.jsonl"
    return sorted(one for one in source.rglob(pattern) if one.is_file())


def turns_of(agent: CodingAgent, path: Path, reading: Reading) -> Iterator[Turn]:
    """Yield the turns of one file, in order; a line that cannot be read is counted and passed over.

    Memory holds one line. Raises InvalidRequestError if the file cannot be read at all.
    """
    try:
        yield from _READERS[agent](path, reading)
    except OSError as error:
        raise InvalidRequestError(f"{str(path)!r} cannot be read: {error}") from error


def _read(reading: Reading, where: str, turns: Iterator[Turn]) -> list[Turn]:
    """Return the turns of one line; if it cannot be made messages, it is counted, and has none.

    The files are those of programs that change their formats: any value may stand anywhere.
    """
    try:
        return [*turns]
    except (InvalidRequestError, AttributeError, TypeError, RecursionError) as error:
        reading.fault(where, f"is no message: {error}")
        return []


def _turn(session: str, message: Message | None, project: Any) -> Iterator[Turn]:
    """Yield a turn, unless nothing is left of its message."""
    if message is not None:
        yield Turn(check_name(session, "session"), message, _said(project))


def _lines(path: Path, reading: Reading) -> Iterator[tuple[int, Json]]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(_LONGEST_LINE):
            number += 1
            if not line.strip():
                continue
            where = f"{path}:{number}"
            if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
                reading.fault(where, f"is longer than {_LONGEST_LINE >> 20} MiB")
                while (rest := file.readline(_LONGEST_LINE)) and not rest.endswith(b"\n"):
                    pass
                continue
            try:
                found = json.loads(line)
            except (ValueError, RecursionError) as error:
                reading.fault(where, f"is not JSON: {error}")
                continue
            if isinstance(found, dict):
                yield number, found
            else:
                reading.fault(where, f"is {shown(found)}, and no object")


def _time(given: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(given)
    except (TypeError, ValueError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _said(given: Any) -> str | None:
    return given if isinstance(given, str) and given.strip() else None


def _message(
    role: str, parts: Iterable[Part], id: str, at: Any, about: Mapping[str, Any]
) -> Message | None:
    """A message; None where nothing is left of it."""
    kept = tuple(one for one in parts if not isinstance(one, TextPart) or one.text.strip())
    if not kept:
        return None
    metadata = {key: value for key, value in about.items() if _said(value)}
    return Message(role=role, parts=kept, id=id, created_at=_time(at), metadata=metadata)


def _texts(content: Any, reading: Reading) -> Iterator[Part]:
    """The texts of a content that is a text, or a list of blocks."""
    if isinstance(content, str):
        yield TextPart(text=reading.text(content))
        return
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(block, str):
            yield TextPart(text=reading.text(block))
        elif kind in ("text", "input_text", "output_text") or (
            kind is None and isinstance(block, dict) and "text" in block
        ):
            yield TextPart(text=reading.text(block.get("text")))
        elif kind in ("image", "input_image"):
            reading.left_out["pictures"] += 1
        elif kind in ("thinking", "redacted_thinking", "reasoning"):
            reading.left_out["reasoning"] += 1
        else:
            reading.left_out[f"blocks of the kind {shown(kind)}"] += 1


# Claude Code: a line for each block of a message, in files of JSON lines.

_CLAUDE_QUIET = (
    *("file-history-snapshot", "summary", "system", "progress", "queue-operation"),
    *("custom-title", "agent-name", "attachment", "last-prompt", "permission-mode"),
)
"""The kinds of lines that are no messages."""


def _claude_code(path: Path, reading: Reading) -> Iterator[Turn]:
    for number, line in _lines(path, reading):
        yield from _read(reading, f"{path}:{number}", _claude_line(line, path, reading))


def _claude_line(line: Json, path: Path, reading: Reading) -> Iterator[Turn]:
    kind = line.get("type")
    if kind not in ("user", "assistant"):
        if kind not in _CLAUDE_QUIET:
            reading.left_out[f"lines of the kind {shown(kind)}"] += 1
        return
    if line.get("isMeta") or line.get("isCompactSummary"):
        reading.left_out["reminders"] += 1
        return
    said, id = line.get("message"), _said(line.get("uuid"))
    if not isinstance(said, dict) or id is None:
        raise InvalidRequestError("it has no message, or no uuid")
    session = _said(line.get("sessionId")) or path.stem
    if line.get("isSidechain"):
        # A conversation of its own between two agents.
        session = f"{session}/{_said(line.get('agentId')) or path.stem}"
    about = {
        "project": line.get("cwd"),
        "branch": line.get("gitBranch"),
        "model": said.get("model") if kind == "assistant" else None,
    }
    parts = [*_claude_parts(said.get("content"), reading)]
    results = all(isinstance(one, ToolResultPart) for one in parts)
    role = "tool" if kind == "user" and results else kind
    message = _message(role, parts, id, line.get("timestamp"), about)
    yield from _turn(session, message, line.get("cwd"))


def _claude_parts(content: Any, reading: Reading) -> Iterator[Part]:
    if not isinstance(content, list):
        yield from _texts(content, reading)
        return
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_use":
            yield _call(block.get("id"), block.get("name"), block.get("input"), reading)
        elif kind == "tool_result":
            parts = tuple(_texts(block.get("content"), reading))
            yield _result(block.get("tool_use_id"), parts, is_error=block.get("is_error") is True)
        else:
            yield from _texts([block], reading)


def _call(id: Any, name: Any, arguments: Any, reading: Reading) -> Part:
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            parsed = None
        arguments = parsed if isinstance(parsed, dict) else reading.text(arguments)
    if isinstance(arguments, dict):
        arguments = reading.json(arguments)
    elif not isinstance(arguments, str):
        arguments = {}
    return ToolCallPart(
        call_id=_said(id), name=name if isinstance(name, str) else "", arguments=arguments
    )


def _result(
    id: Any, parts: tuple[Part, ...], *, name: Any = None, is_error: bool = False
) -> ToolResultPart:
    return ToolResultPart(call_id=_said(id), name=_said(name), content=parts, is_error=is_error)


# Codex: a line for each item, in a file for each run.


def _codex(path: Path, reading: Reading) -> Iterator[Turn]:
    session = path.stem
    about: dict[str, str | None] = {"project": None, "branch": None, "model": None}
    for number, line in _lines(path, reading):
        kind, item = line.get("type"), line.get("payload")
        if not isinstance(item, dict):
            # The first releases wrote the items themselves.
            kind, item = (
                ("session_meta", line)
                if "id" in line and "type" not in line
                else ("response_item", line)
            )
        if kind == "session_meta":
            git = item.get("git")
            session = _said(item.get("id")) or session
            about["project"] = _said(item.get("cwd"))
            about["branch"] = _said(git.get("branch")) if isinstance(git, dict) else None
        elif kind == "turn_context":
            about["model"] = _said(item.get("model"))
            about["project"] = _said(item.get("cwd")) or about["project"]
        elif kind == "response_item":
            # The number of its line stays, as lines are only appended.
            id, at = f"{session}-{number}", line.get("timestamp")
            turns = _codex_item(session, item, id, at, about, reading)
            yield from _read(reading, f"{path}:{number}", turns)
        elif kind not in ("event_msg", "compacted", "ghost_snapshot"):
            reading.left_out[f"lines of the kind {shown(kind)}"] += 1


def _codex_item(
    session: str, item: Json, id: str, at: Any, about: Mapping[str, Any], reading: Reading
) -> Iterator[Turn]:
    yield from _turn(session, _codex_message(item, id, at, about, reading), about["project"])


def _codex_message(
    item: Json, id: str, at: Any, about: Mapping[str, Any], reading: Reading
) -> Message | None:
    kind = item.get("type")
    if kind == "message":
        role = item.get("role")
        if role not in ("user", "assistant"):
            reading.left_out["reminders"] += 1
            return None
        known = about if role == "assistant" else {**about, "model": None}
        return _message(str(role), _texts(item.get("content"), reading), id, at, known)
    if kind in ("function_call", "custom_tool_call", "local_shell_call"):
        arguments = item.get("arguments", item.get("input", item.get("action")))
        name = item.get("name") or ("shell" if kind == "local_shell_call" else "")
        call = _call(item.get("call_id"), name, arguments, reading)
        return _message("assistant", [call], id, at, about)
    if kind in ("function_call_output", "custom_tool_call_output"):
        output = item.get("output")
        if isinstance(output, dict):
            output = output.get("content")
        parts = tuple(_texts(output, reading))
        return _message(
            "tool", [_result(item.get("call_id"), parts)], id, at, {**about, "model": None}
        )
    if kind == "reasoning":
        reading.left_out["reasoning"] += 1
    elif kind not in ("web_search_call", "ghost_snapshot", "compaction"):
        reading.left_out[f"items of the kind {shown(kind)}"] += 1
    return None


# Gemini CLI: one document for each session.


def _gemini_cli(path: Path, reading: Reading) -> Iterator[Turn]:
    if path.stat().st_size > _LARGEST_FILE:
        reading.fault(str(path), f"is larger than {_LARGEST_FILE >> 20} MiB")
        return
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        reading.fault(str(path), f"is not JSON: {error}")
        return
    messages = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(messages, list):
        reading.fault(str(path), "has no messages")
        return
    session = _said(document.get("sessionId")) or path.stem
    folder = document.get("projectRoot") or document.get("directories")
    project = _said(folder[0] if isinstance(folder, list) and folder else folder)
    for number, said in enumerate(messages):
        where = f"{path}, messages[{number}]"
        if _is_running(said):
            # The message is not whole, and nothing behind it can be.
            reading.left_out["turns that are not over"] += 1
            return
        yield from _read(reading, where, _gemini_turns(said, number, session, project, reading))


def _is_running(said: Any) -> bool:
    """Whether a tool that the message calls has no result yet."""
    calls = said.get("toolCalls") if isinstance(said, dict) else None
    return isinstance(calls, list) and any(
        isinstance(one, dict)
        and "result" not in one
        and one.get("status") not in ("error", "cancelled")
        for one in calls
    )


def _gemini_turns(
    said: Any, number: int, session: str, project: str | None, reading: Reading
) -> Iterator[Turn]:
    kind = said.get("type")
    if kind not in ("user", "gemini"):
        if kind not in ("info", "error", "warning", "system"):
            reading.left_out[f"messages of the kind {shown(kind)}"] += 1
        return
    id, at = _said(said.get("id")) or f"{session}-{number}", said.get("timestamp")
    calls = [one for one in said.get("toolCalls") or () if isinstance(one, dict)]
    reading.left_out["reasoning"] += len(said.get("thoughts") or ())
    about = {"project": project, "model": said.get("model")}
    parts = [
        *_texts(said.get("content"), reading),
        *(_call(one.get("id"), one.get("name"), one.get("args"), reading) for one in calls),
    ]
    role = "user" if kind == "user" else "assistant"
    yield from _turn(session, _message(role, parts, id, at, about), project)
    results = [_gemini_result(one, reading) for one in calls if one.get("result")]
    message = _message("tool", results, f"{id}-results", at, {"project": project})
    yield from _turn(session, message, project)


def _gemini_result(call: Json, reading: Reading) -> Part:
    texts: list[Part] = []
    given = call["result"]
    for one in given if isinstance(given, list) else [given]:
        answer = one.get("functionResponse", {}).get("response") if isinstance(one, dict) else one
        if isinstance(answer, dict):
            answer = answer.get("output", answer.get("error", json.dumps(reading.json(answer))))
        texts.append(TextPart(text=reading.text(answer)))
    return _result(
        call.get("id"), tuple(texts), name=call.get("name"), is_error=call.get("status") == "error"
    )


_READERS: Mapping[str, Callable[[Path, Reading], Iterator[Turn]]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "gemini-cli": _gemini_cli,
}
