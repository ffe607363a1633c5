"""The graph of a store, within the scope of a handle."""

import builtins
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import pyarrow as pa

from lance_context_core._handle import handle
from lance_context_core._progress import check_progress, tell_written
from lance_context_core._util import cooperative as steps
from lance_context_core._util.checks import check_name, check_span, check_text
from lance_context_core.codecs import graph as rows
from lance_context_core.codecs.graph import ENTITY, MENTION, RELATION, STATEMENT
from lance_context_core.errors import NotFoundError
from lance_context_core.graph import aliases, conflicts, cypher, extraction, writing
from lance_context_core.graph.conflicts import End
from lance_context_core.graph.contradictions import AsyncStatements
from lance_context_core.graph.cypher import AsyncWalks, Parameter, Types, within
from lance_context_core.graph.model import EntityExtractor, GraphExtraction, SourceText
from lance_context_core.graph.scoped import Moment, entity_of, mention_of, of_types, relation_of
from lance_context_core.graph.writing import Batch
from lance_context_core.storage import sql
from lance_context_core.types import Progress
from lance_context_core.types.graph import (
    AliasProposal,
    Entity,
    Mention,
    Merger,
    Relation,
    RelationConflict,
)

T = TypeVar("T")

_STOPS = ".,;:!?…()[]{}<>\"'“”‘’«»„`*_"  # noqa: RUF001 - as they stand in texts
"""What may stand around a name in a text."""
_MOST_WORDS, _LONGEST_NAME = 200, 6


