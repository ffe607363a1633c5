"""Reads memories that mem0 has exported; each becomes a turn and a fact."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lance_context_core._util.checks import check_json_object, check_name, shown
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.messages import Message
from lance_context_core.messages.wire import wire_time

Place = tuple[str | None, str | None, str | None]
"""The owner of memories: the user, the agent and the run."""

_LISTS = ("results", "memories")
_WHOSE = ("user_id", "agent_id", "run_id")


def read(source: str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Sequence[Any]:
    """Return the memories of a JSON file, or of the result of `get_all`.

    Raises NotFoundError if the file does not exist, and InvalidRequestError if it is no export.
    """
    data: Any = source
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.exists():
            raise NotFoundError(f"{str(path)!r} does not exist: give the path of mem0's JSON file")
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise InvalidRequestError(f"{str(path)!r} is not JSON of mem0: {error}") from error
    if isinstance(data, Mapping):
        data = next((data[name] for name in _LISTS if name in data), data)
    if not isinstance(data, list | tuple):
        raise InvalidRequestError(
            f"source is {shown(data)}: give a list of memories, each with an 'id' and a 'memory', or "
            "an object that has it as 'results'"
        )
    return data


def turns(memories: Sequence[Any]) -> dict[Place, list[Message]]:
    """Return the turns of memories by owner, in the order of their dates.

    Raises InvalidRequestError, which names the memory, for an invalid one.
    """
    found: dict[Place, list[Message]] = {}
    for index, one in enumerate(memories):
        where = f"memories[{index}]"
        if not isinstance(one, Mapping):
            raise InvalidRequestError(f"{where} is {shown(one)}: give an object")
        text = one.get("memory") or one.get("data") or one.get("text")
        if not isinstance(text, str) or not text.strip():
            raise InvalidRequestError(f"{where}['memory'] is {shown(text)}: give its text")
        whose = [one.get(name) for name in _WHOSE]
        user, agent, run = (
            None if value is None else check_name(value, f"{where}[{name!r}]")
            for name, value in zip(_WHOSE, whose, strict=True)
        )
        metadata = check_json_object(one.get("metadata") or {}, f"{where}['metadata']")
        if categories := one.get("categories"):
            metadata.setdefault("categories", categories)
        created = one.get("created_at")
        message = Message.user(
            text,
            id=check_name(one.get("id"), f"{where}['id']"),
            created_at=None if created is None else wire_time(created, f"{where}['created_at']"),
            metadata=metadata,
        )
        found.setdefault((user, agent, run), []).append(message)
    for some in found.values():
        # Memories without a date come first, in the order of the list.
        some.sort(key=lambda one: "" if one.created_at is None else one.created_at.isoformat())
    return found
