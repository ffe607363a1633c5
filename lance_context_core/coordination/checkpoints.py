"""Where each agent stood, so that another process can go on from there."""

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
"""What the items are called in which checkpoints are kept."""


@frozen_by_name
class Checkpoint:
    """Where an agent stood at a moment."""

    agent_id: str
    number: int
    """From 1, one more than that of the checkpoint before."""
    at: datetime
    state: Mapping[str, Any]
    """JSON by key: what the agent needs to go on."""
    status: str
    """In words of the caller's own, such as `running`."""
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
        """Note where an agent stands. Of several processes that do so at once, each has its number."""
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

        # Whoever is slower than another one takes the number after his.
        return await retried(save, on=AlreadyExistsError, attempts=100)

    async def last(self, agent_id: str, *, at: datetime | None = None) -> Checkpoint | None:
        """The last checkpoint of an agent, or the last one that there was `at` a moment; None if none."""
        agent_id = check_name(agent_id, "agent_id")
        if at is None:
            found = await self.list(agent_id, limit=1)
            return found[0] if found else None
        moment = check_time(at, "at")
        return next((one for one in await self.list(agent_id) if one.at <= moment), None)

    async def list(self, agent_id: str, *, limit: int | None = None) -> builtins.list[Checkpoint]:
        """The checkpoints of an agent, the latest first."""
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
        """Where each agent stands, by agent: all, or those at a session or a task, or of a status."""
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
        """The agents that have checkpoints, in order."""
        return [one[0] for one in await self._items.namespaces()]

    async def delete(self, agent_id: str, *, keep: int = 0) -> int:
        """Forget the checkpoints of an agent but the latest `keep`; returns how many."""
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


# What an agent is shown of a file: all of a small one, and of a large one what its question is about.


@frozen_by_name
class FileExcerpt:
    """What is shown of a file."""

    path: str
    text: str
    """What a model is sent: the pieces, with `[…]` where lines between them are left out; or, of what
    it was sent before, one line that says so."""
    lines: tuple[tuple[int, int], ...]
    """The first and the last line of each piece, counted from 1, in the order of the file."""
    is_whole: bool
    """Whether this, with what was shown before, is all of the file."""
    is_repeat: bool
    """Whether all of it was shown before."""


@frozen_by_name
class FileContext:
    """The files that one agent has in its context; it holds which pieces those were, in memory.

    A file of at most `whole_chars` characters is shown whole. A larger one is taken in pieces of at
    most `piece_chars` that end with a line, of which `n_pieces` are shown: those with most of the
    words that are asked for, or the first ones where none has any.
    """

    whole_chars: int = 50_000
    piece_chars: int = 10_000
    n_pieces: int = 5
    _shown: dict[str, tuple[str, set[int]]] = field(default_factory=dict, repr=False, init=False)
    """Of each path the digest of the text, and which pieces of it were shown."""

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for a number below 1."""
        for name in ("whole_chars", "piece_chars", "n_pieces"):
            check_count(getattr(self, name), name)

    def show(self, path: str | Path, *, query: str = "", text: str | None = None) -> FileExcerpt:
        """What of the file to show for a question; what was shown before is not shown again.

        Reads the file as UTF-8, and shows what is none as U+FFFD; `text` is what it holds, where it
        was read already. A file that has changed since is shown anew. Raises InvalidRequestError for
        one that cannot be read.
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
        """Show a file anew, or all: as after the conversation was made shorter."""
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
    """The text in pieces that end with a line; a longer line is cut."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)  # As editors count them.
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
