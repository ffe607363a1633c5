"""Access to facts by id and filter, filters by the turns that prove them, and aliases for the arguments of other memories."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from lance_context_core._util.checks import check_name, check_span, shown
from lance_context_core.errors import InvalidRequestError
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
from lance_context_core.knowledge import params, turns
from lance_context_core.knowledge.undo_log import ARCHIVE, PRUNE, UNDO
from lance_context_core.messages.wire import wire_time
from lance_context_core.storage import sql
from lance_context_core.stores.records import archive
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord

_FACTS = sql.equals("kind", params.FACT)
_MADE = sql.in_list("kind", [params.FACT, params.CHUNK, params.SUMMARY])


async def read(spoken: Records, made: Records, id: str) -> ContextRecord | None:
    """Return the fact, chunk, summary or turn with that id; None if absent or hidden."""
    named = sql.equals("id", check_name(id, "id"))
    now = made.now()
    for records, kinds in ((made, _MADE), (spoken, turns.MESSAGES)):
        for one in await records.read(records.own(kinds, named), columns=WITHOUT_BLOB):
            is_over = any(at is not None and at <= now for at in (one.retired_at, one.expires_at))
            if not is_over:
                return one
    return None


async def listed(
    made: Records,
    *,
    session_id: str | None,
    filter: FilterLike | None,
    limit: int | None,
    offset: int,
) -> list[ContextRecord]:
    """Return the current facts, oldest first."""
    check_span(offset=offset, limit=limit, last=None)
    where = made.where(_FACTS, *in_session(session_id), filter=filter)
    return await made.read(where, offset=offset, limit=limit, columns=WITHOUT_BLOB)


async def forget(spoken: Records, made: Records, session_id: str | None) -> int:
    """Delete the turns of an owner or session with their knowledge; returns the turn count.

    Facts that turns of other sessions prove stay.
    """
    said = spoken.own(turns.MESSAGES, *in_session(session_id))
    n_turns = await spoken.table.count(said)
    n_turns += await _archived(spoken, said)
    if session_id is None:
        await archive.delete(spoken, sql.any_of([said, made.own(_MADE)]))
    else:
        await archive.delete(spoken, said)
        await spoken.cleared({"session_id": session_id})
    return n_turns


async def _archived(spoken: Records, said: sql.Clause) -> int:
    if not await archive.are_any(spoken):
        return 0
    return await archive.apart(spoken).table.count(said)


def refuse_hidden(record: ContextRecord, *, by_jobs: bool = False) -> None:
    """Raise InvalidRequestError if an undo, or, unless `by_jobs`, a person has hidden it."""
    # A merged fact is corrected and undone together with its lead.
    if record.retired_at is None or record.retired_reason in (PRUNE, ARCHIVE, params.MERGED):
        return
    if by_jobs and record.retired_reason != UNDO:
        return
    raise InvalidRequestError(
        f"{record.kind} {record.id!r} is hidden since {record.retired_at.isoformat()} "
        f"({record.retired_reason}), and was not changed: add the correction as a new message, or undo "
        "the job that hid it, if explain() names one"
    )


def in_session(session_id: str | None) -> list[sql.Clause]:
    """Return the condition on the session, if one is given."""
    if session_id is None:
        return []
    return [sql.equals("session_id", check_name(session_id, "session_id"))]


# Aliases of other memories: `run_id`, `top_k`, `filters`, `expiration_date`.


def either(**named: Any) -> Any:
    """Return the value of the alias that is given; None if neither is.

    Raises InvalidRequestError if their values differ.
    """
    given = {name: value for name, value in named.items() if value is not None}
    if len(given) > 1 and len({repr(value) for value in given.values()}) > 1:
        both = " and ".join(f"{name}={shown(value)}" for name, value in given.items())
        raise InvalidRequestError(f"{both} are two names of one argument: give one of them")
    return next(iter(given.values()), None)


def expiry(*, expires_at: object, expiration_date: object) -> datetime | None:
    """Return the moment of expiry: a given one, or the end of a day."""
    either(expires_at=expires_at, expiration_date=expiration_date)
    if expires_at is not None:
        return wire_time(expires_at, "expires_at")
    if expiration_date is not None:
        return wire_time(expiration_date, "expiration_date", through_the_day=True)
    return None


_LOGICAL = {"AND": "$and", "OR": "$or", "NOT": "$not"}
_OPERATORS = {
    **{name: f"${name}" for name in ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin")},
    "contains": "$contains",
    "icontains": "$text",
}
_COLUMNS = {"run_id": "session_id"}


def translated(filters: FilterLike | None) -> FilterLike | None:
    """Translate mem0's filter syntax into ours: `AND`, operators without `$`, and `run_id`."""
    return _translated(filters) if isinstance(filters, Mapping) else filters


def _translated(filters: Mapping[Any, Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in filters.items():
        if key in _LOGICAL:
            some: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
            found[_LOGICAL[key]] = [translated(one) for one in some]
        elif value == "*":
            found[_COLUMNS.get(key, key)] = {"$exists": True}
        elif isinstance(value, Mapping) and value.keys() <= _OPERATORS.keys():
            operators = {_OPERATORS[name]: operand for name, operand in value.items()}
            found[_COLUMNS.get(key, key)] = operators
        else:
            found[_COLUMNS.get(key, key)] = value
    return found


# Filters by the metadata of turns: knowledge matches if a turn that proves it does.

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
