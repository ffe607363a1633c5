"""What both searches of the record API share: what they take, and what they answer with."""

from collections.abc import Sequence
from typing import TypedDict

from lance_context_core._util.calls import defaults_of
from lance_context_core.codecs.records import COLUMNS
from lance_context_core.filters import FilterLike
from lance_context_core.protocols import SearchMode
from lance_context_core.search.options import CONVERSATION, Room, SearchOptions
from lance_context_core.storage.lance.schema import VECTOR
from lance_context_core.stores.records.mappings import RecordDict, hit_dict
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records

_MOST_HITS = 10
"""How many hits who names no limit gets."""


class HitArguments(TypedDict, total=False):
    """Which records are found, what is read of them, and how they are ranked."""

    include_expired: bool
    """Records whose `expires_at` is past, too."""
    include_retired: bool
    """Records that are retired or superseded, too."""
    include_relationships: bool
    """The `relationships` of each hit; else it has none."""
    include_binary: bool
    """The bytes of each hit; else they are None, and not read."""
    include_embedding: bool
    """The vector of each hit; else it is None, and not read."""
    options: SearchOptions | None
    """How the search ranks."""


async def found(
    records: Records,
    query: str | Sequence[float] | None,
    *,
    limit: int | None,
    filters: FilterLike | None,
    vector: Sequence[float] | None = None,
    mode: SearchMode | None = None,
    room: Room = CONVERSATION,
    include_expired: bool = False,
    include_retired: bool = False,
    include_relationships: bool = False,
    include_binary: bool = True,
    include_embedding: bool = True,
    options: SearchOptions | None = None,
) -> list[RecordDict]:
    """The hits as mappings; payloads that are not included are not read."""
    hits = await records.search(
        query,
        vector=vector,
        mode=mode,
        filter=filters,
        limit=_MOST_HITS if limit is None else limit,
        options=options,
        include_expired=include_expired,
        include_retired=include_retired,
        columns=columns_of(binary=include_binary, embedding=include_embedding),
        room=room,
    )
    return [hit_dict(hit, relationships=include_relationships) for hit in hits]


DEFAULTS = defaults_of(found)


def columns_of(*, binary: bool, embedding: bool) -> list[str]:
    """What is read of a record of which so much is wanted."""
    return [*(COLUMNS if binary else WITHOUT_BLOB), *([VECTOR] if embedding else [])]
