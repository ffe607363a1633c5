"""What is promised of entities and their relations."""

import builtins
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from lance_context_core.records.graph import Entity, Relation, SubGraph


@runtime_checkable
class GraphStore(Protocol):
    """Entities, and directed relations between them."""

    async def add_entities(self, entities: Sequence[Entity]) -> builtins.list[Entity]:
        """Add entities, or replace those of the same ids; returns them with their ids.

        What is called alike, of one type, and is given no id, is the same.
        """

    async def add_relations(self, relations: Sequence[Relation]) -> builtins.list[Relation]:
        """Add relations, or replace those of the same ids; returns them with their ids.

        Raises NotFoundError, before anything is written, for an end that is not there.
        """

    async def get(self, entity_id: str) -> Entity | None:
        """An entity; None if there is none."""

    async def get_relation(self, relation_id: str) -> Relation | None:
        """A relation; None if there is none."""

    async def neighbours(
        self,
        entity_id: str,
        *,
        depth: int = 1,
        types: str | Sequence[str] | None = None,
        direction: Literal["out", "in", "both"] = "both",
    ) -> SubGraph:
        """An entity first, then what is within so many relations of it, the nearest first.

        With all relations that were walked, of these types alone. Raises NotFoundError if there is no
        such entity.
        """

    async def delete_entity(self, entity_id: str) -> bool:
        """Remove an entity with its relations; returns whether it was there."""

    async def delete_relation(self, relation_id: str) -> bool:
        """Remove a relation; returns whether it was there. Its ends stay."""


@runtime_checkable
class CypherCapable(Protocol):
    """What can be asked in Cypher, for reading."""

    async def cypher(
        self, query: str, *, parameters: Mapping[str, Any] | None = None
    ) -> builtins.list[dict[str, Any]]:
        """The rows that the query returns, by the names of its columns; a `$name` is a parameter.

        Raises InvalidRequestError for what writes, or cannot be answered.
        """
