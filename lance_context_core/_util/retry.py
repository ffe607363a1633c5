"""Trying again: what others prevented by being faster, or by removing what was just being read.

Nothing waits between two tries. Whoever lost has lost to somebody who got on, and finds out at the next
try what is there now; a pause would only let more come between.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from lance_context_core._util.logs import log
from lance_context_core.errors import ConflictError

T = TypeVar("T")

ATTEMPTS = 20
"""How often a change of some rows is tried where others change the same ones. Each loss is somebody
else's success, so that many in a row take as many writers who want these very rows at this moment."""

FEW_ATTEMPTS = 10
"""The same where a try is dear, such as one that writes a table anew, and where only a short moment of
somebody else's work is in the way."""


class Attempts:
    """Counts the tries of a loop that looks for itself whether it is done, and begins each with `begin`.

    It is for work that carries on what the tries before have done.
    """

    def __init__(self, problem: str, n: int = ATTEMPTS) -> None:
        """Allow `n`; `problem` says what went wrong each time, such as "… kept being changed"."""
        self.problem = problem
        self._n_left = n

    def begin(self) -> None:
        """Begin the next one. Raises ConflictError after the last."""
        if self._n_left == 0:
            raise ConflictError(f"{self.problem}: try again")
        self._n_left -= 1


async def retried(
    work: Callable[[], Awaitable[T]],
    *,
    on: type[Exception] | tuple[type[Exception], ...],
    attempts: int = ATTEMPTS,
    between: Callable[[Exception], Awaitable[object]] | None = None,
    meant: Callable[[Exception], Exception] | None = None,
) -> T:
    """What `work` returns, which is tried again while it raises an error of the kinds `on`.

    What the last attempt raises is raised, and all that is of another kind. `between` prepares the
    next attempt; an error that cannot be overcome is raised by it. `meant` says what an error means, in
    whose place that is looked at, and raised.
    """
    n_tried = 0
    while True:
        try:
            return await work()
        except Exception as error:
            n_tried += 1
            failure = error if meant is None else meant(error)
            if n_tried == attempts or not isinstance(failure, on):
                if failure is error:
                    raise
                raise failure from error
            log.debug("try %d of %d ended with %s", n_tried, attempts, type(failure).__name__)
            if between is not None:
                await between(failure)
