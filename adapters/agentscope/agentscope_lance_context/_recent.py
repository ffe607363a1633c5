"""Finds the memories of a user that contain given words, latest session first."""

from collections.abc import AsyncIterator, Collection

from agentscope_lance_context._messages import first_text, from_canonical
from agentscope_lance_context._runtime import Message
from lance_context_core import AsyncContextStore

_MAX_WORDS = 32
"""Number of words in one query; with more, nearly every memory matches."""
_LEAST_PAGE = 10
_LARGEST_PAGE = 2_000


async def saying(
    store: AsyncContextStore, words: Collection[str], *, wanted: int | None = None
) -> AsyncIterator[Message]:
    """The messages with one of the words in their first text, as a word or a part of one.

    In the reverse order of AgentScope's services: session by session, by the first memory of each,
    and within a session by adding. The words are in lower case; case is ignored. Read lazily,
    `wanted` of them at first, or without it as many as one read returns.
    """
    # Hits by these words nearly always contain them in their first text.
    filter = {"$or": [{"text": {"$text": word}} for word in words]}
    offset, size = 0, _LARGEST_PAGE if wanted is None else max(wanted, _LEAST_PAGE)
    seen: set[str] = set()
    while True:
        size = min(size, _LARGEST_PAGE)
        page = await store.memory.latest(
            filter=filter if len(words) <= _MAX_WORDS else None,
            limit=size,
            offset=offset,
            by_session=True,
        )
        for record in page:
            # Messages added meanwhile shift the others.
            if record.id in seen:
                continue
            seen.add(record.id)
            for message in reversed(from_canonical(record.to_message())):
                text = first_text(message).lower()
                if any(word in text for word in words):
                    yield message
        if len(page) < size:
            return
        offset, size = offset + size, size * 4
