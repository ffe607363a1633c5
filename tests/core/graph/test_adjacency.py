"""The graph in memory answers as the indexes do, whatever was written in between, and by whomever."""

import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lance_context_core import AsyncContextStore
from lance_context_core.graph import Entity, Relation
from lance_context_core.graph import near as nearness
from lance_context_core.graph.adjacency import Adjacency
from lance_context_core.settings import SearchCache

TIMES = [None, *(datetime(2026, month, 1, tzinfo=UTC) for month in (3, 6))]


def drawn_entity(draw, name):
    return Entity(
        id=name,
        name=draw.choice([name, 'the "odd" one', "Łódź\\", "two\nlines"]),
        type=draw.choice(["person", "thing"]),
        properties=draw.choice([{}, {"size": 3}]),
        valid_from=draw.choice(TIMES),
    )


def drawn_relation(draw, names):
    source, target = draw.choice(names), draw.choice(names)
    return Relation(
        source_id=source,
        target_id=target,
        type=draw.choice(["knows", "leads"]),
        weight=draw.choice([None, 0.5]),
        source_ids=draw.choice([(), ("s1",), ("s1", "s2")]),
        valid_from=draw.choice(TIMES),
    )


async def write(draw, graph, names):
    """One write of some sort."""
    verb = draw.choice(["add", "add", "add", "delete", "unrelate", "merge", "forget"])
    there = [one.id for one in await graph.entities()]
    if verb == "add" or len(there) < 4:
        some = draw.sample(names, 3)
        await graph.add_entities([drawn_entity(draw, one) for one in some if one not in there])
        pool = [*{*there, *some}]
        await graph.add_relations([drawn_relation(draw, pool) for _ in range(4)])
    elif verb == "delete":
        await graph.delete_entity(draw.choice(there))
    elif verb == "merge":
        await graph.merge(*draw.sample(there, 2))
    elif verb == "forget":
        await graph.forget([draw.choice(["s1", "s2"])])
    elif relations := await graph.relations():
        await graph.delete_relation(draw.choice(relations).id)


def told(found):
    # Which of several of one step comes first is not promised.
    return {one.id: one for one in found.entities}, {one.id: one for one in found.relations}


async def both(graph, other, entity_id, **asked):
    mine = await graph.neighbours(entity_id, **asked)
    assert told(mine) == told(await other.neighbours(entity_id, **asked))
    assert len(mine.entities) == len(told(mine)[0])
    return mine


@pytest.mark.parametrize("seed", range(4))
async def test_walks_in_memory_find_what_the_indexes_find(tmp_path, seed):
    draw, names = random.Random(seed), [f"e{n}" for n in range(8)]
    n_near = 0
    async with (
        await AsyncContextStore.open(tmp_path / "s") as store,
        await AsyncContextStore.open(tmp_path / "s", search_cache=None) as other,
    ):
        for _ in range(12):
            await write(draw, draw.choice([store, other]).graph, names)
            there = [one.id for one in await other.graph.entities()]
            for one in draw.sample(there, min(3, len(there))):
                asked = {
                    "depth": draw.choice([0, 1, 2, 3]),
                    "direction": draw.choice(["in", "out", "both"]),
                    "types": draw.choice([None, "knows", ["leads", "knows"], "none"]),
                    "at": draw.choice(TIMES),
                }
                await both(store.graph, other.graph, one, **asked)
            n_near += await nearness.near(store.graph._graph) is not None
    assert n_near > 6


async def test_a_scope_walks_its_own_part_in_memory(tmp_path):
    async with await AsyncContextStore.open(tmp_path / "s") as store:
        for tenant in ("a", "b", "c"):
            own = store.scope(tenant=tenant).graph
            await own.add_entities([Entity(id=one, name=one + tenant) for one in ("x", "y")])
            await own.add_relations([Relation(source_id="x", target_id="y")])
        for tenant in ("a", "b", "c"):
            found = await store.scope(tenant=tenant).graph.neighbours("x")
            assert [one.name for one in found.entities] == ["x" + tenant, "y" + tenant]
            assert {one.tenant for one in (*found.entities, *found.relations)} == {tenant}
        everywhere = await store.graph.neighbours("x")
        assert len(everywhere.entities) == 6
        assert await nearness.near(store.graph._graph) is not None


