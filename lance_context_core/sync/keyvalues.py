"""Key-value items in namespaces, from synchronous code."""

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from lance_context_core._loop import block_on
from lance_context_core._options import takes
from lance_context_core.protocols import CONDITIONS, LISTING, ItemConditions, ItemKey, ItemListing
from lance_context_core.records import Item, ItemsAppended, ItemsWritten, SearchHit
from lance_context_core.stores.keyvalues.items import AsyncKeyValues


@dataclass(frozen=True, slots=True)
class KeyValues:
    """The items of one name; `AsyncKeyValues` is the asynchronous one."""

    _aio: AsyncKeyValues

    @property
    def name(self) -> str:
        """The name under which the items are kept."""
        return self._aio.name

    def get(
        self, keys: Sequence[ItemKey], *, include_data: bool = True, include_vectors: bool = False
    ) -> builtins.list[Item | None]:
        """The items of these keys; None where there is none. See `AsyncKeyValues.get`."""
        return block_on(
            self._aio.get(keys, include_data=include_data, include_vectors=include_vectors)
        )

    @takes(ItemListing, LISTING)
    def list(
        self,
        *,
        include_data: bool = True,
        include_vectors: bool = False,
        **which: Unpack[ItemListing],
    ) -> builtins.list[Item]:
        """The items that meet all conditions, in order. See `AsyncKeyValues.list`."""
        return block_on(
            self._aio.list(include_data=include_data, include_vectors=include_vectors, **which)
        )

    @takes(ItemListing, LISTING)
    def keys(self, **which: Unpack[ItemListing]) -> builtins.list[ItemKey]:
        """The namespaces and keys of what `list` would return. See `AsyncKeyValues.keys`."""
        return block_on(self._aio.keys(**which))

    @takes(ItemConditions, CONDITIONS)
    def count(self, **which: Unpack[ItemConditions]) -> int:
        """How many items meet the conditions. See `AsyncKeyValues.count`."""
        return block_on(self._aio.count(**which))

    def namespaces(
        self,
        *,
        prefix: Sequence[str | None] = (),
        suffix: Sequence[str | None] = (),
        max_depth: int | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> builtins.list[tuple[str, ...]]:
        """The namespaces that have items, each once, in order. See `AsyncKeyValues.namespaces`."""
        return block_on(
            self._aio.namespaces(
                prefix=prefix, suffix=suffix, max_depth=max_depth, limit=limit, offset=offset
            )
        )

    @takes(ItemConditions, CONDITIONS)
    def search(
        self,
        query: str | Sequence[float],
        *,
        limit: int = 10,
        offset: int = 0,
        include_data: bool = True,
        **which: Unpack[ItemConditions],
    ) -> builtins.list[SearchHit[Item]]:
        """The items nearest to a text or vector, best first. See `AsyncKeyValues.search`."""
        return block_on(
            self._aio.search(query, limit=limit, offset=offset, include_data=include_data, **which)
        )

    def put(self, items: Sequence[Item]) -> None:
        """Write items, replacing whatever their keys hold. See `AsyncKeyValues.put`."""
        return block_on(self._aio.put(items))

    def add(self, items: Sequence[Item]) -> builtins.list[bool]:
        """Write the items whose keys hold nothing. See `AsyncKeyValues.add`."""
        return block_on(self._aio.add(items))

    def append(self, items: Sequence[Item]) -> ItemsAppended:
        """Write items whose keys are known to be new. See `AsyncKeyValues.append`."""
        return block_on(self._aio.append(items))

    def delete(self, keys: Sequence[ItemKey]) -> builtins.list[bool]:
        """Remove items in one commit. See `AsyncKeyValues.delete`."""
        return block_on(self._aio.delete(keys))

    def write(
        self,
        *,
        puts: Sequence[Item] = (),
        adds: Sequence[Item] = (),
        deletes: Sequence[ItemKey] = (),
        expected: Mapping[ItemKey, int | None] | None = None,
    ) -> ItemsWritten:
        """`put`, `add` and `delete` in one commit. See `AsyncKeyValues.write`."""
        return block_on(self._aio.write(puts=puts, adds=adds, deletes=deletes, expected=expected))

    def delete_under(self, prefix: Sequence[str]) -> int:
        """Remove all items under a namespace. See `AsyncKeyValues.delete_under`."""
        return block_on(self._aio.delete_under(prefix))

    def touch(self, keys: Sequence[ItemKey], *, expires_at: datetime | None) -> int:
        """Let items expire at another moment, or never. See `AsyncKeyValues.touch`."""
        return block_on(self._aio.touch(keys, expires_at=expires_at))

    def sweep(self) -> int:
        """Remove what has expired. See `AsyncKeyValues.sweep`."""
        return block_on(self._aio.sweep())

    def version(self) -> int:
        """The number of the items' version. See `AsyncKeyValues.version`."""
        return block_on(self._aio.version())

    def names(self) -> builtins.list[str]:
        """The names of all such tables of the store. See `AsyncKeyValues.names`."""
        return block_on(self._aio.names())
