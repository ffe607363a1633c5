"""Walks: paths, limits, moments, impact, and what is asked of the whole; networkx is the oracle."""

import random
from datetime import UTC, datetime, timedelta

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import ContextStore
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.graph import Entity, Mention, Relation

T0 = datetime(2020, 1, 1, tzinfo=UTC)


def at(year):
    return T0.replace(year=year)


def names(entities):
    return [one.id for one in entities]


def drawn(seed, n=12, m=18):
    draw = random.Random(seed)
    pairs = {(f"{draw.randrange(n)}", f"{draw.randrange(n)}") for _ in range(m)}
    return [(*pair, "r", draw.choice([0.0, 0.5, 1.0, 2.0, 7.5])) for pair in sorted(pairs)]


# Paths


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_paths_are_as_short_and_as_light_as_networkx_finds_them(lay, graph, seed):
    pairs = drawn(seed)
    await lay(*pairs)
    known = {name for pair in pairs for name in pair[:2]}
    directed, undirected = nx.MultiDiGraph(), nx.MultiGraph()
    for source, target, _, weight in pairs:
        for made in (directed, undirected):
            made.add_edge(source, target, weight=weight)
    for source in sorted(known)[:4]:
        for target in sorted(known):
            for direction, oracle in (("out", directed), ("both", undirected)):
                for weighted in (False, True):
                    found = await graph.path(source, target, weighted=weighted, direction=direction)
                    if not nx.has_path(oracle, source, target):
                        assert found is None
                        continue
                    weight = "weight" if weighted else None
                    expected = nx.shortest_path_length(oracle, source, target, weight)
                    assert found.cost == pytest.approx(expected)
                    _is_way(found, source, target, direction)


def _is_way(path, source, target, direction):
    assert (path.entities[0].id, path.entities[-1].id) == (source, target)
    assert len(path.relations) == len(path.entities) - 1
    steps = zip(path.entities, path.relations, path.entities[1:], strict=False)
    for before, relation, after in steps:
        ends = (relation.source_id, relation.target_id)
        ways = [(before.id, after.id), *([(after.id, before.id)] if direction == "both" else [])]
        assert ends in ways


async def test_a_way_of_no_more_steps_may_be_heavier(lay, graph):
    await lay(("a", "b", "r", 1.0), ("b", "c", "r", 1.0), ("a", "c", "r", 5.0))
    light = await graph.path("a", "c", weighted=True)
    assert (names(light.entities), light.cost) == (["a", "b", "c"], 2.0)
    short = await graph.path("a", "c", weighted=True, max_steps=1)
    assert (names(short.entities), short.cost) == (["a", "c"], 5.0)
    assert await graph.path("a", "c", max_steps=0) is None
    assert names((await graph.path("a", "a", max_steps=0)).entities) == ["a"]


async def test_against_the_relations_is_the_way_back(lay, graph):
    await lay(("a", "b"), ("b", "c"))
    assert await graph.path("c", "a", direction="out") is None
    assert names((await graph.path("c", "a", direction="in")).entities) == ["c", "b", "a"]


async def test_a_search_for_a_way_that_grows_too_large_is_given_up(lay, graph):
    await lay(*[("hub", f"{n}") for n in range(50)], ("far", "farther"))
    for weighted in (False, True):
        with pytest.raises(InvalidRequestError, match="limit=2"):
            await graph.path("1", "far", limit=2, weighted=weighted)


# Neighbours


async def test_a_node_with_many_neighbours_answers_with_as_many_as_were_asked_for(lay, graph):
    await lay(*[("hub", f"{n}") for n in range(300)])
    found = await graph.neighbours("hub", depth=10**9, limit=10)
    assert (len(found.entities), len(found.relations), found.is_cut) == (10, 9, True)
    found = await graph.neighbours("hub", limit=301)
    assert (len(found.entities), len(found.relations), found.is_cut) == (301, 300, False)


async def test_parallel_relations_are_read_up_to_a_bound(graph):
    await graph.add_entities([Entity(name=one, id=one) for one in "ab"])
    await graph.add_relations(
        [Relation(source_id="a", target_id="b", id=f"{n}") for n in range(100)]
    )
    found = await graph.neighbours("a", limit=2)
    assert (len(found.relations), found.is_cut) == (40, True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"depth": -1},
        {"depth": 1.5},
        {"limit": 0},
        {"direction": "up"},
        {"types": 7},
        {"at": datetime(2020, 1, 1)},  # noqa: DTZ001 - without a zone, as it must not be
    ],
    ids=["below 0 steps", "half a step", "no entities", "no way", "no types", "no time zone"],
)
async def test_what_no_walk_can_be_is_refused_by_its_name(lay, graph, wrong):
    await lay(("a", "b"))
    with pytest.raises(InvalidRequestError, match=next(iter(wrong))):
        await graph.neighbours("a", **wrong)


