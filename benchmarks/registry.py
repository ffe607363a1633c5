"""What a figure is, and which there are."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks import figures

if TYPE_CHECKING:
    from benchmarks.bench import Bench


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A bound on what a row is judged by; one of the two is given."""

    at_most: float | None = None
    at_least: float | None = None

    def met_by(self, value: float) -> bool:
        """Whether `value` keeps the bound; the bound itself does."""
        if self.at_most is not None:
            return value <= self.at_most
        return self.at_least is not None and value >= self.at_least

    def __str__(self) -> str:
        return f"≤ {self.at_most:g}" if self.at_most is not None else f"≥ {self.at_least:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the report."""

    what: str
    unit: str
    values: Mapping[str, float] = field(default_factory=dict)
    """What was measured, by side; a side that has no such work, or failed, is absent."""
    judged: float | None = None
    """What the target bounds, such as a ratio; None where it could not be measured."""
    target: Target | None = None
    notes: tuple[str, ...] = ()
    """What a reader must know to read the values: sizes, indexes, failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One subject, measured in one go."""

    name: str
    title: str
    measure: "Callable[[Bench], list[Row]]"


_FIGURES: dict[str, Figure] = {}


def figure(
    name: str, title: str
) -> "Callable[[Callable[[Bench], list[Row]]], Callable[[Bench], list[Row]]]":
    """Register the decorated function under `name`; raises ValueError if the name is taken."""

    def register(measure: "Callable[[Bench], list[Row]]") -> "Callable[[Bench], list[Row]]":
        if name in _FIGURES:
            raise ValueError(f"figure {name!r} is registered twice: choose another name")
        _FIGURES[name] = Figure(name=name, title=title, measure=measure)
        return measure

    return register


def all_figures() -> list[Figure]:
    """All figures, by the names of their files, then in the order in which they stand there."""
    for module in sorted(pkgutil.iter_modules(figures.__path__), key=lambda module: module.name):
        importlib.import_module(f"{figures.__name__}.{module.name}")
    return list(_FIGURES.values())
