"""What the store says of its parameters, in the words of LlamaIndex's, and checks of these."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lance_context_core import Document, InvalidRequestError


@contextmanager
def in_words(*words: tuple[str, str | Callable[[re.Match[str]], str]]) -> Iterator[None]:
    """Say what the store refuses in other words: by patterns, what stands for what they match."""
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
    """Call the node that cannot be written by its id, not by its place among the documents."""

    def name(match: re.Match[str]) -> str:
        return f"node {id_of(documents[int(match[1])])!r:.80}: "

    with in_words((r"^documents\[(\d+)\]\.?", name)):
        yield


def check_count(value: Any, name: str) -> int:
    """A number of things, which may be none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidRequestError(f"{name}={value!r:.80}: give a number, 0 or more")
    return value


def check_share(value: Any, name: str, *, zero: str, one: str) -> float:
    """A number from 0 to 1; `zero` and `one` say what these mean."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidRequestError(
            f"{name}={value!r:.80}: give a number from 0 ({zero}) to 1 ({one})"
        )
    return value