# Moments


async def test_a_walk_at_a_moment_sees_what_holds_then(graph):
    await graph.add_entities(
        [
            Entity(name="Ada", id="ada"),
            Entity(name="Acme", id="acme", valid_from=at(2000), valid_to=at(2010)),
            Entity(name="Bolt", id="bolt"),
            Entity(name="Cy", id="cy"),
        ]
    )
    works = {"source_id": "ada", "type": "works_at"}
    await graph.add_relations(
        [
            Relation(**works, target_id="acme", valid_to=at(2008)),
            Relation(**works, target_id="bolt", valid_from=at(2008)),
            Relation(source_id="acme", target_id="cy", type="employs"),
        ]
    )

    async def seen(year, **arguments):
        found = await graph.neighbours("ada", depth=2, at=at(year), **arguments)
        return set(names(found.entities)) - {"ada"}

    assert await seen(1999) == set()
    assert await seen(2000) == {"acme", "cy"}
    assert await seen(2007) == {"acme", "cy"}
    assert await seen(2008) == {"bolt"}
    assert await seen(2008, types="employs") == set()
    assert await graph.path("ada", "cy", at=at(2008)) is None
    assert await graph.path("ada", "cy", at=at(2007), weighted=True) is not None
    everything = await graph.neighbours("ada", depth=2)
    assert set(names(everything.entities)) == {"ada", "acme", "bolt", "cy"}


async def test_a_walk_sees_what_was_known_at_a_moment(lay, graph, clock):
    await lay(("a", "b"))
    then = clock.now()
    clock.advance(days=1)
    await lay(("b", "c"))
    known = await graph.neighbours("a", depth=3, known_at=then)
    assert names(known.entities) == ["a", "b"]
    assert names((await graph.neighbours("a", depth=3)).entities) == ["a", "b", "c"]


async def test_said_again_it_has_been_known_since_it_was_said_first(lay, graph, clock):
    await lay(("a", "b"))
    first = clock.now()
    clock.advance(days=1)
    await lay(("a", "b"))
    assert (await graph.get("a")).recorded_at == first


@pytest.mark.parametrize("days", [0, -1])
async def test_what_ends_before_it_begins_is_refused(graph, days):
    span = {"valid_from": T0, "valid_to": T0 + timedelta(days=days)}
    with pytest.raises(InvalidRequestError, match="the end must come after"):
        await graph.add_entities([Entity(name="a", **span)])
    await graph.add_entities([Entity(name="a", id="a")])
    with pytest.raises(InvalidRequestError, match="the end must come after"):
        await graph.add_relations([Relation(source_id="a", target_id="a", **span)])


# Impact


async def test_of_several_ways_the_one_that_passes_on_the_most_counts(lay, graph):
    await lay(
        ("app", "lib", "depends_on", 0.5),
        ("app", "tool", "depends_on", 1.0),
        ("tool", "lib", "depends_on", 0.9),
        ("doc", "app", "mentions", 1.0),
        ("lib", "libc", "depends_on", 1.0),
    )
    found = await graph.impact("lib", passes={"mentions": 0.1})
    assert [(one.entity.id, pytest.approx(one.score), one.depth) for one in found] == [
        ("tool", 0.9, 1),
        ("app", 0.9, 2),
        ("doc", 0.09, 3),
    ]
    assert [one.entity.id for one in await graph.impact("lib", least=0.6, depth=1)] == ["tool"]
    least = await graph.impact("lib", least=0.5, depth=1)
    assert [one.entity.id for one in least] == ["tool", "app"]
    assert [one.entity.id for one in await graph.impact("lib", direction="out")] == ["libc"]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "1", True])
async def test_what_is_passed_on_is_a_share(lay, graph, share):
    await lay(("a", "b"))
    with pytest.raises(InvalidRequestError, match=r"least=|r="):
        await graph.impact("b", passes={"r": share})


# The whole


@pytest.mark.parametrize("seed", [4, 5])
async def test_the_centre_is_where_networkx_finds_it(lay, graph, seed):
    pairs = drawn(seed, m=30)
    await lay(*pairs)
    oracle = nx.MultiDiGraph()
    for source, target, _, weight in pairs:
        oracle.add_edge(source, target, weight=weight)
    degrees = {one.entity.id: one.score for one in await graph.central(limit=99)}
    assert degrees == {name: float(n) for name, n in oracle.degree()}
    ranks = {one.entity.id: one.score for one in await graph.central(by="pagerank", limit=99)}
    assert ranks == pytest.approx(solved(oracle), abs=1e-6)


