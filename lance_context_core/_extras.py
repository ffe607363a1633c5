"""What only some users have installed: asked for where it is used, and loaded when it is."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
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

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._load,)


def _missing(package: str, extra: str, by: str) -> MissingExtraError:
    return MissingExtraError(
        f"{by} needs {package}, which is not installed: pip install 'lance-context-core[{extra}]'"
    )