async def test_a_limit_cuts_in_memory_as_by_the_indexes(tmp_path):
    async with (
        await AsyncContextStore.open(tmp_path / "s") as store,
        await AsyncContextStore.open(tmp_path / "s", search_cache=None) as other,
    ):
        await store.graph.add_entities([Entity(id=f"e{n}", name="x") for n in range(30)])
        await store.graph.add_relations(
            [Relation(source_id="e0", target_id=f"e{n}") for n in range(1, 30)]
        )
        for limit in (1, 5, 29, 30, 31):
            mine, theirs = [
                await one.graph.neighbours("e0", depth=2, limit=limit) for one in (store, other)
            ]
            assert mine == theirs
            assert (len(mine.entities), mine.is_cut) == (min(limit, 30), limit < 30)


async def test_more_changes_than_are_held_beside_the_arrays_have_them_made_anew(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("lance_context_core.graph.adjacency._MOST_ADDED", 3)
    async with await AsyncContextStore.open(tmp_path / "s") as store:
        await store.graph.add_entities([Entity(id="hub", name="hub")])
        for n in range(6):
            await store.graph.add_entities([Entity(id=f"e{n}", name="x")])
            await store.graph.add_relations([Relation(source_id="hub", target_id=f"e{n}")])
            assert len((await store.graph.neighbours("hub")).entities) == n + 2


async def test_a_graph_that_takes_more_than_the_cache_is_walked_by_the_indexes(tmp_path):
    cache = SearchCache(max_bytes=3_000)
    async with await AsyncContextStore.open(tmp_path / "s", search_cache=cache) as store:
        await store.graph.add_entities([Entity(id=f"e{n}", name="x" * 50) for n in range(99)])
        await store.graph.add_relations([Relation(source_id="e0", target_id="e1")])
        for _ in range(3):
            assert len((await store.graph.neighbours("e0")).entities) == 2
        assert await nearness.near(store.graph._graph) is None


async def test_plain_relations_take_no_memory_for_what_the_arrays_have(tmp_path):
    n, names = 500, ["a" * 300, "b" * 300]
    async with await AsyncContextStore.open(tmp_path / "s") as store:
        await store.graph.add_entities([Entity(id=one, name=one) for one in names])
        await store.graph.add_relations(
            [Relation(id=f"r{i}", source_id=names[0], target_id=names[1]) for i in range(n)]
        )
        for _ in range(2):
            await store.graph.neighbours(names[0])
        made = await nearness.near(store.graph._graph)
        assert isinstance(made, Adjacency)
        assert made.n_bytes < n * 100  # the ends alone are 600 letters of each relation


async def test_what_is_erased_is_in_no_arrays(tmp_path):
    async with await AsyncContextStore.open(tmp_path / "s") as store:
        said = await store.memory.add(["Ada leads Apollo"])
        source = said[0] if isinstance(said[0], str) else said[0].id
        await store.graph.add_entities(
            [
                Entity(id="ada", name="Ada", source_ids=(source,)),
                Entity(id="apollo", name="Apollo", source_ids=("else",)),
            ]
        )
        await store.graph.add_relations([Relation(source_id="ada", target_id="apollo")])
        assert len((await store.graph.neighbours("apollo")).entities) == 2
        await store.erase(ids=[source])
        found = await store.graph.neighbours("apollo")
        assert [one.name for one in found.entities] == ["Apollo"]
        assert not found.relations
        made = await nearness.near(store.graph._graph)
        assert isinstance(made, Adjacency)
        assert b"Ada" not in made.entities.ids.buffers()[2].to_pybytes()


async def test_values_of_the_arrays_are_those_of_their_class(tmp_path):
    async with await AsyncContextStore.open(tmp_path / "s") as store:
        (one,) = await store.graph.add_entities([Entity(id="e", name="E", type="t")])
        await store.graph.neighbours("e")
        (found,) = (await store.graph.neighbours("e")).entities
        kept = await store.graph.get("e")
        assert (found, type(found), hash(found.id)) == (kept, Entity, hash(one.id))
        with pytest.raises(AttributeError):
            found.name = "other"
        assert replace(found, name="F").name == "F"
