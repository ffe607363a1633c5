"""A memory for each text, and one list of what several searches have found."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from lance_context_core.adapting.handles import Handle
from lance_context_core.errors import AlreadyExistsError
from lance_context_core.messages import Message
from lance_context_core.store.store import AsyncContextStore
from lance_context_core.types import ContextRecord

T = TypeVar("T")


class Remembered(NamedTuple):
    """The memory of a text."""

    id: str
    is_new: bool
    """False if the scope had a memory of that text."""


async def remember_once(
    store: AsyncContextStore,
    text: str,
    *,
    session_id: str = "",
    metadata: Mapping[str, Any] | None = None,
    expires_at: datetime | None = None,
) -> Remembered:
    """Store a memory, unless the scope has one of the same text; two processes at once store one.

    The memory that is there expires at `expires_at` from then on, never without it, and has `metadata`,
    or what it had if that is None. With a `session_id` the memories of that session alone count.
    """
    if (same := await _same(store, text, session_id)) is not None:
        changes: dict[str, Any] = {}
        if metadata is not None and dict(same.metadata) != metadata:
            changes["metadata"] = metadata
        if expires_at is not None:
            changes["expires_at"] = expires_at
        elif same.expires_at is not None:
            changes["clear"] = ["expires_at"]
        if changes:
            await store.context().update(id=same.id, **changes)
        return Remembered(same.id, is_new=False)
    more: Any = {"session_id": session_id, "metadata": metadata, "expires_at": expires_at}
    # Two processes that remember one text at once name it alike, so that it is there once.
    named = Message(role="user", parts=Message.user(text).parts, id=_id(store, text, session_id))
    try:
        (id,) = await store.memory.add([named], **more)
    except AlreadyExistsError:  # It was corrected since: the id has another text by now.
        (id,) = await store.memory.add([text], **more)
    return Remembered(id, is_new=True)


def best_of(found: Sequence[Sequence[T]], limit: int) -> list[T]:
    """The first `limit` results of several searches: the best of each, then the second of each, and so on.

    Their scores have several scales, and their ranks do not.
    """
    ranked = sorted((rank, place) for place, one in enumerate(found) for rank in range(len(one)))
    return [found[place][rank] for rank, place in ranked[:limit]]


async def _same(store: AsyncContextStore, text: str, session_id: str) -> ContextRecord | None:
    user_id = Handle(store).scope.user_id
    wanted = {"kind": "memory", "text": text}
    wanted |= {"session_id": session_id} if session_id else {}
    found = await store.context().records(filters=wanted)
    return next((one for one in found if (one.user_id or None) == user_id), None)


def _id(store: AsyncContextStore, text: str, session_id: str) -> str:
    scope = Handle(store).scope
    parts = [scope.tenant, scope.user_id, scope.agent_id, session_id, text]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
