"""Which versions of a table came about by appending what this process knows, and nothing else."""

from lance_context_core.results import ItemsAppended

_MAX_VERSIONS = 4_096
"""How many are remembered; where a longer time has passed, one must look."""


class OwnVersions:
    """The versions of one table that are wholly one's own; not safe to share between threads."""

    def __init__(self) -> None:
        """Know of none."""
        self._n_missing: dict[int, int] = {}
        """By version, in the order of time, how many of its items nobody has told of yet."""
        self._since = self._until = 0
        """After which version, and until which, all were found to be one's own."""

    def note(self, done: ItemsAppended, *, n_items: int) -> None:
        """Count `n_items`, which are known from now on, to the commit that wrote them."""
        if done.n_items is None:
            return
        self._n_missing[done.version] = self._n_missing.get(done.version, done.n_items) - n_items
        if len(self._n_missing) > _MAX_VERSIONS:
            del self._n_missing[next(iter(self._n_missing))]

    def cover(self, *, after: int, until: int) -> bool:
        """Whether nothing unknown was written after one version, until another one."""
        if until < after:
            return False
        if not self._since <= after <= self._until:
            self._since = self._until = after
        # What was found before is not asked about again: a thread looks back to its first read.
        while self._until < until and self._n_missing.get(self._until + 1) == 0:
            self._until += 1
        return until <= self._until
