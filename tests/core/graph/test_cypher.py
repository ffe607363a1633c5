"""Questions in Cypher: what they find, what they never see, and what is refused by name."""

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


def values(rows):
    return [list(row.values()) for row in rows]


def test_a_pattern_finds_what_is_related_so(store):
    assert isinstance(store.aio.graph, CypherCapable)
    found = store.graph.cypher(
        "MATCH (who:person)-[r:leads]->(what:project)-[:runs_on]->(on) "
        "RETURN who.name AS who, what.id, on.type, r.weight, on.properties ORDER BY who"
    )
    assert values(found) == [
        ["Ada", "Apollo", "machine", 1.0, '{"size":5}'],
        ["Bob", "Apollo", "machine", None, '{"size":5}'],
    ]
    assert list(found[0]) == ["who", "what.id", "on.type", "r.weight", "on.properties"]


def test_nodes_and_relationships_are_returned_as_the_graph_has_them(store):
    (row,) = store.graph.cypher("MATCH (a {id: 'Ada'})-[r]->(b) RETURN a, r, b")
    assert [row["a"], row["b"]] == [store.graph.get(one) for one in ("Ada", "Apollo")]
    assert row["r"] == store.graph.get_relation(row["r"].id)


def test_any_relation_is_walked_to_a_depth_as_the_walks_do(store):
    found = store.graph.cypher(
        "MATCH (a:Entity)-[:Relation*1..2]->(b:Entity) WHERE a.name = $who RETURN b.name",
        parameters={"who": "Bob"},
    )
    near = store.graph.neighbours("Bob", depth=2, direction="out").entities[1:]
    assert sorted(row["b.name"] for row in found) == sorted(one.name for one in near)


# What openCypher's own scenarios say, in words of our own, of two persons who know each other, one who
# knows herself, and one whom nobody knows.

FACTS = {
    "two relationships of a pattern are never one": (
        "MATCH (a)-[:knows]-(b)-[:knows]-(c) WHERE a.id = 'x' AND c.id = 'x' RETURN b.id",
        [["y"], ["y"]],
    ),
    "two patterns of one MATCH share no relationship": (
        "MATCH (a {id: 'u'})-[r]->(b), (c {id: 'u'})-[s]->(d) RETURN count(*)",
        [[0]],
    ),
    "two MATCH may share one": (
        "MATCH (a {id: 'u'})-[r]->(b) MATCH (c {id: 'u'})-[s]->(d) RETURN count(*)",
        [[1]],
    ),
    "a relationship to itself is found once, whichever way": (
        "MATCH (a {id: 'u'})-[r]-(b) RETURN b.id",
        [["u"]],
    ),
    "a relationship without a direction is found from both ends": (
        "MATCH (a)-[r:knows {weight: 0.5}]-(b) RETURN a.id, b.id ORDER BY a.id",
        [["x", "y"], ["y", "x"]],
    ),
    "no step at all leads from a node to itself": (
        "MATCH (a {id: 'lone'})-[*0..1]->(b) RETURN b.id",
        [["lone"]],
    ),
    "a node of no step has the label of the end": (
        "MATCH (a {id: 'lone'})-[*0..1]->(b:ghost) RETURN b.id",
        [],
    ),
    "a path of exactly two steps": ("MATCH (a {id: 'x'})-[*2]->(b) RETURN b.id", [["x"]]),
    "one of two types": ("MATCH (:p)-[r:ghost|likes]->(b) RETURN b.id", [["lone"]]),
    "one of two labels": ("MATCH (a:ghost|q) RETURN a.id", [["lone"]]),
    "two labels at once are those of no node here": ("MATCH (a:p:q) RETURN a.id", []),
    "a label in WHERE": ("MATCH (a) WHERE NOT a:p RETURN a.id", [["lone"]]),
    "names in backticks": ("MATCH (`a b`:`q`) RETURN `a b`.`id` AS `the id`", [["lone"]]),
    "what is unknown is not found, nor is its negation": (
        "MATCH (a) WHERE a.age > 30 OR NOT a.age > 30 RETURN a.id ORDER BY a.id",
        [["x"], ["y"]],
    ),
    "nothing equals null": ("MATCH (a) WHERE a.age = null OR a.age <> null RETURN a.id", []),
    "a property that is not there is null": (
        "MATCH (a) WHERE a.age IS NULL RETURN a.id ORDER BY a.id DESC",
        [["u"], ["lone"]],
    ),
    "null or true is true": ("MATCH (a:q) WHERE a.age = 1 OR true RETURN a.id", [["lone"]]),
    "null and false is false": (
        "MATCH (a:q) WHERE NOT (a.age = 1 AND false) RETURN a.id",
        [["lone"]],
    ),
    "lists that may be equal": (
        "MATCH (a:q) RETURN [1, null] = [1, null] AS a, [1, null] = [2, null] AS b",
        [[None, False]],
    ),
    "in a list with null": (
        "MATCH (a:q) RETURN 1 IN [1, null] AS a, 2 IN [1, null] AS b",
        [[True, None]],
    ),
    "a text is no number": ("MATCH (a:q) RETURN '1' = 1 AS a, '1' < 2 AS b", [[False, None]]),
    "whole numbers are divided to whole ones": (
        "MATCH (a:q) RETURN 7 / 2 AS a, -7 / 2 AS b, -7 % 2 AS c, 7 / 2.0 AS d",
        [[3, -3, -1, 3.5]],
    ),
    "operators in their order": (
        "MATCH (a:q) RETURN 2 + 3 * 4 - 1 = 13 AND NOT 1 > 2 AS a",
        [[True]],
    ),
    "comparisons one after the other": ("MATCH (a) WHERE 20 < a.age <= 30 RETURN a.id", [["x"]]),
    "null is last": ("MATCH (a) RETURN a.age ORDER BY a.age", [[30], [40], [None], [None]]),
    "and first if the order descends": (
        "MATCH (a) RETURN a.age AS n ORDER BY n DESC SKIP 1 LIMIT 2",
        [[None], [40]],
    ),
    "DISTINCT takes null for one value": (
        "MATCH (a) RETURN DISTINCT a.age AS n ORDER BY n",
        [[30], [40], [None]],
    ),
    "groups are what the other columns say": (
        "MATCH (a) RETURN a:p AS is_p, count(*) AS n, count(a.age) AS m, sum(a.age) AS s ORDER BY is_p",
        [[False, 1, 0, 0], [True, 3, 2, 70]],
    ),
    "of nothing there is one row": (
        "MATCH (a:ghost) RETURN count(*), sum(a.age), min(a.age), avg(a.age), collect(a.age)",
        [[0, 0, None, None, []]],
    ),
    "and none where it is grouped": ("MATCH (a:ghost) RETURN a.id, count(*)", []),
    "an aggregate of different values": (
        "MATCH (a) RETURN count(DISTINCT a:p) AS n, collect(DISTINCT a.age) AS ages, max(a.age) - 1 AS m",
        [[2, [30, 40], 39]],
    ),
    "functions of nodes and relationships": (
        "MATCH (a {id: 'x'})-[r {weight: 0.5}]->(b) RETURN labels(a), type(r), id(b)",
        [[["p"], "knows", "y"]],
    ),
    "functions of values": (
        "MATCH (a:q) RETURN size(a.id) AS n, toUpper(a.id) AS u, coalesce(a.ghost, 'none') AS c",
        [[4, "LONE", "none"]],
    ),
    "texts": (
        "MATCH (a) WHERE a.id STARTS WITH 'l' AND a.id ENDS WITH 'e' AND a.id CONTAINS 'on' RETURN a.id",
        [["lone"]],
    ),
    "escapes, comments and the end": (
        "MATCH (a:q) /* all\nof them */ RETURN 'it\\'s \\u00e9\\n' AS t // so\n;",
        [["it's é\n"]],
    ),
}


