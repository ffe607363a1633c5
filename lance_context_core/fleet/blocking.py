"""The fleet of stores, for blocking code."""

from pathlib import Path
from typing import Self, Unpack

from lance_context_core._loop import block_on, nothing_is_left
from lance_context_core._opening import DEFAULTS, OpenOptions
from lance_context_core._util.calls import takes
from lance_context_core.fleet.fleet import AsyncStoreFleet
from lance_context_core.sync._blocking import Blocking, blocking, giving
from lance_context_core.sync.store import ContextStore


class StoreFleet(Blocking[AsyncStoreFleet]):
    """Many stores under one place, for blocking code.

    `AsyncStoreFleet` is the asynchronous one, which documents all of its methods.
    """

    @classmethod
    @takes(OpenOptions, DEFAULTS)
    def open(
        cls,
        place: str | Path,
        *,
        shards: int | None = None,
        max_open: int = 64,
        **options: Unpack[OpenOptions],
    ) -> Self:
        """Opens the fleet at `place`. See `AsyncStoreFleet.open`."""
        return cls(AsyncStoreFleet.open(place, shards=shards, max_open=max_open, **options))

    @classmethod
    def exists(cls, place: str | Path, **options: Unpack[OpenOptions]) -> bool:
        """Whether a fleet exists at `place`. See `AsyncStoreFleet.exists`."""
        return block_on(lambda: AsyncStoreFleet.exists(place, **options))

    @property
    def aio(self) -> AsyncStoreFleet:
        """The asynchronous fleet behind this one, for coroutines; closing either closes both."""
        return self._aio

    @property
    def uri(self) -> str:
        """The URI of the fleet; a local directory as an absolute path."""
        return self._aio.uri

    @property
    def n_open(self) -> int:
        """The number of shards that this process has open."""
        return self._aio.n_open

    # Tenants

    scope = giving(AsyncStoreFleet.scope, ContextStore)
    shards = blocking(AsyncStoreFleet.shards)
    placement = blocking(AsyncStoreFleet.placement)
    placements = blocking(AsyncStoreFleet.placements)
    move = blocking(AsyncStoreFleet.move)

    # All shards

    search = blocking(AsyncStoreFleet.search)
    erase = blocking(AsyncStoreFleet.erase)
    verify = blocking(AsyncStoreFleet.verify)
    stats = blocking(AsyncStoreFleet.stats)
    maintain = blocking(AsyncStoreFleet.maintain)
    flush = blocking(AsyncStoreFleet.flush)
    export = blocking(AsyncStoreFleet.export)
    close = blocking(AsyncStoreFleet.close, at_once=lambda _: nothing_is_left())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
