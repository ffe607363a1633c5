"""The memories of a user that say given words, the newest first."""

from collections.abc import AsyncIterator, Collection

from agentscope_lance_context._messages import first_text, from_canonical
from agentscope_lance_context._runtime import Message
from lance_context_core import AsyncContextStore, ContextRecord

_MAX_WORDS = 32
"""How many words the store is asked for at once; among more, nearly every memory has one."""
_FIRST_PAGE = 50
_LAST_PAGE = 2_000


async def saying(store: AsyncContextStore, words: Collection[str]) -> AsyncIterator[Message]:
    """The messages in whose first text one of the words stands, as a word or a part of one.

    The words are in lower case; upper and lower case are the same. Read as they are asked for.
    """
    asked = words if len(words) <= _MAX_WORDS else ()
    offset, size = 0, _FIRST_PAGE
    seen: set[str] = set()
    while True:
        page = await _page(store, asked, offset, size)
        for record in reversed(page):
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
        offset, size = offset + size, min(size * 2, _LAST_PAGE)


async def _page(
    store: AsyncContextStore, words: Collection[str], offset: int, size: int
) -> list[ContextRecord]:
    """The last `size` memories before the last `offset` that may say one of the words, in order."""
    memory = store.memory
    # There is no public way to a filtered list of memories yet.
    filter = {"$or": [{"text": {"$text": word}} for word in words]} if words else None
    where = memory._where("", None, filter=filter)  # noqa: SLF001
    return await memory._records.read(where, offset=offset, last=size)  # noqa: SLF001
