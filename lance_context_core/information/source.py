"""What the rows of the tables are made of."""

from dataclasses import dataclass, replace

from lance_context_core.knowledge import params
from lance_context_core.stores.records.scoped import Records


@dataclass(frozen=True)
class OfRecords:
    """Rows made of the records of one handle."""

    spoken: Records

    @property
    def made(self) -> Records:
        """What is made of what was said."""
        return replace(self.spoken, context=params.CONTEXT)
