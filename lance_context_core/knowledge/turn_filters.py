"""Filters by the metadata of turns: knowledge matches if a turn that proves it does."""

from dataclasses import replace

from lance_context_core.filters import (
    METADATA,
    RECORD_FIELDS,
    And,
    Condition,
    ContainsAny,
    Field,
    Filter,
    FilterLike,
    Not,
    Or,
    parse,
)
from lance_context_core.knowledge import turns
from lance_context_core.stores.records.scoped import Records

_OWN = frozenset(
    [
        "fact",
        "evidence",
        "observed",
        "out",
        "job_id",
        "producer",
        "importance",
        "authority",
        "tier",
        "curated",
        "pinned",
        "past",
        "conflicts",
        "revisions",
        "place",
        "places",
        "is_joined",
    ]
)
"""The metadata that knowledge has itself; all other keys are those of its turns."""


async def by_turns(spoken: Records, filter: FilterLike | None) -> FilterLike | None:
    """Return the filter of knowledge that has the same meaning as this one of turns.

    Each condition on metadata that only turns have becomes one on the turns that prove a fact,
    chunk or summary: it matches if one of them does.
    """
    parsed = parse(filter, columns=RECORD_FIELDS)
    return None if parsed is None else await _by_turns(spoken, parsed)


async def _by_turns(spoken: Records, one: Filter) -> Filter:
    if isinstance(one, And | Or):
        return replace(one, filters=tuple([await _by_turns(spoken, each) for each in one.filters]))
    if isinstance(one, Not):
        return Not(await _by_turns(spoken, one.filter))
    if not isinstance(one, Condition) or not _is_of_turns(one.field):
        return one
    where = spoken.where(turns.MESSAGES, filter=one)
    found = await spoken.table.select(where, columns=["id"])
    return ContainsAny(Field("source_ids"), tuple(dict.fromkeys(found["id"].to_pylist())))


def _is_of_turns(field: Field) -> bool:
    return field.column == METADATA and not any(
        path[:1] and path[0] in _OWN for path in field.paths
    )
