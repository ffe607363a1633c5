"""Changes one item depending on its value; concurrent changes see each other's result."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from lance_context_core._util.checks import check_name, check_names, check_span, check_text, shown
from lance_context_core._util.retry import retried
from lance_context_core.errors import ConflictError, InvalidRequestError
from lance_context_core.protocols import ItemKey
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.types import Item

T = TypeVar("T")

ATTEMPTS = 200
"""Each failure is a concurrent change of the same item."""


class ChangedMeanwhileError(ConflictError):
    """The item was changed concurrently: read it again."""


class Written(NamedTuple):
    """The item to write."""

    puts: Sequence[Item] = ()
    deletes: Sequence[ItemKey] = ()
    expected: Mapping[ItemKey, int | None] = MappingProxyType({})
    """The expected revisions of other items that were read."""


async def changed(
    items: AsyncKeyValues,
    key: ItemKey,
    decide: Callable[[Mapping[str, Any] | None], Awaitable[tuple[Written, T]]],
    *,
    what: str,
) -> T:
    """Write the value that `decide` computes from the current one under `key`, in one commit.

    `decide` gets None if the key does not exist, and is called again if the value was changed
    meanwhile. Returns its second result.
    """

    async def once() -> T:
        (item,) = await items.get([key])
        written, outcome = await decide(None if item is None else item.value or {})
        if not written.puts and not written.deletes:
            return outcome
        try:
            await items.write(
                puts=written.puts,
                deletes=written.deletes,
                expected={**written.expected, key: None if item is None else item.revision},
            )
        except ConflictError as error:
            raise ChangedMeanwhileError(f"{what} kept being changed: try again") from error
        return outcome

    return await retried(once, on=ChangedMeanwhileError, attempts=ATTEMPTS)


# Conflicts of lock modes.


class Conflicts:
    """Defines which lock modes of two owners exclude each other on one resource.

    `Conflicts({"read": ["write"], "write": ["read", "write"]})`: each mode, and the modes that it
    excludes; one direction is sufficient. An unknown mode, of an owner with another table, excludes
    everything. Raises InvalidRequestError for an excluded mode that is not in the table.
    """

    def __init__(self, table: Mapping[str, Iterable[str]]) -> None:
        if not isinstance(table, Mapping) or not table:
            raise InvalidRequestError(
                f"table is {shown(table)}: give the modes, and for each a list of those it excludes"
            )
        self.modes = tuple(check_name(mode, "mode") for mode in table)
        """The modes, in the order of the table."""
        self._pairs = set[frozenset[str]]()
        for mode, others in table.items():
            for other in check_names(others, f"table[{mode!r}]"):
                self._pairs.add(frozenset((mode, self.checked(other))))

    def checked(self, mode: str) -> str:
        """Return the mode. Raises InvalidRequestError for an unknown one."""
        if not isinstance(mode, str) or mode not in self.modes:
            raise InvalidRequestError(f"mode={shown(mode)}: use one of {', '.join(self.modes)}")
        return mode

    def are_between(self, one: str, other: str) -> bool:
        """Whether the two modes exclude each other."""
        if one not in self.modes or other not in self.modes:
            return True
        return frozenset((one, other)) in self._pairs

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.modes)})"


_WORK = {
    "build": ["build", "git_remote_merge", "git_destructive"],
    "test": ["test", "git_remote_merge", "git_destructive"],
    "build_test": ["build_test", "build", "test", "git_remote_merge", "git_destructive"],
    "git_index": ["git_index", "git_commit", "git_remote_merge", "git_destructive"],
    "git_commit": ["git_commit", "git_destructive"],
    "git_remote_merge": ["git_remote_merge"],
    "git_destructive": ["git_destructive"],
}

STANDARD_CONFLICTS = Conflicts(
    {"exclusive": ["exclusive", "shared", *_WORK], "shared": ["exclusive"], **_WORK}
)
"""The default table of lock modes.

`exclusive` excludes all modes, `shared` only that; the others are work on a project, with its path
as the resource: builds, tests, and four kinds of work with git.
"""


# Ranking of texts by the words of a query.

_WORD = re.compile(r"\w+")
_SHORTEST_TELLING = 3
"""Minimum letters of a significant word, if longer ones exist."""

_SHORTEST_BEGINNING = 4
"""Minimum letters of a word to match a longer one, such as its plural."""


def best(
    query: str, candidates: Iterable[T], texts: Callable[[T], list[str]], *, limit: int
) -> list[T]:
    """Return the candidates with words of `query`, most of them first.

    Equal ones are sorted by the position of the words: `texts` returns the texts to search, most
    important first.
    """
    check_span(offset=0, limit=limit, last=None)
    words = _words(check_text(query, "query"))
    if not (wanted := {word for word in words if len(word) >= _SHORTEST_TELLING} or words):
        raise InvalidRequestError("query is blank: say what to look for")
    ranked = []
    for one in candidates:
        found, weight = set[str](), 0.0
        for depth, text in enumerate(texts(one)):
            there = _words(text)
            here = {word for word in wanted if any(_alike(word, other) for other in there)}
            found |= here
            weight += len(here) / 2**depth
        if found:
            ranked.append(((-len(found), -weight), one))
    return [one for _, one in sorted(ranked, key=lambda pair: pair[0])][:limit]


def has_words(query: str) -> bool:
    """Whether the query has a word."""
    return bool(_words(query))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _alike(one: str, other: str) -> bool:
    """Whether the words are equal, or one begins with the other."""
    shorter, longer = sorted((one, other), key=len)
    return one == other or (len(shorter) >= _SHORTEST_BEGINNING and longer.startswith(shorter))
