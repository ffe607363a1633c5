"""Lazy imports from the library agentscope, with the releases that have each name."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import Any

from lance_context_core.errors import MissingExtraError


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """A range of agentscope releases with the same classes, and the extra that installs one."""

    first: tuple[int, int, int]
    end: tuple[int, int, int]
    """The end of the range, exclusive."""
    extra: str
    modules: Mapping[str, str]
    """The module of each name, below `agentscope`."""

    def find(self, name: str) -> Any:
        """The object of that name.

        Raises MissingExtraError if another release is installed, or none.
        """
        if name not in self.modules:
            raise AttributeError(f"no {name!r} is imported from agentscope")
        try:
            found = getattr(_module(self.modules[name]), name)
        except (ImportError, AttributeError) as error:
            raise self._missing(name, str(error)) from error
        installed = version("agentscope")
        if not self.first <= _numbers(installed) < self.end:
            # Releases outside of the range have another class of that name.
            raise self._missing(name, f"agentscope {installed} is installed")
        return found

    def _missing(self, name: str, problem: str) -> MissingExtraError:
        first, end = (".".join(map(str, one)) for one in (self.first, self.end))
        return MissingExtraError(
            f"{name} needs agentscope from {first} on, before {end}: "
            f"pip install 'agentscope-lance-context[{self.extra}]' ({problem})"
        )


def _module(path: str) -> ModuleType:
    """The module below agentscope, and each package that contains it.

    If the import of a package fails, modules that it imported before stay imported.
    """
    names = path.split(".")
    for n in range(1, len(names)):
        import_module(".".join(("agentscope", *names[:n])))
    return import_module(f"agentscope.{path}")


def _numbers(release: str) -> tuple[int, ...]:
    """The first three numbers of a version, up to the first part that is not a number."""
    numbers = []
    for part in release.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        numbers += [int(digits)] if digits else []
        if digits != part:
            break
    return tuple(numbers)
