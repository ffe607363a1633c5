"""Many values, as they are handed over."""

from collections.abc import Iterable, Mapping
from typing import Any

from lance_context_core import InvalidRequestError


def listed(values: object, where: str) -> list[Any]:
    """`values` as a list; an iterator is read once.

    Raises InvalidRequestError, which calls them `where`, for what is not many; a text is one.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidRequestError(f"{where} is {values!r:.80}: give a list")
    return list(values)
