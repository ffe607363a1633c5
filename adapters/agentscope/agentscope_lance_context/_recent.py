"""The memories of a user that say given words, those of the session that began last first."""

from collections.abc import AsyncIterator, Collection

from agentscope_lance_context._messages import first_text, from_canonical
from agentscope_lance_context._runtime import Message
from lance_context_core import AsyncContextStore

_MAX_WORDS = 32
"""How many words the store is asked for at once; among more, nearly every memory has one."""
_LEAST_PAGE = 10
_LARGEST_PAGE = 2_000


async def saying(
    store: AsyncContextStore, words: Collection[str], *, wanted: int | None = None
) -> AsyncIterator[Message]:
    """The messages in whose first text one of the words stands, as a word or a part of one.

    As AgentScope's services go through them, backwards: session by session, in the order of the
    first memory of each, and in a session in the order in which they were added.
    The words are in lower case; upper and lower case are the same. Read as they are asked for,
    `wanted` of them at first, or without it as many as may be read at once.
    """
    # Whatever the store finds by these words nearly always says them in its first text.
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
            # What was added meanwhile moves the others on.
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
