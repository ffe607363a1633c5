"""Translates a model's structured query for SelfQueryRetriever."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from langchain_core.structured_query import (
    Comparator,
    Comparison,
    Operation,
    Operator,
    StructuredQuery,
    Visitor,
)

from lance_context_core.errors import FilterError

_OPERATORS = {Operator.AND: "$and", Operator.OR: "$or", Operator.NOT: "$not"}
_COMPARATORS = {
    Comparator.EQ: "$eq",
    Comparator.NE: "$ne",
    Comparator.GT: "$gt",
    Comparator.GTE: "$gte",
    Comparator.LT: "$lt",
    Comparator.LTE: "$lte",
    Comparator.CONTAIN: "$contains",
    Comparator.LIKE: "$text",
    Comparator.IN: "$in",
    Comparator.NIN: "$nin",
}


class LanceContextTranslator(Visitor):
    """Translates structured queries for `LanceContextVectorStore`.

    An attribute is a key of the metadata. `like` finds a part of a text, ignoring case; `%` may be
    at its ends. A day, as models write dates, is the whole day: it is compared with dates, with
    datetimes (naive, or in UTC), and with ISO 8601 texts, whichever the metadata has. A datetime
    without a zone is in UTC where the metadata has one.

    Raises FilterError, a ValueError, for an invalid pattern or date.
    """

    allowed_operators = tuple(_OPERATORS)
    allowed_comparators = tuple(_COMPARATORS)

    def visit_operation(self, operation: Operation) -> dict[str, Any]:
        """The filter that requires all, at least one, or none of its arguments."""
        self._validate_func(operation.operator)
        arguments = [one.accept(self) for one in operation.arguments]
        return {_OPERATORS[operation.operator]: arguments}

    def visit_comparison(self, comparison: Comparison) -> dict[str, Any]:
        """The filter that compares an attribute with a value."""
        self._validate_func(comparison.comparator)
        key, value = f"metadata.{comparison.attribute}", comparison.value
        match comparison.comparator:
            case Comparator.LIKE:
                return {key: {"$text": _part(comparison)}}
            case Comparator.NE:
                return {"$not": [_compared(key, "$eq", value)]}
            case Comparator.IN | Comparator.NIN:
                values = (
                    value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
                )
                among = [_compared(key, "$eq", one) for one in values]
                return {"$or" if comparison.comparator is Comparator.IN else "$not": among}
            case comparator:
                return _compared(key, _COMPARATORS[comparator], value)

    def visit_structured_query(
        self, structured_query: StructuredQuery
    ) -> tuple[str, dict[str, Any]]:
        """The query, and the keywords of the search, with `filter` if any."""
        filter = structured_query.filter
        return structured_query.query, {} if filter is None else {"filter": filter.accept(self)}


def _compared(key: str, operator: str, value: Any) -> dict[str, Any]:
    """The condition; for a time, on each type that metadata may have."""
    if not isinstance(value, Mapping) or value.get("type") not in {"date", "datetime"}:
        return {key: {operator: value}}
    if value["type"] == "date":
        return {"$or": [{key: _within(operator, *span)} for span in _day(value["date"])]}
    return {"$or": [{key: {operator: moment}} for moment in _moments(value["datetime"])]}


def _day(text: str) -> list[tuple[Any, Any]]:
    """The beginnings of a day and of the next one, in each type."""
    try:
        first = date.fromisoformat(text)
        days = first, first + timedelta(days=1)
    except (TypeError, ValueError, OverflowError) as error:
        raise FilterError(f"{text!r:.80} is not a date: it must be like 2026-01-31") from error
    return [
        days,
        (datetime.combine(days[0], time()), datetime.combine(days[1], time())),
        (datetime.combine(days[0], time(), UTC), datetime.combine(days[1], time(), UTC)),
        (days[0].isoformat(), days[1].isoformat()),
    ]


def _within(operator: str, start: Any, end: Any) -> dict[str, Any]:
    """The comparison of a value with the range from `start` to before `end`."""
    spans = {
        "$eq": {"$gte": start, "$lt": end},
        "$gt": {"$gte": end},
        "$gte": {"$gte": start},
        "$lt": {"$lt": start},
        "$lte": {"$lt": end},
    }
    return spans.get(operator) or {operator: start}


def _moments(text: str) -> list[Any]:
    """A moment, in each type."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise FilterError(
            f"{text!r:.80} is not a time: it must be like 2026-01-31T12:00:00"
        ) from error
    if moment.utcoffset() is None:
        return [moment, moment.replace(tzinfo=UTC), text]
    return [moment, text]


def _part(comparison: Comparison) -> str:
    """The text of a pattern."""
    pattern = comparison.value
    part = pattern.removeprefix("%").removesuffix("%") if isinstance(pattern, str) else "%"
    if "%" in part:
        raise FilterError(
            f"like on {comparison.attribute!r} takes a part of a text, with % before and after it "
            f"alone, not {pattern!r:.80}"
        )
    return part
