"""Walks: neighbours, paths and impact, frontier by frontier, never the whole graph."""

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, NoReturn, get_args

from lance_context_core._util import cooperative as steps
from lance_context_core._util.checks import check_count, shown
from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.graph import COLUMNS
from lance_context_core.errors import InvalidRequestError
from lance_context_core.graph.adjacency import Adjacency, Link
from lance_context_core.graph.scoped import (
    Moment,
    Row,
    ScopedGraph,
    chunked,
    names_of,
    relation_of,
)
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.types.graph import Entity, Impact, Path, Relation, SubGraph

Direction = Literal["out", "in", "both"]
"""Along relations (from source to target), against them, or either way."""

RELATIONS_AN_ENTITY = 20
"""The most relations read for each entity of a limit."""

_ENDS = ["source_node", "target_node"]
_EXPANDED = 64
"""How many of the nearest entities are read at once for weighted paths."""


@frozen
class Walk:
    """The types and directions of relations to walk."""

    graph: ScopedGraph
    direction: Direction
    types: frozenset[str] | None
    moment: Moment

    @classmethod
    def of(cls, graph: ScopedGraph, *, direction: object, types: object, moment: Moment) -> "Walk":
        """Converts the arguments of a call."""
        for known in get_args(Direction):
            if direction == known:
                return cls(graph, known, names_of(types), moment)
        raise InvalidRequestError(f"direction={shown(direction)}: use 'out', 'in' or 'both'")

    @property
    def conditions(self) -> list[sql.Clause]:
        """The conditions on a relation."""
        named = [] if self.types is None else [sql.in_list("type", sorted(self.types))]
        return [*named, *self.moment.conditions]

    def back(self) -> "Walk":
        """Returns the same walk in the other direction."""
        other: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}
        return replace(self, direction=other[self.direction])

    async def step(
        self, frontier: Collection[int], *, columns: Iterable[str], limit: int
    ) -> list[Row]:
        """Returns the relations that lead on from these nodes, at most `limit`, with both ends' nodes."""
        wanted, found = [*columns, *_ENDS], dict[int, Row]()
        for some in chunked(frontier):
            ends = [sql.in_list(end, some) for end in self._ends]
            for row in await self.graph.read(
                sql.any_of(ends), *self.conditions, columns=wanted, limit=limit - len(found)
            ):
                found.setdefault(row["_rowid"], row)
            if len(found) >= limit:
                break
        return await self._there(list(found.values())) if self.moment else list(found.values())

    async def every(
        self, frontier: Collection[int], *, columns: Iterable[str], limit: int
    ) -> list[Row]:
        """As `step`, for a path search among so many entities: it must not miss any."""
        most = limit * RELATIONS_AN_ENTITY
        found = await self.step(frontier, columns=columns, limit=most)
        if len(found) >= most:
            _refuse(limit)
        return found

    async def _there(self, found: list[Row]) -> list[Row]:
        """Returns those whose ends both existed at the moment: walks do not pass others."""
        nodes = {row[end] for row in found for end in _ENDS}
        there = await self.graph.entities(nodes, self.moment)
        return [row for row in found if all(row[end] in there for end in _ENDS)]

    @property
    def _ends(self) -> list[str]:
        return {"out": _ENDS[:1], "in": _ENDS[1:], "both": _ENDS}[self.direction]

    def onward(
        self, source: int, target: int, seen: Collection[int] | Mapping[int, Any]
    ) -> Iterator[tuple[int, int]]:
        """Yields the seen node and the other node of each relation between these two."""
        if self.direction != "in" and source in seen:
            yield source, target
        if self.direction != "out" and target in seen:
            yield target, source


def _ends_of(row: Row) -> tuple[int, int]:
    return row["source_node"], row["target_node"]


async def neighbours(
    walk: Walk, starts: Collection[int], near: Adjacency | None, *, depth: int, limit: int
) -> SubGraph:
    """Returns the entities within so many steps, the nearest first; `near` is the graph in memory."""
    check_count(depth, "depth", least=0)
    check_count(limit, "limit")
    known = dict.fromkeys([*starts][:limit])
    is_cut, most = len(starts) > limit, limit * RELATIONS_AN_ENTITY
    kept, rows = dict[int, Link](), dict[int, Row]()
    frontier = list(known)
    while frontier and depth > 0:
        depth -= 1
        n_left = most - len(kept)
        if near is not None:
            found = near.step(frontier, walk.direction, walk.types, walk.moment, n_left + 1)
        else:
            read = await walk.step(frontier, columns=COLUMNS, limit=n_left + 1)
            found = [(*_ends_of(row), row["_rowid"]) for row in read]
            rows |= {row["_rowid"]: row for row in read}
        is_cut = is_cut or len(found) > n_left
        behind, frontier = set(known), []
        for link in found[:n_left]:
            source, target, number = link
            kept.setdefault(number, link)
            for _, node in walk.onward(source, target, behind):
                if node in known:
                    continue
                if len(known) == limit:
                    is_cut = True
                    continue
                known[node] = None
                frontier.append(node)
    if near is None:
        there = await walk.graph.entities(known, walk.moment)
        return await between(there, known, [rows[number] for number in kept], is_cut=is_cut)
    await steps.may_take(1)
    entities = near.entities_of(known, walk.moment)
    inner = [link for link in kept.values() if link[0] in entities and link[1] in entities]
    return SubGraph(
        entities=tuple(entities.values()),
        relations=tuple(near.relations_of(inner, entities)),
        is_cut=is_cut,
    )


