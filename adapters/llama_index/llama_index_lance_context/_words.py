"""Translates the store's errors to LlamaIndex's parameter names, and validates parameters."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lance_context_core import Document, InvalidRequestError


@contextmanager
def in_words(*words: tuple[str, str | Callable[[re.Match[str]], str]]) -> Iterator[None]:
    """Rewords errors of the store: patterns with their replacements."""
    try:
        yield
    except InvalidRequestError as error:
        said = str(error)
        for pattern, replacement in words:
            said = re.sub(pattern, replacement, said)
        if said == str(error):
            raise
        raise type(error)(said) from error


@contextmanager
def in_words_of(
    documents: Sequence[Document], *, id_of: Callable[[Document], str] = lambda one: one.id or ""
) -> Iterator[None]:
    """Names a node that cannot be written by its id, instead of its position."""

    def name(match: re.Match[str]) -> str:
        return f"node {id_of(documents[int(match[1])])!r:.80}: "

    with in_words((r"^documents\[(\d+)\]\.?", name)):
        yield


def check_count(value: Any, name: str) -> int:
    """A count, which may be zero."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidRequestError(f"{name}={value!r:.80}: give a number, 0 or more")
    return value


def check_share(value: Any, name: str, *, zero: str, one: str) -> float:
    """A number from 0 to 1; `zero` and `one` describe these bounds in errors."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidRequestError(
            f"{name}={value!r:.80}: give a number from 0 ({zero}) to 1 ({one})"
        )
    return value
