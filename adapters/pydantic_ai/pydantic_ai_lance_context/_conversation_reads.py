"""Entries with their messages: the items say which there are, and the history has the messages."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from pydantic_ai import messages as ai
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord

from lance_context_core import AsyncContextStore, Item, Message
from lance_context_core.adapting import beside_the_loop
from pydantic_ai_lance_context._chains import Link, Place, chain, entry_items, link_of, missing
from pydantic_ai_lance_context._conversation_items import (
    entry_item,
    holders_of,
    record_of,
    value_of,
)
from pydantic_ai_lance_context._gaps import begins_torn, mended
from pydantic_ai_lance_context._messages import MESSAGES, from_slices, to_canonical


async def history(
    store: AsyncContextStore, place: Place, *, agent: str, limit: int | None
) -> list[ConversationEntry]:
    """The entries up to a place whose messages exist, in order, or the last `limit` of them.

    Raises LookupError if the entry does not exist any more.
    """
    n = limit
    while True:
        links = await chain(store, place, limit=None if n is None else n + 1)
        first = 0 if n is None else max(0, len(links) - n)
        # The one before is read for its id alone.
        parents = [None if first == 0 else links[first - 1].id, *(one.id for one in links[first:])]
        messages = await _whole_messages(store, links[first:], agent=agent)
        entries = [
            ConversationEntry(id=link.id, parent_id=parent, message=message)
            for link, parent, message in zip(links[first:], parents, messages, strict=False)
            if message is not None
        ]
        if limit is None or n is None:
            return entries
        if first == 0 or (
            len(entries) >= limit and not begins_torn(one.message for one in entries)
        ):
            return entries[-limit:]
        n = 2 * n + 1  # What is missing, or answers a call before these, is told by those before.


async def messages_of(
    store: AsyncContextStore, links: Sequence[Link], *, agent: str
) -> list[ai.ModelMessage | None]:
    """The message of each entry, or what is left of it; None where nothing is left."""
    groups = await _slices(store, links, agent=agent)
    return await _parsed(groups)


async def records(
    store: AsyncContextStore, items: Sequence[Item], *, agent: str
) -> list[ConversationRecord]:
    """The records of items, with the calls that they wait for."""
    ids = list(dict.fromkeys(id for item in items for id in holders_of(item).values()))
    links = [link_of(one) for one in await entry_items(store, ids) if one is not None]
    messages = await messages_of(store, links, agent=agent) if links else []
    known = {
        link.id: message
        for link, message in zip(links, messages, strict=True)
        if message is not None
    }
    return [record_of(item, known) for item in items]


# Helpers


async def _whole_messages(
    store: AsyncContextStore, links: Sequence[Link], *, agent: str
) -> list[ai.ModelMessage | None]:
    """As `messages_of`, without the calls and results whose other half is gone."""
    groups = await _slices(store, links, agent=agent)
    messages = await _parsed(groups)
    torn = [
        link
        for link, group in zip(links, groups, strict=True)
        if len(group) < max(1, link.n_messages)
    ]
    if not torn:
        return messages
    *items, last = await entry_items(store, [*(one.id for one in torn), links[-1].id])
    if last is None:  # It was deleted since its place was read.
        raise missing(links[-1].id)
    left = {one.id: {said.id for said in group} for one, group in zip(links, groups, strict=True)}
    gaps = {
        one.id: (item and _of_today(item), left[one.id])
        for one, item in zip(torn, items, strict=True)
    }
    return mended(links, messages, gaps)


async def _slices(
    store: AsyncContextStore, links: Sequence[Link], *, agent: str
) -> list[list[Message]]:
    """What the history has of each entry, in order; one read for each conversation."""
    by_session: dict[str, list[str]] = defaultdict(list)
    for link in links:
        by_session[link.of] += link.message_ids
    found = {
        one.id: one
        for session_id, ids in by_session.items()
        if ids
        for one in await store.history.get_messages(
            agent, session_id=session_id, filter={"id": {"$in": ids}}
        )
    }
    return [
        [found[id] for id in link.message_ids if id in found]
        if link.data is None
        else list(_of_earlier_version(link, link.data, found))
        for link in links
    ]


def _of_today(item: Item) -> Item:
    """The item as today's versions write it, without its message."""
    if not item.data:
        return item
    (message,) = MESSAGES.validate_json(item.data)
    return entry_item(item.key, value_of(item), message, to_canonical(message))


def _of_earlier_version(
    link: Link, data: bytes, found: dict[str | None, Message]
) -> Iterable[Message]:
    """What is left of an entry whose item has its message."""
    (message,) = MESSAGES.validate_json(data)
    for one in to_canonical(message, id=link.id):
        stored = found.get(one.id)
        if stored is not None and stored.parts != one.parts:
            yield stored  # Others have rewritten it.
        elif stored is not None or link.n_messages == 0:
            yield one


async def _parsed(groups: Sequence[Sequence[Message]]) -> list[ai.ModelMessage | None]:
    n_bytes = sum(len(one.native["message"]) for some in groups for one in some if one.native)
    return await beside_the_loop(lambda: from_slices(groups), n_bytes=n_bytes)
