"""What only some users have installed: asked for where it is used, and loaded when it is."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Generic, TypeVar

from lance_context_core.errors import MissingExtraError

T = TypeVar("T")


def require(package: str, *, extra: str, by: str) -> None:
    """Raise MissingExtraError unless `package` is installed; it is not imported."""
    if find_spec(package) is None:
        raise _missing(package, extra, by)


@contextmanager
def importing(package: str, *, extra: str, by: str) -> Iterator[None]:
    """Turn an ImportError into a MissingExtraError that names the command."""
    try:
        yield
    except ImportError as error:
        raise _missing(package, extra, by) from error


@contextmanager
def moved(module: str, *, to: str) -> Iterator[None]:
    """Raise MissingExtraError if the distribution that a module has moved to is not installed."""
    package = to.replace("-", "_")
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingExtraError(
            f"{module} is {package} now, which is not installed: pip install {to}"
        ) from error


class Loaded(Generic[T]):
    """What is loaded at its first use: once, however many threads ask.

    Pickles as what loads it, so that another process loads its own.
    """

    def __init__(self, load: Callable[[], T]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._values: list[T] = []

    def get(self) -> T:
        """The value; whoever comes first waits for the loading, and so do all who come meanwhile."""
        with self._lock:
            if not self._values:
                self._values.append(self._load())
            return self._values[0]

    def forget(self) -> None:
        """Load it anew at the next use: after a fork, another thread may have had the lock."""
        self._lock = threading.Lock()
        self._values = []

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._load,)


def _missing(package: str, extra: str, by: str) -> MissingExtraError:
    return MissingExtraError(
        f"{by} needs {package}, which is not installed: pip install 'lance-context-core[{extra}]'"
    )


# A package that is imported for a few of its modules: what else it begins with comes when it is asked for.
#
# LanceDB imports the models of a REST client, whose package makes all of that client when it is imported:
# a third of what importing LanceDB takes, for calls that no store makes. `tests/core/_util/test_extras.py`
# shows that who asks for them has them.

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
