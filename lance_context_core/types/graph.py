"""What a graph is made of, and what is read out of one."""

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
    """What more may be said of."""

    properties: Mapping[str, Any] = field(default_factory=dict)
    """JSON by key."""


@own_first
@frozen_by_name
class Entity(Described):
    """A person or thing that relations lead to and from."""

    id: str | None = None
    """None has it made of type and name: what is called alike, whatever its case, is the same."""
    name: str
    type: str = "entity"
    """What sort of thing it is, such as `person`; a word of the caller's own."""


@own_first
@frozen_by_name
class Relation(Described):
    """A directed relation between two entities of one scope, which may be the same."""

    id: str | None = None
    """None has it made of both ends, the type and `valid_from`: said again, it is the same."""
    source_id: str
    """The id of the entity that it leads from."""
    target_id: str
    """The id of the entity that it leads to."""
    type: str = "related_to"
    weight: float | None = None
    """Finite, 0 or more; None counts as 1 where weights are added up."""


@own_first
@frozen_by_name
class Mention(Owned):
    """Where an entity is spoken of."""

    source_id: str
    """The record, document or chunk."""
    session_id: str | None = None
    document_id: str | None = None
    text: str
    """What it is called there."""
    start: int | None = None
    """Of the text of the source, in characters; None if that is not known."""
    end: int | None = None
    entity_id: str
    id: str | None = None
    """None has it made of all that."""


@own_first
@frozen_by_name
class Statement(Known):
    """What a source says of an entity: that something of it, the predicate, is this object."""

    id: str | None = None
    """None has it made of all that is said and `valid_from`: said again, it is the same."""
    subject_id: str
    """The id of an entity."""
    predicate: str
    """What of it, such as `deadline`."""
    object: str
    """What is said, in words; the name, where it is an entity."""
    object_id: str | None = None
    """The id of the entity that is meant, where there is one."""
    one_of_many: bool = False
    """Whether there may be several of this at a time, such as friends: then none contradicts."""
    confidence: float | None = None
    """In [0, 1]; None if unknown."""
    superseded_by: str | None = None
    """The id of the statement that has taken its place; what is written is told by the store alone."""
    reason: str | None = None
    """Why it has."""


@frozen_by_name
class Contradiction:
    """Two statements of one subject that cannot both hold; both are kept."""

    subject: Entity
    predicate: str
    earlier: Statement
    later: Statement
    """Valid from later, or, where that does not tell, recorded later."""
    stays: str | None
    """The id of the one that supersedes the other; None while it is undecided."""
    reason: str
    """Why it does, or why it is undecided."""

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
    """That an entity was found to be another one."""

    id: str
    entity: Entity
    """The one that is no more, as it was."""
    into: str
    """The id of the one that stands for both."""
    reason: str
    source_ids: tuple[str, ...]
    """What shows it: records, documents and chunks."""
    at: datetime


@frozen_by_name
class SubGraph:
    """Some entities, and relations between them."""

    entities: tuple[Entity, ...] = ()
    """Those that were asked about first, then the nearest ones first."""
    relations: tuple[Relation, ...] = ()
    """Between these entities; in the order in which they were found."""
    is_cut: bool = False
    """Whether there is more than the limits let in."""

    def __bool__(self) -> bool:
        """Whether there is any entity."""
        return bool(self.entities)

    def to_networkx(self) -> Any:
        """A `networkx.MultiDiGraph` of it: nodes by entity id, edges by relation id.

        What else is known of each is among its attributes. Needs the extra `networkx`.
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
    """A way from one entity to another."""

    entities: tuple[Entity, ...]
    """From the first to the last, both ends among them."""
    relations: tuple[Relation, ...]
    """One between each and the next; it may lead against the way, unless a direction was asked for."""
    cost: float
    """How many relations, or what their weights add up to."""


@frozen_by_name
class Ranked:
    """An entity, and how much there is of what it was ranked by."""

    entity: Entity
    score: float


@frozen_by_name
class Impact:
    """What a change of another entity may reach."""

    entity: Entity
    score: float
    """In (0, 1]: of all ways there, the largest product of what each relation passes on."""
    depth: int
    """The relations on that way."""
    through: Relation
    """The last of them."""
