"""Values of a graph, and results of its queries."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from lance_context_core._util.extras import importing
from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.types.records import Known, Owned


@own_first
@frozen_by_name
class Described(Known):
    """A value with properties."""

    properties: Mapping[str, Any] = field(default_factory=dict)
    """JSON by key."""


@own_first
@frozen_by_name
class Entity(Described):
    """A person or thing, the end of relations."""

    id: str | None = None
    """None derives it from type and name: names that differ only in case are one entity."""
    name: str
    type: str = "entity"
    """The type, such as `person`; chosen by the caller."""


@own_first
@frozen_by_name
class Relation(Described):
    """A directed relation between two entities of one scope, which may be the same."""

    id: str | None = None
    """None derives it from both ends, the type and `valid_from`, so a repeated relation is one."""
    source_id: str
    """The id of the source entity."""
    target_id: str
    """The id of the target entity."""
    type: str = "related_to"
    weight: float | None = None
    """Finite, 0 or more; None counts as 1 in sums of weights."""


@own_first
@frozen_by_name
class Mention(Owned):
    """A mention of an entity in a source."""

    source_id: str
    """The record, document or chunk."""
    session_id: str | None = None
    document_id: str | None = None
    text: str
    """The name used in the source."""
    start: int | None = None
    """The offsets in the text of the source, in characters; None if unknown."""
    end: int | None = None
    entity_id: str
    id: str | None = None
    """None derives it from the other fields."""


@own_first
@frozen_by_name
class Statement(Known):
    """A statement of a source about an entity: subject, predicate, object."""

    id: str | None = None
    """None derives it from the other fields and `valid_from`, so a repeated statement is one."""
    subject_id: str
    """The id of an entity."""
    predicate: str
    """The property, such as `deadline`."""
    object: str
    """The value as text; the name, if it is an entity."""
    object_id: str | None = None
    """The id of the object entity, if the object is one."""
    one_of_many: bool = False
    """Whether several values may hold at a time, such as friends; then none contradict."""
    confidence: float | None = None
    """In [0, 1]; None if unknown."""
    superseded_by: str | None = None
    """The id of the statement that supersedes it; set by the store, ignored in writes."""
    reason: str | None = None
    """The reason."""


@frozen_by_name
class Contradiction:
    """Two statements of one subject that cannot both hold; both are kept."""

    subject: Entity
    predicate: str
    earlier: Statement
    later: Statement
    """The one with the later `valid_from`, or if equal the one recorded later."""
    stays: str | None
    """The id of the statement that supersedes the other; None while undecided."""
    reason: str
    """The reason for the decision, or for its absence."""

    @property
    def is_settled(self) -> bool:
        """Whether one of them supersedes the other."""
        return self.stays is not None


@frozen_by_name
class RelationConflict:
    """Two relations of a type that cannot both hold; both are kept."""

    entity: Entity
    """The entity that both share."""
    earlier: Relation
    later: Relation
    """Valid from later, or recorded later if that is the same."""


@frozen_by_name
class AliasProposal:
    """Two entities that may be one; `merge` makes them one."""

    entity: Entity
    """Of the two, the one added earlier."""
    other: Entity
    score: float
    """In [0, 1]: how likely it is."""
    reason: str


@frozen_by_name
class Merger:
    """A merger of two entities that are the same."""

    id: str
    entity: Entity
    """The removed entity, as it was."""
    into: str
    """The id of the remaining entity."""
    reason: str
    source_ids: tuple[str, ...]
    """The ids of the records, documents and chunks that prove it."""
    at: datetime


@frozen_by_name
class SubGraph:
    """A set of entities with relations between them."""

    entities: tuple[Entity, ...] = ()
    """The start entities first, then by distance."""
    relations: tuple[Relation, ...] = ()
    """Relations between these entities, in the order of the traversal."""
    is_cut: bool = False
    """Whether the limits cut off the result."""

    def __bool__(self) -> bool:
        """Whether the subgraph has an entity."""
        return bool(self.entities)

    def to_networkx(self) -> Any:
        """A `networkx.MultiDiGraph` of it: nodes by entity id, edges by relation id.

        Other fields are attributes. Needs the extra `networkx`.
        """
        with importing("networkx", extra="networkx", by="SubGraph.to_networkx"):
            import networkx as nx
        made = nx.MultiDiGraph()
        for one in self.entities:
            made.add_node(one.id, name=one.name, type=one.type, properties=dict(one.properties))
        for edge in self.relations:
            weight = 1.0 if edge.weight is None else edge.weight
            made.add_edge(
                *(edge.source_id, edge.target_id, edge.id),
                type=edge.type,
                weight=weight,
                properties=dict(edge.properties),
            )
        return made


@frozen_by_name
class Path:
    """A path from one entity to another."""

    entities: tuple[Entity, ...]
    """From the first to the last, including both ends."""
    relations: tuple[Relation, ...]
    """One relation between each pair; in either direction, unless a direction was requested."""
    cost: float
    """The number of relations, or the sum of their weights."""


@frozen_by_name
class Ranked:
    """An entity with the score of its ranking."""

    entity: Entity
    score: float


@frozen_by_name
class Impact:
    """An entity that a change of another one may affect."""

    entity: Entity
    score: float
    """In (0, 1]: the largest product of the relations' shares over all paths."""
    depth: int
    """The relations on that path."""
    through: Relation
    """The last relation."""
