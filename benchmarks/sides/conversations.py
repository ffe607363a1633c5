"""What every peer of the field is asked, and how its script answers."""

import importlib.metadata
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from pyarrow import feather

from benchmarks.sides.measuring import peak_bytes, timed
from benchmarks.sides.protocol import Handler

Vector = list[float]

_AT_ONCE = 50
"""How many messages are made ready at a time."""
_HISTORY = ("history", "list", "messages")
_SEARCH = ("search", "query", "retrieve", "similar")
_WORDS = ("words", "fts", "full_text", "text_search", "hybrid")
"""What methods would be called that a peer has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message of a conversation."""

    number: int
    """Its place among all messages that there are."""
    session: str
    role: str
    topic: str
    text: str
    vector: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a search is for; what it says nothing of is empty."""

    limit: int
    text: str
    """Words to look up; of a search by vectors alone, a text that has the vector."""
    vector: Vector = field(default_factory=list)
    topic: str = ""


class LackingError(Exception):
    """The peer has nothing for this; the message says what."""


class Conversations(ABC):
    """One way to keep conversations, and to find what was said.

    A script makes the methods that begin with `_`. All texts that they return are whole ones. What
    the peer has nothing for is left as it is here: then `api` is looked through for it.
    """

    api: object
    """What has the peer's methods."""
    fills_at_once: int | None = None
    """How many messages it is filled with at a time; None means a session."""

    def __init__(self, rows: "Rows") -> None:
        self._rows = rows

    @abstractmethod
    def _open(self, folder: str) -> None:
        """Be ready; the folder exists, and may hold what was kept there already."""

    def _settle(self) -> None:  # noqa: B027 - not every peer has to
        """Do what the documentation advises for a store that has been filled."""

    def _tidy(self) -> None:  # noqa: B027 - not every peer has to
        """Do what the documentation advises to do now and then; it is not timed."""

    def _append(self, message: Said) -> None:
        """Keep one more message."""
        self._turn([message])

    @abstractmethod
    def _turn(self, messages: Sequence[Said]) -> None:
        """Keep more messages, in one call; they are of one session unless the store is filled."""

    def _last(self, session: str, limit: int) -> list[str]:
        """The last messages of a session, in order."""
        return self._whole(session)[-limit:]

    def _whole(self, session: str) -> list[str]:
        """All messages of a session, in order."""
        del session
        self._lacks("no history", *_HISTORY)

    def _vector(self, wanted: Wanted) -> list[str]:
        """The nearest messages."""
        del wanted
        self._lacks("no search", *_SEARCH)

    def _words(self, wanted: Wanted) -> list[str]:
        """The messages that have the words."""
        del wanted
        self._lacks("no search by words", *_WORDS)

    def _hybrid(self, wanted: Wanted) -> list[str]:
        """The messages that are near, and those that have the words, in one answer."""
        del wanted
        self._lacks("no hybrid search", *_WORDS)

    def _filter(self, wanted: Wanted) -> list[str]:
        """The nearest messages of those about the topic."""
        del wanted
        self._lacks("no search", *_SEARCH)

    def _lacks(self, what: str, *words: str) -> NoReturn:
        """Raise LackingError, having looked: no public name of `api` has one of the words in it.

        If one has, this raises LookupError, so that a release which learns it is noticed.
        """
        names = [name for name in dir(self.api) if not name.startswith("_")]
        found = [name for name in names if any(word in name.lower() for word in words)]
        if found:
            raise LookupError(f"the script says {what!r}, but there is {', '.join(found)}")
        raise LackingError(what)

    # What the harness asks

    def open(self, folder: str) -> None:
        """Be ready to do the rest in a folder, which is made if it is missing."""
        Path(folder).mkdir(exist_ok=True)
        self._open(folder)

    def fill(self, *, count: int, session_rows: int) -> None:
        """Keep the first messages, as fast as may be."""
        step = self.fills_at_once or session_rows
        for start in range(0, count, step):
            self._turn(self._rows.said(start, min(step, count - start)))
        self._settle()

    def append(self, *, start: int, count: int, told: str | None = None) -> dict[str, Any]:
        """One message after the other, each number written to the file `told` once it is kept."""
        return _each(self._append, self._said_one_by_one(start, count), self._tidy, told=told)

    def turn(self, *, start: int, count: int, size: int) -> dict[str, Any]:
        """One turn after the other."""
        said = self._rows.said(start, count * size)
        turns = [said[place : place + size] for place in range(0, len(said), size)]
        return _each(self._turn, turns, self._tidy)

    def last(self, *, session: str, limit: int) -> dict[str, Any]:
        """The last messages of a session."""
        return _read(lambda: self._last(session, limit))

    def whole(self, *, session: str) -> dict[str, Any]:
        """All messages of a session."""
        return _read(lambda: self._whole(session))

    def search(self, *, how: str, **wanted: Any) -> dict[str, Any]:
        """The hits of a search: `vector`, `words`, `hybrid` or `filter`."""
        searches = {
            "vector": self._vector,
            "words": self._words,
            "hybrid": self._hybrid,
            "filter": self._filter,
        }
        asked = Wanted(**wanted)
        if asked.vector:
            # What takes a text alone has to know its vector.
            self._rows.ask(asked.text, asked.vector)
        return _read(lambda: searches[how](asked))

    def _said_one_by_one(self, start: int, count: int) -> Iterable[Said]:
        for first in range(start, start + count, _AT_ONCE):
            yield from self._rows.said(first, min(_AT_ONCE, start + count - first))


