"""A transaction where the place has one; else the store, whose writes are commits of their own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

from lance_context_core.store.store import AsyncContextStore
from lance_context_core.store.transactions import AsyncTransaction

TransactionOrStore: TypeAlias = AsyncTransaction | AsyncContextStore
"""Both have `history`, `memory`, `kv` and the other stores, with the same calls."""


@asynccontextmanager
async def transaction_or_store(
    store: AsyncContextStore, *, n_rows: int, n_bytes: int
) -> AsyncIterator[TransactionOrStore]:
    """Yields a transaction of `store`, or `store` itself if a transaction cannot hold the writes.

    A transaction needs a write-ahead log, and holds at most as many rows and bytes as the log
    flushes at once, 512 and 4 MiB by default. `n_rows` and `n_bytes` are upper bounds of what the
    block writes. With `store` itself each write is a commit of its own, in the order of the block:
    write first what may be refused, and last what can be repeated. Raises as
    `AsyncContextStore.transaction`, but for the missing log and the size.
    """
    journal = store._resources.writable().connection.journal  # noqa: SLF001 - no public name yet
    policy = None if journal is None else await journal.policy()
    if policy is None or n_rows > policy.rows or n_bytes > policy.bytes:
        yield store
        return
    async with store.transaction() as transaction:
        yield transaction
