"""The policy of the log: which writes go into it, and when it is flushed."""

from dataclasses import field
from datetime import timedelta

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError


@frozen_by_name
class JournalPolicy:
    """The limits of the write-ahead log of a store in a directory.

    A flush is one commit to a table, however many rows it brings, and each commit enlarges every
    later manifest: so a flush should bring many rows. Each read merges the waiting rows, at a cost
    per row.
    """

    rows: int = 512
    """The number of a table's rows that triggers a flush."""
    bytes: int = 4 * 1024 * 1024
    """The number of their bytes that triggers a flush."""
    batch_rows: int = 128
    """A call with more rows is a commit of its own: by then a commit costs less than the rows."""
    batch_bytes: int = 1024 * 1024
    """A call with more bytes is a commit of its own."""
    idle: timedelta = timedelta(minutes=5)
    """The idle time after which a process that wrote, and still runs, flushes."""

    address: str | None = field(default=None, repr=False)
    """The address of the PostgreSQL database that has the log; None: a file in the directory.

    It may hold a password, so that it is in no `repr`, error or log.
    """

    def __post_init__(self) -> None:
        """Raise InvalidRequestError for invalid settings."""
        if self.address is not None and not isinstance(self.address, str):
            raise InvalidRequestError(f"address of {type(self.address)}: give a text, or None")
        for name in ("rows", "bytes", "batch_rows", "batch_bytes"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidRequestError(f"{name}={value!r}: give a whole number, 1 or more")
        if not isinstance(self.idle, timedelta) or self.idle <= timedelta(0):
            raise InvalidRequestError(f"idle={self.idle!r}: give a timedelta of more than 0")


DEFAULT_JOURNAL = JournalPolicy()


def policy_of(journal: JournalPolicy | str | None) -> JournalPolicy | None:
    """The policy that `journal` names; a text is the address of a database."""
    return JournalPolicy(address=journal) if isinstance(journal, str) else journal
