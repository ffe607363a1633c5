"""The forms in which a store is written out, and what is told of it."""

from collections.abc import Callable
from dataclasses import field
from typing import Literal, TypeAlias

from lance_context_core._util.frozen import frozen
from lance_context_core.types import Progress

ExportFormat = Literal["jsonl", "parquet", "openai", "langchain"]
"""How a store is written out: all of it, or its conversations as a framework keeps them."""

Telling: TypeAlias = Callable[[Progress], object]
"""What is told how far a call has come."""


@frozen
class Exported:
    """What was written out."""

    rows: dict[str, int] = field(default_factory=dict)
    """By table; of conversations the messages."""

    @property
    def n_rows(self) -> int:
        """All of them."""
        return sum(self.rows.values())


@frozen
class Imported:
    """What was read in."""

    added: dict[str, int] = field(default_factory=dict)
    """The rows that are new, by table; of conversations the messages."""
    there: dict[str, int] = field(default_factory=dict)
    """Those that were there already, which stayed as they were."""

    @property
    def n_added(self) -> int:
        """All that are new."""
        return sum(self.added.values())
