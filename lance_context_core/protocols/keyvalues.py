"""What is promised of key-value items, and the words in which they are asked for."""

import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol, TypedDict, Unpack, runtime_checkable

from lance_context_core._util.calls import takes
from lance_context_core.filters import FilterLike
from lance_context_core.records import Item, ItemsAppended, ItemsWritten, SearchHit

ItemKey = tuple[tuple[str, ...], str]
"""The namespace and the key of a key-value item."""

ItemOrder = Literal["key", "created", "updated"]
"""By namespace and key, or by when an item was created or last written."""


class ItemConditions(TypedDict, total=False):
    """Which key-value items are meant: those that meet all conditions."""

    prefix: Sequence[str | None]
    """The first segments of the namespace; None is any one segment: `(None, "notes")`."""
    suffix: Sequence[str | None]
    """The last segments."""
    namespace: Sequence[str | None] | None
    """All of them."""
    filter: FilterLike | None
    """On the value, and on `key`, `data_type`, `created_at`, `updated_at` and `expires_at`."""


class ItemListing(ItemConditions, total=False):
    """A part of the key-value items that meet all conditions, in order."""

    key_prefix: str
    """How the key begins."""
    after: str | None
    """What the key comes after."""
    before: str | None
    """What the key comes before."""
    order: ItemOrder
    reverse: bool
    """Turns the whole order round."""
    limit: int | None
    """How many, after `offset`."""
    offset: int


CONDITIONS: Mapping[str, Any] = {"prefix": (), "suffix": (), "namespace": None, "filter": None}
"""What `ItemConditions` are where they are not named."""

LISTING: Mapping[str, Any] = {
    **CONDITIONS,
    "key_prefix": "",
    "after": None,
    "before": None,
    "order": "key",
    "reverse": False,
    "limit": None,
    "offset": 0,
}
"""What `ItemListing` is where it is not named."""


@runtime_checkable
class KeyValueStore(Protocol):
    """JSON objects and bytes by namespace and key; what has expired is not there.

    A namespace is a tuple of texts, and conditions on it are on whole segments: what lies under
    `("user", "1")` does not lie under `("user", "10")`.
    """

    async def get(
        self, keys: Sequence[ItemKey], *, include_data: bool = True
    ) -> builtins.list[Item | None]:
        """The items of these namespaces and keys, in their order; None for one that is not there."""

    @takes(ItemListing, LISTING)
    async def list(
        self, *, include_data: bool = True, **which: Unpack[ItemListing]
    ) -> builtins.list[Item]:
        """The items that meet all conditions, in order."""

    @takes(ItemListing, LISTING)
    async def keys(self, **which: Unpack[ItemListing]) -> builtins.list[ItemKey]:
        """The namespaces and keys of what `list` would return."""

    @takes(ItemConditions, CONDITIONS)
    async def count(self, **which: Unpack[ItemConditions]) -> int:
        """How many items meet the conditions."""

    async def namespaces(
        self,
        *,
        prefix: Sequence[str | None] = (),
        suffix: Sequence[str | None] = (),
        max_depth: int | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> builtins.list[tuple[str, ...]]:
        """The namespaces that have items, each once, in order; cut to `max_depth` segments."""

    @takes(ItemConditions, CONDITIONS)
    async def search(
        self,
        query: str | Sequence[float],
        *,
        limit: int = 10,
        offset: int = 0,
        **which: Unpack[ItemConditions],
    ) -> builtins.list[SearchHit[Item]]:
        """The items that have the nearest vectors, best first; as many as `limit` if there are."""

    async def put(self, items: Sequence[Item]) -> None:
        """Write items, replacing what their keys hold, in one commit; `created_at` stays.

        Of two with one key the last counts.
        """

    async def add(self, items: Sequence[Item]) -> builtins.list[bool]:
        """Write the items whose keys hold nothing, in one commit; says which were written.

        Of two with one key the first counts.
        """

    async def append(self, items: Sequence[Item]) -> ItemsAppended:
        """Write items whose keys are known to be new, in one commit."""

    async def delete(self, keys: Sequence[ItemKey]) -> builtins.list[bool]:
        """Remove items in one commit; says for each key whether there was one."""

    async def write(
        self,
        *,
        puts: Sequence[Item] = (),
        adds: Sequence[Item] = (),
        deletes: Sequence[ItemKey] = (),
        expected: Mapping[ItemKey, int | None] | None = None,
    ) -> ItemsWritten:
        """Delete, add and put, in this order and in one commit.

        Raises AlreadyExistsError, and writes nothing, if the key of one of `adds` holds something;
        ConflictError if an item has another `revision` than `expected`, or is there against None.
        """

    async def delete_under(self, prefix: Sequence[str]) -> int:
        """Remove all items whose namespaces begin with these segments; returns how many."""

    async def touch(self, keys: Sequence[ItemKey], *, expires_at: datetime | None) -> int:
        """Let items expire at another moment, or never; returns how many of them there were."""

    async def sweep(self) -> int:
        """Remove what has expired for good; returns how many items that were."""

    async def version(self) -> int:
        """The number of the items' version, which every change of them makes another one."""

    async def names(self) -> builtins.list[str]:
        """The names of all stores of items beside this one, and of this one, in order."""
