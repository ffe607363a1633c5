"""The base of each store's handle: a frozen value with a place and a scope."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar, dataclass_transform

from lance_context_core._resources import Resources
from lance_context_core.scope import Scope

T = TypeVar("T")


class Opened(ABC):
    """A context manager that closes its resource at the end of the block."""

    @abstractmethod
    async def close(self) -> None:
        """Stop its background work and close its resources."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


@dataclass_transform(frozen_default=True)
def handle(cls: type[T]) -> type[T]:
    """Make `cls` a frozen dataclass whose `repr` has place and scope: `AsyncHistory('/data/memory', user_id='ada')`.

    The `repr` has public fields only.
    """
    cls.__repr__ = _repr  # type: ignore[method-assign]
    return dataclass(frozen=True, slots=True, repr=False)(cls)


def place_and_scope(resources: Resources, scope: Scope) -> str:
    """The place and scope of a handle, as the arguments of a `repr`."""
    branch = resources.database.branch
    where = {} if branch == "main" else {"branch": branch}
    return ", ".join([repr(resources.database.uri), *_named(where | scope.parts())])


def _repr(self: Any) -> str:
    values = {field.name: getattr(self, field.name) for field in fields(self)}
    behind = [part for value in values.values() for part in _parts(value)]
    resources = next(part for part in behind if isinstance(part, Resources))
    scope = next((part for part in behind if isinstance(part, Scope)), Scope())
    public = {name: value for name, value in values.items() if not name.startswith("_")}
    shown = ", ".join([place_and_scope(resources, scope), *_named(public)])
    return f"{type(self).__name__}({shown})"


def _parts(value: Any) -> Iterator[Any]:
    """A value together with the scope that owns it."""
    yield value
    yield getattr(value, "resources", None)
    yield getattr(value, "scope", None)


def _named(values: dict[str, Any]) -> list[str]:
    return [f"{name}={value!r}" for name, value in values.items()]
