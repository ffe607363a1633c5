"""Checkpoints of agents, so that another process can resume them."""

import builtins
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from pathlib import Path
from typing import Any

from lance_context_core._handle import handle
from lance_context_core._resources import Resources
from lance_context_core._util.checks import (
    check_count,
    check_json_object,
    check_name,
    check_span,
    check_text,
    check_time,
    shown,
)
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core._util.retry import retried
from lance_context_core.coordination import changes
from lance_context_core.errors import AlreadyExistsError, InvalidRequestError
from lance_context_core.scope import Scope
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.types import Item

NAME = "lance_context.checkpoints"
"""The name of the key-value store of checkpoints."""


@frozen_by_name
class Checkpoint:
    """The state of an agent at a moment."""

    agent_id: str
    number: int
    """From 1, one more than that of the previous checkpoint."""
    at: datetime
    state: Mapping[str, Any]
    """JSON by key: the state from which the agent resumes."""
    status: str
    """The caller's own word, such as `running`."""
    iteration: int
    task_id: str | None
    session_id: str | None


@handle
class AsyncCheckpoints:
    """The checkpoints of all agents of a store; none is ever changed."""

    _resources: Resources
    _scope: Scope

    async def save(
        self,
        agent_id: str,
        state: Mapping[str, Any],
        *,
        status: str = "",
        iteration: int = 0,
        task_id: str | None = None,
        session_id: str | None = None,
    ) -> Checkpoint:
        """Save a checkpoint of an agent. Concurrent processes get different numbers."""
        agent_id = check_name(agent_id, "agent_id")
        if type(iteration) is not int or iteration < 0:
            raise InvalidRequestError(
                f"iteration={shown(iteration)}: give a whole number, 0 or more"
            )
        value = {
            "at": self._resources.clock.now().isoformat(),
            "state": check_json_object(state, "state"),
            "status": check_text(status, "status"),
            "iteration": iteration,
            "task_id": None if task_id is None else check_name(task_id, "task_id"),
            "session_id": None if session_id is None else check_name(session_id, "session_id"),
        }

        async def save() -> Checkpoint:
            last = await self.last(agent_id)
            number = 1 if last is None else last.number + 1
            item = Item(namespace=(agent_id,), key=f"{number:012d}", value=value)
            await self._items.write(adds=[item])
            return _checkpoint(item)

        # The slower of two writers takes the next number.
        return await retried(save, on=AlreadyExistsError, attempts=100)

    async def last(self, agent_id: str, *, at: datetime | None = None) -> Checkpoint | None:
        """Return the last checkpoint of an agent, or `at` a moment; None if absent."""
        agent_id = check_name(agent_id, "agent_id")
        if at is None:
            found = await self.list(agent_id, limit=1)
            return found[0] if found else None
        moment = check_time(at, "at")
        return next((one for one in await self.list(agent_id) if one.at <= moment), None)

    async def list(self, agent_id: str, *, limit: int | None = None) -> builtins.list[Checkpoint]:
        """Return the checkpoints of an agent, latest first."""
        check_span(offset=0, limit=limit, last=None)
        namespace = (check_name(agent_id, "agent_id"),)
        rows = await self._items.list(namespace=namespace, reverse=True, limit=limit)
        return [_checkpoint(one) for one in rows]

    async def latest(
        self,
        *,
        session_id: str | None = None,
        task_id: str | None = None,
        status: str | None = None,
    ) -> builtins.list[Checkpoint]:
        """Return the last checkpoint of each agent, by agent.

        All, or those of a session, a task, or a status.
        """
        last = [await self.last(one) for one in await self.agents()]
        return [
            one
            for one in last
            if one is not None
            and session_id in (None, one.session_id)
            and task_id in (None, one.task_id)
            and status in (None, one.status)
        ]

    async def agents(self) -> builtins.list[str]:
        """Return the agents with checkpoints, in order."""
        return [one[0] for one in await self._items.namespaces()]

    async def delete(self, agent_id: str, *, keep: int = 0) -> int:
        """Delete the checkpoints of an agent except the latest `keep`; returns their number."""
        check_count(keep, "keep", least=0)
        namespace = (check_name(agent_id, "agent_id"),)
        keys = await self._items.keys(namespace=namespace, reverse=True)
        return sum(await self._items.delete(keys[keep:]))

    @property
    def _items(self) -> AsyncKeyValues:
        return AsyncKeyValues(NAME, self._resources, self._scope)


def _checkpoint(item: Item) -> Checkpoint:
    value = dict(item.value or {})
    value["at"] = datetime.fromisoformat(value["at"])
    return Checkpoint(agent_id=item.namespace[0], number=int(item.key), **value)


