"""A knowledge graph of entities, observations and relations, as the reference memory server keeps one.

All of it is in one table of key-value items, so that each change is one commit: all of it or nothing. An
entity is an item with its observations; it is changed as of the revision that was read, and read again
where another process was faster, so that what two of them add at once is there twice never and lost never.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lance_context_core import AsyncContextStore, ConflictError, Item, ItemVector, NotFoundError
from lance_context_core.adapting import retried

Entity: TypeAlias = dict[str, Any]
"""`name`, `entityType` and `observations`, in the order in which they were told."""
Relation: TypeAlias = dict[str, Any]
"""`from`, `to` and `relationType`."""

GRAPH = "memory://knowledge-graph"
"""The address under which clients read all of it."""
TABLE = "knowledge_graph"
ENTITIES = ("entities",)
RELATIONS = ("relations",)
_WORD = re.compile(r"\w+")
N_BY_MEANING = 10
"""How many entities a search by meaning finds at most."""


@dataclass(frozen=True, slots=True)
class Graph:
    """The graph of one scope."""

    store: AsyncContextStore
    has_meaning: bool = False
    """Whether observations are found by what they mean."""

    async def create_entities(self, entities: Sequence[Entity]) -> list[Entity]:
        """Add those whose names are new, of two alike the first; returns them."""
        given = [
            {**_entity(one), "observations": [*dict.fromkeys(one["observations"])]}
            for one in entities
        ]
        return await self._added(given, self._entity_item)

    async def create_relations(self, relations: Sequence[Relation]) -> list[Relation]:
        """Add those that are new; returns them. Their ends need not exist."""
        return await self._added([_relation(one) for one in relations], _relation_item)

    async def add_observations(
        self, additions: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Add what entities are not known by yet; returns for each addition what that was.

        Raises NotFoundError, before anything is written, if there is no entity of a name.
        """

        async def add() -> list[dict[str, Any]]:
            items = await self._items(one["entityName"] for one in additions)
            told = []
            known = {name: list(_value(item)["observations"]) for name, item in items.items()}
            for one in additions:
                name = one["entityName"]
                if name not in known:
                    raise NotFoundError(f"Entity with name {name} not found")
                new = [text for text in dict.fromkeys(one["contents"]) if text not in known[name]]
                known[name] += new
                told.append({"entityName": name, "addedObservations": new})
            await self._change(items, known)
            return told

        return await retried(add, on=ConflictError)

    async def delete_entities(self, names: Sequence[str]) -> None:
        """Remove entities, and the relations from and to them; unknown names are passed over."""
        gone = {*names}
        relations = [
            (RELATIONS, _key(one))
            for one in await self._relations()
            if gone & {one["from"], one["to"]}
        ]
        await self._items_table.delete([*relations, *((ENTITIES, name) for name in gone)])

    async def delete_observations(self, deletions: Sequence[Mapping[str, Any]]) -> None:
        """Remove observations from entities; what is not there is passed over."""

        async def delete() -> None:
            items = await self._items(one["entityName"] for one in deletions)
            left = {name: list(_value(item)["observations"]) for name, item in items.items()}
            for one in deletions:
                if (name := one["entityName"]) in left:
                    left[name] = [text for text in left[name] if text not in one["observations"]]
            await self._change(items, left)

        await retried(delete, on=ConflictError)

    async def delete_relations(self, relations: Sequence[Relation]) -> None:
        """Remove relations; unknown ones are passed over."""
        await self._items_table.delete([(RELATIONS, _key(one)) for one in relations])

    async def read(self) -> dict[str, Any]:
        """All of it: `entities` and `relations`, each in the order in which they were told."""
        return {"entities": await self._entities(), "relations": await self._relations()}

    async def search(self, query: str) -> dict[str, Any]:
        """The entities in whose name, type or observations `query` stands, in any case of letters.

        Where it stands in none, and there is an embedder, the entities whose observations are
        nearest to what it means, at most `N_BY_MEANING`. Beside them all relations of theirs.
        """
        wanted = query.lower()
        everything = await self.read()
        names = {
            one["name"]
            for one in everything["entities"]
            if any(
                wanted in text.lower()
                for text in (one["name"], one["entityType"], *one["observations"])
            )
        }
        if not names and self.has_meaning and wanted.strip():
            found = await self._items_table.search(query, limit=N_BY_MEANING, namespace=ENTITIES)
            names = {hit.record.key for hit in found}
        return _around(everything, names)

    async def find(self, query: str) -> list[dict[str, Any]]:
        """The entities that have a word of `query`, best first, with all that is known of each.

        The score is the share of the words that stand in it or in its relations, halved; where
        there is an embedder, the nearness of its observations if that is greater.
        """
        words = {*_WORD.findall(query.lower())}
        items = await self._items_table.list(namespace=ENTITIES)
        relations = await self._relations() if items else []
        near: dict[str, float] = {}
        if self.has_meaning and items and query.strip():
            hits = await self._items_table.search(query, limit=N_BY_MEANING, namespace=ENTITIES)
            near = {hit.record.key: hit.score for hit in hits}
        found = []
        for item in items:
            one = _entity(_value(item))
            of_it = [
                " ".join(_relation(other)[name] for name in ("from", "relationType", "to"))
                for other in relations
                if one["name"] in {other["from"], other["to"]}
            ]
            told = "\n".join([f"{one['name']} ({one['entityType']})", *one["observations"], *of_it])
            share = len(words & {*_WORD.findall(told.lower())}) / max(len(words), 1)
            if (score := max(share / 2, near.get(item.key, 0.0))) > 0:
                found.append(
                    {
                        "id": one["name"],
                        "kind": "entity",
                        "text": told,
                        "created_at": item.created_at.isoformat(),
                        "score": score,
                    }
                )
        return sorted(found, key=lambda one: -one["score"])

    async def open(self, names: Sequence[str]) -> dict[str, Any]:
        """The entities of these names, and all relations of theirs."""
        return _around(await self.read(), {*names})

    # Helpers

    @property
    def _items_table(self) -> Any:
        return self.store.kv(TABLE)

    async def _entities(self) -> list[Entity]:
        items = await self._items_table.list(namespace=ENTITIES)
        return [_entity(_value(item)) for item in sorted(items, key=_told)]

    async def _relations(self) -> list[Relation]:
        items = await self._items_table.list(namespace=RELATIONS)
        return [_relation(_value(item)) for item in sorted(items, key=_told)]

    async def _items(self, names: Iterable[str]) -> dict[str, Item]:
        keys = [(ENTITIES, name) for name in dict.fromkeys(names)]
        return {item.key: item for item in await self._items_table.get(keys) if item is not None}

    async def _added(
        self, given: Sequence[dict[str, Any]], item: Callable[[dict[str, Any], int], Item]
    ) -> list[dict[str, Any]]:
        items = [item(one, place) for place, one in enumerate(given)]
        is_new = await self._items_table.add(items) if items else []
        return [one for one, new in zip(given, is_new, strict=True) if new]

    async def _change(
        self, items: Mapping[str, Item], observations: Mapping[str, list[str]]
    ) -> None:
        changed = [
            self._entity_item({**value, "observations": observations[name]}, value["place"])
            for name, value in ((name, _value(item)) for name, item in items.items())
            if value["observations"] != observations[name]
        ]
        if changed:
            expected = {(ENTITIES, name): item.revision for name, item in items.items()}
            await self._items_table.write(puts=changed, expected=expected)

    def _entity_item(self, entity: Entity, place: int) -> Item:
        texts = entity["observations"] if self.has_meaning else []
        return Item(
            key=entity["name"],
            namespace=ENTITIES,
            value={**_entity(entity), "place": place},
            vectors=[
                ItemVector(path=str(number), text=text) for number, text in enumerate(texts) if text
            ],
        )


