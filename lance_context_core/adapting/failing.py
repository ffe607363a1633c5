"""A middleware's option `on_error`: whether an agent's run continues if its memory fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from logging import Logger
from typing import Literal, TypeAlias

from lance_context_core.errors import (
    ContextStoreError,
    InvalidRequestError,
    MissingExtraError,
    ReadOnlyError,
    StoreClosedError,
)

OnError: TypeAlias = Literal["log", "raise"]
"""`"log"`: an error of the store is logged as a warning, and the run continues without the memory.
`"raise"`: the run fails with it."""


def check_on_error(on_error: object) -> OnError:
    """Returns `on_error`. Raises InvalidRequestError unless it is 'log' or 'raise'."""
    if on_error == "log":
        return "log"
    if on_error == "raise":
        return "raise"
    raise InvalidRequestError(f"on_error={on_error!r:.80}: give 'log' or 'raise'")


@contextmanager
def going_on(on_error: OnError, problem: str, log: Logger) -> Iterator[None]:
    """Logs an error of the store that ends the block, with `problem`, and continues after it.

    With "raise" it raises the error. Errors that persist in later runs are always raised:
    InvalidRequestError, StoreClosedError, ReadOnlyError, MissingExtraError.
    """
    try:
        yield
    except (InvalidRequestError, StoreClosedError, ReadOnlyError, MissingExtraError):
        raise
    except ContextStoreError:
        if on_error == "raise":
            raise
        log.warning("%s", problem, exc_info=True)
