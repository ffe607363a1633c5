"""A memory for each text, and one list of what several searches have found."""

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
    """Store a memory, unless the scope has one of the same text; two processes at once store one.

    It is `store.memory.add`, which says whether the memory is new. The memory that is there expires at
    `expires_at` from then on, never without it, and has `metadata`, or what it had if that is None. With a
    `session_id` the memories of that session alone count.
    """
    (kept,) = await store.memory._remember(  # noqa: SLF001 - what `add` is made of
        [text], session_id=session_id, metadata=metadata, expires_at=expires_at
    )
    return kept


def best_of(found: Sequence[Sequence[T]], limit: int) -> list[T]:
    """The first `limit` results of several searches: the best of each, then the second of each, and so on.

    Their scores have several scales, and their ranks do not.
    """
    ranked = sorted((rank, place) for place, one in enumerate(found) for rank in range(len(one)))
    return [found[place][rank] for rank, place in ranked[:limit]]
