"""Changing one item by what it holds: of those who do so at once, each sees what the other has made."""

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
"""Each loss is somebody else's change of the same item."""


class ChangedMeanwhileError(ConflictError):
    """Somebody else changed it: look again."""


class Written(NamedTuple):
    """What is to be there after a change."""

    puts: Sequence[Item] = ()
    deletes: Sequence[ItemKey] = ()
    expected: Mapping[ItemKey, int | None] = MappingProxyType({})
    """The revisions of what else was looked at."""


async def changed(
    items: AsyncKeyValues,
    key: ItemKey,
    decide: Callable[[Mapping[str, Any] | None], Awaitable[tuple[Written, T]]],
    *,
    what: str,
) -> T:
    """Write what `decide` makes of the value under `key`, None if there is none, in one commit.

    It is asked again where that value was changed meanwhile. Returns what it returns beside it.
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


# Which modes of a lock exclude each other.


class Conflicts:
    """For two modes, whether two owners may hold locks in them on one resource at the same time.

    `Conflicts({"read": ["write"], "write": ["read", "write"]})`: each mode, and what it excludes;
    it need be said of one of the two only. A mode that is not named, of a person who has another
    table, excludes everything. Raises InvalidRequestError for an excluded mode that is not named.
    """

    def __init__(self, table: Mapping[str, Iterable[str]]) -> None:
        if not isinstance(table, Mapping) or not table:
            raise InvalidRequestError(
                f"table is {shown(table)}: give the modes, and for each a list of those it excludes"
            )
        self.modes = tuple(check_name(mode, "mode") for mode in table)
        """Those that there are, in the order in which they were named."""
        self._pairs = set[frozenset[str]]()
        for mode, others in table.items():
            for other in check_names(others, f"table[{mode!r}]"):
                self._pairs.add(frozenset((mode, self.checked(other))))

    def checked(self, mode: str) -> str:
        """The mode. Raises InvalidRequestError for one that there is not."""
        if not isinstance(mode, str) or mode not in self.modes:
            raise InvalidRequestError(f"mode={shown(mode)}: there are {', '.join(self.modes)}")
        return mode

    def are_between(self, one: str, other: str) -> bool:
        """Whether the two exclude each other."""
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
"""What holds unless one's own is given: `exclusive` excludes all, `shared` only that; and what agents
do to a project, whose path is then the resource: builds, tests, and four sorts of work with git."""


# Which texts have most of the words that are asked for.

_WORD = re.compile(r"\w+")
_SHORTEST_TELLING = 3
"""Letters of a word that says something, where there are longer ones."""

_SHORTEST_BEGINNING = 4
"""Letters that a word must have for a longer one, such as its plural, to be the same."""


def best(
    query: str, candidates: Iterable[T], texts: Callable[[T], list[str]], *, limit: int
) -> list[T]:
    """Those that have words of `query`, most of them first.

    Equals by where the words stand: `texts` gives what is looked into, what counts most first.
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
    """Whether there is anything to look for."""
    return bool(_words(query))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _alike(one: str, other: str) -> bool:
    """Whether the words are the same, or one is the beginning of the other."""
    shorter, longer = sorted((one, other), key=len)
    return one == other or (len(shorter) >= _SHORTEST_BEGINNING and longer.startswith(shorter))
