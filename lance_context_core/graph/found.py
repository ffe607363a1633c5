"""What is read for a graph, what is found in it, and who finds it."""

from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Protocol

from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.knowledge.values import Counted
from lance_context_core.types.sources import Stretch


@frozen_by_name
class SourceText:
    """A text that entities are looked for in: a message, a chunk, or one of the caller's own."""

    id: str
    """The id of the record or chunk."""
    session_id: str | None = None
    document_id: str | None = None
    said_at: datetime | None = None
    text: str


@own_first
@frozen_by_name
class FoundEntity(Stretch):
    """A place in a text that speaks of an entity."""

    name: str
    """What the entity is called; the same name and type is the same entity."""
    type: str


@frozen_by_name
class FoundRelation:
    """A relation between two entities that were found, by their names."""

    source: str
    target: str
    type: str


@frozen_by_name
class FoundStatement:
    """What the text says of an entity that was found."""

    subject: str
    """Its name."""
    predicate: str
    object: str
    """In words; the name of an entity that was found is that entity."""
    confidence: float | None = None
    """In [0, 1]."""
    valid_from: datetime | None = None
    """Since when it holds, and up to when: None where the text does not tell."""
    valid_to: datetime | None = None
    one_of_many: bool = False


@own_first
@frozen_by_name
class Extracted(Counted):
    """What was found in one text."""

    entities: Sequence[FoundEntity] = ()
    relations: Sequence[FoundRelation] = ()
    """Those whose ends are not among the entities are left out."""
    statements: Sequence[FoundStatement] = ()
    """Those whose subject is not among the entities are left out."""


@own_first
@frozen_by_name
class GraphExtraction(Counted):
    """What an extraction has put into the graph."""

    sources: int
    """How many texts were read."""
    entities: int
    mentions: int
    relations: int
    statements: int


class EntityExtractor(Protocol):
    """Finds entities in a text, and what is said of them, at once or to be awaited."""

    @property
    def name(self) -> str:
        """What it is, with its version."""
        ...

    def extract(self, source: SourceText) -> Extracted | Awaitable[Extracted]:
        """What is found in one text; what blocks runs in a thread."""
        ...