def solved(oracle):
    """The ranks, as the solution of the equations that they are."""
    weights = nx.to_numpy_array(oracle, weight="weight")
    n, sums = len(weights), weights.sum(axis=1, keepdims=True)
    passed = np.divide(weights, sums, out=np.full_like(weights, 1 / n), where=sums > 0)
    ranks = np.linalg.solve(np.eye(n) - 0.85 * passed.T, np.full(n, 0.15 / n))
    return dict(zip(oracle, ranks, strict=True))


@pytest.mark.parametrize("seed", [6, 7])
async def test_what_hangs_together_is_what_networkx_finds_connected(lay, graph, seed):
    pairs = drawn(seed, n=30, m=22)
    await lay(*pairs)
    oracle = nx.Graph([pair[:2] for pair in pairs])
    expected = {frozenset(one) for one in nx.connected_components(oracle) if len(one) > 1}
    found = await graph.communities(limit=99)
    assert {frozenset(names(one)) for one in found} == expected
    assert [len(one) for one in found] == sorted((len(one) for one in expected), reverse=True)


async def test_louvain_parts_two_circles_that_one_relation_joins(lay, graph):
    def circle(members):
        return [(a, b) for a in members for b in members if a < b]

    await lay(*circle("abcd"), *circle("wxyz"), ("d", "w"))
    found = await graph.communities(by="louvain")
    assert {frozenset(names(one)) for one in found} == {frozenset("abcd"), frozenset("wxyz")}
    assert len(await graph.communities()) == 1


async def test_who_is_spoken_of_most_comes_first(lay, graph):
    await lay(("a", "b"))
    await graph.add_mentions(
        [Mention(entity_id=name, source_id=f"{n}", text=name) for n, name in enumerate("bab")]
    )
    found = await graph.central(by="mentions")
    assert [(one.entity.id, one.score) for one in found] == [("b", 2.0), ("a", 1.0)]


async def test_an_empty_graph_has_no_centre_and_no_groups(graph):
    assert await graph.central() == []
    assert await graph.central(by="pagerank") == []
    assert await graph.communities() == []
    assert not await graph.subgraph()
    assert await graph.count() == dict.fromkeys(
        ["entities", "relations", "mentions", "statements"], 0
    )


# Subgraphs


async def test_the_subgraph_of_a_session_has_what_is_spoken_of_there(lay, graph):
    await lay(("a", "b"), ("b", "c"), ("c", "d"))
    said = {"a": ("1", None), "b": ("1", "doc"), "c": ("2", "doc")}
    await graph.add_mentions(
        [
            Mention(entity_id=name, source_id="r", text=name, session_id=session, document_id=doc)
            for name, (session, doc) in said.items()
        ]
    )
    of_session = await graph.subgraph(session_id="1")
    assert names(of_session.entities) == ["a", "b"]
    assert [(one.source_id, one.target_id) for one in of_session.relations] == [("a", "b")]
    assert names((await graph.subgraph(document_id="doc")).entities) == ["b", "c"]
    assert len((await graph.subgraph()).relations) == 3
    assert (await graph.subgraph(limit=2)).is_cut


async def test_a_subgraph_is_a_graph_of_networkx(lay, graph):
    await lay(("a", "b", "knows", 0.5), ("a", "b", "likes"))
    made = (await graph.subgraph()).to_networkx()
    assert sorted(made.nodes(data="name")) == [("a", "a"), ("b", "b")]
    found = {(data["type"], data["weight"]) for _, _, data in made.edges(data=True)}
    assert found == {("knows", 0.5), ("likes", 1.0)}


async def test_a_way_from_nowhere_is_refused(lay, graph):
    await lay(("a", "b"))
    for ends in (("a", "nobody"), ("nobody", "a")):
        with pytest.raises(NotFoundError, match="nobody"):
            await graph.path(*ends)


NAMES = ["Ada", "Ada Lovelace", "New York", "York", "C++", "AT&T", "O'Brien", "Zoë", "京都"]
OTHERS = ["works", "in", "nowhere", "Lovelace", "New"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*NAMES, *OTHERS]), st.sampled_from(["", ",", "?", "'s", ").", "…"])
        ),
        max_size=8,
    )
)
def test_the_entities_that_a_text_names_are_found_longest_names_first(drawn):
    with ContextStore.open("memory://") as store:
        store.graph.add_entities([Entity(name=one) for one in NAMES])
        found = [one.name for one in store.graph.named_in(" ".join(map("".join, drawn)), limit=99)]
    # What stands between two signs is a run of words, in which each name may be.
    runs = "".join(f"{word}{' ' if not sign else '|'}" for word, sign in drawn).split("|")
    wanted = {one for one in NAMES for run in runs if f" {one} " in f" {run.strip()} "}
    assert {*found} >= wanted
    assert {*found} <= {one for one in NAMES if one in " ".join(word for word, _ in drawn)}
    n_words = [len(one.split()) for one in found]
    assert n_words == sorted(n_words, reverse=True)
