"""Which key-value items are meant: conditions on their namespaces, keys and values."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lance_context_core._util.calls import check_options
from lance_context_core._util.checks import check_span, listed, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import ITEM_FIELDS
from lance_context_core.protocols import CONDITIONS, LISTING, ItemOrder
from lance_context_core.rows.items import check_segment, encoded
from lance_context_core.storage import sql

_ORDERS: dict[ItemOrder, tuple[str, ...]] = {
    "key": ("namespace", "id"),
    "created": ("created_at", "namespace", "id"),
    "updated": ("updated_at", "namespace", "id"),
}

# What stands for itself in a text stands for something else in a regular expression.
_SPECIAL, _ESCAPED = re.compile(r"[\\.+*?()|\[\]{}^$]"), r"\\\g<0>"


@frozen_by_name
class Selection:
    """What `ItemListing` says, checked; of `ItemConditions` alone, the whole in the usual order."""

    clauses: tuple[sql.Clause, ...]
    within: tuple[sql.Clause, ...]
    """Those of them that say in which namespaces."""
    order: tuple[str, ...]
    """The columns by which they are ordered."""
    reverse: bool
    limit: int | None
    offset: int

    @classmethod
    def of(cls, given: Mapping[str, Any], known: Mapping[str, Any] = CONDITIONS) -> "Selection":
        """What the keyword arguments mean. Raises InvalidRequestError for what is none of `known`."""
        check_options(given, known, "what selects items")
        which = {**LISTING, **given}
        order, limit, offset = which["order"], which["limit"], which["offset"]
        check_span(offset=offset, limit=limit, last=None)
        if order not in _ORDERS:
            raise InvalidRequestError(f"order={shown(order)}: there are {', '.join(_ORDERS)}")
        within = _namespaces(which)
        return cls(
            clauses=(*within, *_clauses(which)),
            within=tuple(within),
            order=_ORDERS[order],
            reverse=bool(which["reverse"]),
            limit=limit,
            offset=offset,
        )


def _namespaces(which: Mapping[str, Any]) -> list[sql.Clause]:
    clauses = [
        *_beginning(_pattern(which["prefix"], "prefix")),
        *_ending(_pattern(which["suffix"], "suffix")),
    ]
    if (namespace := which["namespace"]) is not None:
        clauses.append(_whole(_pattern(namespace, "namespace")))
    return clauses


def _clauses(which: Mapping[str, Any]) -> list[sql.Clause]:
    clauses = []
    if key_prefix := check_segment(which["key_prefix"], "key_prefix"):
        clauses.append(sql.starts_with("id", key_prefix))
    if (bound := which["after"]) is not None:
        clauses.append(sql.after("id", check_segment(bound, "after")))
    if (bound := which["before"]) is not None:
        clauses.append(sql.before("id", check_segment(bound, "before")))
    if named := sql.filtered(which["filter"], columns=ITEM_FIELDS):
        clauses.append(named)
    return clauses


def _pattern(segments: Any, where: str) -> list[str | None]:
    """The segments of a path in plain types; None stands for any segment."""
    return [
        None if one is None else check_segment(one, f"{where}[{index}]")
        for index, one in enumerate(listed(segments, where))
    ]


def _beginning(pattern: Sequence[str | None]) -> list[sql.Clause]:
    literal = encoded(head := _head(pattern))
    # All that begins so lies between these, so that an index on the namespace can tell.
    clauses = (
        [
            sql.at_or_after("namespace", literal),
            sql.before("namespace", literal[:-1] + chr(1)),
        ]
        if head
        else []
    )
    if len(head) < len(pattern):
        clauses.append(sql.matches("namespace", f"^{_regex(pattern)}"))
    return clauses


def _ending(pattern: Sequence[str | None]) -> list[sql.Clause]:
    if not pattern:
        return []
    if len(_head(pattern)) < len(pattern):
        return [sql.matches("namespace", rf"(?:^|\x00){_regex(pattern)}", to_end=True)]
    literal = encoded([one for one in pattern if one is not None])
    return [
        sql.any_of(
            [
                sql.equals("namespace", literal),
                sql.ends_with("namespace", chr(0) + literal),
            ]
        )
    ]


def _whole(pattern: Sequence[str | None]) -> sql.Clause:
    if len(head := _head(pattern)) == len(pattern):
        return sql.equals("namespace", encoded(head))
    named = sql.matches("namespace", f"^{_regex(pattern)}", to_end=True)
    return sql.all_of([*_beginning(head), named])


def _head(pattern: Sequence[str | None]) -> list[str]:
    """What stands before the first wildcard."""
    head = []
    for segment in pattern:
        if segment is None:
            break
        head.append(segment)
    return head


def _regex(pattern: Sequence[str | None]) -> str:
    return "".join(
        r"[^\x00]*\x00" if one is None else rf"{_SPECIAL.sub(_ESCAPED, one)}\x00" for one in pattern
    )