@pytest.fixture(scope="module")
def people():
    with ContextStore.open("memory://") as store:
        ages = {"x": {"age": 30}, "y": {"age": 40}, "u": {}}
        store.graph.add(
            [
                *(Entity(id=id, name=id, type="p", properties=one) for id, one in ages.items()),
                Entity(id="lone", name="lone", type="q"),
            ],
            [
                Relation(source_id="x", target_id="y", type="knows", weight=0.5),
                Relation(source_id="y", target_id="x", type="knows"),
                Relation(source_id="u", target_id="u", type="knows"),
                Relation(source_id="x", target_id="lone", type="likes"),
            ],
        )
        yield store.graph


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_of_open_cypher_holds(people, fact):
    query, expected = FACTS[fact]
    assert values(people.cypher(query)) == expected


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


@pytest.mark.parametrize(
    "value", ["Fu'ji", 'say "Fuji"', "a \\ b", "$who", "') RETURN 1 //", "both ' and \""]
)
def test_a_parameter_is_compared_as_it_is(store, value):
    store.graph.add_entities([Entity(id="it", name=value, type="odd")])
    found = store.graph.cypher(
        "MATCH (a:odd) WHERE a.name = $it RETURN a.name AS name", parameters={"it": value}
    )
    assert found == [{"name": value}]
    store.graph.delete_entity("it")


