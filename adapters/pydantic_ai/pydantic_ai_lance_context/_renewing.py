"""Conversations of earlier versions, whose entries have their messages in their items, too.

Each entry is written as today's versions do: its message goes into the history alone. A message that
the history does not have any more is not brought back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lance_context_core import AsyncContextStore, Item, Message
from lance_context_core.adapting import transaction_or_store
from pydantic_ai_lance_context._chains import Link, Place, chain, entry_items, place_of
from pydantic_ai_lance_context._conversation_items import NAME, entry_item, entry_key, value_of
from pydantic_ai_lance_context._messages import MESSAGES, to_canonical

_ENTRIES_AT_ONCE = 64
_BYTES_AT_ONCE = 256 * 1024
_ROW_BYTES = 4_096
_COPIES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Renewed:
    """An entry as it is to be."""

    item: Item
    revision: int | None
    of: str
    run_id: str
    said: Sequence[Message]
    """What the history has of it, with its own form beside it."""
    unsaid: Sequence[Message]
    """What it did not have, as no one says anything in it."""

    @property
    def n_rows(self) -> int:
        return 1 + len(self.said) + len(self.unsaid)

    @property
    def n_bytes(self) -> int:
        texts = [one.native["message"] for one in (*self.said, *self.unsaid) if one.native]
        return self.n_rows * _ROW_BYTES + _COPIES * sum(map(len, texts))


async def renew(store: AsyncContextStore, ends: Sequence[str], *, agent: str) -> None:
    """Write the entries up to these as today's versions do; nothing if they are so.

    Raises ConflictError if others change them at the same moment.
    """
    for end in ends:
        place = await place_of(store, end)
        links = [] if place is None else await chain(store, place)
        if not any(link.data for link in links):
            continue
        items = await entry_items(store, [link.id for link in links])
        found = await _found(store, links, agent=agent)
        every = list(_renewed([one for one in items if one is not None], found))
        for some in _pieces(every):
            await _write(store, some, agent=agent)


def _renewed(items: Sequence[Item], found: dict[str | None, Message]) -> Iterator[_Renewed]:
    before: Place | None = None
    for item in items:
        told = value_of(item)
        n, messages, message = told["messages"], [], None
        if item.data:
            (message,) = MESSAGES.validate_json(item.data)
            messages = to_canonical(message, id=item.key)
            n = len(messages)
        link = Link(id=item.key, of=told["of"], n_messages=n)
        before = Place(link=link) if before is None else before.after(link)
        if message is None and not any(isinstance(one, str) for one in told.get("since", ())):
            continue
        place = before.told(is_last="since" in told)
        said = [
            replace(one, metadata=stored.metadata)
            for one in messages
            if (stored := found.get(one.id)) and stored.native is None and stored.parts == one.parts
        ]
        kept = {name: told[name] for name in ("calls", "answers") if name in told}
        yield _Renewed(
            item=Item(namespace=item.namespace, key=item.key, value={**place, **kept})
            if message is None
            else entry_item(item.key, place, message, messages),
            revision=item.revision,
            of=link.of,
            run_id=(message.run_id if message else None) or "",
            said=said,
            unsaid=messages if told["messages"] == 0 else (),
        )


async def _found(
    store: AsyncContextStore, links: Sequence[Link], *, agent: str
) -> dict[str | None, Message]:
    """The messages in the history, by their ids."""
    found: dict[str | None, Message] = {}
    for session_id in dict.fromkeys(link.of for link in links):
        ids = [id for link in links if link.of == session_id for id in link.message_ids]
        if ids:
            messages = await store.history.get_messages(
                agent, session_id=session_id, filter={"id": {"$in": ids}}
            )
            found |= {one.id: one for one in messages}
    return found


def _pieces(every: Sequence[_Renewed]) -> Iterator[Sequence[_Renewed]]:
    some: list[_Renewed] = []
    for one in every:
        some.append(one)
        n_bytes = sum(each.n_bytes for each in some)
        if len(some) == _ENTRIES_AT_ONCE or n_bytes > _BYTES_AT_ONCE:
            yield some
            some = []
    if some:
        yield some


async def _write(store: AsyncContextStore, some: Sequence[_Renewed], *, agent: str) -> None:
    """One commit where the place allows it; else the messages first, which may be repeated."""
    n_rows, n_bytes = sum(one.n_rows for one in some), sum(one.n_bytes for one in some)
    async with transaction_or_store(store, n_rows=n_rows, n_bytes=n_bytes) as at:
        for one in some:
            where: dict[str, Any] = {"session_id": one.of}
            for message in one.said:
                await at.history.rewrite(agent, message, **where)
            if one.unsaid:
                await at.history.append_many(
                    agent, one.unsaid, **where, run_id=one.run_id, keep_existing=True
                )
        await at.kv(NAME).write(
            puts=[one.item for one in some],
            expected={entry_key(one.item.key): one.revision for one in some},
        )