# File excerpts for an agent: a small file as a whole, the relevant pieces of a large one.


@frozen_by_name
class FileExcerpt:
    """The excerpt of a file."""

    path: str
    text: str
    """The text for a model: the pieces, with `[…]` for omitted lines between them.

    If all of it was shown before, one line that says so.
    """
    lines: tuple[tuple[int, int], ...]
    """The first and last line of each piece, from 1, in file order."""
    is_whole: bool
    """Whether this and earlier excerpts cover the whole file."""
    is_repeat: bool
    """Whether all of it was shown before."""


@frozen_by_name
class FileContext:
    """Tracks, in memory, the pieces of files that one agent has in its context.

    A file of at most `whole_chars` characters is shown whole. A larger one is split into pieces of
    at most `piece_chars` that end with a line, of which `n_pieces` are shown: those with most of
    the words of the query, or the first ones if none matches.
    """

    whole_chars: int = 50_000
    piece_chars: int = 10_000
    n_pieces: int = 5
    _shown: dict[str, tuple[str, set[int]]] = field(default_factory=dict, repr=False, init=False)
    """By path: the digest of the text, and the shown pieces."""

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for a number below 1."""
        for name in ("whole_chars", "piece_chars", "n_pieces"):
            check_count(getattr(self, name), name)

    def show(self, path: str | Path, *, query: str = "", text: str | None = None) -> FileExcerpt:
        """Return an excerpt of the file for a query, without pieces shown before.

        Reads the file as UTF-8, and shows invalid bytes as U+FFFD; `text` is its content, if it was
        read already. A changed file is shown again. Raises InvalidRequestError for an unreadable
        one.
        """
        name = str(path)
        whole = _read(Path(path)) if text is None else check_text(text, "text")
        pieces = [*_pieces(whole, whole=self.whole_chars, most=self.piece_chars)]
        digest = hashlib.sha256(whole.encode(errors="surrogatepass")).hexdigest()
        before = self._shown.get(name)
        seen = before[1] if before is not None and before[0] == digest else set()
        chosen = self._chosen(pieces, check_text(query, "query"))
        new = sorted(set(chosen) - seen)
        self._shown[name] = digest, seen | set(new)
        is_whole = len(seen | set(new)) == len(pieces)
        if not new:
            known = f"[{name} is in the context already]"
            return FileExcerpt(path=name, text=known, lines=(), is_whole=is_whole, is_repeat=True)
        return FileExcerpt(
            path=name,
            text=_joined(new, pieces),
            lines=tuple(pieces[n].lines for n in new),
            is_whole=is_whole,
            is_repeat=False,
        )

    def forget(self, path: str | Path | None = None) -> None:
        """Show a file again, or all: for use after the conversation was shortened."""
        if path is None:
            self._shown.clear()
        else:
            self._shown.pop(str(path), None)

    # Helpers

    def _chosen(self, pieces: "list[_Piece]", query: str) -> list[int]:
        places = range(len(pieces))
        found = (
            changes.best(query, places, lambda n: [pieces[n].text], limit=self.n_pieces)
            if changes.has_words(query)
            else []
        )
        return found or [*places][: self.n_pieces]


@frozen
class _Piece:
    text: str
    lines: tuple[int, int]


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except (OSError, ValueError) as error:
        raise InvalidRequestError(
            f"path={shown(str(path))} cannot be read ({error}): give a file, or its text"
        ) from error


def _pieces(text: str, *, whole: int, most: int) -> Iterator[_Piece]:
    """Split the text into pieces that end with a line; a longer line is cut."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)  # Lines as in editors.
    if len(text) <= whole:
        yield _Piece(text, (1, max(1, len(lines))))
        return
    begun, held = 1, ""
    for number, line in enumerate(lines, start=1):
        if held and len(held) + len(line) > most:
            yield _Piece(held, (begun, number - 1))
            begun, held = number, ""
        held += line
        while len(held) > most:
            yield _Piece(held[:most], (begun, number))
            begun, held = number, held[most:]
    if held:
        yield _Piece(held, (begun, len(lines)))


def _joined(chosen: list[int], pieces: list[_Piece]) -> str:
    parts = ["[…]\n"] if chosen[0] else []
    for n, following in zip(chosen, [*chosen[1:], None], strict=True):
        text = pieces[n].text
        parts.append(text)
        is_last = n == len(pieces) - 1
        if following != n + 1 and not is_last:
            parts.append("[…]\n" if text.endswith("\n") else "\n[…]\n")
    return "".join(parts)
