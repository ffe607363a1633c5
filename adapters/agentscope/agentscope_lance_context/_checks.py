"""Validates options."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from lance_context_core import InvalidRequestError


def check_choice(value: object, where: str, *choices: str) -> str:
    """`value`, which is one of the `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidRequestError(f"{where}={value!r:.80}: use one of {', '.join(choices)}")
    return value


def check_count(value: object, where: str) -> int | None:
    """A number from 1 on, or None."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise InvalidRequestError(f"{where}={value!r:.80}: give a whole number, 1 or more, or None")
    return value


def check_seconds(value: object, where: str) -> timedelta | None:
    """A duration above zero, or None."""
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # NaN is not above zero either.
    if not is_number or not 0 < value <= timedelta.max.total_seconds():  # type: ignore[operator]  # it is one
        raise InvalidRequestError(f"{where}={value!r:.80}: give seconds, more than 0, or None")
    return timedelta(seconds=value)  # type: ignore[arg-type]  # it is a number


def filtered(filters: Mapping[str, Any] | None, name: str, default: int) -> int:
    """The integer of that name in AgentScope's filters."""
    value = (filters or {}).get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequestError(f"filters[{name!r}]={value!r:.80}: give a whole number")
    return value


def page_of(filters: Mapping[str, Any] | None) -> tuple[int, int]:
    """The page number, from 1, and the page size, 10 by default."""
    return filtered(filters, "page_num", 1), filtered(filters, "page_size", 10)
