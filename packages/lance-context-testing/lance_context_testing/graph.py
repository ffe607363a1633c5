"""Conformance tests of `GraphStore`."""

import random
from collections import deque
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.graph import Entity, Relation
from lance_context_core.protocols import GraphStore
from lance_context_testing._contract import Contract, assert_has_the_methods
from lance_context_testing.samples import METADATA, NAMES


class GraphStoreTests(Contract):
    """Give the fixture `graph`, an empty `GraphStore`."""

    hooks: ClassVar = {"graph": "an empty GraphStore"}

    def test_it_has_the_methods_of_the_protocol(self, graph: GraphStore) -> None:
        assert_has_the_methods(graph, GraphStore)

    # Entities and relations

    async def test_an_entity_is_read_as_it_was_added(self, graph: GraphStore) -> None:
        (made,) = await graph.add_entities(
            [Entity(name="Ada", type="person", properties={"born": 1815}, source_ids=("r1",))]
        )
        assert made.id is not None
        found = await graph.get(made.id)
        assert found is not None
        assert (found.id, found.name, found.type) == (made.id, "Ada", "person")
        assert (found.properties, found.source_ids) == ({"born": 1815}, ("r1",))

    async def test_what_is_called_alike_and_of_one_type_is_the_same(
        self, graph: GraphStore
    ) -> None:
        first, second, other = await graph.add_entities(
            [
                Entity(name="Ada", type="person"),
                Entity(name=" ADA ", type="person"),
                Entity(name="Ada", type="language"),
            ]
        )
        assert first.id == second.id != other.id

    async def test_adding_an_entity_again_replaces_what_it_says(self, graph: GraphStore) -> None:
        await graph.add_entities([Entity(name="Ada", id="a", properties={"x": 1, "y": 2})])
        await graph.add_entities([Entity(name="Ada L.", id="a", properties={"x": 3})])
        found = await graph.get("a")
        assert found is not None
        assert (found.name, found.properties) == ("Ada L.", {"x": 3})

    async def test_any_text_names_an_entity(self, graph: GraphStore) -> None:
        await graph.add_entities([Entity(name="n", id=name) for name in NAMES])
        for name in NAMES:
            found = await graph.get(name)
            assert found is not None
            assert found.id == name

    async def test_properties_of_every_shape_come_back_equal(self, graph: GraphStore) -> None:
        made = [Entity(name="n", id=f"{n}", properties=one) for n, one in enumerate(METADATA)]
        await graph.add_entities(made)
        for n, properties in enumerate(METADATA):
            found = await graph.get(f"{n}")
            assert found is not None
            assert found.properties == properties

    async def test_a_relation_is_read_as_it_was_added(self, graph: GraphStore) -> None:
        await _chain(graph, "ab")
        (made,) = await graph.add_relations(
            [Relation(source_id="a", target_id="b", type="knows", weight=0.0, properties={"n": 1})]
        )
        assert made.id is not None
        found = await graph.get_relation(made.id)
        assert found is not None
        assert (found.source_id, found.target_id, found.type) == ("a", "b", "knows")
        assert (found.weight, found.properties) == (0.0, {"n": 1})

    async def test_a_relation_that_is_said_again_is_the_same(self, graph: GraphStore) -> None:
        await _chain(graph, "ab")
        knows = Relation(source_id="a", target_id="b", type="knows")
        (first,) = await graph.add_relations([knows])
        (again,) = await graph.add_relations([knows])
        assert first.id == again.id
        assert len((await graph.neighbours("a", types="knows")).relations) == 1

    async def test_a_relation_to_what_is_not_there_is_refused_and_nothing_is_written(
        self, graph: GraphStore
    ) -> None:
        await _chain(graph, "ab")
        good = Relation(source_id="a", target_id="b", type="knows", id="good")
        with pytest.raises(NotFoundError):
            await graph.add_relations([good, Relation(source_id="a", target_id="nobody")])
        assert await graph.get_relation("good") is None

    @pytest.mark.parametrize("weight", [float("nan"), float("inf"), -1.0, "1", True])
    async def test_a_weight_that_is_none_is_refused(self, graph: GraphStore, weight: Any) -> None:
        await _chain(graph, "ab")
        with pytest.raises(InvalidRequestError):
            await graph.add_relations([Relation(source_id="a", target_id="b", weight=weight)])

    @pytest.mark.parametrize("blank", ["", " ", "\t\n"], ids=["empty", "a space", "tab and line"])
    async def test_a_blank_name_or_type_is_refused(self, graph: GraphStore, blank: str) -> None:
        for entity in (Entity(name=blank), Entity(name="Ada", type=blank)):
            with pytest.raises(InvalidRequestError):
                await graph.add_entities([entity])

    # Neighbours

    async def test_neighbours_are_what_a_walk_over_all_relations_finds(
        self, graph: GraphStore
    ) -> None:
        draw = random.Random(7)
        names = [f"{n}" for n in range(14)]
        pairs = [
            (draw.choice(names), draw.choice(names), draw.choice(["knows", "likes"]))
            for _ in range(24)
        ]
        await graph.add_entities([Entity(name=name, id=name) for name in names])
        await graph.add_relations(
            [Relation(source_id=a, target_id=b, type=sort) for a, b, sort in pairs]
        )
        for start in names[:4]:
            for direction in ("out", "in", "both"):
                for types in (None, "knows"):
                    for depth in (0, 1, 2, 10**9):
                        found = await graph.neighbours(
                            start, depth=depth, direction=direction, types=types
                        )
                        steps = _walked(pairs, start, depth, direction, types)
                        order = [steps[one.id] for one in found.entities if one.id is not None]
                        assert {one.id for one in found.entities} == set(steps)
                        assert order == sorted(order)
                        assert found.entities[0].id == start

    async def test_an_entity_that_relates_to_itself_is_its_neighbour_once(
        self, graph: GraphStore
    ) -> None:
        await _chain(graph, "a")
        await graph.add_relations([Relation(source_id="a", target_id="a", type="calls")])
        found = await graph.neighbours("a", depth=5)
        assert [one.id for one in found.entities] == ["a"]
        assert [one.type for one in found.relations] == ["calls"]

    async def test_neighbours_of_what_is_not_there_are_refused(self, graph: GraphStore) -> None:
        with pytest.raises(NotFoundError):
            await graph.neighbours("nobody")

    # Deleting

    async def test_with_an_entity_go_its_relations_and_nothing_else(
        self, graph: GraphStore
    ) -> None:
        await _chain(graph, "abc")
        assert await graph.delete_entity("b") is True
        assert await graph.delete_entity("b") is False
        assert await graph.get("b") is None
        for name in ("a", "c"):
            found = await graph.neighbours(name, depth=3)
            assert ([one.id for one in found.entities], found.relations) == ([name], ())

    async def test_a_deleted_relation_leaves_its_ends(self, graph: GraphStore) -> None:
        await _chain(graph, "ab")
        (relation,) = (await graph.neighbours("a")).relations
        assert relation.id is not None
        assert await graph.delete_relation(relation.id) is True
        assert await graph.delete_relation(relation.id) is False
        assert await graph.get("b") is not None
        assert (await graph.neighbours("a")).relations == ()

    async def test_what_is_not_there_is_absent(self, graph: GraphStore) -> None:
        assert await graph.get("a") is None
        assert await graph.get_relation("a") is None
        assert await graph.delete_entity("a") is False
        assert await graph.delete_relation("a") is False


async def _chain(graph: GraphStore, names: str) -> None:
    """Entities named by these letters, each related to the next."""
    await graph.add_entities([Entity(name=name, id=name) for name in names])
    await graph.add_relations(
        [Relation(source_id=a, target_id=b, type="next") for a, b in pairwise(names)]
    )


def _walked(
    pairs: list[tuple[str, str, str]], start: str, depth: int, direction: str, types: str | None
) -> dict[str, int]:
    """The reachable entities with their distance: by a queue, over all relations each time."""
    steps, queue = {start: 0}, deque([start])
    while queue:
        node = queue.popleft()
        for a, b, sort in pairs:
            if types not in (None, sort) or steps[node] == depth:
                continue
            for source, target, way in ((a, b, "out"), (b, a, "in")):
                if source == node and target not in steps and direction in (way, "both"):
                    steps[target] = steps[node] + 1
                    queue.append(target)
    return steps