class Rows:
    """The messages of a run, and the vectors that texts are known by."""

    def __init__(self, path: str) -> None:
        self._table = feather.read_table(path)
        self._numbers: dict[str, int] = {}
        self._asked: dict[str, Vector] = {}

    def said(self, start: int, count: int) -> list[Said]:
        """The messages from number `start` on."""
        made = [
            Said(number=start + place, **row)
            for place, row in enumerate(self._table.slice(start, count).to_pylist())
        ]
        self._numbers.update({message.text: message.number for message in made})
        return made

    def ask(self, text: str, vector: Vector) -> None:
        """Know the vector of a question."""
        self._asked[text] = vector

    def vector_of(self, text: str) -> Vector:
        """What is known of a text: no model is timed."""
        if text in self._asked:
            return self._asked[text]
        vector: Vector = self._table["vector"][self._numbers[text]].as_py()
        return vector


def operations(make: Callable[[Rows], Conversations], *packages: str) -> dict[str, Handler]:
    """What a side answers about conversations that are kept with `packages`."""
    opened: list[Conversations] = []

    def open(*, folder: str, rows: str) -> str:
        opened.append(make(Rows(rows)))
        opened[-1].open(folder)
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)

    def asked(name: str) -> Handler:
        def ask(**arguments: Any) -> Any:
            return getattr(opened[-1], name)(**arguments)

        return ask

    asks = {name: asked(name) for name in ("fill", "append", "turn", "last", "whole", "search")}
    return {"open": open, "memory": lambda: peak_bytes() / 2**20, **asks}


def _each(
    keep: Callable[[Any], None],
    steps: Iterable[Any],
    tidy: Callable[[], None],
    *,
    told: str | None = None,
) -> dict[str, Any]:
    """The seconds of each step until one fails, and how it did."""
    seconds: list[float] = []
    try:
        for step in steps:
            seconds.append(timed(partial(keep, step))[0])
            if told is not None:
                _tell(told, step.number)
        tidy()
    except LackingError as error:
        return {"lacks": str(error)}
    except BaseException as error:  # noqa: BLE001 - engines panic with a BaseException of theirs
        return {"seconds": seconds, "error": f"{type(error).__name__}: {error}"}
    return {"seconds": seconds}


def _read(call: Callable[[], list[str]]) -> dict[str, Any]:
    try:
        seconds, texts = timed(call)
    except LackingError as error:
        return {"lacks": str(error)}
    return {"seconds": seconds, "texts": texts}


def _tell(path: str, number: int) -> None:
    # Written at once: what is told before a kill stays told.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{number}\n".encode())
    finally:
        os.close(file)
