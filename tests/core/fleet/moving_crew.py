"""One process of the test of moves under load: it writes and reads, until its input ends.

    python moving_crew.py PLACE NAME

It prints a line for each acknowledged write, and fails if it does not read all its own.
"""

import asyncio
import sys

from lance_context_core import Item, Message
from lance_context_core.fleet import AsyncStoreFleet


def tell(what):
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def main(place, name):
    fleet = AsyncStoreFleet.open(place, maintenance=None)
    store = fleet.scope(tenant="acme")
    tell("ready")
    ending = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    n = 0
    while not ending.done():
        await store.history.append("a", Message.user(f"{name}:{n}"), session_id=name)
        await store.kv(name).put([Item(key="n", value={"n": n})])
        tell(n)
        n += 1
        if n % 4 == 0:
            found = await store.history.get_messages("a", session_id=name)
            assert [one.text for one in found] == [f"{name}:{i}" for i in range(n)], (name, n)
            (item,) = await store.kv(name).get([((), "n")])
            assert item.value == {"n": n - 1}, (name, n, item)
    await fleet.close()


asyncio.run(main(*sys.argv[1:]))