def lines_of(file: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a file of the reference server holds: "entity" or "relation", and that one.

    Lines that are neither are passed over, as that server does.
    """
    for line in file:
        try:
            one = json.loads(line)
            kind, made = one["type"], {"entity": _entity, "relation": _relation}[one["type"]](one)
        except (ValueError, LookupError, TypeError):
            continue
        if all(
            isinstance(value, str) for name, value in made.items() if name != "observations"
        ) and (all(isinstance(text, str) for text in made.get("observations", ()))):
            yield kind, made


def _relation_item(relation: Relation, place: int) -> Item:
    return Item(key=_key(relation), namespace=RELATIONS, value={**relation, "place": place})


def _entity(value: Mapping[str, Any]) -> Entity:
    return {name: value[name] for name in ("name", "entityType", "observations")}


def _relation(value: Mapping[str, Any]) -> Relation:
    return {name: value[name] for name in ("from", "to", "relationType")}


def _key(relation: Mapping[str, Any]) -> str:
    return json.dumps([*_relation(relation).values()], ensure_ascii=False)


def _told(item: Item) -> tuple[Any, int]:
    return item.created_at, _value(item)["place"]


def _value(item: Item) -> Mapping[str, Any]:
    return item.value or {}


def _around(graph: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {
        "entities": [one for one in graph["entities"] if one["name"] in names],
        "relations": [one for one in graph["relations"] if {one["from"], one["to"]} & names],
    }
