"""The graph of branches: each parts from the one that it was made of, where it was."""

from lance_context_inspector.drawing import branch_graph

from lance_context_core.results import Branch


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
