"""What the sessions of one log share: the last position, and why the log is refused."""

import math
from datetime import timedelta

from lance_context_core.errors import StorageError
from lance_context_core.storage.wal.postgres.server import Server


class Watch:
    """What the sessions of one log share: the position that was seen, and the lock of a flush."""

    def __init__(self, server: Server, read_consistency: timedelta | None) -> None:
        """Has seen nothing."""
        self.server = server
        self.age_seconds = (
            math.inf if read_consistency is None else read_consistency.total_seconds()
        )
        """How old a read may be."""
        self.last = 0
        """The last position that was seen."""
        self.epoch: int | None = None
        """The number of the exclusive lock that this process has; None if it has none."""
        self.lost = ""
        """Why the log is refused; empty if it is not."""

    def see(self, last: int | None) -> None:
        """Note the last position. Raises StorageError if there is none, or it went back."""
        if last is None:
            self.lost = f"the journal in PostgreSQL at {self.server.address.host!r} {UNKNOWN}"
        elif last < self.last:
            self.lost = (
                f"the journal in PostgreSQL at {self.server.address.host!r} {WENT_BACK} from position "
                f"{self.last} to {last}, as after a failover or a restore that lost transactions"
            )
        else:
            self.last = last
            return
        self.require()

    def require(self) -> None:
        """Raise StorageError if the log is refused."""
        if self.lost:
            raise StorageError(f"{self.lost}: nothing is read or written. {WAY_OUT}")


UNKNOWN = "does not know this store any more"
WENT_BACK = "went back"
WAY_OUT = "Restore the database, or call accept_loss(), and the store goes on without what was not flushed"
LOST_LOCK = (
    "the journal in PostgreSQL at {!r}: this process lost its lock of the store to another one, as after "
    "an end of its connection, and committed nothing more. Repeat the call"
)
