"""Which modes of a lock exclude each other."""

from collections.abc import Iterable, Mapping

from lance_context_core._util.checks import check_name, check_names, shown
from lance_context_core.errors import InvalidRequestError


class Conflicts:
    """For two modes, whether two owners may hold locks in them on one resource at the same time.

    `Conflicts({"read": ["write"], "write": ["read", "write"]})`: each mode, and what it excludes;
    it need be said of one of the two only. A mode that is not named, of somebody who has another
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
