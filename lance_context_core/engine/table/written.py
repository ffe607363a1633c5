"""How much was written to a table since somebody looked after it."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(slots=True)
class Written:
    """Commits, rows and bytes; about so many, as several threads may count at once.

    A commit that is tried again on top of another's counts its rows twice.
    """

    commits: int = 0
    rows: int = 0
    bytes: int = 0
    """Of the rows in memory."""

    def note(self, rows: pa.Table) -> None:
        """Count rows that are handed to the engine."""
        self.rows += rows.num_rows
        self.bytes += rows.nbytes
