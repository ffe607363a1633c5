"""Errors of the store in the framework's classes."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent_framework.exceptions import (
    IntegrationInvalidRequestException,
    WorkflowCheckpointException,
)

from lance_context_core import AsyncContextStore, InvalidRequestError
from lance_context_core.adapting import Handle


class RefusedError(IntegrationInvalidRequestException, ValueError):
    """An argument that the store cannot accept: nothing was written."""


@contextmanager
def as_integration_errors() -> Iterator[None]:
    """Raises IntegrationInvalidRequestException, also a ValueError, for refused arguments."""
    try:
        yield
    except InvalidRequestError as error:
        raise RefusedError(str(error)) from error


@contextmanager
def as_checkpoint_errors() -> Iterator[None]:
    """Raises WorkflowCheckpointException for refused arguments."""
    try:
        yield
    except InvalidRequestError as error:
        raise WorkflowCheckpointException(str(error)) from error


def scoped(handle: Handle, *, tenant: str | None, user_id: str | None) -> AsyncContextStore:
    """Returns the part of the store that an owner has. Raises RefusedError for bad names."""
    with as_integration_errors():
        return handle.aio.scope(tenant=tenant, user_id=user_id)
