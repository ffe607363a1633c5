"""Whose a thing is, and since when it is so: what the things that are kept have in common."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def own_first(kind: type[T]) -> type[T]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """What is somebody's: it is seen where the scope has the same in each part that it names."""

    tenant: str | None = None
    user_id: str | None = None
    agent_id: str | None = None


@own_first
@dataclass(frozen=True, slots=True, kw_only=True)
class Known(Owned):
    """What is so for a time, and known from something."""

    source_ids: tuple[str, ...] = ()
    """The records, documents and chunks that it is known from."""
    valid_from: datetime | None = None
    """Since when it is so; None means always."""
    valid_to: datetime | None = None
    """The first moment at which it is so no more; None means never."""
    recorded_at: datetime | None = None
    """Since when it is known; None has the store say it."""
