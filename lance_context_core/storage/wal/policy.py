"""When small writes go into the journal, and when what it holds is folded into the tables."""

from datetime import timedelta

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError


@frozen_by_name
class JournalPolicy:
    """What the journal of a store in a directory takes, and for how long it keeps it.

    A fold is one commit to a table, whatever it brings, and each commit adds to every later manifest:
    so folds are to bring many rows. What waits is merged into each read, which costs by the row.
    """

    rows: int = 512
    """A table's rows are folded once there are so many."""
    bytes: int = 4 * 1024 * 1024
    """Or so many bytes of them."""
    batch_rows: int = 128
    """A call that brings more is a commit of its own: by then a commit costs less than the rows."""
    batch_bytes: int = 1024 * 1024
    """So is one that brings more bytes."""
    idle: timedelta = timedelta(minutes=5)
    """What was left alone for so long is folded, by a process that wrote and is still there."""

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for settings of no sense."""
        for name in ("rows", "bytes", "batch_rows", "batch_bytes"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidRequestError(f"{name}={value!r}: give a whole number, 1 or more")
        if not isinstance(self.idle, timedelta) or self.idle <= timedelta(0):
            raise InvalidRequestError(f"idle={self.idle!r}: give a timedelta of more than 0")


DEFAULT_JOURNAL = JournalPolicy()