async def induced(walk: Walk, nodes: list[int], *, limit: int) -> SubGraph:
    """Returns these nodes, up to the limit, and all relations between them."""
    check_count(limit, "limit")
    known, most = dict.fromkeys(nodes[:limit]), limit * RELATIONS_AN_ENTITY
    found = await walk.step(known, columns=COLUMNS, limit=most + 1) if known else []
    entities = await walk.graph.entities(known, walk.moment)
    is_cut = len(nodes) > limit or len(found) > most
    return await between(entities, known, found[:most], is_cut=is_cut)


async def between(
    entities: Mapping[int, Entity], order: Iterable[int], found: Iterable[Row], *, is_cut: bool
) -> SubGraph:
    """Returns the entities in this order, and the relations with both ends among them."""
    inner = [
        row for row in found if row["source_node"] in entities and row["target_node"] in entities
    ]
    return SubGraph(
        entities=tuple(entities[node] for node in order if node in entities),
        relations=tuple(await steps.each(relation_of, inner)),
        is_cut=is_cut,
    )


@dataclass(slots=True)
class _Side:
    """The nodes reached from one end of a path."""

    walk: Walk
    before: dict[int, tuple[int, str] | None]
    """By node, the previous node and the key of the relation; None for the end itself."""
    frontier: list[int]

    async def expand(self, limit: int) -> None:
        """Goes one step further."""
        found = await self.walk.every(self.frontier, columns=[KEY], limit=limit)
        behind, self.frontier = set(self.frontier), []
        for row in found:
            for source, node in self.walk.onward(*_ends_of(row), behind):
                if node not in self.before:
                    self.before[node] = source, row[KEY]
                    self.frontier.append(node)

    def way(self, node: int) -> tuple[list[int], list[str]]:
        """Returns the nodes from the end to this one, and the keys of the relations between them."""
        nodes, keys = [node], []
        while (step := self.before[nodes[-1]]) is not None:
            nodes.append(step[0])
            keys.append(step[1])
        return nodes[::-1], keys[::-1]


class Ends(NamedTuple):
    """The ends of a path: from any of these to any of those."""

    sources: Collection[int]
    targets: Collection[int]


async def shortest(walk: Walk, between: Ends, max_steps: int | None, limit: int) -> Path | None:
    """Returns a path with the fewest relations; None if none exists."""
    _check_bounds(max_steps, limit)
    ends = [
        _Side(way, dict.fromkeys(nodes), list(nodes))
        for way, nodes in zip((walk, walk.back()), between, strict=True)
    ]
    n_steps = 0
    while not (met := ends[0].before.keys() & ends[1].before.keys()):
        if not all(one.frontier for one in ends) or n_steps == max_steps:
            return None
        _check_room(sum(len(one.before) for one in ends), limit)
        await min(ends, key=lambda one: len(one.frontier)).expand(limit)
        n_steps += 1
    # All meeting points are from the same step; the one reached first wins.
    middle = next(node for node in ends[0].before if node in met)
    nodes, keys = ends[0].way(middle)
    further, more = ends[1].way(middle)
    return await _path(walk, [*nodes, *further[-2::-1]], [*keys, *more[::-1]], cost=None)


