"""What a page shows, before it is made HTML or JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page:
    """A template, and what stands in it."""

    template: str
    title: str
    data: Mapping[str, Any] = field(default_factory=dict)
    """All that is on the page: also what its twin in JSON has."""
    place: str = ""
    """The path of the entry of the menu that it belongs to."""
    status: int = 200
    """What HTTP says of it."""


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A piece of a long list."""

    items: Sequence[T]
    number: int
    """Counted from 1."""
    has_more: bool

    @classmethod
    def of(cls, found: Sequence[T], number: int, size: int) -> "Part[T]":
        """Of what was found when one more was asked for than is shown."""
        return cls(found[:size], number, len(found) > size)
