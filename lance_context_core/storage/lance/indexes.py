"""Indexes of a table: which exist, when they pay, and when they are rebuilt."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from lancedb.index import FTS, Bitmap, BTree, IvfFlat

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.storage.lance.fields import index_of
from lance_context_core.storage.lance.schema import SEARCH_TEXT, VECTOR, TableSpec

# Tokenization for full-text search.


@frozen_by_name
class TextIndex:
    """The settings of the full-text index, fixed when a table is created.

    Stop words are always kept: the engine's list for the ICU tokenizer is the union of all its
    languages and contains ordinary English words such as "cat" and "dog".
    """

    tokenizer: str = "icu/split"
    """`icu/split` finds words in every script; `simple` splits at spaces and punctuation only."""
    language: str = "English"
    """The language whose endings are stripped."""
    stem: bool = True
    """Whether "running" finds "runs"."""

    def config(self) -> FTS:
        """The engine's form of these settings."""
        return FTS(
            base_tokenizer=self.tokenizer,
            language=self.language,
            stem=self.stem,
            remove_stop_words=False,
            with_position=False,
            # Otherwise the engine leaves out words of more than 40 letters, such as hashes and
            # keys.
            max_token_length=None,
        )


def leaves_out_words(details: Mapping[str, Any] | None) -> bool:
    """Whether an index was built without the longest words, by the engine's description."""
    return (details or {}).get("max_token_length") is not None


def settings_of(details: Mapping[str, Any] | None) -> TextIndex | None:
    """The settings of an index, by the engine's description; None if not one of ours."""
    told = details or {}
    try:
        settings = TextIndex(
            tokenizer=told["base_tokenizer"], language=told["language"], stem=told["stem"]
        )
        built = {name: told[name] for name in _OURS}
    except KeyError:
        return None
    return settings if built == _OURS else None


_OURS = {
    "remove_stop_words": False,
    "lower_case": True,
    "ascii_folding": True,
    "max_token_length": None,
}
"""The settings shared by all our indexes; older ones leave out long words."""


_SCALAR = {"btree": BTree, "bitmap": Bitmap}

_EVERY_PARTITION = IvfFlat(distance_type="cosine")
"""All partitions are searched, as fast as one, from the index's own cache: that is exact, and does
not degrade as the data drifts."""

_UNWRITTEN_PARTITION = re.compile(r"Not found: \S+[/\\]ivf_\d+\.lance")


@frozen_by_name
class IndexPolicy:
    """The sizes from which an index is worth building.

    Not for the full-text index: search by words requires it, and it exists from the first row.
    """

    scalar_rows: int = 2_000
    """Look-ups by id in fewer rows are as fast without an index."""
    vector_rows: int = 2_000
    """Fewer vectors are scanned almost as fast. The index takes a query of 384 numbers from 2.2 ms
    to 1.5 ms at 2,000, from 6.8 ms to 2.1 ms at 10,000, and from 237 ms to 9 ms at 100,000. It is
    as large as the vectors."""
    max_segments: int = 8
    """Each addition of new rows grows an index by a segment, and every query reads each: an index
    with more segments than this is rebuilt."""
    unindexed_rows: int = 1_000
    """Fewer new rows stay unindexed, and a search reads them one by one: it takes 5 ms for a
    thousand of 30 words each, and half a millisecond for their vectors."""
    unindexed_bytes: int = 8 * 1024 * 1024
    """The same bound for tables with large rows."""
    unindexed_text_share: float = 0.05
    """New rows join the full-text index, which is rebuilt for it, when they are this share of the
    table. It takes 22 µs a row: with 1/20 of the table that is half a millisecond for each new row,
    on another core, whatever the size of the table."""
    unindexed_share: float = 0.25
    """The same for the other indexes, whose new rows are read at a tenth of the cost."""
    max_unindexed_rows: int = 20_000
    """The maximum number of unindexed rows, in any table: they cost a search 100 ms."""

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for invalid numbers."""
        whole = ("scalar_rows", "vector_rows", "max_segments", "unindexed_rows", "unindexed_bytes")
        for name in (*whole, "max_unindexed_rows"):
            if not isinstance(value := getattr(self, name), int) or value < 1:
                raise InvalidRequestError(f"{name}={value!r}: give a whole number, 1 or more")
        for name in ("unindexed_text_share", "unindexed_share"):
            share = getattr(self, name)
            if not (isinstance(share, int | float) and 0 < share <= 1):
                raise InvalidRequestError(f"{name}={share!r}: above 0, at most 1")

    def max_unindexed(self, column: str, n_rows: int, n_bytes: int) -> int:
        """How many rows of a table with that many bytes may be unindexed."""
        share = self.unindexed_text_share if column == SEARCH_TEXT else self.unindexed_share
        least = min(self.unindexed_rows, self.unindexed_bytes * n_rows // max(n_bytes, 1))
        return max(least, min(int(share * n_rows), self.max_unindexed_rows), 1)


async def has_text_index(handle: Any) -> bool:
    """Whether full-text search is possible at all."""
    return _name(SEARCH_TEXT) in await _segments(handle)


async def text_settings(handle: Any) -> TextIndex | None:
    """The tokenization of a table's texts; None if none, or not as ours."""
    listed: Iterable[Any] = await handle.list_indices()
    for index in listed:
        if index.columns == [SEARCH_TEXT]:
            return settings_of(index.index_details)
    return None


