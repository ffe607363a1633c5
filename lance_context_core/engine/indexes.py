"""Which indexes a table has, when they pay, and when they are made anew."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lancedb.index import Bitmap, BTree, IvfFlat

from lance_context_core.engine.schema import SEARCH_TEXT, VECTOR, TableSpec
from lance_context_core.engine.text import TextIndex
from lance_context_core.errors import InvalidRequestError

_SCALAR = {"btree": BTree, "bitmap": Bitmap}


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPolicy:
    """From which size on an index is worth building.

    The full-text index is not among them: without it there is no search by words at all, and it is
    there from the first row.
    """

    scalar_rows: int = 2_000
    """Look-ups by id in fewer rows are as fast without an index."""
    vector_rows: int = 10_000
    """Fewer vectors are read in full as fast. At 100,000 the index takes a query of 384 numbers
    from 237 ms to 9 ms."""
    max_segments: int = 8
    """Each time new rows are folded into an index it grows by a segment, and each is asked by every
    query: an index with more than these is made anew."""

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for numbers that make no policy."""
        for name in self.__slots__:
            if not isinstance(value := getattr(self, name), int) or value < 1:
                raise InvalidRequestError(f"{name}={value!r}: give a whole number, 1 or more")


async def has_text_index(handle: Any) -> bool:
    """Whether full-text search is possible at all."""
    return _name(SEARCH_TEXT) in await _segments(handle)


async def ensure_text_index(handle: Any, settings: TextIndex) -> None:
    """Build the full-text index, while the table is still empty, so that later rows join it."""
    if not await has_text_index(handle):
        await _build(handle, SEARCH_TEXT, settings.config())


async def build(
    handle: Any, spec: TableSpec, *, policy: IndexPolicy, text_index: TextIndex
) -> list[str]:
    """Build what pays and is missing, or has fallen into pieces; returns the indexed columns."""
    segments = await _segments(handle)
    configs = await _worthwhile(handle, spec, policy)
    if spec.is_searchable:
        configs[SEARCH_TEXT] = text_index.config()
    due = [
        column
        for column in configs
        if not 1 <= segments.get(_name(column), 0) <= policy.max_segments
    ]
    for column in due:
        await _build(handle, column, configs[column])
    return due


async def _worthwhile(handle: Any, spec: TableSpec, policy: IndexPolicy) -> dict[str, Any]:
    """The settings of the indexes that pay at the table's size, by column."""
    n_rows = await handle.count_rows()
    configs: dict[str, Any] = {}
    if n_rows >= policy.scalar_rows:
        configs = {column: _SCALAR[kind]() for column, kind in spec.indexed.items()}
    if VECTOR in (await handle.schema()).names:
        n_rows = await handle.count_rows(f"{VECTOR} IS NOT NULL")
        if n_rows >= policy.vector_rows:
            # One partition: the vectors are read in full, from the index's own cache. That is
            # exact, needs no training, and does not go stale as the data drifts.
            configs[VECTOR] = IvfFlat(distance_type="cosine", num_partitions=1)
    return configs


async def _segments(handle: Any) -> dict[str, int]:
    """Of how many segments each index consists, by its name."""
    listed: Iterable[Any] = await handle.list_indices()
    return {index.name: index.num_segments for index in listed}


async def _build(handle: Any, column: str, config: Any) -> None:
    await handle.create_index(column, config=config, name=_name(column), replace=True)


def _name(column: str) -> str:
    return f"{column}_idx"
