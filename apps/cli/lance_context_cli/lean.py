"""Starting sooner: what is installed, and no command has a use for, is not imported, or not yet."""

import gc
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


@contextmanager
def importing() -> Iterator[None]:
    """In the block the store is imported in two thirds of the time.

    What is imported stays, and no rubbish is among it: nobody looks for any. Arrow does without
    pandas, and the engine without the classes in which a server is asked, which no store has.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        with without("pandas"), later("lance_namespace_urllib3_client"):
            yield
    finally:
        if is_collecting:
            gc.freeze()
            gc.enable()


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
    with _asked_first(_Hiding(frozenset(names))):
        yield


@contextmanager
def later(name: str) -> Iterator[None]:
    """In the block a package is imported without what is in it.

    What is taken out of it there is a stand-in, which imports its own module at its first use. After
    the block each module is imported as a whole when somebody asks it for anything.
    """
    postponing = _Postponing(name)
    with _asked_first(postponing):
        yield
    postponing.is_over = True


@contextmanager
def _asked_first(finder: MetaPathFinder) -> Iterator[None]:
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Postponing(MetaPathFinder, Loader):
    def __init__(self, package: str) -> None:
        self._package = package
        self._loaders: dict[str, Loader] = {}
        self.is_over = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """What leads to the modules in a package, and leaves out what is in itself."""
        if name.partition(".")[0] != self._package:
            return None
        real = PathFinder.find_spec(name, path)
        if real is None or real.loader is None:
            return None
        self._loaders[name] = real.loader
        spec = ModuleSpec(name, self, origin=real.origin)
        spec.submodule_search_locations = real.submodule_search_locations
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty, until somebody asks for something."""

        def get(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            if not self.is_over:
                return _StandIn(module, name)
            del module.__dict__["__getattr__"]
            self._loaders[module.__name__].exec_module(module)
            return getattr(module, name)

        module.__dict__["__getattr__"] = get


class _StandIn:
    """Stands for a class; may be called, asked, inherited from, and be what something is one of."""

    def __init__(self, module: ModuleType, name: str) -> None:
        self.__dict__["_place"] = (module, name)

    @property
    def _real(self) -> Any:
        module, name = self.__dict__["_place"]
        if hasattr(module, "__path__"):  # Each class has a module of its name in the package.
            module = import_module(f"{module.__name__}.{_WORD.sub('_', name).lower()}")
        return getattr(module, name)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._real(*given, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Who asks for these looks at a signature in which it stands.
            raise AttributeError(name)
        return getattr(self._real, name)

    def __instancecheck__(self, one: object) -> bool:
        return isinstance(one, self._real)

    def __subclasscheck__(self, kind: type) -> bool:
        return issubclass(kind, self._real)

    def __mro_entries__(self, _: tuple[object, ...]) -> tuple[Any, ...]:
        return (self._real,)
