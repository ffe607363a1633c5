"""A package that is imported for a few of its modules: what else it begins with comes when it is asked for.

LanceDB imports the models of a REST client, whose package makes all of that client when it is imported:
a third of what importing LanceDB takes, for calls that no store makes. `tests/core/engine/test_later.py`
shows that who asks for them has them.
"""

import sys
import threading
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_LOCK = threading.RLock()
_RUNNING: set[str] = set()
"""The packages that are being run: they lack what they have not come to."""


class _Later(ModuleType):
    """A package whose modules can be imported, and which is run at the first look for anything else."""

    def __getattr__(self, name: str) -> Any:
        lacking = AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name.startswith("__"):  # What the import system looks for, and finds or does not.
            raise lacking
        with _LOCK:
            if self.__name__ in _RUNNING:
                raise lacking
            if type(self) is _Later:
                _run(self)
        return getattr(self, name)


def _run(package: ModuleType) -> None:
    """Run it; whoever looks meanwhile waits, and if it fails, the next look tries again."""
    assert package.__spec__ is not None
    assert package.__spec__.loader is not None
    _RUNNING.add(package.__name__)
    try:
        package.__spec__.loader.exec_module(package)
    finally:
        _RUNNING.discard(package.__name__)
    package.__class__ = ModuleType  # From here on it is as any other.


def run_later(name: str) -> None:
    """Have the package run no sooner than it is asked for more than its modules; if it is there."""
    if name in sys.modules or (spec := find_spec(name)) is None:
        return
    package = module_from_spec(spec)
    package.__class__ = _Later
    sys.modules[name] = package
