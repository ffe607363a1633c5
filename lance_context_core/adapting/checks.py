"""What a framework's callers pass, checked as the store checks what it is given.

Each takes the value and the name that the error, an InvalidRequestError, shall call it by.
"""

from lance_context_core._checks import (
    check_name,
    check_names,
    listed,
)

__all__ = ["check_name", "check_names", "listed"]
