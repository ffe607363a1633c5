"""Pages of an answer, and a share of it for each document."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from lance_context_core._util.checks import check_count
from lance_context_core.search import query as searching
from lance_context_core.search.options import AS_USUAL
from lance_context_core.types import DocumentChunk, SearchHit

Hits = list[SearchHit[DocumentChunk]]

_FURTHER = 4
"""By how much more is asked for where a document has taken too much of an answer."""


async def page(
    best: Callable[[int], Awaitable[Hits]],
    arguments: Mapping[str, Any],
    *,
    offset: int,
    per_document: int | None,
) -> Hits:
    """`limit` of the `best` behind the first `offset`, no more than so many of one document."""
    limit = arguments.get("limit", searching.DEFAULTS["limit"])
    check_count(offset, "offset", least=0)
    if per_document is not None:
        check_count(per_document, "per_document")
    if not offset and per_document is None:
        return await best(limit)
    end = offset + check_count(limit, "limit", least=0)
    if per_document is None or not limit:
        return (await best(end if limit else 0))[offset:]
    wanted = max(end, AS_USUAL.n_candidates)
    while True:
        hits = await best(wanted)
        kept = first_of_each(hits, per_document)
        if len(kept) >= end or len(hits) < wanted:
            return kept[offset:end]
        wanted *= _FURTHER


def first_of_each(hits: Sequence[SearchHit[DocumentChunk]], n: int) -> Hits:
    """The hits in their order, the first `n` of each document."""
    seen, kept = Counter[str](), Hits()
    for one in hits:
        if seen[one.record.document_id] < n:
            seen[one.record.document_id] += 1
            kept.append(one)
    return kept