async def lightest(walk: Walk, between: Ends, max_steps: int | None, limit: int) -> Path | None:
    """Returns a path with the least sum of weights; None if none exists."""
    _check_bounds(max_steps, limit)
    wanted = set(between.targets)
    best: dict[tuple[int, int], float] = {(node, 0): 0.0 for node in between.sources}
    before: dict[tuple[int, int], tuple[tuple[int, int], str]] = {}
    queue = [(0.0, 0, node) for node in between.sources]
    heapq.heapify(queue)
    near = _Adjacent(walk, limit)
    closed: dict[int, int] = {}
    """By node, the fewest steps at which it was closed: more steps at a greater cost are no better."""
    while queue:
        cost, n_steps, node = heapq.heappop(queue)
        if n_steps >= closed.get(node, n_steps + 1) or cost > best[node, n_steps]:
            continue
        closed[node] = n_steps
        if node in wanted:
            nodes, keys, at = [node], [], (node, n_steps)
            while at in before:
                at, key = before[at]
                nodes.append(at[0])
                keys.append(key)
            return await _path(walk, nodes[::-1], keys[::-1], cost=cost)
        if n_steps == max_steps:
            continue
        _check_room(len(closed), limit)
        for other, weight, key in await near.of(node, (one[2] for one in queue)):
            # Steps matter only if bounded: else only the lightest path counts.
            n = n_steps + 1 if max_steps is not None else 0
            if cost + weight < best.get((other, n), float("inf")) and n < closed.get(other, n + 1):
                best[other, n] = cost + weight
                before[other, n] = (node, n_steps), key
                heapq.heappush(queue, (cost + weight, n, other))
    return None


@dataclass(slots=True)
class _Adjacent:
    """The relations of a node, read for several due nodes at once."""

    walk: Walk
    limit: int
    known: dict[int, list[tuple[int, float, str]]] = field(default_factory=dict)

    async def of(self, node: int, waiting: Iterable[int]) -> list[tuple[int, float, str]]:
        """Returns by node: the other end, the weight, and the key of each relation."""
        if node not in self.known:
            due = [one for one in dict.fromkeys(waiting) if one not in self.known][:_EXPANDED]
            asked = dict.fromkeys([node, *due])
            self.known |= {one: [] for one in asked}
            for row in await self.walk.every(asked, columns=[KEY, "weight"], limit=self.limit):
                weight = 1.0 if row["weight"] is None else row["weight"]
                for source, target in self.walk.onward(*_ends_of(row), asked):
                    self.known[source].append((target, weight, row[KEY]))
        return self.known[node]


async def impact(
    walk: Walk,
    starts: Collection[int],
    *,
    depth: int,
    least: float,
    passes: Mapping[str, float],
    limit: int,
) -> list[Impact]:
    """Returns the affected entities with their shares, the most affected first."""
    for name, share in {"least": least, **passes}.items():
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise InvalidRequestError(f"{name}={shown(share)}: give a number in [0, 1]")
    check_count(depth, "depth", least=0)
    check_count(limit, "limit")
    scores = dict.fromkeys(starts, 1.0)
    through: dict[int, tuple[Relation, int]] = {}
    frontier, n_steps = list(starts), 0
    while frontier and n_steps < depth:
        n_steps += 1
        found = await walk.step(frontier, columns=COLUMNS, limit=limit * RELATIONS_AN_ENTITY)
        behind = {node: scores[node] for node in frontier}
        reached: dict[int, None] = {}
        for row in found:
            relation = relation_of(row)
            weight = 1.0 if relation.weight is None else min(relation.weight, 1.0)
            share = passes.get(relation.type, 1.0) * weight
            for source, node in walk.onward(*_ends_of(row), behind):
                score = behind[source] * share
                if score >= least and score > scores.get(node, 0.0):
                    scores[node], through[node] = score, (relation, n_steps)
                    reached[node] = None
        frontier = list(reached)[:limit]
    entities = await walk.graph.entities(through, walk.moment)
    made = [
        Impact(entity=entities[node], score=scores[node], depth=steps_, through=relation)
        for node, (relation, steps_) in through.items()
        if node in entities
    ]
    return sorted(made, key=lambda one: (-one.score, one.depth, one.entity.id or ""))[:limit]


async def _path(
    walk: Walk, nodes: list[int], keys: list[str], *, cost: float | None
) -> Path | None:
    """Returns the rows of a path; None if others have deleted some of them meanwhile."""
    entities = await walk.graph.entities(nodes)
    found = {row[KEY]: row for row in await walk.graph.among(KEY, keys, columns=[KEY, *COLUMNS])}
    if not all(one in entities for one in nodes) or not all(one in found for one in keys):
        return None
    return Path(
        entities=tuple(entities[one] for one in nodes),
        relations=tuple(relation_of(found[one]) for one in keys),
        cost=float(len(keys)) if cost is None else cost,
    )


def _check_bounds(max_steps: int | None, limit: int) -> None:
    if max_steps is not None:
        check_count(max_steps, "max_steps", least=0)
    check_count(limit, "limit")


def _check_room(n_seen: int, limit: int) -> None:
    if n_seen > limit:
        _refuse(limit)


def _refuse(limit: int) -> NoReturn:
    raise InvalidRequestError(
        f"limit={limit}: no way was found among so many entities; raise it, name types, or say "
        "max_steps"
    )