REFUSED = {
    "CREATE (a:person {name: 'x'})": "CREATE: it may only read",
    "MATCH (a:person) DETACH DELETE a": "DETACH: it may only read",
    "MATCH (a:person) set a.name = 'x'": "SET: it may only read",
    "MATCH (a:person) MERGE (b:person) RETURN a.name": "MERGE: it may only read",
    "CALL db.labels()": "CALL: it may only read",
    "MATCH (a) OPTIONAL MATCH (a)-->(b) RETURN a": "OPTIONAL",
    "MATCH (a) WITH a RETURN a": "WITH",
    "MATCH (a) RETURN a UNION MATCH (b) RETURN b": "UNION",
    "UNWIND [1] AS x RETURN x": "UNWIND",
    "MATCH (a) RETURN CASE WHEN true THEN 1 END": "CASE",
    "MATCH (a) WHERE exists(a.name) RETURN a": r"the function exists\(\)",
    "MATCH (a) WHERE (a)-->() RETURN a": "a pattern in an expression",
    "MATCH (a) WHERE a.name =~ 'A.*' RETURN a": "=~",
    "MATCH (a) RETURN toDate(a.name)": r"the function toDate\(\)",
    "MATCH p = (a)-->(b) RETURN a": "the path variable 'p'",
    "MATCH shortestPath((a)-[*1..3]->(b)) RETURN a": "the function 'shortestPath'",
    "MATCH (a)-[*]->(b) RETURN a": "a length without an end",
    "MATCH (a)-[*1..21]->(b) RETURN a": "a length without an end",
    "MATCH (a)-[*3..1]->(b) RETURN a": r"the length \*3..1",
    "MATCH (a)-[r*1..2]->(b) RETURN r": "variable length",
    "MATCH (a)-[r]->(b), (b)-[r]->(c) RETURN a": "'r' for two parts",
    "MATCH (a)-[a]->(b) RETURN a": "'a' for two parts",
    "MATCH (a $all) RETURN a": "a parameter for all properties",
    "MATCH (a), (b {name: a.name}) RETURN a": "by another part of the query",
    "MATCH (a) RETURN *": r"RETURN \*",
    "MATCH (a) RETURN a.name, a.name": "two columns",
    "MATCH (a) RETURN a.name + count(*)": "mixes an aggregate",
    "MATCH (a) RETURN count(sum(a.size))": "an aggregate in count",
    "MATCH (a) WHERE count(*) > 1 RETURN a": "an aggregate in WHERE",
    "MATCH (a) RETURN DISTINCT a.type ORDER BY a.name": "order by a column that is returned",
    "MATCH (a) RETURN a ORDER BY count(*)": "return the aggregate",
    "MATCH (a) RETURN a LIMIT -1": "LIMIT -1",
    "MATCH (a) RETURN a SKIP a.size": "SKIP None",
    "MATCH (a) RETURN b.name": "names 'b', which no earlier MATCH binds",
    "MATCH (a) WHERE b.name = 1 RETURN a": "names 'b', which no earlier MATCH binds",
    "MATCH (a:person) WHERE a.name = $who RETURN a.name": "which parameters lacks",
    "MATCH (a) WHERE a.name RETURN a": "WHERE 'Ada'",
    "MATCH (a) WHERE NOT a.size RETURN a": "NOT of 3",
    "MATCH (a) RETURN a.name * 2": "give numbers",
    "MATCH (a) RETURN 1 / 0": "division",
    "MATCH (a) RETURN 5.0 % 0.0": "5.0 % 0.0",
    "MATCH (a) WHERE [1, 2] < [1, 3] RETURN a": "compare lists with = or IN",
    "MATCH (a) RETURN a.name[0]": r"\[…\]",
    "MATCH (a) WHERE a.recorded_at > '2020-01-01' RETURN a": "compare a time",
    "MATCH (a) RETURN a.name ^ 2": r"\^",
    "MATCH (a:person&thing) RETURN a": "& in a label",
    "MATCH (a RETURN a": r"\) is expected",
    "MATCH (a) RETURN a extra": "the end of the query is expected",
    "RETURN 1": "MATCH … RETURN is expected",
    "what is this": "cannot be answered",
    "": "cannot be answered",
    "MATCH (a) RETURN 'open": "at 17",
    "MATCH (a) WHERE " + "(" * 400 + "true" + ")" * 400 + " RETURN a": "nested too deeply",
    "MATCH (a) WHERE " + "NOT " * 1_000 + "true RETURN a": "more than 1000",
}


@pytest.mark.parametrize("query", REFUSED, ids=lambda one: one[:30].replace("/", "_"))
def test_what_writes_or_is_not_supported_is_refused_by_name(store, query):
    with pytest.raises(InvalidRequestError, match=REFUSED[query]):
        store.graph.cypher(query)


def test_a_parameter_that_nothing_can_be_compared_with_is_refused(store):
    for value in (object(), float("nan"), {"a": 1}, b"x"):
        with pytest.raises(InvalidRequestError, match=r"parameters\['x'\]"):
            store.graph.cypher("MATCH (a) WHERE a.id = $x RETURN a", parameters={"x": value})


def test_words_of_writing_are_fine_in_texts_and_names(store):
    found = store.graph.cypher("MATCH (a:Entity) WHERE a.name = 'please CREATE it' RETURN a.id")
    assert found == []
    assert store.graph.cypher("MATCH (a:CREATE)-[:SET]->(b) RETURN a.id, b.delete") == []


def test_more_rows_than_were_allowed_are_refused(store):
    with pytest.raises(InvalidRequestError, match=r"max_rows=10 "):
        store.graph.cypher("MATCH (a), (b) RETURN count(*)", max_rows=10)
    assert store.graph.cypher("MATCH (a), (b) RETURN count(*) AS n", max_rows=16) == [{"n": 16}]


def test_a_type_that_nothing_has_finds_nothing(store):
    assert store.graph.cypher("MATCH (a:ghost)-[:haunts]->(b:Entity) RETURN a.name") == []
