"""The history up to an entry, in four reads of items by their keys, however long it is.

Each entry knows its parent; each 32nd is a page, which also knows the 32 before it and the pages
before these; and the last one of a save knows those since its page. Reads by key are answered from
memory where this process has read or written the items, as those of a list are not.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lance_context_core import AsyncContextStore, Item
from pydantic_ai_lance_context._conversation_items import NAME, entry_key, value_of

_PAGE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an entry stands."""

    id: str
    depth: int = 0
    """How many entries are before it."""
    pages: tuple[str, ...] = ()
    """The pages before it; the first is the first entry of all."""
    since: tuple[str, ...] = ()
    """The entries before it, from the last page on."""

    @property
    def root(self) -> str:
        """The first entry of the history."""
        return self.pages[0] if self.pages else self.id

    def after(self, id: str) -> "Place":
        """The place of an entry after this one."""
        depth = self.depth + 1
        if self.depth % _PAGE:
            return Place(id=id, depth=depth, pages=self.pages, since=(*self.since, self.id))
        return Place(id=id, depth=depth, pages=(*self.pages, self.id), since=(self.id,))

    def told(self, *, is_last: bool) -> dict[str, Any]:
        """What the item of the entry says of it; the last one of a save says more."""
        told: dict[str, Any] = {"depth": self.depth}
        if self.since:
            told["parent"] = self.since[-1]
        if is_last or self.depth % _PAGE == 0:
            told["since"] = self.since
        if self.depth % _PAGE == 0:
            told["pages"] = self.pages
        return told


async def entry_items(store: AsyncContextStore, ids: Iterable[str]) -> list[Item | None]:
    """The items of entries, in order; None for an absent one."""
    keys = [entry_key(one) for one in ids]
    return await store.kv(NAME).get(keys) if keys else []


async def place_of(store: AsyncContextStore, entry_id: str) -> Place | None:
    """Where an entry stands; None if it does not exist, or one before it does not."""
    after: list[str] = []  # entries from the middle of a save, last first
    wanted: str | None = entry_id
    while wanted is not None:
        (item,) = await entry_items(store, [wanted])
        told = value_of(item)
        if "since" in told:
            break
        after.append(wanted)
        wanted = told.get("parent")
    else:
        return None
    pages = told.get("pages")
    if pages is None:
        (page,) = await entry_items(store, [told["since"][0]])
        if page is None:
            return None
        pages = (*value_of(page)["pages"], page.key)
    place = Place(id=wanted, depth=told["depth"], pages=tuple(pages), since=tuple(told["since"]))
    for one in reversed(after):
        place = place.after(one)
    return place


async def chain_ids(
    store: AsyncContextStore, place: Place, *, limit: int | None = None
) -> list[str]:
    """The entries up to a place, in order; at least the last `limit`, if there are so many.

    Raises LookupError if a page does not exist.
    """
    n_pages = len(place.pages)
    if limit is not None:
        n_pages = min(n_pages, max(0, limit - len(place.since) - 2) // _PAGE + 1)
    pages = await entry_items(store, place.pages[len(place.pages) - n_pages :])
    before = [one for page in existing(pages, place.id) for one in value_of(page)["since"]]
    return [*before, *place.since, place.id]


async def chain(store: AsyncContextStore, entry_id: str, *, limit: int | None) -> list[Item]:
    """The items of the entries up to one, in order, or of the last `limit`.

    Raises LookupError if one of them does not exist.
    """
    place = await place_of(store, entry_id)
    if place is None:
        raise LookupError(f"there is no entry {entry_id!r:.80}, or none before it")
    ids = await chain_ids(store, place, limit=limit)
    return existing(await entry_items(store, ids if limit is None else ids[-limit:]), entry_id)


def existing(items: Sequence[Item | None], entry_id: str) -> list[Item]:
    """The items, all of which must exist. Raises LookupError else."""
    found = [one for one in items if one is not None]
    if len(found) < len(items):
        raise LookupError(f"an entry before {entry_id!r:.80} does not exist any more")
    return found