async def text_index_id(handle: Any) -> int | None:
    """The identity of a table's full-text index, among all ever built; None if missing."""
    listed: Iterable[Any] = await handle.list_indices()
    for index in listed:
        if index.columns == [SEARCH_TEXT]:
            return UUID(index.index_uuid).int
    return None


async def ensure_text_index(handle: Any, settings: TextIndex) -> None:
    """Build the full-text index of a table that is still empty; later rows join it."""
    if not await has_text_index(handle):
        await _build(handle, SEARCH_TEXT, settings.config())


async def build(
    handle: Any, spec: TableSpec, *, policy: IndexPolicy, text_index: TextIndex
) -> list[str]:
    """Build the due indexes; returns their columns. Readers use the old ones meanwhile."""
    reasons = await due(handle, spec, policy=policy)
    for column in reasons:
        await _build(handle, column, _config(column, spec, text_index))
    return list(reasons)


async def optimize(handle: Any, *, older_than: timedelta, delete_unverified: bool = False) -> Any:
    """Merge all fragments, add new rows to the indexes, and remove older versions.

    Returns the engine's statistics.
    """
    options = {"cleanup_older_than": older_than, "delete_unverified": delete_unverified}
    try:
        return await handle.optimize(**options)
    except Exception as error:
        if not _UNWRITTEN_PARTITION.search(str(error)):
            raise
    # The engine splits a partition that has grown too large, using files which it does not write if
    # none of the new rows has a vector. A new index has no rows to add.
    await _build(handle, VECTOR, _EVERY_PARTITION)
    return await handle.optimize(**options)


async def build_anew(handle: Any) -> None:
    """Rebuild every index with its settings; drop those that nothing is left for."""
    await handle.checkout_latest()
    names = (await handle.schema()).names
    has_vectors = VECTOR in names and await handle.count_rows(f"{VECTOR} IS NOT NULL") > 0
    for index in await handle.list_indices():
        config = _as_set(index) if index.columns != [VECTOR] or has_vectors else None
        if config is None:
            # Maintenance builds it again, if it pays.
            await handle.drop_index(index.name)
        else:
            await handle.create_index(
                index.columns[0], config=config, name=index.name, replace=True
            )


