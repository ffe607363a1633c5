"""The catalog of a fleet: which shard has the data of a tenant, changed by compare and set."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from typing import Any

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import ConflictError, InvalidRequestError, NotFoundError
from lance_context_core.store.store import AsyncContextStore
from lance_context_core.types import Item

TABLE = "lance_context.fleet"
"""The key-value table of the catalog, and of what each shard notes of its fleet."""

_SETTINGS = (("fleet",), "settings")
_TENANTS = ("tenants",)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


@frozen_by_name
class TenantPlacement:
    """Where the data of a tenant is."""

    tenant: str
    shard: str
    """The name of the shard: a number, or the name of a shard made by `move`."""
    generation: int = 0
    """Grows with each change of the placement; 0 if it was never changed."""
    moving_to: str | None = None
    """The shard that a move copies the data to, or was about to when it was interrupted."""
    leaving: str | None = None
    """The shard whose copy is not erased yet after a move."""
    blocked_until: datetime | None = None
    """How long writes wait for the end of a move; None if they do not."""
    revision: int | None = None
    """The revision of its item in the catalog; None if it has none."""

    @property
    def is_moving(self) -> bool:
        """Whether a move has begun, and not ended."""
        return self.moving_to is not None

    @property
    def copies(self) -> list[str]:
        """The shards that may have another copy of the data."""
        return [one for one in (self.moving_to, self.leaving) if one is not None]


def check_shard(name: object, n_shards: int) -> str:
    """Returns the name of a shard. Raises InvalidRequestError for an invalid one."""
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidRequestError(
            f"to={name!r:.80}: give the number of a shard, or a name of 1 to 63 ASCII letters, "
            "digits, - and _ for a shard of its own"
        )
    if name.isdecimal() and (int(name) >= n_shards or str(int(name)) != name):
        raise InvalidRequestError(
            f"to={name!r}: the fleet has the shards 0 to {n_shards - 1}; give one of them, or a "
            "name with a letter"
        )
    return name


class Catalog:
    """The placements of a fleet, in a store of its own.

    A tenant without an entry is in the shard of its hash, which is the same for ever.
    """

    def __init__(self, store: AsyncContextStore, n_shards: int | None) -> None:
        """In that store; `n_shards` as given to `open`."""
        self.store = store
        self._items = store.kv(TABLE)
        self._given = n_shards
        self._n_shards: int | None = None

    async def n_shards(self) -> int:
        """Returns the number of numbered shards, which is stored by the first call.

        Raises NotFoundError without a fleet, InvalidRequestError if it has another number.
        """
        if self._n_shards is not None:
            return self._n_shards
        item = (await self._items.get([_SETTINGS]))[0]
        if item is None and self._given is None:
            raise NotFoundError(
                f"no fleet at {self.store.uri!r}: pass shards=, the number of its shards, to make one"
            )
        if item is None:
            namespace, key = _SETTINGS
            await self._items.add([Item(namespace=namespace, key=key, value={"n": self._given})])
            item = (await self._items.get([_SETTINGS]))[0]
        assert item is not None
        n = int((item.value or {})["n"])
        if self._given not in (None, n):
            raise InvalidRequestError(
                f"shards={self._given}: the fleet has {n}, which never changes: leave shards out, or "
                "move large tenants to shards of their own"
            )
        self._n_shards = n
        return n

    async def exists(self) -> bool:
        """Whether the fleet exists."""
        return (await self._items.get([_SETTINGS]))[0] is not None

    async def token(self) -> int:
        """A number that changes with each change of the catalog."""
        return await self._items.version()

    async def placement(self, tenant: str) -> TenantPlacement:
        """Returns where a tenant is."""
        item = (await self._items.get([(_TENANTS, tenant)]))[0]
        if item is None:
            return TenantPlacement(tenant=tenant, shard=hashed(tenant, await self.n_shards()))
        return _placement(item)

    async def placements(self) -> list[TenantPlacement]:
        """Returns the tenants that were moved, or are being moved, in order."""
        return [_placement(item) for item in await self._items.list(namespace=_TENANTS)]

    async def shards(self) -> list[str]:
        """Returns the names of all shards: the numbered ones, then those of single tenants."""
        numbered = [str(n) for n in range(await self.n_shards())]
        named = {name for one in await self.placements() for name in (one.shard, *one.copies)}
        return [*numbered, *sorted(named.difference(numbered))]

    async def change(self, before: TenantPlacement, **values: Any) -> TenantPlacement:
        """Changes a placement; returns it. Raises ConflictError if another one was faster."""
        after = replace(before, generation=before.generation + 1, **values)
        try:
            await self._items.write(
                puts=[_item(after)], expected={(_TENANTS, before.tenant): before.revision}
            )
        except ConflictError as error:
            raise ConflictError(
                f"tenant {before.tenant!r} was placed otherwise meanwhile: nothing was changed, "
                "call again"
            ) from error
        found = await self.placement(before.tenant)
        if found.generation != after.generation:
            raise ConflictError(
                f"tenant {before.tenant!r} was placed otherwise just now: call again"
            )
        return found


def hashed(tenant: str, n_shards: int) -> str:
    """Returns the shard of a tenant that was never moved."""
    digest = blake2b(tenant.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return str(int.from_bytes(digest) % n_shards)


def check_tenants(tenants: Sequence[str] | None) -> list[str] | None:
    """Returns the tenants, each once. Raises InvalidRequestError for anything but names."""
    if tenants is None:
        return None
    if isinstance(tenants, str) or not all(isinstance(one, str) and one for one in tenants):
        raise InvalidRequestError(f"tenants={tenants!r:.80}: give a list of names, or None for all")
    return [*dict.fromkeys(tenants)]


def _item(one: TenantPlacement) -> Item:
    until = one.blocked_until
    value = {
        "shard": one.shard,
        "generation": one.generation,
        "moving_to": one.moving_to,
        "leaving": one.leaving,
        "blocked_until": None if until is None else until.isoformat(),
    }
    return Item(namespace=_TENANTS, key=one.tenant, value=value)


def _placement(item: Item) -> TenantPlacement:
    told = dict(item.value or {})
    until = told["blocked_until"]
    told["blocked_until"] = None if until is None else datetime.fromisoformat(until)
    return TenantPlacement(tenant=item.key, revision=item.revision, **told)
