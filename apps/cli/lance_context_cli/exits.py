"""What a program can tell from how a command ended."""

import sys

OK = 0
NO = 1
"""The answer is no: it differs, or something is wrong with the store or the machine."""
USAGE = 2
"""The request is wrong; the same one can only fail again."""
NOT_FOUND = 3
CONFLICT = 4
"""Others changed what was expected, or a name is taken."""
REFUSED = 5
"""It may not be done here, or was not confirmed."""
INTERRUPTED = 130


def code_of(error: Exception) -> int | None:
    """How a command ends with this error of the store, or of a file; None if it is neither."""
    errors = sys.modules.get("lance_context_core.errors")  # Not there: then it cannot be one.
    if errors is None or not isinstance(error, errors.ContextStoreError):
        return NO if isinstance(error, OSError) else None
    for kind, code in (
        (errors.InvalidRequestError, USAGE),
        (errors.NotFoundError, NOT_FOUND),
        (errors.ConflictError, CONFLICT),
        (errors.AlreadyExistsError, CONFLICT),
        (errors.ReadOnlyError, REFUSED),
    ):
        if isinstance(error, kind):
            return code
    return NO
