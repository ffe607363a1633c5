"""Many entities and relations at once are written as columns: the same rows as one by one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import ContextStore
from lance_context_core.codecs import graph as rows
from lance_context_core.codecs.graph_columns import columns_of, entity_keys, nodes_of
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.graph import Entity, Relation, writing
from lance_context_core.scope import Scope
from lance_context_core.storage.lance.arrow import to_table, written_as
from lance_context_core.storage.lance.schema import GRAPH, KEY

NOW = datetime(2026, 5, 1, tzinfo=UTC)

names = st.sampled_from(["a", "b", "A b", "é", '"q\\', "x\u2028y", "", " ", "x\0y", "\ud800", 3])
good = st.sampled_from(["a", "b", "A  b", "é", '"q\\', "x\u2028y"])
moments = st.none() | st.sampled_from([NOW, NOW + timedelta(days=1), NOW.replace(tzinfo=None)])
sources = st.sampled_from([(), ("s",), ("s", "t", "s"), ["s"], "s", ("",)])
properties = st.sampled_from([{}, {"n": 1}, {"n": {"m": [None]}}, {"n": float("nan")}, (), None])
weights = st.sampled_from([None, 0, 1, 0.5, -1.0, True, float("inf"), "1"])
known = {
    "id": st.none() | good,
    "valid_from": moments,
    "valid_to": moments,
    "recorded_at": moments,
    "source_ids": sources,
    "properties": properties,
    "tenant": st.sampled_from([None, "t", "u"]),
}
entities = st.builds(Entity, name=names, type=good, **known)
relations = st.builds(Relation, source_id=good, target_id=good, type=names, weight=weights, **known)
plain_entities = st.builds(Entity, name=good, type=good)
plain_relations = st.builds(Relation, source_id=good, target_id=good, type=good)


@pytest.mark.parametrize(
    ("sort", "things"),
    [
        pytest.param(Entity, st.lists(plain_entities | entities, min_size=1), id="entities"),
        pytest.param(Relation, st.lists(plain_relations | relations, min_size=1), id="relations"),
    ],
)
@given(data=st.data())
def test_columns_have_the_rows_of_single_things_or_are_refused(
    sort: Any, things: Any, data: Any
) -> None:
    told = data.draw(things)
    scope = data.draw(st.sampled_from([Scope(), Scope(tenant="t"), Scope(user_id="é")]))
    columns = columns_of(told, sort, scope)
    try:
        single = [
            scope.stamp(rows.checked(one, sort, f"[{index}]")) for index, one in enumerate(told)
        ]
    except InvalidRequestError:
        assert columns is None
        return
    if columns is None:
        assert len({rows.scope_of(one) for one in single}) > 1 or not _is_plain(told)
        return
    expected = {row[KEY]: row for row in (rows.to_row(one, now=NOW, author="me") for one in single)}
    assert repr(columns.things()) == repr(single)  # 1 and 1.0 are equal, and not the same
    assert not any(
        one.properties and one.properties is other.properties
        for one, other in zip(columns.things(), told, strict=True)
    )
    columns = columns.distinct()
    ids = columns.named()
    nodes = dict(zip(ids, nodes_of(entity_keys(columns.scope, ids)).tolist(), strict=True))
    made = columns.table(nodes, now=NOW, author="me")
    fields = [one for one in written_as(GRAPH.schema) if one.name in made.column_names]
    wanted = to_table([*expected.values()], written_as(GRAPH.schema))
    for one in fields:
        if one.name != "revision":
            assert made[one.name].to_pylist() == wanted[one.name].to_pylist(), one.name
    assert all(
        wanted[name].null_count == len(wanted)
        for name in GRAPH.schema.names
        if name not in made.column_names
    )
    assert made["revision"].null_count == 0
    assert len(set(made["revision"].to_pylist())) == len(made)


def _is_plain(things: list[Any]) -> bool:
    """Whether no thing has a field that columns leave to a closer look."""
    return all(type(one.source_ids) is tuple for one in things)


@given(st.lists(st.lists(plain_relations, max_size=6), max_size=4))
def test_a_graph_laid_in_columns_is_that_laid_one_by_one(calls: Any) -> None:
    with (
        ContextStore.open("memory://") as many,
        ContextStore.open("memory://") as few,
        pytest.MonkeyPatch.context() as patched,
    ):
        ends = [Entity(id=one, name=one) for one in ("a", "b", "A  b", "é", '"q\\', "x\u2028y")]
        for n, call in enumerate([ends, *calls]):
            answers = []
            for store, least in ((many, 1), (few, 1_000)):
                patched.setattr(writing, "_MANY", least)
                graph = store.graph
                answers.append(graph.add_relations(call) if n else graph.add_entities(call))
            assert answers[0] == answers[1]
        for told in ("entities", "relations"):
            one, other = (
                [_timeless(thing) for thing in getattr(store.graph, told)()]
                for store in (many, few)
            )
            assert one == other


def _timeless(thing: Any) -> tuple[Any, ...]:
    return tuple(getattr(thing, name) for name in type(thing).__slots__ if name != "recorded_at")


ends = [Entity(id=f"e{n}", name=f"n{n}") for n in range(2_000)]
links = [Relation(source_id=f"e{n}", target_id=f"e{n + 1}") for n in range(1_999)]


def test_what_already_has_an_id_and_a_scope_is_returned_without_a_copy() -> None:
    columns = columns_of(ends, Entity, Scope())
    assert columns is not None
    assert all(one is other for one, other in zip(columns.things(), ends, strict=True))
    stamped = columns_of(ends, Entity, Scope(tenant="t"))
    assert stamped is not None
    assert {one.tenant for one in stamped.things()} == {"t"}


def test_a_bad_value_among_many_is_named() -> None:
    with ContextStore.open("memory://") as store:
        bad = [*ends[:1_500], Entity(name=" "), *ends[1_500:]]
        with pytest.raises(InvalidRequestError, match=r"entities\[1500\]\.name is blank"):
            store.graph.add_entities(bad)
        assert store.graph.entities() == []


def test_a_missing_end_among_many_is_named_and_nothing_is_written() -> None:
    with ContextStore.open("memory://") as store:
        lost = [*links, Relation(source_id="e1", target_id="gone")]
        with pytest.raises(NotFoundError, match=r"Relation\.target_id='gone'"):
            store.graph.add(ends, lost)
        assert store.graph.count()["entities"] == 0


def test_many_relations_of_a_merged_entity_lead_to_its_target() -> None:
    with ContextStore.open("memory://") as store:
        store.graph.add(ends)
        store.graph.merge("e1", into="e7")
        store.graph.add_relations(links)
        ways = {(one.source_id, one.target_id) for one in store.graph.relations()}
        assert {("e0", "e7"), ("e7", "e2")} <= ways
        assert len(ways) == len(links)


def test_many_things_laid_again_keep_their_earlier_sources() -> None:
    with ContextStore.open("memory://") as store:
        first = [Entity(id=one.id, name=one.name, source_ids=("s",)) for one in ends[:1_200]]
        again = [Entity(id=one.id, name=one.name, source_ids=("t",)) for one in ends]
        store.graph.add_entities(first)
        store.graph.add_entities(again)
        told = {one.id: one.source_ids for one in store.graph.entities()}
        assert told == {one.id: ("s", "t") if n < 1_200 else ("t",) for n, one in enumerate(ends)}


def test_a_table_is_added_like_the_values_of_its_rows() -> None:
    rows_of = [
        {"id": "x", "name": "Ada", "type": None, "properties": {"age": 7, "town": None}},
        {"id": None, "name": "Bob", "type": "person", "properties": {"age": None, "town": "Oslo"}},
    ]
    with ContextStore.open("memory://") as store:
        bob = rows.entity_id("Bob", "person")
        ways = pa.table({"source_id": ["x"], "target_id": [bob], "weight": [0.5]})
        store.graph.add(pa.Table.from_pylist(rows_of), ways)
        assert [(one.id, one.type, dict(one.properties)) for one in store.graph.entities()] == [
            ("x", "entity", {"age": 7}),
            (bob, "person", {"town": "Oslo"}),
        ]
        assert [(one.type, one.weight) for one in store.graph.relations()] == [("related_to", 0.5)]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"name": ["a"], "colour": ["red"]}, "column 'colour'"),
        ({"id": ["a"]}, "needs a column 'name'"),
        ({"name": [None]}, r"entities\[0\]\.name must be a str"),
        ({"name": [7]}, r"entities\[0\]\.name must be a str"),
    ],
    ids=["unknown column", "missing column", "null name", "number as name"],
)
@pytest.mark.parametrize("n", [1, 2_000])
def test_a_bad_table_is_refused_by_name(table: dict[str, list[Any]], told: str, n: int) -> None:
    with ContextStore.open("memory://") as store:
        many = pa.table({name: some * n for name, some in table.items()})
        with pytest.raises(InvalidRequestError, match=told):
            store.graph.add(many)
        assert store.graph.count()["entities"] == 0
