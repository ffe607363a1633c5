"""Validates pairs of arguments."""

from typing import Any

from lance_context_core import InvalidRequestError
from lance_context_core.adapting import listed


def pairs(values: object, where: str) -> list[tuple[str, Any]]:
    """`values` as a list of pairs that begin with a text.

    Raises InvalidRequestError, with the name `where`, for anything else.
    """
    found = listed(values, where)
    for number, one in enumerate(found):
        if not isinstance(one, tuple | list) or len(one) != 2 or not isinstance(one[0], str):
            raise InvalidRequestError(
                f"{where}[{number}] is {one!r:.80}: give a pair of a text and a value"
            )
    return found
