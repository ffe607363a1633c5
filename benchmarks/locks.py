"""What an uncontended lock costs, taken and given back.

    python -m benchmarks.locks [--repeats 2000]

Milliseconds of CPU of all threads of this process, and by the clock, medians; the sides take turns.
Beside the locks of a store in a directory: `filelock`, and `SET NX PX` of a Redis on this machine, with
a script that deletes the key if it is still one's own, as Redis' documentation has it. What the
server of Redis does itself is not in the CPU. A lock of the store lives through its process' renewals,
waits in a queue, and has a token that refuses late writes; the others have none of it.
"""

import argparse
import asyncio
import secrets
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.redis_server import NoServerError, redis_server
from lance_context_core import AsyncContextStore, ContextStore

_AT_ONCE = 100
_LEASE_MS = 30_000
_RELEASE = """
if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end
"""

Turn = Callable[[], None]


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.locks")
    parser.add_argument("--repeats", type=int, default=2_000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        costs = asyncio.run(_measured(Path(directory), options.repeats))
    print("| acquire and release | ms of CPU | ms of wall time |\n|---|---:|---:|")
    for name, (cpu, wall) in costs.items():
        print(f"| {name} | {median(cpu):.3f} | {median(wall):.3f} |")
    return 0


async def _measured(folder: Path, repeats: int) -> dict[str, tuple[list[float], list[float]]]:
    costs: dict[str, tuple[list[float], list[float]]] = {}
    with (
        ContextStore.open(folder / "blocking") as blocking,
        _file_lock(folder) as file_lock,
        _redis(folder) as redis,
    ):
        async with AsyncContextStore.open(folder / "async") as store:

            async def ours() -> None:
                lock = await store.locks.acquire("report.md")
                await lock.release()

            def ours_blocking() -> None:
                blocking.locks.acquire("report.md").release()

            sides: dict[str, Callable[[], Awaitable[None] | None] | None] = {
                "a store's lock, awaited": ours,
                "a store's lock, blocking": ours_blocking,
                "`filelock`": file_lock,
                "`SET NX` of Redis": redis,
            }
            for _ in range(max(1, repeats // _AT_ONCE)):
                for name, side in sides.items():
                    if side is None:
                        continue
                    began, cpu = time.perf_counter(), time.process_time()
                    for _ in range(_AT_ONCE):
                        if (waiting := side()) is not None:
                            await waiting
                    in_cpu, in_all = costs.setdefault(name, ([], []))
                    in_cpu.append((time.process_time() - cpu) / _AT_ONCE * 1_000)
                    in_all.append((time.perf_counter() - began) / _AT_ONCE * 1_000)
    return costs


@contextmanager
def _file_lock(folder: Path) -> Iterator[Turn | None]:
    try:
        from filelock import FileLock
    except ImportError:
        print("no filelock: pip install filelock", file=sys.stderr)
        yield None
        return
    lock = FileLock(folder / "report.md.lock")

    def turn() -> None:
        lock.acquire()
        lock.release()

    yield turn


@contextmanager
def _redis(folder: Path) -> Iterator[Turn | None]:
    try:
        from redis import Redis

        with redis_server(folder / "redis") as url, Redis.from_url(url) as client:
            release = client.register_script(_RELEASE)

            def turn() -> None:
                mine = secrets.token_hex(8)
                assert client.set("report.md", mine, nx=True, px=_LEASE_MS)
                assert release(keys=["report.md"], args=[mine])

            yield turn
    except (ImportError, NoServerError) as error:
        print(f"{error}: pip install redis, apt-get install redis-server", file=sys.stderr)
        yield None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
