"""What several pages read."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lance_context_core import AsyncContextStore, ContextRecord
from lance_context_inspector.page import Part

KNOWLEDGE = "knowledge"
"""The context of what was made of what was said."""

_SOURCES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Quoted:
    """A place of a turn from which something was made."""

    turn: ContextRecord | None
    """None if it is gone."""
    before: str
    words: str
    after: str
    """The turn's text around the words, as it is now."""
    is_verified: bool
    """Whether the words are what they were."""
    source_id: str
    session_id: str


async def quotes(
    store: AsyncContextStore, made: Sequence[ContextRecord]
) -> Mapping[str, list[Quoted]]:
    """The evidence of facts, chunks and summaries, by their ids: all turns are read at once."""
    told: dict[str, list[Mapping[str, Any]]] = {
        one.id: [*one.metadata.get("evidence", ())] for one in made
    }
    ids = {each["source_id"] for evidence in told.values() for each in evidence}
    turns = await store.context().records(
        _SOURCES_AT_ONCE, filters={"id": {"$in": sorted(ids)[:_SOURCES_AT_ONCE]}}
    )
    found = {(one.session_id, one.id, one.user_id): one for one in turns}
    owners = {one.id: one.user_id for one in made}
    return {
        id: [
            _quoted(found.get((each["session_id"], each["source_id"], owners[id])), each)
            for each in evidence
        ]
        for id, evidence in told.items()
    }


def _quoted(turn: ContextRecord | None, evidence: Mapping[str, Any]) -> Quoted:
    text = "" if turn is None else turn.text or ""
    start, end = evidence["start"], evidence["end"]
    words = text[start:end]
    digest = hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()
    return Quoted(
        turn=turn,
        before=text[max(0, start - 200) : start],
        words=words,
        after=text[end : end + 200],
        is_verified=turn is not None and digest == evidence["sha256"],
        source_id=evidence["source_id"],
        session_id=evidence["session_id"],
    )


def when_said(quoted: Mapping[str, Sequence[Quoted]]) -> Mapping[str, list[datetime]]:
    """When the turns of each were said that say so still."""
    return {
        id: [one.turn.created_at for one in found if one.turn is not None and one.is_verified]
        for id, found in quoted.items()
    }


async def made_of(
    store: AsyncContextStore,
    filters: Mapping[str, Any],
    *,
    page: int,
    size: int,
    hidden: bool,
    newest: bool = True,
) -> Part[ContextRecord]:
    """A part of what was made of what was said, the newest first, or the oldest."""
    found = await store.context(KNOWLEDGE).records(
        size + 1,
        (page - 1) * size,
        filters,
        newest_first=newest,
        include_retired=hidden,
        include_expired=hidden,
    )
    return Part.of(found, page, size)
