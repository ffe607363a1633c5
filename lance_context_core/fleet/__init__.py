"""Many stores as one: each tenant has its data in one of them, and may move to another."""

from lance_context_core.fleet.blocking import StoreFleet
from lance_context_core.fleet.catalog import TenantPlacement
from lance_context_core.fleet.everywhere import Everywhere, FleetSearch
from lance_context_core.fleet.fleet import AsyncStoreFleet
from lance_context_core.fleet.moving import Moved
from lance_context_core.fleet.worker import WorkerRound, work

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # The fleet, blocking and for coroutines
    "StoreFleet",
    "AsyncStoreFleet",
    # Results
    "TenantPlacement",
    "Moved",
    "Everywhere",
    "FleetSearch",
    # Workers
    "work",
    "WorkerRound",
]
