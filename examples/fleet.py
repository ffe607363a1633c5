"""A fleet of stores: tenants in shards, a search over all of them, and a tenant that is moved.

    python examples/fleet.py [--place DIR]

Writes for some tenants, moves the largest one to a shard of its own, searches all of them, works one
round as `lance-ctx worker` does, and erases a user everywhere.
"""

import argparse
import asyncio
import tempfile

from lance_context_core import Message
from lance_context_core.fleet import AsyncStoreFleet, work

TENANTS = {"acme": 40, "bolt": 3, "cove": 5}
"""Each with the number of its turns."""


async def main(place: str) -> None:
    """Run the story in a directory."""
    async with AsyncStoreFleet.open(place, shards=4, maintenance=None) as fleet:
        for tenant, n_turns in TENANTS.items():
            store = fleet.scope(tenant=tenant, user_id="ada")
            turns = [Message.user(f"{tenant}: order {n} of green tea") for n in range(n_turns)]
            await store.history.append_many("clerk", turns, session_id="orders")
            print(f"{tenant} is in shard {(await fleet.placement(tenant)).shard}")

        moved = await fleet.move("acme", to="acme-own")
        print(f"acme moved to shard {moved.target}: {moved.n_rows} rows")
        orders = await fleet.scope(tenant="acme").history.get_messages("clerk", session_id="orders")
        assert len(orders) == TENANTS["acme"]

        found = await fleet.search("green tea", limit=50, timeout_seconds=30)
        assert found.is_complete, found.unanswered
        print(f"{len(found.hits)} hits of {len({hit.record.tenant for hit in found.hits})} tenants")

        done = await work(fleet, once=True)
        print(f"a worker flushed {done.n_stores} shards")

        erased = await fleet.erase(user_id="ada")
        print(f"erased {sum(one.records for one in erased.results.values())} records")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", help="a directory; by default a temporary one")
    given = parser.parse_args().place
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(given or f"{folder}/fleet"))
