"""Ids by as much of their beginning as tells them apart: shown so on a terminal, accepted anywhere."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lance_context_core import ContextStore

_MADE = re.compile(r"([A-Za-z]+-)?[0-9a-f]{20,}")
"""An id that the store has made; ids that people choose are shown whole."""
_FEWEST = 8
"""So many digits are shown at least: fewer would soon mean several records."""
_LAST = "\U0010ffff"
FACTS = "knowledge"
"""The context of the record API that facts are in."""


def shortened(ids: Iterable[str]) -> dict[str, str]:
    """By id its shortest beginning that no other one of them has; ids that people chose are whole."""
    ordered = sorted({*ids})
    short: dict[str, str] = {}
    for place, one in enumerate(ordered):
        made = _MADE.fullmatch(one)
        if made is None:
            short[one] = one
            continue
        beside = ordered[max(place - 1, 0) : place] + ordered[place + 1 : place + 2]
        shared = max((_shared(one, other) for other in beside), default=0)
        short[one] = one[: max(len(made[1] or "") + _FEWEST, shared + 1)]
    return short


def _shared(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def record_id(store: "ContextStore", given: str) -> str:
    """The id of the record or fact that begins so. Raises NotFoundError if none does."""
    return _found(given, "record", "ls", _records(store, given))


def record_id_or_given(store: "ContextStore", given: str) -> str:
    """As `record_id`; where none begins so what was given, which may be in an earlier version."""
    from lance_context_core.errors import NotFoundError

    try:
        return record_id(store, given)
    except NotFoundError:
        return given


def record_or_session_id(store: "ContextStore", given: str) -> str:
    """As `record_id`, also of a session."""

    def found() -> Iterator[str]:
        yield from _records(store, given)()
        yield from _sessions(store)()

    return _found(given, "record and no session", "ls", found)


def session_id(store: "ContextStore", given: str) -> str:
    """The id of the session that begins so. Raises NotFoundError if none does."""
    return _found(given, "session", "sessions", _sessions(store))


def job_id(store: "ContextStore", given: str) -> str:
    """The id of the job that begins so. Raises NotFoundError if none does."""
    return _found(given, "job", "jobs", lambda: (one.id for one in store.knowledge.jobs.list()))


def _records(store: "ContextStore", given: str) -> Callable[[], Iterator[str]]:
    def found() -> Iterator[str]:
        between: dict[str, Any] = {"id": {"$gte": given, "$lt": given + _LAST}}
        # What is hidden has an id, too: `why` tells that it is.
        every: dict[str, Any] = {"include_expired": True, "include_retired": True}
        for context in (store.context(), store.context(FACTS)):
            for exact in context.records(1, filters={"id": given}, **every):
                yield exact.id
            for one in context.records(20, filters=between, **every):
                yield one.id

    return found


def _sessions(store: "ContextStore") -> Callable[[], Iterator[str]]:
    return lambda: (one.id for one in store.sessions.list())


def _found(given: str, what: str, listing: str, ids: Callable[[], Iterator[str]]) -> str:
    from lance_context_core.errors import InvalidRequestError, NotFoundError

    if not given:
        raise InvalidRequestError(
            f"an id is missing where '' stands: lance-ctx {listing} lists them"
        )
    found: Sequence[str] = [*dict.fromkeys(one for one in ids() if one.startswith(given))]
    if given in found:
        return given
    if not found:
        raise NotFoundError(f"no {what} {given!r} here: lance-ctx {listing} lists them")
    if len(found) > 1:
        named = ", ".join(found[:5]) + (" …" if len(found) > 5 else "")
        raise InvalidRequestError(f"{given!r} is the beginning of several ids: {named}")
    return found[0]
