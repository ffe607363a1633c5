"""A save and a deletion of a conversation, each one commit where the place allows it."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from pydantic_ai.conversation_store import ConversationConflict, ConversationRecord

from lance_context_core import AsyncContextStore, Item
from lance_context_core.adapting import TransactionOrStore, transaction_or_store
from pydantic_ai_lance_context._chains import Link, Place, chain, entry_items, place_of
from pydantic_ai_lance_context._conversation_items import (
    NAME,
    RECORDS,
    NewEntry,
    calls_of,
    ends_of,
    entry_key,
    is_of_today,
    message_ids,
    record_item,
    record_key,
    stored_record,
    value_of,
    waited_for,
)
from pydantic_ai_lance_context._conversation_reads import messages_of
from pydantic_ai_lance_context._renewing import renew

_ROW_BYTES = 4_096
_COPIES = 4
"""An upper bound of what a message takes in items and history, over its JSON."""


async def save(
    store: AsyncContextStore,
    found: Item | None,
    record: ConversationRecord,
    new: Sequence[NewEntry],
    *,
    agent: str,
) -> None:
    """Store a record in place of `found`, with its new entries and their messages.

    Raises ConflictError if others have changed the record, or have removed or forked its head,
    and ConversationConflict if the head or a parent does not exist.
    """
    before = None if found is None else stored_record(found)
    if found is None or not is_of_today(found):
        ends = {one.parent_id for one in new} - {one.id for one in new}
        ends |= {*ends_of(record)} - {one.id for one in new}
        await renew(store, [one for one in ends if one is not None], agent=agent)
    places = await _places(store, record, new)
    key = record_key(record.conversation_id)
    expected: dict[Any, int | None] = {key: None if found is None else found.revision}
    puts = _items(new, places)
    head = record.head_id
    if head is not None and head not in places and (before is None or before.head_id != head):
        # Written again, so that a deletion that runs now and would remove it is refused.
        (item,) = await entry_items(store, [head])
        if item is None:
            raise ConversationConflict(record.conversation_id)
        puts.append(item)
        expected[entry_key(head)] = item.revision
    roots = await _roots(store, found, before, record, places)
    holders = await _holders(store, record, new, agent=agent)
    puts.append(record_item(record, roots=roots, holders=holders))
    n_rows, n_bytes = _size(new)
    async with transaction_or_store(store, n_rows=n_rows, n_bytes=n_bytes) as at:
        # The messages first: an entry whose messages do not exist has lost them.
        await _say(at, record.conversation_id, new, agent)
        try:
            await at.kv(NAME).write(puts=puts, expected=expected)
        except BaseException:
            if at is store:
                await _unsay(store, record.conversation_id, new, agent)
            raise


async def delete(store: AsyncContextStore, found: Item, *, agent: str) -> None:
    """Delete a record, and the entries and messages that no other record reaches.

    Raises ConflictError if others change or fork the conversation at the same moment.
    """
    roots = value_of(found)["roots"]
    others = (
        [
            stored_record(one)
            for one in await store.kv(NAME).list(
                **RECORDS, filter={"$or": [{"roots": {"$contains": root}} for root in roots]}
            )
            if one.key != found.key
        ]
        if roots
        else []
    )
    kept = {id for other in others for id in await _reached(store, other)}
    gone = [id for id in await _reached(store, stored_record(found)) if id not in kept]
    items = [one for one in await entry_items(store, gone) if one is not None]
    ids = [(str(value_of(one)["of"]), id) for one in items for id in message_ids(one)]
    n_rows = 1 + len(items) + len(ids)
    async with transaction_or_store(store, n_rows=n_rows, n_bytes=n_rows * _ROW_BYTES) as at:
        # The messages first: while the record exists, a deletion that was cut short is repeated.
        for session_id, pairs in groupby(sorted(ids), key=lambda pair: pair[0]):
            ours = {"id": {"$in": [id for _, id in pairs]}}
            await at.history.clear(agent, session_id=session_id, filter=ours)
        keys = [entry_key(one.key) for one in items]
        revisions = [one.revision for one in items]
        await at.kv(NAME).write(
            deletes=[record_key(found.key), *keys],
            expected={
                record_key(found.key): found.revision,
                **dict(zip(keys, revisions, strict=True)),
            },
        )


# Helpers of `save`


async def _places(
    store: AsyncContextStore, record: ConversationRecord, new: Sequence[NewEntry]
) -> dict[str, Place]:
    """The place of each new entry."""
    places: dict[str, Place] = {}
    for one in new:
        link = Link(id=one.id, of=record.conversation_id, n_messages=len(one.messages))
        if one.parent_id is None:
            places[one.id] = Place(link=link)
            continue
        parent = places.get(one.parent_id) or await place_of(store, one.parent_id)
        if parent is None:
            raise ConversationConflict(record.conversation_id)
        places[one.id] = parent.after(link)
    return places


def _items(new: Sequence[NewEntry], places: dict[str, Place]) -> list[Item]:
    parents = {one.parent_id for one in new}
    return [one.item(places[one.id].told(is_last=one.id not in parents)) for one in new]


async def _roots(
    store: AsyncContextStore,
    found: Item | None,
    before: ConversationRecord | None,
    record: ConversationRecord,
    places: dict[str, Place],
) -> set[str]:
    """The first entries of the record's history and branches."""
    known = {*ends_of(before)} if before is not None else set()
    roots = {*value_of(found).get("roots", ())}
    for end in ends_of(record):
        if end not in known and (place := places.get(end) or await place_of(store, end)):
            roots.add(place.root)
    return roots


