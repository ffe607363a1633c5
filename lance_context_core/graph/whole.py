"""Queries about a graph as a whole: central entities and communities.

Reads the numbers of both ends of each relation, sixteen bytes; never its content.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from lance_context_core._util.checks import check_count, shown
from lance_context_core._util.extras import importing
from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.graph import ENTITY, MENTION, RELATION
from lance_context_core.errors import InvalidRequestError
from lance_context_core.graph.scoped import Moment, ScopedGraph, of_types
from lance_context_core.storage import sql
from lance_context_core.types.graph import Entity, Ranked

Centrality = Literal["degree", "pagerank", "mentions"]
"""By the number of relations, by the position of a random walk, or by the number of
mentions."""

Grouping = Literal["components", "louvain"]
"""Connected entities, or entities with more connections within than to others."""

_DAMPING = 0.85
_ROUNDS = 100
_NEAR_ENOUGH = 1e-9


@frozen
class Edges:
    """All entities of a graph by number, from 0, and the relations between them."""

    nodes: np.ndarray
    """The node of each entity: int64, ascending."""
    sources: np.ndarray
    """By relation, the number of its source entity."""
    targets: np.ndarray
    weights: np.ndarray

    @classmethod
    async def read(cls, graph: ScopedGraph, types: object, moment: Moment) -> "Edges":
        """Reads the relations of these types that hold at the moment, and all entities of then."""
        there = await graph.table.select(
            graph.where(sql.equals("kind", ENTITY), *moment.conditions), columns=["node"]
        )
        nodes = np.unique(there["node"].to_numpy())
        found = await graph.table.select(
            graph.where(sql.equals("kind", RELATION), *of_types(types), *moment.conditions),
            columns=["source_node", "target_node", "weight"],
        )
        ends = [found[name].to_numpy() for name in ("source_node", "target_node")]
        weights = found["weight"].to_numpy().astype(np.float64)
        if not len(nodes) or not len(weights):
            nothing = np.zeros(0, np.int64)
            return cls(nodes, nothing, nothing, np.zeros(0))
        places = [np.minimum(np.searchsorted(nodes, end), len(nodes) - 1) for end in ends]
        inside = np.logical_and.reduce(
            [nodes[place] == end for place, end in zip(places, ends, strict=True)]
        )
        return cls(
            nodes, places[0][inside], places[1][inside], np.nan_to_num(weights[inside], nan=1.0)
        )

    def degrees(self) -> np.ndarray:
        """Returns the number of relations of each; one to itself counts twice."""
        n = len(self.nodes)
        counted: np.ndarray = np.bincount(self.sources, minlength=n) + np.bincount(
            self.targets, minlength=n
        )
        return counted

    def pageranks(self) -> np.ndarray:
        """Returns the shares of a random walk along the weighted relations; they add up to 1."""
        n = len(self.nodes)
        out = np.bincount(self.sources, self.weights, minlength=n)
        passed = np.divide(
            self.weights,
            out[self.sources],
            out=np.zeros_like(self.weights),
            where=out[self.sources] > 0,
        )
        ranks = np.full(n, 1 / n)
        for _ in range(_ROUNDS):
            flown = np.bincount(self.targets, passed * ranks[self.sources], minlength=n)
            new = (1 - _DAMPING) / n + _DAMPING * (flown + ranks[out == 0].sum() / n)
            change = np.abs(new - ranks).sum()
            ranks = new
            if change < _NEAR_ENOUGH:
                break
        return ranks

    def components(self) -> np.ndarray:
        """Returns for each entity the least number of its connected component, ignoring direction."""
        labels = np.arange(len(self.nodes))
        while True:
            least = np.minimum(labels[self.sources], labels[self.targets])
            new = labels.copy()
            for ends in (self.sources, self.targets):
                np.minimum.at(new, labels[ends], least)
            # Each takes the label of its label, until none changes: chains shrink fast.
            while not np.array_equal(new, shorter := new[new]):
                new = shorter
            if np.array_equal(new, labels):
                return labels
            labels = new


async def central(
    graph: ScopedGraph, *, by: object, types: object, moment: Moment, limit: int
) -> list[Ranked]:
    """Returns the entities with the highest ranks."""
    check_count(limit, "limit")
    if by not in get_args(Centrality):
        raise InvalidRequestError(f"by={shown(by)}: use one of {', '.join(get_args(Centrality))}")
    if by == "mentions":
        found = await graph.table.select(
            graph.where(sql.equals("kind", MENTION)), columns=["about_node"]
        )
        nodes, scores = np.unique(found["about_node"].to_numpy(), return_counts=True)
    else:
        edges = await Edges.read(graph, types, moment)
        if not len(edges.nodes):
            return []
        nodes, scores = edges.nodes, edges.degrees() if by == "degree" else edges.pageranks()
    # A few more than requested: some may be merged into others.
    order = np.argsort(-scores, kind="stable")
    ranked: list[Ranked] = []
    for start in range(0, len(order), 2 * limit):
        some = order[start : start + 2 * limit]
        entities = await graph.entities([int(nodes[one]) for one in some], moment)
        ranked += [
            Ranked(entity=entities[node], score=float(scores[one]))
            for one in some
            if scores[one] > 0 and (node := int(nodes[one])) in entities
        ]
        if len(ranked) >= limit:
            break
    return ranked[:limit]


async def communities(
    graph: ScopedGraph, *, by: object, types: object, moment: Moment, limit: int
) -> list[tuple[Entity, ...]]:
    """Returns the largest groups of at least two entities, the largest first."""
    check_count(limit, "limit")
    if by not in get_args(Grouping):
        raise InvalidRequestError(f"by={shown(by)}: use one of {', '.join(get_args(Grouping))}")
    if by == "louvain":
        with importing("networkx", extra="networkx", by="communities(by='louvain')"):
            import networkx as nx
        edges = await Edges.read(graph, types, moment)
        groups = _louvain(nx, edges)
    else:
        edges = await Edges.read(graph, types, moment)
        labels = edges.components()
        counted = Counter(labels.tolist())
        groups = [
            np.flatnonzero(labels == label).tolist()
            for label, n in sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:limit]
            if n > 1
        ]
    made = []
    for group in groups[:limit]:
        nodes = [int(edges.nodes[one]) for one in group]
        entities = await graph.entities(nodes, moment)
        if len(entities) > 1:
            made.append(tuple(entities[node] for node in nodes if node in entities))
    return made


def _louvain(nx: Any, edges: Edges) -> list[Sequence[int]]:
    made = nx.Graph()
    for source, target, weight in zip(
        edges.sources.tolist(), edges.targets.tolist(), edges.weights.tolist(), strict=True
    ):
        before = made.get_edge_data(source, target, {"weight": 0.0})["weight"]
        made.add_edge(source, target, weight=before + weight)
    groups = nx.community.louvain_communities(made, seed=0)
    return sorted(
        (sorted(one) for one in groups if len(one) > 1), key=lambda one: (-len(one), one[0])
    )
