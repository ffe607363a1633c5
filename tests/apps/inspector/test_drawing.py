"""Graphs: each branch parts from the one that it was made of, each fact is so while it was."""

from datetime import UTC, datetime, timedelta

from lance_context_inspector.drawing import branch_graph, strips

from lance_context_core import ContextRecord
from lance_context_core.results import Branch

BEGIN = datetime(2026, 5, 4, tzinfo=UTC)


def test_a_branch_leaves_the_lane_of_its_parent_at_the_version_that_it_was_made_from():
    branches = [
        Branch(name="early", parent="main", forked_at=2),
        Branch(name="at once", parent="early", forked_at=2),
        Branch(name="of early", parent="early", forked_at=5),
        Branch(name="late", parent="main", forked_at=7),
    ]
    graph = branch_graph(branches, {"first": 2, "last": 9}, 9)
    lanes = {one.name: one for one in graph.lanes}
    assert [one.name for one in graph.lanes] == ["main", "early", "at once", "of early", "late"]
    assert len({one.y for one in graph.lanes}) == 5
    for branch in branches:
        assert lanes[branch.name].from_y == lanes[branch.parent].y, branch
        assert lanes[branch.name].number == branch.forked_at
    at = {one.number: one.x for one in graph.marks}
    assert sorted(at, key=at.get) == sorted(at) == [2, 5, 7, 9]
    assert [lanes[one.name].x for one in branches] == [at[one.forked_at] for one in branches]
    assert [(one.label, one.number) for one in graph.marks if one.kind == "tag"] == [
        ("first", 2), ("last", 9)
    ]  # fmt: skip
    forks = {(one.x, one.y) for one in graph.marks if one.kind == "fork"}
    assert forks == {(lanes[one.name].x, lanes[one.parent].y) for one in branches}
    assert all(0 < one.x < graph.width and 0 < one.y < graph.height for one in graph.marks)


def test_where_there_is_neither_a_branch_nor_a_tag_there_is_no_graph():
    assert branch_graph([], {}, 12) is None


def day(n):
    return BEGIN + timedelta(days=n)


def fact(id, since, until=None, **more):
    ends = {"valid_from": since, "valid_to": until}
    span = {name: None if n is None else day(n).isoformat() for name, n in ends.items()}
    return ContextRecord(
        id=id,
        kind="fact",
        content_type="text/plain",
        created_at=BEGIN,
        updated_at=BEGIN,
        metadata={"fact": span},
        **more,
    )


def test_a_fact_is_so_in_its_strip_from_the_day_when_it_began_to_that_when_it_ended():
    facts = [fact("a", 0, 4), fact("b", 4), fact("c", 2, retired_at=day(6)), fact("d", 8)]
    found = strips(facts, {"a": [day(0), day(2)], "b": [day(4), day(8)], "c": []})
    per_day = found["b"].x / 4
    assert per_day > 0
    for id, days in {"a": (0, 4), "c": (2, 6)}.items():
        ends = found[id].x, found[id].x + found[id].width
        assert tuple(round(one / per_day) for one in ends) == days
    still = {id: one.x + one.width for id, one in found.items() if one.is_so_still}
    assert still == {"b": 100, "d": 100}
    assert [round(found[id].said_x / per_day) for id in "ab"] == [2, 8]
    assert (found["c"].last_said, found["c"].until) == (None, day(6))
    assert all(0 <= one.x < one.x + one.width <= 100 for one in found.values())


def test_what_tells_no_moment_that_can_be_read_has_no_strip():
    odd = [fact(str(n), 0) for n in range(4)]
    odd[0].metadata["fact"] = "since ever"
    odd[1].metadata["fact"]["valid_from"] = "<script>"
    odd[2].metadata["fact"]["valid_from"] = 7
    assert {*strips(odd, {})} == {"3"}
    assert strips([], {}) == {}
