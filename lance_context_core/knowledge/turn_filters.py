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

_FACT = "fact"
"""The prefix of what knowledge has itself; all other keys are those of its turns."""
_BESIDE = frozenset(
    [
        "importance",
        "authority",
        "tier",
        "pinned",
        "curated",
        "conflicts",
        "producer",
        "job_id",
        "revisions",
    ]
)
"""Of these names, the ones that are stored beside the metadata of that name."""


async def by_turns(spoken: Records, filter: FilterLike | None) -> FilterLike | None:
    """Return the filter of knowledge that has the same meaning as this one of turns.

    Each condition on metadata becomes one on the turns that prove a fact, chunk or summary: it
    matches if one of them does. `fact.` and a name is what a fact has itself: its slot, value, kind
    and subject, or its importance, authority, tier, and whether it is pinned.
    """
    parsed = parse(filter, columns=RECORD_FIELDS)
    return None if parsed is None else await _by_turns(spoken, parsed)


async def _by_turns(spoken: Records, one: Filter) -> Filter:
    if isinstance(one, And | Or):
        return replace(one, filters=tuple([await _by_turns(spoken, each) for each in one.filters]))
    if isinstance(one, Not):
        return Not(await _by_turns(spoken, one.filter))
    if not isinstance(one, Condition) or one.field.column != METADATA:
        return one
    own = [path for path in one.field.paths if path[:1] == (_FACT,)]
    if own:
        beside = [path[1:] for path in own if path[1:2] and path[1] in _BESIDE]
        return replace(one, field=Field(METADATA, *beside[0])) if beside else one
    where = spoken.where(turns.MESSAGES, filter=one)
    found = await spoken.table.select(where, columns=["id"])
    return ContainsAny(Field("source_ids"), tuple(dict.fromkeys(found["id"].to_pylist())))
