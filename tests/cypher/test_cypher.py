"""Questions in Cypher: what they find, what they never see, and what they may not do."""

from datetime import UTC, datetime

import pytest

from lance_context_core import ContextStore
from lance_context_core.errors import InvalidRequestError
from lance_context_core.graph import Entity, Relation
from lance_context_core.protocols import CypherCapable

MAY, JUNE = (datetime(2026, month, 1, tzinfo=UTC) for month in (5, 6))


@pytest.fixture(scope="module")
def store():
    with ContextStore.open("memory://") as store:
        lay(store.graph)
        yield store


def lay(graph, *, prefix=""):
    names = [("Ada", "person"), ("Bob", "person"), ("Apollo", "project"), ("Fu'ji", "machine")]
    graph.add_entities(
        [
            Entity(id=prefix + name, name=prefix + name, type=type, properties={"size": len(name)})
            for name, type in names
        ]
    )
    graph.add_relations(
        [
            Relation(source_id=prefix + "Ada", target_id=prefix + "Apollo", type="leads", weight=1),
            Relation(
                source_id=prefix + "Bob", target_id=prefix + "Apollo", type="leads", valid_from=JUNE
            ),
            Relation(source_id=prefix + "Apollo", target_id=prefix + "Fu'ji", type="runs_on"),
        ]
    )


def test_a_pattern_finds_what_is_related_so(store):
    assert isinstance(store.aio.graph, CypherCapable)
    found = store.graph.cypher(
        "MATCH (who:person)-[r:leads]->(what:project)-[:runs_on]->(on) "
        "RETURN who.name AS who, what.id, on.type, r.weight, on.properties ORDER BY who"
    )
    assert [list(row.values()) for row in found] == [
        ["Ada", "Apollo", "machine", 1.0, '{"size":5}'],
        ["Bob", "Apollo", "machine", None, '{"size":5}'],
    ]
    assert list(found[0]) == ["who", "what.id", "on.type", "r.weight", "on.properties"]


def test_any_relation_is_walked_to_a_depth_as_the_walks_do(store):
    found = store.graph.cypher(
        "MATCH (a:Entity)-[:Relation*1..2]->(b:Entity) WHERE a.name = $who RETURN b.name",
        parameters={"who": "Bob"},
    )
    near = store.graph.neighbours("Bob", depth=2, direction="out").entities[1:]
    assert sorted(row["b.name"] for row in found) == sorted(one.name for one in near)


@pytest.mark.parametrize(
    ("at", "names"), [(MAY, ["Ada"]), (JUNE, ["Ada", "Bob"])], ids=["before", "since"]
)
def test_what_holds_at_another_moment_is_asked(store, at, names):
    found = store.graph.cypher("MATCH (a)-[:leads]->(b:project) RETURN a.name AS name", at=at)
    assert sorted(row["name"] for row in found) == names


def test_a_scope_asks_about_its_own_part_alone(store):
    own = store.scope(tenant="acme").graph
    lay(own, prefix="acme-")
    try:
        every = "MATCH (a:Entity) RETURN a.name AS name"
        assert {row["name"][:5] for row in own.cypher(every)} == {"acme-"}
        assert store.scope(tenant="else").graph.cypher(every) == []
        leads = "MATCH (a:person)-[:leads]->(b:project) RETURN a.name AS name"
        assert {row["name"] for row in own.cypher(leads)} == {"acme-Ada", "acme-Bob"}
    finally:
        for one in own.entities():
            own.delete_entity(one.id)


def test_a_branch_is_asked_as_it_is(store):
    store.memory.add(["the records tell which branches there are"])
    draft = store.create_branch("draft")
    draft.graph.add_entities([Entity(id="Cy", name="Cy", type="person")])
    n = "MATCH (a:person) RETURN count(*) AS n"
    counted = [one.graph.cypher(n)[0]["n"] for one in (draft, store)]
    assert counted == [3, 2]
    store.delete_branch("draft")


@pytest.mark.parametrize("value", ["Fu'ji", 'say "Fuji"', "a \\ b", "$who", "') RETURN 1 //"])
def test_a_parameter_is_compared_as_it_is(store, value):
    store.graph.add_entities([Entity(id="it", name=value, type="odd")])
    found = store.graph.cypher(
        "MATCH (a:odd) WHERE a.name = $it RETURN a.name AS name", parameters={"it": value}
    )
    assert found == [{"name": value}]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("CREATE (a:person {name: 'x'})", "CREATE: it may only read"),
        ("MATCH (a:person) DETACH DELETE a", "DETACH: it may only read"),
        ("MATCH (a:person) set a.name = 'x'", "SET: it may only read"),
        ("MATCH (a:person) MERGE (b:person) RETURN a.name", "MERGE: it may only read"),
        ("CALL db.labels()", "CALL: it may only read"),
        ("MATCH (a)-[:leads]-(b) RETURN a.name", "without a direction"),
        ("MATCH (a)-[r]->(b) RETURN a.name", "without a type"),
        ("MATCH (a:person)-[:leads]->(b:Person) RETURN a.name", "differ in case alone"),
        ("MATCH (a:person) WHERE a.name = $who RETURN a.name", "parameters does not have"),
        ("what is this", "cannot be answered"),
        ("MATCH (a:person) RETURN a.nothing", "cannot be answered"),
    ],
    ids=lambda one: one.partition("(")[0].strip().replace(" ", "-")[:20] or "none",
)
def test_what_writes_or_would_be_misunderstood_is_refused(store, query, why):
    before = store.graph.count()
    with pytest.raises(InvalidRequestError, match=why):
        store.graph.cypher(query)
    assert store.graph.count() == before


def test_words_of_writing_are_fine_in_texts_and_names(store):
    found = store.graph.cypher("MATCH (a:Entity) WHERE a.name = 'please CREATE it' RETURN a.id")
    assert found == []


def test_more_rows_than_were_allowed_are_refused(store):
    with pytest.raises(InvalidRequestError, match="max_rows=1 "):
        store.graph.cypher("MATCH (a:person) RETURN a.name", max_rows=1)


def test_a_type_that_nothing_has_finds_nothing(store):
    assert store.graph.cypher("MATCH (a:ghost)-[:haunts]->(b:Entity) RETURN a.name") == []
