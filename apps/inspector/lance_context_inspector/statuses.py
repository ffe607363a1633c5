"""Which status of HTTP says what an error of the store says."""

from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    ContextStoreError,
    InvalidRequestError,
    MissingExtraError,
    NotFoundError,
    ReadOnlyError,
)

_STATUS = (
    (NotFoundError, 404),
    (ReadOnlyError, 409),
    (ConflictError, 409),
    (AlreadyExistsError, 409),
    (InvalidRequestError, 400),
    (MissingExtraError, 501),
)


def status_of(error: Exception) -> int:
    """The status of an error; 500 for one of the store that is none of these, 400 for all else."""
    if isinstance(error, ContextStoreError):
        return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    return 400
