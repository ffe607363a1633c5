"""Matches the patterns of a query in a graph in memory, and returns the rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lance_context_core._util.checks import shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.graph.adjacency import Adjacency, Link
from lance_context_core.graph.cypher_syntax import Chain, Match, Node, Query, Related
from lance_context_core.graph.cypher_values import (
    ANY_ENTITY,
    ANY_RELATION,
    identity,
    is_equal,
    is_labelled,
    order_of,
    property_of,
)
from lance_context_core.graph.scoped import Moment
from lance_context_core.types.graph import Entity, Relation

Bound = dict[str, Any]
"""Entities and relations by the names of a query."""

_USED = " used"
"""A name that no query can write, for the relationships that the patterns of a MATCH have used."""

_AT_ONCE = 500
"""How many rows are expanded together, to bound those of nodes with many relations early."""


@dataclass(slots=True)
class Matcher:
    """A graph at a moment, as queries see it."""

    near: Adjacency
    moment: Moment
    max_rows: int
    pause: Callable[[], None]
    """Called repeatedly; its exceptions end the query."""
    _entities: dict[int, Entity] = field(default_factory=dict)
    _relations: dict[int, Relation] = field(default_factory=dict)
    _nodes: dict[int, int] = field(default_factory=dict)
    """The node of an entity that was created here."""

    def rows(self, query: Query) -> list[dict[str, Any]]:
        """Returns the rows of the query."""
        found: list[Bound] = [{}]
        for match in query.matches:
            found = self._matched(match, found)
        return _returned(query, found)

    def _matched(self, match: Match, found: list[Bound]) -> list[Bound]:
        for row in found:
            row[_USED] = frozenset()
        fixes = {} if match.where is None else match.where.fixes
        for chain in match.chains:
            found = self._chained(chain, found, fixes)
        if match.where is None:
            return found
        return [row for row in found if _holds(match.where.of(row))]

    def _chained(self, chain: Chain, found: list[Bound], fixes: Mapping[str, Any]) -> list[Bound]:
        if not found:
            return []
        start = _start(chain, found[0], fixes)
        found = self._begun(chain.nodes[start], found, fixes)
        for place in range(start, len(chain.related)):
            found = self._expanded(
                chain.nodes[place], chain.related[place], chain.nodes[place + 1], found
            )
        for place in range(start - 1, -1, -1):
            back = _back(chain.related[place])
            found = self._expanded(chain.nodes[place + 1], back, chain.nodes[place], found)
        return found

    def _begun(self, node: Node, found: list[Bound], fixes: Mapping[str, Any]) -> list[Bound]:
        if node.name in found[0]:
            return [row for row in found if _fits(row[node.name], node)]
        fixed = [fixes[node.name]] if node.name in fixes else []
        fixed += [node.properties["id"].of({})] if "id" in node.properties else []
        if fixed:
            nodes = self.near.find(fixed[0]) if isinstance(fixed[0], str) else []
        else:
            types = _types(node.labels[0], ANY_ENTITY) if node.labels else None
            nodes = self.near.nodes_of(types, self.moment)
        there = [one for one in self._made(nodes).values() if _fits(one, node)]
        self._check_room(len(found) * len(there))
        return [{**row, node.name: one} for row in found for one in there]

    def _expanded(
        self, start: Node, related: Related, end: Node, found: list[Bound]
    ) -> list[Bound]:
        done: list[Bound] = []
        for first in range(0, len(found), _AT_ONCE):
            self.pause()
            done += self._steps(start, related, end, found[first : first + _AT_ONCE], len(done))
        return done

    def _steps(
        self, start: Node, related: Related, end: Node, found: list[Bound], n_before: int
    ) -> list[Bound]:
        done: list[Bound] = []
        # A row, its current node, and the relationships that it has used.
        at = [(row, self._nodes[id(row[start.name])], row[_USED]) for row in found]
        for n_steps in range(related.most + 1):
            if n_steps >= related.least:
                self._check_room(n_before + len(done) + len(at))
                entities = self._made([node for _, node, _ in at])
                for row, node, used in at:
                    one = entities.get(node)
                    if one is None or not _fits(one, end):
                        continue
                    if end.name in row and row[end.name] is not one:
                        continue
                    if not related.is_long:
                        one_relation = {
                            related.name: self._relations[next(iter(used - row[_USED]))]
                        }
                    else:
                        one_relation = {}
                    done.append({**row, end.name: one, **one_relation, _USED: used})
            if n_steps == related.most or not at:
                break
            at = self._onward(related, at, n_before + len(done))
        return done

    def _onward(
        self, related: Related, at: list[tuple[Bound, int, frozenset[int]]], n_before: int
    ) -> list[tuple[Bound, int, frozenset[int]]]:
        types = _types(related.types, ANY_RELATION)
        frontier = list(dict.fromkeys(node for _, node, _ in at))
        links = self.near.step(frontier, related.direction, types, self.moment, self.max_rows + 1)
        self._check_room(len(links))
        if not related.is_long or related.properties:
            self._make_relations(links)
            links = [one for one in links if _has(self._relations[one[2]], related.properties)]
        onward: dict[int, list[tuple[int, int]]] = {}
        for source, target, number in links:
            if related.direction != "in":
                onward.setdefault(source, []).append((target, number))
            # One that returns to its start is one path, not two.
            if related.direction != "out" and (source != target or related.direction == "in"):
                onward.setdefault(target, []).append((source, number))
        further = []
        for row, node, used in at:
            for other, number in onward.get(node, ()):
                if number not in used:
                    further.append((row, other, used | {number}))
            self._check_room(n_before + len(further))
        return further

    # Results

    def _made(self, nodes: Iterable[int]) -> dict[int, Entity]:
        asked = list(dict.fromkeys(nodes))
        new = [one for one in asked if one not in self._entities]
        if new:
            made = self.near.entities_of(new, self.moment)
            self._entities |= made
            self._nodes |= {id(one): node for node, one in made.items()}
        return {node: self._entities[node] for node in asked if node in self._entities}

    def _make_relations(self, links: Sequence[Link]) -> None:
        entities = self._made(node for link in links for node in link[:2])
        new = [
            one
            for one in links
            if one[2] not in self._relations and one[0] in entities and one[1] in entities
        ]
        made = self.near.relations_of(new, entities)
        self._relations |= {link[2]: one for link, one in zip(new, made, strict=True)}

    def _check_room(self, n_rows: int) -> None:
        if n_rows > self.max_rows:
            raise InvalidRequestError(
                f"query matches more than max_rows={self.max_rows} rows on the way: name types or ids, "
                "or pass a larger one if there is the memory for it"
            )


# Patterns


def _start(chain: Chain, bound: Mapping[str, Any], fixes: Mapping[str, Any]) -> int:
    """Returns the node of a chain from which the fewest paths lead on, by its conditions."""

    def weight(place: int) -> int:
        node = chain.nodes[place]
        if node.name in bound:
            return 0
        if node.name in fixes or "id" in node.properties:
            return 1
        if node.properties:
            return 2
        return 3 if any(ANY_ENTITY not in some for some in node.labels) else 4

    return min(range(len(chain.nodes)), key=weight)


def _back(related: Related) -> Related:
    direction = {"out": "in", "in": "out", "both": "both"}[related.direction]
    return Related(
        related.name,
        related.types,
        direction,
        related.least,
        related.most,
        related.is_long,
        related.properties,
    )


def _types(names: Sequence[str], everything: str) -> frozenset[str] | None:
    return None if not names or everything in names else frozenset(names)


def _fits(one: Entity, node: Node) -> bool:
    return all(is_labelled(one, some) for some in node.labels) and _has(one, node.properties)


def _has(one: Entity | Relation, properties: Mapping[str, Any]) -> bool:
    return all(
        is_equal(property_of(one, name), value.of({})) is True for name, value in properties.items()
    )


def _holds(answer: Any) -> bool:
    if answer is not None and not isinstance(answer, bool):
        raise InvalidRequestError(f"query has WHERE {shown(answer)}: give true, false or null")
    return answer is True


# Rows


def _returned(query: Query, found: list[Bound]) -> list[dict[str, Any]]:
    rows: list[tuple[dict[str, Any], Mapping[Any, Any]]]
    if any(one.aggregates for _, one in query.items):
        rows = [(row, row) for row in _grouped(query, found)]
    else:
        made = [{name: one.of(bound) for name, one in query.items} for bound in found]
        rows = [(row, {**bound, **row}) for row, bound in zip(made, found, strict=True)]
    if query.is_distinct:
        first: dict[Any, tuple[dict[str, Any], Mapping[Any, Any]]] = {}
        for one in rows:
            first.setdefault(tuple(map(identity, one[0].values())), (one[0], one[0]))
        rows = list(first.values())
    for by, descends in reversed(query.order):
        rows.sort(key=lambda one: order_of(by.of(one[1])), reverse=descends)
    end = None if query.limit is None else query.skip + query.limit
    return [row for row, _ in rows[query.skip : end]]


def _grouped(query: Query, found: list[Bound]) -> list[dict[str, Any]]:
    """Returns a row for each group with equal values in all columns without an aggregate."""
    groups: dict[Any, tuple[dict[str, Any], list[Bound]]] = {}
    keys = [(name, one) for name, one in query.items if not one.aggregates]
    for bound in found:
        values = {name: one.of(bound) for name, one in keys}
        told = tuple(map(identity, values.values()))
        groups.setdefault(told, (values, []))[1].append(bound)
    if not keys and not groups:
        groups[()] = {}, []
    done = []
    for values, rows in groups.values():
        row = {}
        for name, one in query.items:
            found_of = {each: each.of(rows) for each in one.aggregates}
            row[name] = one.of(found_of) if one.aggregates else values[name]
        done.append(row)
    return done