async def due(handle: Any, spec: TableSpec, *, policy: IndexPolicy) -> dict[str, str]:
    """The columns that need an index or a new one, and why.

    It pays and is missing, has too many segments, too many unindexed rows, or was built without
    long words.
    """
    stats = await handle.stats()
    n_rows, n_bytes = int(stats["num_rows"]), int(stats["total_bytes"])
    segments, outside = await _segments(handle), await unindexed(handle)
    reasons = {}
    for column in await _worthwhile(handle, spec, policy, n_rows, there=set(segments)):
        n_outside = outside.get(column, 0)
        if not 1 <= segments.get(_name(column), 0) <= policy.max_segments:
            reasons[column] = f"an index on {column} is missing, or in too many pieces"
        elif n_outside >= policy.max_unindexed(column, n_rows, n_bytes):
            reasons[column] = f"{n_outside} of {n_rows} rows are outside the index on {column}"
        elif column == SEARCH_TEXT and await _leaves_out_words(handle):
            reasons[column] = f"the index on {column} lacks the words of more than 40 letters"
    return reasons


async def unindexed(handle: Any) -> dict[str, int]:
    """The number of unindexed rows on each indexed column."""
    listed: Iterable[Any] = await handle.list_indices()
    return {index.columns[0]: int(index.num_unindexed_rows or 0) for index in listed}


async def _worthwhile(
    handle: Any, spec: TableSpec, policy: IndexPolicy, n_rows: int, *, there: set[str]
) -> list[str]:
    """The columns whose indexes pay in a table of that many rows."""
    columns = []
    names = (await handle.schema()).names
    if n_rows >= policy.scalar_rows:
        columns = [one for one in spec.indexed if await _has_values(handle, spec, one, there)]
        columns += [one for one in names if index_of(one) is not None]
    # No index of the engine finds the nearest of many vectors exactly.
    has_vectors = VECTOR in names and not spec.has_many_vectors
    if n_rows >= policy.vector_rows and has_vectors:
        # Counting the vectors reads the column: an indexed one need not be counted.
        is_there = _name(VECTOR) in there
        if is_there or await handle.count_rows(f"{VECTOR} IS NOT NULL") >= policy.vector_rows:
            columns.append(VECTOR)
    return [*columns, SEARCH_TEXT] if spec.is_searchable else columns


async def _has_values(handle: Any, spec: TableSpec, column: str, there: set[str]) -> bool:
    """Whether the column has an index or a value: without one, no index is faster than the table."""
    if _name(column) in there or not spec.schema.field(column).nullable:
        return True
    return int(await handle.count_rows(f"{column} IS NOT NULL")) > 0


def _config(column: str, spec: TableSpec, text_index: TextIndex) -> Any:
    if column == SEARCH_TEXT:
        return text_index.config()
    if column == VECTOR:
        return _EVERY_PARTITION
    return _SCALAR[index_of(column) or spec.indexed[column]]()


def _as_set(index: Any) -> Any:
    """The settings that an index was built with; None if not one of ours."""
    match index.index_type:
        case "FTS":
            kept = {
                name: index.index_details[name]
                for name in _TEXT_SETTINGS
                if name in index.index_details
            }
            return FTS(**kept)
        case "BTree":
            return BTree()
        case "Bitmap":
            return Bitmap()
        case "IvfFlat":
            return _EVERY_PARTITION
    return None


_TEXT_SETTINGS = (
    "base_tokenizer", "language", "with_position", "max_token_length", "lower_case", "stem",
    "remove_stop_words", "ascii_folding", "custom_stop_words", "block_size",
)  # fmt: skip


async def _segments(handle: Any) -> dict[str, int]:
    """The number of segments of each index, by its name."""
    listed: Iterable[Any] = await handle.list_indices()
    return {index.name: index.num_segments for index in listed}


async def _leaves_out_words(handle: Any) -> bool:
    listed: Iterable[Any] = await handle.list_indices()
    return any(
        leaves_out_words(index.index_details) for index in listed if index.columns == [SEARCH_TEXT]
    )


async def _build(handle: Any, column: str, config: Any) -> None:
    await handle.create_index(column, config=config, name=_name(column), replace=True)


def _name(column: str) -> str:
    return f"{column}_idx"
