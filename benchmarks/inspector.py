"""What the pages of the inspector cost in a large store.

    python -m benchmarks.inspector [--records 1000000] [--repeats 9] [--store DIR]

Milliseconds, medians, by the clock and of CPU of all threads, from a request to the last byte of the
answer, in the process of the server; and of the search alone that the search page shows. With `--store`
a store that was made before is used again.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode

from lance_context_inspector.app import application
from lance_context_inspector.guard import Keys
from lance_context_inspector.view import Opened

from lance_context_core import AsyncContextStore

_TURNS = 100
_AT_ONCE = 20_000
_HOST = "127.0.0.1:1"
_WORDS = [f"{stem}{end}" for stem in ("river", "stone", "garden", "coffee") for end in range(500)]
_PAGES = {
    "overview": ("/", {}),
    "sessions": ("/sessions", {}),
    "a session": ("/session", {"id": "s7", "user_id": "u7"}),
    "facts": ("/facts", {}),
    "a person": ("/person", {"user": "u7"}),
    "people": ("/people", {}),
    "timeline": ("/timeline", {}),
    "health": ("/health", {}),
}


async def fill(place: str, n_records: int) -> None:
    """Sessions of a hundred turns, each of a user of its own, and the indexes."""
    draw = random.Random(0)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    async with AsyncContextStore.open(place, maintenance=None) as store:
        for start in range(0, n_records, _AT_ONCE):
            await store.context().add_many(
                {
                    "role": ("user", "assistant")[number % 2],
                    "content": " ".join(draw.choices(_WORDS, k=12)),
                    "session_id": f"s{number // _TURNS}",
                    "user_id": f"u{number // _TURNS}",
                    "created_at": begin + timedelta(seconds=number),
                }
                for number in range(start, min(start + _AT_ONCE, n_records))
            )
        await store.maintain()


class Asked:
    """The milliseconds that calls took, by what they are: by the clock, and of CPU."""

    def __init__(self) -> None:
        """None yet."""
        self.took: dict[str, list[tuple[float, float]]] = {}

    async def of(self, what: str, call: Callable[[], Awaitable[Any]]) -> None:
        """Do it, and note what it took."""
        wall, cpu = time.perf_counter(), time.process_time()
        await call()
        spent = time.perf_counter() - wall, time.process_time() - cpu
        self.took.setdefault(what, []).append((spent[0] * 1_000, spent[1] * 1_000))


async def measured(place: str, repeats: int) -> Asked:
    """What each page took, the very first one of a store that was just opened apart."""
    asked, draw = Asked(), random.Random(1)
    async with AsyncContextStore.open(place, maintenance=None) as store:
        keys = Keys()
        app = application(Opened(store=store), keys=keys, hosts=[_HOST], cookie="c")
        cookie = f"c={keys.enter(keys.token)}"

        async def get(path: str, params: dict[str, str]) -> None:
            status: list[int] = []
            headers = [(b"host", _HOST.encode()), (b"cookie", cookie.encode())]

            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": b"", "more_body": False}

            async def send(message: Any) -> None:
                status.append(message.get("status", 0))

            scope = {"type": "http", "method": "GET", "path": path, "headers": headers}
            more = {"query_string": urlencode(params).encode(), "root_path": "", "scheme": "http"}
            await app({**scope, **more, "http_version": "1.1", "server": None}, receive, send)
            if status[0] != 200:
                sys.exit(f"{path} answered {status[0]}")

        await asked.of("overview, first of all", lambda: get("/", {}))
        for _ in range(repeats):
            for name, (path, params) in _PAGES.items():
                await asked.of(name, partial(get, path, params))
            words = " ".join(draw.choices(_WORDS, k=3))
            await asked.of("search alone", partial(store.search, words, limit=20))
            words = " ".join(draw.choices(_WORDS, k=3))
            await asked.of("search", partial(get, "/search", {"q": words}))
    return asked


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--store", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = options.store or Path(scratch) / "memory"
        if not place.exists():
            asyncio.run(fill(str(place), options.records))
        asked = asyncio.run(measured(str(place), options.repeats))
    print(f"| page, {options.records:,} records | ms of wall time | ms of CPU |\n|---|---:|---:|")
    for name, took in asked.took.items():
        wall, cpu = (median(one) for one in zip(*took, strict=True))
        print(f"| {name} | {wall:.0f} | {cpu:.0f} |")


if __name__ == "__main__":
    main()