@handle
class AsyncGraph(AsyncWalks):
    """Entities, relations and mentions; satisfies `GraphStore` and `CypherCapable`.

    Each call writes one commit. Reads return all states in time, unless `at` or `known_at` are
    given: the state that holds at that moment, and the one known then. A store has no graph until a
    caller adds an entity.
    """

    # Writing

    async def add_entities(self, entities: Sequence[Entity]) -> builtins.list[Entity]:
        """Adds entities, or replaces those with the same ids; returns their current state.

        An entity keeps its earlier sources. Raises InvalidRequestError, before anything is written,
        for an invalid entity.
        """
        return await Batch(self._graph).add(entities, Entity, "entities")

    async def add_relations(self, relations: Sequence[Relation]) -> builtins.list[Relation]:
        """As `add_entities`, for relations between existing entities.

        Raises NotFoundError, before anything is written, if an end does not exist.
        """
        return await Batch(self._graph).add(relations, Relation, "relations")

    async def add_mentions(self, mentions: Sequence[Mention]) -> builtins.list[Mention]:
        """As `add_relations`, for mentions of entities."""
        return await Batch(self._graph).add(mentions, Mention, "mentions")

    async def add(
        self,
        entities: Sequence[Entity] | pa.Table = (),
        relations: Sequence[Relation] | pa.Table = (),
        *,
        mentions: Sequence[Mention] = (),
        progress: Callable[[Progress], object] | None = None,
    ) -> None:
        """Adds entities, relations and mentions, in one commit.

        An Arrow table has a column for each field of `Entity` or `Relation`; a missing column, or a
        null, is the field's default. It is the fastest way to add many: no value is made of a row.

        `progress` is called as they are prepared, up to 10,000 at a time, and once all are
        written; an exception from it before that, as when cancelling, ends the call, and nothing is
        written.
        """
        check_progress(progress)
        batch = Batch(self._graph, progress=progress)
        await batch.load(entities, Entity, "entities")
        await batch.load(relations, Relation, "relations")
        await batch.load(mentions, Mention, "mentions")
        await batch.write()
        await tell_written(progress, len(batch), "things")

    async def delete_entity(self, entity_id: str) -> bool:
        """Deletes an entity and everything that refers to it; returns whether it existed.

        Older versions of the store still contain it: `AsyncContextStore.erase` erases its sources.
        """
        return await writing.delete(self._graph, entity_id, ENTITY, "entity_id")

    async def delete_relation(self, relation_id: str) -> bool:
        """Deletes a relation; returns whether it existed. Its ends stay."""
        return await writing.delete(self._graph, relation_id, RELATION, "relation_id")

    async def forget(self, source_ids: Sequence[str]) -> int:
        """Removes records, documents or chunks as sources; returns how many rows were deleted.

        Rows without another source are deleted, in one commit, an entity with everything that
        refers to it. `AsyncContextStore.erase` does the same for erased records, in all versions.
        """
        return await writing.forget(self._graph, source_ids)

    # Reading

    async def get(self, entity_id: str) -> Entity | None:
        """Returns an entity, following mergers; None if it does not exist."""
        try:
            nodes = await self._graph.starts(entity_id, "entity_id")
        except NotFoundError:
            return None
        return next(iter((await self._graph.entities(nodes)).values()), None)

    async def get_relation(self, relation_id: str) -> Relation | None:
        """Returns a relation; None if it does not exist."""
        where = sql.equals("id", check_name(relation_id, "relation_id"))
        found = await self._graph.read(where, sql.equals("kind", RELATION))
        return relation_of(found[0]) if found else None

    async def find(self, name: str, *, type: Types | None = None) -> builtins.list[Entity]:
        """Returns the entities of that name, ignoring case; then those mentioned by it."""
        return await self._named([rows.name_key(check_name(name, "name"))], type)

    async def named_in(
        self, text: str, *, type: Types | None = None, limit: int = 10
    ) -> builtins.list[Entity]:
        """Returns the entities whose names, or names in mentions, are words of `text`.

        Longer names come first, then those that come first in the text. Names of more than six words
        are not found, nor those within a word, as in scripts without spaces; and of a text only the
        first 200 words are looked at.
        """
        check_span(offset=0, limit=limit, last=None)
        words = rows.name_key(check_text(text, "text")).split(" ")[:_MOST_WORDS]
        keys = dict[str, None]()
        for length in range(min(_LONGEST_NAME, len(words)), 0, -1):
            for start in range(len(words) - length + 1):
                run = " ".join(words[start : start + length])
                bare = run.strip(_STOPS).removesuffix("'s").removesuffix("’s").strip(_STOPS)  # noqa: RUF001
                keys |= dict.fromkeys((run, bare))
        keys.pop("", None)
        return (await self._named([*keys], type))[:limit] if keys else []

    async def _named(self, keys: builtins.list[str], type: Types | None) -> builtins.list[Entity]:
        """Returns the entities of these names, in the order of the names; then those mentioned by them."""
        named = await self._graph.read(
            sql.in_list("name_key", keys),
            sql.in_list("kind", [ENTITY, MENTION]),
            columns=["kind", "node", "about_node", "name_key"],
        )
        place = {key: number for number, key in enumerate(keys)}
        named.sort(key=lambda row: (row["kind"] != ENTITY, place[row["name_key"]]))
        nodes = [row["node" if row["kind"] == ENTITY else "about_node"] for row in named]
        found = await self._graph.entities(set(nodes))
        wanted = None if type is None else {type} if isinstance(type, str) else {*type}
        return [
            found[node]
            for node in dict.fromkeys(nodes)
            if node in found and (wanted is None or found[node].type in wanted)
        ]

    async def entities(
        self, *, type: Types | None = None, limit: int | None = None, offset: int = 0
    ) -> builtins.list[Entity]:
        """Returns the entities, of some types or of all, in the order of adding."""
        return await self._listed(entity_of, ENTITY, type, limit, offset)

    async def relations(
        self, *, type: Types | None = None, limit: int | None = None, offset: int = 0
    ) -> builtins.list[Relation]:
        """Returns the relations, of some types or of all, in the order of adding."""
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
        """Returns the mentions of one entity, in one source, session or document, or all.

        In write order. Raises NotFoundError if the entity does not exist.
        """
        check_span(offset=0, limit=limit, last=None)
        where = [sql.equals("kind", MENTION), *within(session_id, document_id)]
        if entity_id is not None:
            where.insert(0, sql.in_list("about_node", await self._starts(entity_id)))
        if source_id is not None:
            where.append(sql.has_element("source_ids", check_name(source_id, "source_id")))
        return await steps.each(mention_of, await self._graph.read(*where, limit=limit))

    async def aliases(self, entity_id: str) -> dict[str, int]:
        """Returns an entity's names with their numbers of mentions, its own name maybe with 0.

        Raises NotFoundError if the entity does not exist.
        """
        nodes = await self._starts(entity_id)
        own = [one.name for one in (await self._graph.entities(nodes)).values()]
        named = [one.text for one in await self.mentions(entity_id)]
        return {name: named.count(name) for name in dict.fromkeys([*own, *named])}

    async def count(self) -> dict[str, int]:
        """Returns the numbers of entities, relations, mentions and statements, by these words."""
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
        """Runs a read-only Cypher query; returns the rows of `MATCH … RETURN`, by column name.

        A label is a type of entities, `Entity` is all; likewise with relations and `Relation`. Both
        have `id`, `type`, `properties` as JSON, `valid_from`, `valid_to` and `recorded_at`;
        entities a `name`, relations a `weight`; any other name is one of their properties, null if
        absent. Finds only the data that this handle sees.

        - `parameters`: the value of each `$name`.
        - `max_rows`: the limit of entities and relations read, and of rows that the patterns match
          on the way.

        Raises InvalidRequestError for writes and unsupported clauses, and names them.
        """
        return await cypher.asked(
            self._graph,
            query,
            parameters=parameters,
            moment=Moment.of(at, known_at),
            max_rows=max_rows,
        )

    # Statements

    @property
    def statements(self) -> AsyncStatements:
        """Statements of sources about the entities, and their contradictions."""
        return AsyncStatements(self._graph)

    async def conflicts(
        self,
        types: Types,
        *,
        one: End = "target",
        at: datetime | None = None,
        known_at: datetime | None = None,
        limit: int = 1_000,
    ) -> builtins.list[RelationConflict]:
        """Returns pairs of relations that cannot both hold, at most `limit`.

        These are of one of the `types`, which have one target at a time, such as `born_in`: from the
        same entity to different ones, at overlapping times. With `one="source"` they have one
        source at a time, such as `leads`. Changes nothing.
        """
        moment = Moment.of(at, known_at)
        return await conflicts.conflicts(self._graph, types, one=one, moment=moment, limit=limit)

    # Merging entities

    async def propose_aliases(
        self, *, type: Types | None = None, min_score: float = 0.8, limit: int = 100
    ) -> builtins.list[AliasProposal]:
        """Returns pairs of entities that may be one, the likeliest first; merges nothing.

        Compares names: by words, initials, spelling, and the words by which sources mention them;
        with an embedder also by the meaning of up to 20,000 names. `merge` accepts a proposal.
        """
        return await aliases.proposed(self._graph, type, min_score=min_score, limit=limit)

    async def merge(
        self, entity_id: str, into: str, *, reason: str = "", source_ids: Sequence[str] = ()
    ) -> Merger:
        """Merges an entity into another one, in one commit; nothing of either is lost.

        References to it, and its id, then lead to the other one. `source_ids` are the evidence that
        they are one. `unmerge` reverts it. Raises NotFoundError if one does not exist,
        InvalidRequestError if they are merged already, or belong to two scopes.
        """
        return await writing.merge(
            self._graph, entity_id, into, reason=reason, source_ids=source_ids
        )

    async def unmerge(self, merger_id: str) -> Entity:
        """Reverts a merger, in one commit; returns the restored entity.

        Rows written under its own id in the meantime go with it. Raises NotFoundError if the merger
        does not exist.
        """
        return await writing.unmerge(self._graph, merger_id)

    async def mergers(self) -> builtins.list[Merger]:
        """Returns the mergers and their reasons, the earliest first."""
        return await writing.mergers(self._graph)

    # Extraction

    async def extract(
        self,
        texts: Sequence[SourceText] | None = None,
        *,
        session_id: str | None = None,
        document_id: str | None = None,
        extractor: EntityExtractor | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> GraphExtraction:
        """Extracts entities from texts, the messages of a session, or the passages of a document.

        Each text is one commit: its entities, their mentions, and the relations and
        statements that the extractor finds. A text read again replaces its earlier extraction;
        existing entities keep their own fields. Without an `extractor` rules find entities by their
        spelling. Raises InvalidRequestError unless one of the three is given.

        `progress` is called after each text; an exception from it, as when cancelling, ends the
        call, and reported texts stay stored.
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
