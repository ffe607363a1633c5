"""The entries up to one, in four reads of items by their keys, however many there are.

Each entry knows its parent; each 32nd is a page, which also knows the 32 before it and the pages
before these; and the last one of a save knows those since its page. So a history is known without
the items of most of its entries. Reads by key are answered from memory where this process has read
or written the items, as those of a list are not.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from lance_context_core import AsyncContextStore, Item
from pydantic_ai_lance_context._conversation_items import NAME, entry_key, numbered, value_of

_PAGE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An entry, and where its messages are in the history."""

    id: str
    of: str
    """The conversation that it was saved in, whose session has its messages."""
    n_messages: int
    data: bytes | None = None
    """Its message, in the form of earlier versions: see `_renewing`."""

    @property
    def message_ids(self) -> list[str]:
        """The ids of its messages in the history."""
        return numbered(self.id, self.n_messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an entry stands."""

    link: Link
    depth: int = 0
    """How many entries are before it."""
    pages: tuple[str, ...] = ()
    """The pages before it; the first is the first entry of all."""
    since: tuple[Link, ...] = ()
    """The entries before it, from the last page on."""

    @property
    def root(self) -> str:
        """The first entry of the history."""
        return self.pages[0] if self.pages else self.link.id

    def after(self, link: Link) -> "Place":
        """The place of an entry after this one."""
        depth = self.depth + 1
        if self.depth % _PAGE:
            return Place(link=link, depth=depth, pages=self.pages, since=(*self.since, self.link))
        return Place(link=link, depth=depth, pages=(*self.pages, self.link.id), since=(self.link,))

    def told(self, *, is_last: bool) -> dict[str, Any]:
        """What the item of the entry says of it; the last one of a save says more."""
        told: dict[str, Any] = {
            "of": self.link.of,
            "messages": self.link.n_messages,
            "depth": self.depth,
        }
        if self.since:
            told["parent"] = self.since[-1].id
        if is_last or self.depth % _PAGE == 0:
            told["since"] = _listed(self.since)
        if self.depth % _PAGE == 0:
            told["pages"] = self.pages
        return told


async def entry_items(store: AsyncContextStore, ids: Iterable[str]) -> list[Item | None]:
    """The items of entries, in order; None for an absent one."""
    keys = [entry_key(one) for one in ids]
    return await store.kv(NAME).get(keys) if keys else []


def link_of(item: Item) -> Link:
    """The entry of an item."""
    told = value_of(item)
    return Link(id=item.key, of=told["of"], n_messages=told["messages"], data=item.data or None)


async def place_of(store: AsyncContextStore, entry_id: str) -> Place | None:
    """Where an entry stands; None if it does not exist, or one before it does not."""
    after: list[Link] = []  # entries from the middle of a save, last first
    wanted = entry_id
    while True:
        (item,) = await entry_items(store, [wanted])
        if item is None:
            return None
        told = value_of(item)
        if "since" in told:
            break
        after.append(link_of(item))
        wanted = told["parent"]
    try:
        since = await _links(store, told["since"])
    except LookupError:
        return None
    pages = told.get("pages")
    if pages is None:
        (page,) = await entry_items(store, [since[0].id])
        if page is None:
            return None
        pages = (*value_of(page)["pages"], page.key)
    place = Place(link=link_of(item), depth=told["depth"], pages=tuple(pages), since=tuple(since))
    for one in reversed(after):
        place = place.after(one)
    return place


async def chain(store: AsyncContextStore, place: Place, *, limit: int | None = None) -> list[Link]:
    """The entries up to a place, in order; at least the last `limit`, if there are so many.

    Raises LookupError if a page does not exist.
    """
    n_pages = len(place.pages)
    if limit is not None:
        n_pages = min(n_pages, max(0, limit - len(place.since) - 2) // _PAGE + 1)
    pages = await entry_items(store, place.pages[len(place.pages) - n_pages :])
    if None in pages:
        raise missing(place.link.id)
    before = [one for page in pages for one in value_of(page)["since"]]
    return [*await _links(store, before), *place.since, place.link]


def missing(entry_id: str) -> LookupError:
    """The error for an entry that is not there, or lacks one before it."""
    return LookupError(f"there is no entry {entry_id!r:.80}, or none before it")


def _listed(links: Sequence[Link]) -> list[Any]:
    """The links as JSON: the conversations, each with its entries; most have one message."""
    return [
        [of, [one.id if one.n_messages == 1 else [one.id, one.n_messages] for one in some]]
        for of, some in groupby(links, key=lambda one: one.of)
    ]


async def _links(store: AsyncContextStore, listed: Sequence[Any]) -> list[Link]:
    """The links of their JSON. Raises LookupError for one that does not exist."""
    # Earlier versions list the ids alone.
    ids = [one for one in listed if isinstance(one, str)]
    items = await entry_items(store, ids)
    if None in items:
        raise missing(ids[items.index(None)])
    known = {item.key: link_of(item) for item in items if item is not None}
    links: list[Link] = []
    for one in listed:
        if isinstance(one, str):
            links.append(known[one])
            continue
        of, entries = one
        for entry in entries:
            id, n_messages = (entry, 1) if isinstance(entry, str) else entry
            links.append(Link(id=id, of=of, n_messages=n_messages))
    return links
