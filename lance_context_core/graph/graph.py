"""The graph of a store: what hangs together with what, as far as a handle may see it."""

import builtins
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from lance_context_core._handle import handle
from lance_context_core._progress import check_progress, tell_written
from lance_context_core._util import cooperative as steps
from lance_context_core._util.checks import check_name, check_span
from lance_context_core.codecs import graph as rows
from lance_context_core.codecs.graph import ENTITY, MENTION, RELATION, STATEMENT
from lance_context_core.errors import NotFoundError
from lance_context_core.graph import cypher, extraction, writing
from lance_context_core.graph.contradictions import AsyncStatements
from lance_context_core.graph.cypher import AsyncWalks, Parameter, Types, within
from lance_context_core.graph.model import EntityExtractor, GraphExtraction, SourceText
from lance_context_core.graph.scoped import Moment, entity_of, mention_of, of_types, relation_of
from lance_context_core.graph.writing import Batch
from lance_context_core.storage import sql
from lance_context_core.types import Progress
from lance_context_core.types.graph import Entity, Mention, Merger, Relation

T = TypeVar("T")


@handle
class AsyncGraph(AsyncWalks):
    """Entities, the relations between them, and where they are spoken of; satisfies `GraphStore` and `CypherCapable`.

    What a call writes is one commit. Of what has changed in time a read shows all, unless `at` or
    `known_at` are given: what holds at that moment, and what was known then. A store to which no caller
    added an entity has none.
    """

    # Writing

    async def add_entities(self, entities: Sequence[Entity]) -> builtins.list[Entity]:
        """Add entities, or replace those of the same ids; returns them as they are known now.

        What an entity was known from before it is still known from. Raises InvalidRequestError,
        before anything is written, for what cannot be kept.
        """
        return await Batch(self._graph).add(entities, Entity, "entities")

    async def add_relations(self, relations: Sequence[Relation]) -> builtins.list[Relation]:
        """As `add_entities`, with relations between entities that are there.

        Raises NotFoundError, before anything is written, for an end that is not.
        """
        return await Batch(self._graph).add(relations, Relation, "relations")

    async def add_mentions(self, mentions: Sequence[Mention]) -> builtins.list[Mention]:
        """As `add_relations`, with places where entities are spoken of."""
        return await Batch(self._graph).add(mentions, Mention, "mentions")

    async def add(
        self,
        entities: Sequence[Entity] = (),
        relations: Sequence[Relation] = (),
        *,
        mentions: Sequence[Mention] = (),
        progress: Callable[[Progress], object] | None = None,
    ) -> None:
        """Add entities, relations between them, and where they are spoken of, in one commit.

        `progress` is called as they are made ready, up to 10,000 at a time, and once all are
        written; what it raises before that, as cancelling does, ends the call, and nothing is
        written.
        """
        check_progress(progress)
        batch = Batch(self._graph, progress=progress)
        await batch.take(entities, Entity, "entities")
        await batch.take(relations, Relation, "relations")
        await batch.take(mentions, Mention, "mentions")
        await batch.write()
        await tell_written(progress, len(batch.things), "things")

    async def delete_entity(self, entity_id: str) -> bool:
        """Remove an entity and all that leads to it; returns whether it was there.

        Older versions of the store still have it: `AsyncContextStore.erase` removes what was said.
        """
        return await writing.delete(self._graph, entity_id, ENTITY, "entity_id")

    async def delete_relation(self, relation_id: str) -> bool:
        """Remove a relation; returns whether it was there. Its ends stay."""
        return await writing.delete(self._graph, relation_id, RELATION, "relation_id")

    async def forget(self, source_ids: Sequence[str]) -> int:
        """Let nothing be known from these records, documents or chunks; returns how much went.

        What is known from nowhere else goes, in one commit, and with an entity all that leads to it.
        `AsyncContextStore.erase` does the same where it erases a record, in all versions.
        """
        return await writing.forget(self._graph, source_ids)

    # Reading

    async def get(self, entity_id: str) -> Entity | None:
        """An entity; None if there is none. What was merged into another one is that one."""
        try:
            nodes = await self._graph.starts(entity_id, "entity_id")
        except NotFoundError:
            return None
        return next(iter((await self._graph.entities(nodes)).values()), None)

    async def get_relation(self, relation_id: str) -> Relation | None:
        """A relation; None if there is none."""
        where = sql.equals("id", check_name(relation_id, "relation_id"))
        found = await self._graph.read(where, sql.equals("kind", RELATION))
        return relation_of(found[0]) if found else None

    async def find(self, name: str, *, type: Types | None = None) -> builtins.list[Entity]:
        """The entities that are called so, whatever the case; then those that some source calls so."""
        named = await self._graph.read(
            sql.equals("name_key", rows.name_key(check_name(name, "name"))),
            sql.in_list("kind", [ENTITY, MENTION]),
            columns=["kind", "node", "about_node"],
        )
        own = [row["node"] for row in named if row["kind"] == ENTITY]
        elsewhere = [row["about_node"] for row in named if row["kind"] == MENTION]
        found = await self._graph.entities(set(own + elsewhere))
        wanted = None if type is None else {type} if isinstance(type, str) else {*type}
        return [
            found[node]
            for node in dict.fromkeys(own + elsewhere)
            if node in found and (wanted is None or found[node].type in wanted)
        ]

    async def entities(
        self, *, type: Types | None = None, limit: int | None = None, offset: int = 0
    ) -> builtins.list[Entity]:
        """The entities, of some types or of all, in the order in which they were added."""
        return await self._listed(entity_of, ENTITY, type, limit, offset)

    async def relations(
        self, *, type: Types | None = None, limit: int | None = None, offset: int = 0
    ) -> builtins.list[Relation]:
        """The relations, of some types or of all, in the order in which they were added."""
        return await self._listed(relation_of, RELATION, type, limit, offset)

    async def mentions(
        self,
        entity_id: str | None = None,
        *,
        source_id: str | None = None,
        session_id: str | None = None,
        document_id: str | None = None,
        limit: int | None = None,
    ) -> builtins.list[Mention]:
        """Where entities are spoken of: one of them, or in one source, session or document, or all.

        In the order of writing. Raises NotFoundError for an entity that is not there.
        """
        check_span(offset=0, limit=limit, last=None)
        where = [sql.equals("kind", MENTION), *within(session_id, document_id)]
        if entity_id is not None:
            where.insert(0, sql.in_list("about_node", await self._starts(entity_id)))
        if source_id is not None:
            where.append(sql.has_element("source_ids", check_name(source_id, "source_id")))
        return await steps.each(mention_of, await self._graph.read(*where, limit=limit))

    async def aliases(self, entity_id: str) -> dict[str, int]:
        """What an entity is called, and in how many places; its own name is among them, maybe with 0.

        Raises NotFoundError if there is no such entity.
        """
        nodes = await self._starts(entity_id)
        own = [one.name for one in (await self._graph.entities(nodes)).values()]
        named = [one.text for one in await self.mentions(entity_id)]
        return {name: named.count(name) for name in dict.fromkeys([*own, *named])}

    async def count(self) -> dict[str, int]:
        """How many entities, relations, mentions and statements there are, by these words."""
        kinds = {"entities": ENTITY, "relations": RELATION, "mentions": MENTION}
        kinds["statements"] = STATEMENT
        return {
            name: await self._graph.table.count(self._graph.where(sql.equals("kind", kind)))
            for name, kind in kinds.items()
        }

    async def cypher(
        self,
        query: str,
        *,
        parameters: Mapping[str, Parameter] | None = None,
        at: datetime | None = None,
        known_at: datetime | None = None,
        max_rows: int = 1_000_000,
    ) -> builtins.list[dict[str, Any]]:
        """Ask in Cypher, for reading: the rows that `MATCH … RETURN` gives, by the names of its columns.

        A label is a type of entities, `Entity` is all; likewise with relations and `Relation`. Both
        have `id`, `type`, `properties` as JSON, `valid_from`, `valid_to` and `recorded_at`; entities a
        `name`, relations a `weight`; any other name is one of their properties, null if they have none
        of it. Nothing is found that this handle does not see.

        - `parameters`: what stands for each `$name`.
        - `max_rows`: more entities and relations that are read, and more rows that the patterns match
          on the way, are refused.

        Raises InvalidRequestError for what writes or is not supported, and names it.
        """
        return await cypher.asked(
            self._graph,
            query,
            parameters=parameters,
            moment=Moment.of(at, known_at),
            max_rows=max_rows,
        )

    # What is said of entities

    @property
    def statements(self) -> AsyncStatements:
        """What sources say of the entities, and what of it contradicts something else."""
        return AsyncStatements(self._graph)

    # Entities that are one

    async def merge(
        self, entity_id: str, into: str, *, reason: str = "", source_ids: Sequence[str] = ()
    ) -> Merger:
        """Let an entity be another one from now on, in one commit; nothing of either is lost.

        What led to it leads to the other one, and its id does so, too. `source_ids` are what shows
        that they are one. `unmerge` takes it back. Raises NotFoundError if one of them is not there,
        InvalidRequestError if they are one already, or belong to two scopes.
        """
        return await writing.merge(
            self._graph, entity_id, into, reason=reason, source_ids=source_ids
        )

    async def unmerge(self, merger_id: str) -> Entity:
        """Take a merger back, in one commit; returns the entity that is there again.

        What was written of it in the meantime by its own id goes with it. Raises NotFoundError if
        there is no such merger.
        """
        return await writing.unmerge(self._graph, merger_id)

    async def mergers(self) -> builtins.list[Merger]:
        """What was merged into what, and why, the earliest first."""
        return await writing.mergers(self._graph)

    # Reading texts

    async def extract(
        self,
        texts: Sequence[SourceText] | None = None,
        *,
        session_id: str | None = None,
        document_id: str | None = None,
        extractor: EntityExtractor | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> GraphExtraction:
        """Find entities in texts, in the messages of a session, or in the passages of a document.

        Each text is one commit: its entities, where they stand in it, and the relations and
        statements that the extractor finds. Read again, a text replaces what was found in it before;
        what is there already stays as it says itself. Without an `extractor` rules look for what is
        known by how it is written. Raises InvalidRequestError unless one of the three is given.

        `progress` is called after each text; what it raises, as cancelling does, ends the call, and
        what was reported is kept.
        """
        check_progress(progress)
        given = await extraction.sources(self._graph, texts, session_id, document_id)
        return await extraction.extract(self._graph, given, extractor, progress)

    # Helpers

    async def _listed(
        self,
        make: Callable[[Mapping[str, Any]], T],
        kind: str,
        type: Types | None,
        limit: int | None,
        offset: int,
    ) -> builtins.list[T]:
        check_span(offset=offset, limit=limit, last=None)
        where = self._graph.where(sql.equals("kind", kind), *of_types(type, "type"))
        found = await self._graph.table.slice(
            where, columns=rows.COLUMNS, offset=offset, limit=limit
        )
        return await steps.each_row(make, found)
