"""What a value of the store is: frozen, with slots, and equal to another one that says the same."""

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
V = TypeVar("V", bound="DataclassInstance")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def frozen_by_name(kind: type[T]) -> type[T]:
    """Make values of a class: frozen, and made by naming their fields."""
    return dataclass(frozen=True, slots=True, kw_only=True)(kind)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(kind: type[T]) -> type[T]:
    """Make values of a class: frozen, and made of their fields in order, or by naming them."""
    return dataclass(frozen=True, slots=True)(kind)


def own_first(kind: type[V]) -> type[V]:
    """Let values show their own fields before those that their class has from another."""
    known = kind.__dataclass_fields__
    levels = [getattr(one, "__dataclass_fields__", ()) for one in kind.__mro__]
    order = sorted(known, key=lambda name: sum(name in level for level in levels))
    # What `dataclasses.fields` reads, and so whatever is written of a value.
    kind.__dataclass_fields__ = {name: known[name] for name in order}
    kind.__repr__ = _shown  # type: ignore[method-assign, assignment] # that of a dataclass is in another
    return kind


def _shown(self: "DataclassInstance") -> str:
    told = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(told)})"
