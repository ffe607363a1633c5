"""Errors of the store in the classes of the SDK."""

from collections.abc import Iterator
from contextlib import contextmanager

from agents import UserError

from lance_context_core import InvalidRequestError


@contextmanager
def as_user_errors() -> Iterator[None]:
    """Raises UserError in place of InvalidRequestError."""
    try:
        yield
    except InvalidRequestError as error:
        raise UserError(str(error)) from error
