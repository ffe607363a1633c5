"""Lists checkpoints: known ones from memory, the rest in pages."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from lance_context_core.adapting import retried
from lance_context_core.arguments import ItemKey
from langchain_lance_context import _checkpoints as rows
from langchain_lance_context._checkpoint_log import N_LOOKS, CheckpointLog, Found, by_owner
from langchain_lance_context._checkpoint_values import ValueLostError
from langchain_lance_context._checkpoints import Place
from langchain_lance_context._known import Known

_PAGE = 50
"""Number of checkpoints in a page."""


class Page(NamedTuple):
    """Checkpoints of a list."""

    tuples: list[CheckpointTuple]
    lost: ValueLostError | None = None
    """The error that prevents reading the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointList:
    """The checkpoints of a log that match the conditions; see `LanceContextSaver.list`."""

    log: CheckpointLog
    config: RunnableConfig | None
    filter: Mapping[str, Any] | None
    before: RunnableConfig | None
    limit: int | None

    async def pages(self) -> list[Sequence[ItemKey]]:
        """The keys of matching checkpoints, newest first; with a filter, a superset.

        They are returned in pages, as many as are loaded at a time.
        """
        bound = None if self.before is None else self.before["configurable"].get("checkpoint_id")
        found: list[ItemKey] = []
        known = None if self._place is None else await self.log.known(self._place)
        if self._place is not None and known is not None:
            recent = (one for one in sorted(known.window.by_owner, reverse=True) if known.has(one))
            recent = (one for one in recent if bound is None or one < bound)
            met = (one for one in recent if self._is_met(known, one))
            found = [(self._place.state, one) for one in islice(met, self.limit)]
            bound = known.since if bound is None else min(bound, known.since)
        if bound != "" and not (self.limit is not None and len(found) >= self.limit):
            found += await self._keys(bound)
        chosen = found if self.filter else found[: self.limit]
        size = _PAGE if self.limit is None else min(_PAGE, max(1, self.limit))
        return [chosen[start : start + size] for start in range(0, len(chosen), size)]

    async def load(self, keys: Sequence[ItemKey]) -> Page:
        """The checkpoints with these keys that match the filter, in order."""
        try:
            return Page(
                await retried(lambda: self._tuples(keys), on=ValueLostError, attempts=N_LOOKS)
            )
        except ValueLostError as error:
            lost = error
        newer = [*takewhile(lambda key: key[1] != lost.checkpoint_id, keys)]
        page = await self.load(newer) if newer else Page([])
        return page if page.lost else Page(page.tuples, lost)

    # Helpers

    @property
    def _place(self) -> Place | None:
        """The checkpoint that the config names, if any."""
        if self.config is None or self.config["configurable"].get("checkpoint_ns") is None:
            return None
        return rows.place_of(self.config)[0]

    def _is_met(self, known: Known, checkpoint_id: str) -> bool:
        """Whether the checkpoint exists and matches the list's conditions."""
        wanted = None if self.config is None else rows.place_of(self.config)[1]
        if wanted not in {None, checkpoint_id}:
            return False
        found = self.log.one(known.window.by_owner[checkpoint_id], checkpoint_id)
        return found is not None and self._matches(found)

    async def _keys(self, bound: str | None) -> list[ItemKey]:
        """The keys before `bound`; with a filter, a superset."""
        namespace: tuple[str | None, ...] = (None, "state", None)
        conditions = [rows.is_sort(rows.CHECKPOINT), *rows.metadata_filters(self.filter)]
        if self.config is not None:
            place, checkpoint_id = rows.place_of(self.config)
            namespace = (place.thread, "state", None if self._place is None else place.ns)
            if checkpoint_id is not None:
                conditions.append(rows.is_id(checkpoint_id))
        found = await self.log.items.keys(
            namespace=namespace,
            before=bound,
            filter={"$and": conditions},
            reverse=True,
            limit=None if self._place is None or self.filter else self.limit,
        )
        return sorted(dict.fromkeys(found), key=lambda key: key[1], reverse=True)

    async def _tuples(self, keys: Sequence[ItemKey]) -> list[CheckpointTuple]:
        by_place: dict[Place, list[str]] = {}
        for namespace, key in keys:
            by_place.setdefault(Place(namespace[0], namespace[2]), []).append(key)
        tuples, reader = {}, rows.user_of(self.config)
        for place, ids in by_place.items():
            found = [one for one in await self._found(place, ids) if self._matches(one)]
            values = await self.log.values.read(place, [one.stored for one in found], {})
            for one in found:
                made = await self.log.tuple_of(one.stored, values, one.writes, reader)
                tuples[place.state, one.stored.id] = made
        return [tuples[key] for key in keys if key in tuples]

    async def _found(self, place: Place, ids: Iterable[str]) -> list[Found]:
        if self.limit is None and self.log.memory[place] is None:
            # A long list is cached separately from the newest checkpoint.
            with suppress(ValueLostError):
                await self.log.read_newest(place, None)
        n_dropped = self.log.memory.n_dropped
        known = await self.log.known(place)
        owned = {one: None if known is None else known.items_of(one) for one in ids}
        if unknown := [one for one, items in owned.items() if items is None]:
            items = await self.log.items.list(
                namespace=place.state,
                after=min(unknown)[:-1],
                before=f"{max(unknown)}!",
                filter={"$or": [rows.is_sort(rows.WRITES), rows.is_id(*unknown)]},
            )
            read = by_owner(items)
            read = {one: read.get(one, ()) for one in unknown}
            owned |= read
            if known is not None:
                self.log.memory.read_older(place, read, known=known, n_dropped=n_dropped)
        found = [self.log.one(owned[one] or (), one) for one in ids]
        return [one for one in found if one is not None]

    def _matches(self, found: Found) -> bool:
        return rows.meets(found.stored.metadata, self.filter)
