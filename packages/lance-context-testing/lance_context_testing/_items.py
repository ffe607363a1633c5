"""Reads and writes key-value items by path, for their contract."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from lance_context_core import Item, ItemVector
from lance_context_core.protocols import ItemKey
from lance_context_core.results import SearchHit

PAST = datetime(2000, 1, 1, tzinfo=UTC)
FUTURE = datetime(9000, 1, 1, tzinfo=UTC)
AXES = [[float(n == axis) for n in range(4)] for axis in range(4)]


def item(path: str, **rest: Any) -> Item:
    """An item by its path: `a/b/key` is `key` in the namespace `("a", "b")`."""
    *namespace, last = path.split("/")
    return Item(namespace=tuple(namespace), key=last, **rest)


def key(path: str) -> ItemKey:
    """A namespace and a key by their path."""
    *namespace, last = path.split("/")
    return tuple(namespace), last


def paths(found: Sequence[Item | ItemKey | SearchHit[Item]]) -> list[str]:
    """The paths of items, keys or hits."""
    ones = [one.record if isinstance(one, SearchHit) else one for one in found]
    keys = [(one.namespace, one.key) if isinstance(one, Item) else one for one in ones]
    return ["/".join([*namespace, last]) for namespace, last in keys]


def along(*axes: int) -> list[ItemVector]:
    """Vectors along these axes."""
    return [ItemVector(path=f"{axis}", vector=AXES[axis]) for axis in axes]
