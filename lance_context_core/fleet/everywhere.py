"""Calls on all shards of a fleet, or on some of its tenants, a few at once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Generic, TypeVar

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import ContextStoreError
from lance_context_core.search.fusion import Fusion, min_max
from lance_context_core.types import ChannelScore, ContextRecord, SearchHit

T = TypeVar("T")

AT_ONCE = 8
"""The shards that work at the same time."""


@frozen_by_name
class Everywhere(Generic[T]):
    """The results of a call on several shards, or on several tenants."""

    results: Mapping[str, T] = field(default_factory=dict)
    """By shard, or by tenant if tenants were named; in order."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """The errors of the others: what they did before is done. Call again for these."""


@frozen_by_name
class FleetSearch:
    """The result of a search over several shards."""

    hits: list[SearchHit[ContextRecord]]
    """The best hits, best first; `record.tenant` says whose each is."""
    unanswered: Mapping[str, str] = field(default_factory=dict)
    """The shards, or the named tenants, whose hits are missing, each with the reason."""

    @property
    def is_complete(self) -> bool:
        """Whether all answered."""
        return not self.unanswered


async def ask_each(
    names: Sequence[str],
    ask: Callable[[str], Awaitable[T]],
    *,
    timeout_seconds: float | None = None,
    at_once: int = AT_ONCE,
) -> Everywhere[T]:
    """Asks each of these, and returns the answers and the errors of the store.

    Those that have not answered after the timeout are cancelled. Other errors are raised.
    """
    results: dict[str, T] = {}
    failed: dict[str, str] = {}
    waiting = iter(names)

    async def work() -> None:
        for name in waiting:
            try:
                results[name] = await ask(name)
            except ContextStoreError as error:
                failed[name] = f"{type(error).__name__}: {error}"

    workers = [asyncio.ensure_future(work()) for _ in range(min(at_once, len(names)))]
    if not workers:
        return Everywhere()
    try:
        await asyncio.wait(workers, timeout=timeout_seconds, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        pending = [worker for worker in workers if not worker.done()]
        for worker in pending:
            worker.cancel()
        if pending:
            await asyncio.wait(pending)
    for worker in workers:
        if not worker.cancelled() and (error := worker.exception()) is not None:
            raise error
    late = (
        {}
        if timeout_seconds is None
        else dict.fromkeys(
            [one for one in names if one not in results and one not in failed],
            f"no answer within {timeout_seconds:g} seconds",
        )
    )
    return Everywhere(
        results={name: results[name] for name in names if name in results},
        failed={**failed, **late},
    )


def best_of(
    found: Sequence[list[SearchHit[ContextRecord]]], *, limit: int, fusion: Fusion
) -> list[SearchHit[ContextRecord]]:
    """Merges the hits of several searches, best first.

    A cosine is the same in each shard; BM25 depends on how rare a word is in the shard, so that
    scores by words are nearly comparable where shards hold similar texts. In hybrid search each
    shard normalises both by its own best: here the raw scores of all hits are normalised together,
    and fused again.
    """
    hits = [hit for hits in found for hit in hits]
    channels = {name for hit in hits for name in hit.channels}
    if {"vector", "text"} <= channels and len([one for one in found if one]) > 1:
        hits = _fused_again(hits, fusion)
    return sorted(hits, key=lambda hit: -hit.score)[:limit]


def _fused_again(
    hits: Sequence[SearchHit[ContextRecord]], fusion: Fusion
) -> list[SearchHit[ContextRecord]]:
    both = [_together(hits, name) for name in ("vector", "text")]
    scores = fusion(*both)
    made = []
    for n, hit in enumerate(hits):
        score = scores.get(str(n), 0.0)
        why: dict[str, Any] = dict(hit.why)
        more = hit.score - why.get("channels", hit.score)
        pairs = zip(("vector", "text"), both, strict=True)
        names = {name: one[str(n)] for name, one in pairs if str(n) in one}
        made.append(
            replace(hit, score=score + more, channels=names, why={**why, "channels": score})
        )
    return made


def _together(hits: Sequence[SearchHit[ContextRecord]], name: str) -> dict[str, ChannelScore]:
    """Returns one channel's scores of all hits, by their numbers."""
    raw = {str(n): hit.channels[name].raw for n, hit in enumerate(hits) if name in hit.channels}
    scaled = min_max(raw)
    return {
        key: ChannelScore(
            raw=score,
            normalised=scaled[key],
            rank=1 + sum(other > score for other in raw.values()),
        )
        for key, score in raw.items()
    }
