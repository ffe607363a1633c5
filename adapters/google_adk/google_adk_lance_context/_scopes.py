"""The part of the store that belongs to a user, and errors in ADK's class."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from google.adk.errors.input_validation_error import InputValidationError

from lance_context_core import AsyncContextStore, InvalidRequestError
from lance_context_core.adapting import Handle, StoreLike

_EMPTY = "∅"
"""Stands for the empty name, which is a user in ADK and none in a store."""


@contextmanager
def refusing() -> Iterator[None]:
    """Raises InputValidationError for what the store refuses; nothing was written then."""
    try:
        yield
    except InvalidRequestError as error:
        raise InputValidationError(str(error)) from error


class Users:
    """A store, and the part of it that belongs to each user of an app."""

    def __init__(self, handle: Handle, *, agent_id: str | None, tenant: str | None) -> None:
        with refusing():
            self.all = handle.aio if tenant is None else handle.aio.scope(tenant=tenant)
        if agent_id is not None and not isinstance(agent_id, str):
            raise InputValidationError(f"agent_id={agent_id!r:.80}: give a text, or None")
        self._agent_id = agent_id

    def of(self, user_id: str) -> AsyncContextStore:
        """The part of one user. Raises InputValidationError for what cannot be a user."""
        with refusing():
            return self.all.scope(user_id=name_of(user_id))

    def agent(self, app_name: str) -> str:
        """The agent of the rows of an app: the app, unless the service was given another one."""
        text_of(app_name, "app_name")
        return app_name if self._agent_id is None else self._agent_id


def handle_of(store: StoreLike, embedder: Any) -> Handle:
    """A handle of what the caller gave. Raises InputValidationError for anything but a store."""
    with refusing():
        return Handle(store, embedder=embedder)


def name_of(user_id: str) -> str:
    """The name of a user's scope, another one for each user."""
    text_of(user_id, "user_id")
    return _EMPTY + user_id if not user_id or user_id.startswith(_EMPTY) else user_id


def user_of(name: str | None) -> str:
    """The user of a scope, the reverse of `name_of`."""
    return (name or "").removeprefix(_EMPTY)


def text_of(value: object, name: str) -> str:
    """The value, if it is a text. Raises InputValidationError else."""
    if not isinstance(value, str):
        raise InputValidationError(f"{name}={value!r:.80}: give a text")
    return value
