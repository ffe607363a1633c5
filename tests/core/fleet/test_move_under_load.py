"""A process writes to a tenant and reads it, while it is moved, and while a mover is killed."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest
from core.fleet.conftest import in_shard, said

from lance_context_core.fleet.fleet import AsyncStoreFleet

pytestmark = pytest.mark.process

CREW = Path(__file__).with_name("moving_crew.py")
MOVER = (
    "import asyncio, sys; from lance_context_core.fleet import AsyncStoreFleet\n"
    "async def main():\n"
    "    fleet = AsyncStoreFleet.open(sys.argv[1], maintenance=None)\n"
    "    print('ready', flush=True)\n"
    "    await fleet.move('acme', to=sys.argv[2])\n"
    "asyncio.run(main())\n"
)


def begun(*arguments):
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    return process


def test_nothing_is_lost_doubled_or_read_wrong_while_a_tenant_is_moved(tmp_path):
    place = tmp_path / "fleet"

    async def is_made():
        fleet = AsyncStoreFleet.open(place, shards=3, maintenance=None)
        await fleet.scope(tenant="acme").user_ids()
        await fleet.close()

    asyncio.run(is_made())
    writers = {name: begun(CREW, place, name) for name in ("ann",)}
    killed = begun("-c", MOVER, place, 1)
    time.sleep(0.4)
    killed.kill()
    killed.communicate()

    async def moved():
        fleet = AsyncStoreFleet.open(place, maintenance=None)
        for to in ("own", 0):
            await fleet.move("acme", to=to)
        await fleet.close()

    asyncio.run(moved())
    acknowledged = {}
    for name, process in writers.items():
        out, _ = process.communicate("")
        assert process.returncode == 0, name
        acknowledged[name] = [int(line) for line in out.split()]

    async def looked():
        fleet = AsyncStoreFleet.open(place, maintenance=None)
        for name, numbers in acknowledged.items():
            assert len(numbers) > 3
            texts = await said(fleet.scope(tenant="acme"), name)
            assert texts == [f"{name}:{n}" for n in numbers]
        assert (await fleet.placement("acme")).shard == "0"
        for shard in ("1", "2", "own"):
            assert await in_shard(fleet, shard, "acme") == []
        await fleet.close()

    asyncio.run(looked())
