"""What the operations of the store's side share: its loop, and the stores that are open."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from pyarrow import feather

from benchmarks.sides.measuring import bytes_in
from lance_context_core import AsyncContextStore

_TURNS_A_SESSION = 50
_MAX_ROUNDS = 20
"""How often `maintain()` is called at most until it finds nothing more to do."""

RUNNER = asyncio.Runner()
STORES: dict[str, AsyncContextStore] = {}
"""By the name that the harness gave them."""


class LaterClock:
    """The machine's clock, put on by some days."""

    def __init__(self, days: float) -> None:
        """Be `days` ahead."""
        self._ahead = timedelta(days=days)

    def now(self) -> datetime:
        """The moment that it pretends to be."""
        return datetime.now(UTC) + self._ahead


async def opened(name: str, uri: str, **options: Any) -> AsyncContextStore:
    """The store called `name`, opened at `uri` if it is not open."""
    if name not in STORES:
        STORES[name] = AsyncContextStore.open(uri, **options)
    return STORES[name]


async def settle(store: AsyncContextStore, uri: str) -> None:
    """Maintain a store that lies at `uri` until it takes as much room as before."""
    sizes: list[int] = []
    while len(sizes) < _MAX_ROUNDS and (len(sizes) < 3 or sizes[-1] != sizes[-2]):
        await store.maintain()
        sizes.append(bytes_in(uri))


def turns(corpus: str, start: int, count: int) -> list[dict[str, Any]]:
    """`count` rows of a corpus as turns, from number `start`; it begins anew at its end."""
    table = feather.read_table(corpus, columns=["text", "vector"])
    numbers = range(start, start + count)
    rows = table.take([number % table.num_rows for number in numbers]).to_pylist()
    return [
        {
            "role": "user",
            "content": row["text"],
            "embedding": row["vector"],
            "session_id": f"s{number // _TURNS_A_SESSION}",
            "agent_id": "bench",
        }
        for number, row in zip(numbers, rows, strict=True)
    ]