async def _holders(
    store: AsyncContextStore,
    record: ConversationRecord,
    new: Sequence[NewEntry],
    *,
    agent: str,
) -> Mapping[str, str]:
    """The entries whose messages have the calls that the record waits for, by the calls' ids."""
    calls = waited_for(record)
    if not calls:
        return {}
    messages = {one.id: one.message for one in new}
    if not any(calls_of(one).keys() & calls.keys() for one in messages.values()):
        # It waits since an earlier save, or forks a conversation that does.
        place = None if record.head_id is None else await place_of(store, record.head_id)
        links = [] if place is None else [*place.since, place.link]
        known = await messages_of(store, links, agent=agent)
        messages |= {
            link.id: one for link, one in zip(links, known, strict=True) if one is not None
        }
    return {
        id: at
        for at, message in messages.items()
        for id, call in calls_of(message).items()
        if calls.get(id) == call
    }


async def _say(
    at: TransactionOrStore, session_id: str, new: Sequence[NewEntry], agent: str
) -> None:
    for run_id, some in groupby(new, key=lambda one: one.run_id):
        messages = [message for one in some for message in one.messages]
        await at.history.append_many(
            agent, messages, session_id=session_id, run_id=run_id, keep_existing=True
        )


async def _unsay(
    store: AsyncContextStore, session_id: str, new: Sequence[NewEntry], agent: str
) -> None:
    """Remove the messages of entries that were not written."""
    items = await entry_items(store, [one.id for one in new])
    ids = [
        said.id
        for one, item in zip(new, items, strict=True)
        if item is None
        for said in one.messages
    ]
    if ids:
        await store.history.clear(agent, session_id=session_id, filter={"id": {"$in": ids}})


def _size(new: Sequence[NewEntry]) -> tuple[int, int]:
    n_rows = 2 + sum(1 + len(one.messages) for one in new)
    return n_rows, n_rows * _ROW_BYTES + _COPIES * sum(one.n_bytes for one in new)


# Helpers of `delete`


async def _reached(store: AsyncContextStore, record: ConversationRecord) -> list[str]:
    """The entries of its history and branches, each once; what is missing is left out."""
    places = [await place_of(store, end) for end in ends_of(record)]
    chains = [await chain(store, place) for place in places if place is not None]
    return [*dict.fromkeys(link.id for links in chains for link in links)]
