"""Reads the turns of a job: a session's end, and earlier ones by key."""

from collections.abc import Collection, Mapping, Sequence

from lance_context_core._util import cooperative as steps
from lance_context_core.codecs.records import COLUMNS, from_row, is_visible
from lance_context_core.knowledge import params, turns
from lance_context_core.knowledge.chunks import chunks
from lance_context_core.knowledge.turns import Conversation
from lance_context_core.knowledge.types import SpokenTurn
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records import writes
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord


async def read_around(
    spoken: Records,
    made: Records,
    conversation: Conversation,
    ids: Collection[str],
    *,
    before: int,
) -> list[SpokenTurn]:
    """Return the turns with these ids, those between, and `before` messages, in order.

    If they are the last ones of a session, only they are read, however long it is.
    """
    wanted = {*ids}
    where = turns.shown(spoken, conversation)
    last = len(wanted) + before
    rows = await spoken.table.page(
        where, columns=WITHOUT_BLOB, span={"offset": 0, "limit": None, "last": last}
    )
    found = await steps.each_row(from_row, rows)
    if wanted <= {one.id for one in found}:
        if len(found) < last:
            return turns.spoken(found, range(len(found)))
        return turns.spoken(found, await _places_at_end(spoken, made, conversation, found))
    all_ids = await _ids(spoken, conversation)
    places = [place for place, id in enumerate(all_ids) if id in wanted]
    if not places:
        return []
    first = max(places[0] - before, 0)
    limit = places[-1] + 1 - first
    found = await spoken.read(where, columns=WITHOUT_BLOB, offset=first, limit=limit)
    return turns.spoken(found, range(first, first + len(found)))


async def read_placed(
    spoken: Records, conversation: Conversation, places: Mapping[str, int]
) -> list[SpokenTurn]:
    """Return the turns with these ids, whose places are known, in this order."""
    keys = [
        key
        for id in places
        for key in writes.keys_of_message(
            conversation.owner, spoken.context, conversation.session_id, id
        )
    ]
    if not keys:
        return []
    # All columns: otherwise the rows are not cached in memory.
    rows = await spoken.table.get(spoken.own(sql.in_list(KEY, keys)), columns=COLUMNS)
    there = {one.id: one for one in map(from_row, rows)}
    if missing := places.keys() - there.keys():
        # They were written under other names, or are gone.
        named = sql.all_of([turns.shown(spoken, conversation), sql.in_list("id", sorted(missing))])
        there |= {one.id: one for one in await spoken.read(named, columns=WITHOUT_BLOB)}
    now = spoken.now()
    found = sorted(
        (one for one in there.values() if is_visible(one, now)), key=lambda one: places[one.id]
    )
    return turns.spoken(found, [places[one.id] for one in found])


async def places_of(
    spoken: Records, conversation: Conversation, ids: Collection[str]
) -> dict[str, int]:
    """Return the places of these turns, from the ids of the whole session."""
    found = await _ids(spoken, conversation) if ids else []
    return {id: place for place, id in enumerate(found) if id in ids}


async def _places_at_end(
    spoken: Records, made: Records, conversation: Conversation, last: Sequence[ContextRecord]
) -> list[int]:
    """Return the places of a session's last turns; one known place saves counting the others."""
    number = {
        params.chunk_key(conversation, one.id, *chunks(one.text)[0]): n
        for n, one in enumerate(last)
        if one.text and chunks(one.text)
    }
    rows = await made.table.get(sql.in_list(KEY, [*number]), columns=[KEY, *COLUMNS])
    known = {
        number[row[KEY]]: place
        for row in rows
        if (place := from_row(row).metadata.get(params.PLACE)) is not None
    }
    if not known:
        n_before = await spoken.table.count(turns.shown(spoken, conversation)) - len(last)
        return [*range(n_before, n_before + len(last))]
    first = min(known)
    places = [known[first] - first]
    for n in range(1, len(last)):
        places.append(known.get(n, places[-1] + 1))
    return places


async def _ids(spoken: Records, conversation: Conversation) -> list[str]:
    where = turns.shown(spoken, conversation)
    ids: list[str] = (await spoken.table.select(where, columns=["id"]))["id"].to_pylist()
    return ids
