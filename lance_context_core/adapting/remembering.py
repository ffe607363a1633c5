"""Stores one memory per text, and merges the results of several searches."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from lance_context_core.store.store import AsyncContextStore
from lance_context_core.stores.remembering import Remembered

T = TypeVar("T")


async def remember_once(
    store: AsyncContextStore,
    text: str,
    *,
    session_id: str = "",
    metadata: Mapping[str, Any] | None = None,
    expires_at: datetime | None = None,
) -> Remembered:
    """Stores a memory, unless the scope has one of the same text, also between two processes.

    This is `store.memory.add`, which returns whether the memory is new. An existing memory expires
    at `expires_at` from then on, never without it, and gets `metadata`, or keeps its own if that is
    None. With a `session_id` only that session's memories count.
    """
    (kept,) = await store.memory._remember(  # noqa: SLF001 - what `add` is made of
        [text], session_id=session_id, metadata=metadata, expires_at=expires_at
    )
    return kept


def best_of(found: Sequence[Sequence[T]], limit: int) -> list[T]:
    """Returns the first `limit` results of several searches: all first ranks, then all second ones.

    Their scores have different scales, so only ranks are compared.
    """
    ranked = sorted((rank, place) for place, one in enumerate(found) for rank in range(len(one)))
    return [found[place][rank] for rank, place in ranked[:limit]]
