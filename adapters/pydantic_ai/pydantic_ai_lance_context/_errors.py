"""Errors of the store in Pydantic AI's class, and the scope of one user."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from pydantic import TypeAdapter
from pydantic_ai.exceptions import UserError

from lance_context_core import AsyncContextStore, InvalidRequestError
from lance_context_core.adapting import Handle

T = TypeVar("T")

AGENT = "pydantic-ai"
"""The agent of the history's messages, unless the store is the scope of another one."""


@contextmanager
def user_errors() -> Iterator[None]:
    """Raises UserError for what the store refuses; nothing was written then."""
    try:
        yield
    except InvalidRequestError as error:
        raise UserError(str(error)) from error


def json_of(adapter: TypeAdapter[T], value: T) -> bytes:
    """The JSON of a value. Raises UserError for what Pydantic cannot serialize."""
    try:
        return adapter.dump_json(value)
    except ValueError as error:
        raise UserError(str(error)) from error


def of_user(handle: Handle, user_id: str | None) -> AsyncContextStore:
    """The part of the store that belongs to a user; all of it for None."""
    with user_errors():
        return handle.aio if user_id is None else handle.aio.scope(user_id=user_id)


def agent_of(handle: Handle) -> str:
    """The agent whose messages these are."""
    return handle.scope.agent_id or AGENT
