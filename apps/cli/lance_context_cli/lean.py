"""Starting sooner: what is installed, and no command has a use for, is not imported."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Hiding(MetaPathFinder):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Nothing where others shall be asked. Raises ModuleNotFoundError for what is hidden."""
        if name in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


@contextmanager
def without(*names: str) -> Iterator[None]:
    """In the block these packages seem not to be installed, unless they were imported before.

    Arrow imports pandas as soon as it sees a value, to know whether it is one of pandas': a fifth of
    what a command takes to start. Who asks for pandas after the block has it.
    """
    hiding = _Hiding(frozenset(names))
    sys.meta_path.insert(0, hiding)
    try:
        yield
    finally:
        sys.meta_path.remove(hiding)
