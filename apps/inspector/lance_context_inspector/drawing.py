"""Graphs: where things stand in them. The templates draw, and beside each picture is a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lance_context_core import ContextRecord
from lance_context_core.graph import SubGraph
from lance_context_core.knowledge import Explanation
from lance_context_core.results import Branch
from lance_context_inspector.safe import brief

MOST_BRANCHES = 16
MOST_NODES = 48
_STEP, _LANE, _TOP, _LEFT = 92, 40, 56, 24


@dataclass(frozen=True, slots=True)
class Mark:
    """A point on a lane, with what it is called."""

    x: int
    y: int
    label: str
    kind: str
    """`tag`, `fork` or `head`."""
    number: int


@dataclass(frozen=True, slots=True)
class Lane:
    """A branch: where it parts from another one, and where it ends."""

    name: str
    x: int
    y: int
    from_y: int
    end: int
    number: int


@dataclass(frozen=True, slots=True)
class BranchGraph:
    """Branches from left to right, in the order of the versions at which they part."""

    width: int
    height: int
    lanes: Sequence[Lane]
    marks: Sequence[Mark]


def branch_graph(
    branches: Sequence[Branch], tags: Mapping[str, int], version: int
) -> BranchGraph | None:
    """The newest branches, and the newest tags of main; None where there are none."""
    parents = {one.name: one.parent for one in branches}

    def placed(one: Branch) -> tuple[int, int, str]:
        """Behind its parent, also where both part at one version."""
        n_above, above = 0, one.parent
        while above in parents and n_above < len(parents):
            n_above, above = n_above + 1, parents[above]
        return one.forked_at, n_above, one.name

    shown = sorted(branches, key=placed)[-MOST_BRANCHES:]
    named = sorted(tags.items(), key=lambda one: (one[1], one[0]))[-MOST_BRANCHES:]
    if not shown and not named:
        return None
    numbers = sorted({*(one.forked_at for one in shown), *(n for _, n in named), version})
    place = {number: _LEFT + _STEP // 3 + i * _STEP for i, number in enumerate(numbers)}
    end = max(place.values()) + _STEP
    ys = {"main": _TOP}
    lanes = [Lane("main", _LEFT, _TOP, _TOP, end, 0)]
    for number, one in enumerate(shown, 1):
        ys[one.name] = y = _TOP + number * _LANE
        lanes.append(
            Lane(one.name, place[one.forked_at], y, ys.get(one.parent, _TOP), end, one.forked_at)
        )
    marks = [Mark(place[number], _TOP, brief(name, 18), "tag", number) for name, number in named]
    marks += [Mark(one.x, one.from_y, "", "fork", one.number) for one in lanes[1:]]
    marks.append(Mark(place[version], _TOP, "", "head", version))
    return BranchGraph(end + 190, max(ys.values()) + 28, lanes, marks)


@dataclass(frozen=True, slots=True)
class Node:
    """A record or a job of an explanation."""

    id: str
    kind: str
    text: str
    x: int
    y: int
    is_asked: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """How two of them belong together."""

    x1: int
    y1: int
    x2: int
    y2: int
    relation: str


@dataclass(frozen=True, slots=True)
class EvidenceGraph:
    """What was said on the left, what was made of it in the middle, jobs on the right."""

    width: int
    height: int
    nodes: Sequence[Node]
    edges: Sequence[Edge]
    n_left_out: int


_COLUMNS = {"message": 0, "chunk": 1, "fact": 1, "summary": 1, "job": 2}
NODE_WIDTH, NODE_HEIGHT = 240, 44
_ACROSS, _DOWN = 330, 58


def evidence_graph(found: Explanation) -> EvidenceGraph | None:
    """The things of an explanation, the one that was asked about first; None for it alone."""
    near = [one for one in found.links if found.id in (one.source_id, one.target_id)]
    ids = [found.id, *_ends(near), *_ends(found.links), *found.records]
    ids = list(dict.fromkeys(ids))
    if len(ids) < 2:
        return None
    heights = [0, 0, 0]
    nodes: dict[str, Node] = {}
    for id in ids[:MOST_NODES]:
        record = found.records.get(id)
        kind = "job" if record is None else record.kind
        column = _COLUMNS.get(kind, 0)
        text = id if record is None else brief(record.text or record.content_type, 64)
        x, y = column * _ACROSS, heights[column] * _DOWN
        heights[column] += 1
        nodes[id] = Node(id, kind, text, x, y, id == found.id)
    edges = [
        _edge(nodes[one.source_id], nodes[one.target_id], one.relation)
        for one in found.links
        if one.source_id in nodes and one.target_id in nodes
    ]
    width = 2 * _ACROSS + NODE_WIDTH
    height = max(heights) * _DOWN - (_DOWN - NODE_HEIGHT)
    return EvidenceGraph(width, height, [*nodes.values()], edges, len(ids) - len(nodes))


def entity_graph(near: SubGraph) -> EvidenceGraph:
    """An entity on the left, and what is reached from it in as many columns as there are steps."""
    steps = _steps(near)
    shown = [one for one in near.entities if one.id in steps][:MOST_NODES]
    heights: dict[int, int] = {}
    nodes: dict[str, Node] = {}
    for one in shown:
        column = steps[one.id or ""]
        x, y = column * _ACROSS, heights.get(column, 0) * _DOWN
        heights[column] = heights.get(column, 0) + 1
        nodes[one.id or ""] = Node(one.id or "", one.type, brief(one.name, 64), x, y, column == 0)
    edges = [
        _edge(nodes[one.source_id], nodes[one.target_id], one.type)
        for one in near.relations
        if one.source_id in nodes and one.target_id in nodes
    ]
    width = max(heights, default=0) * _ACROSS + NODE_WIDTH
    height = max(heights.values(), default=1) * _DOWN - (_DOWN - NODE_HEIGHT)
    return EvidenceGraph(width, height, [*nodes.values()], edges, len(near.entities) - len(nodes))


def _steps(near: SubGraph) -> dict[str, int]:
    """How many relations each entity is away from the first one."""
    found = {near.entities[0].id or "": 0}
    frontier = list(found)
    while frontier:
        ends = [
            other
            for one in near.relations
            for here, other in ((one.source_id, one.target_id), (one.target_id, one.source_id))
            if here in frontier and other not in found
        ]
        step = found[frontier[0]] + 1
        found |= dict.fromkeys(ends, step)
        frontier = [*dict.fromkeys(ends)]
    return found


def _ends(links: Iterable[object]) -> list[str]:
    return [getattr(one, name) for one in links for name in ("source_id", "target_id")]


def _edge(source: Node, target: Node, relation: str) -> Edge:
    left, right = sorted((source, target), key=lambda one: one.x)
    middle = NODE_HEIGHT // 2
    if left.x == right.x:
        return Edge(left.x, left.y + middle, right.x, right.y + middle, relation)
    return Edge(left.x + NODE_WIDTH, left.y + middle, right.x, right.y + middle, relation)


@dataclass(frozen=True, slots=True)
class Strip:
    """When a fact was so, in a strip of 100 that all facts of a page have in common."""

    since: datetime
    until: datetime | None
    """None if it is so still, or no one said until when."""
    is_so_still: bool
    last_said: datetime | None
    """When the last of the turns was said that say so; None if none of them does any more."""
    x: float
    width: float
    said_x: float | None


def strips(
    facts: Sequence[ContextRecord], said: Mapping[str, Sequence[datetime]]
) -> Mapping[str, Strip]:
    """The strips of facts by their ids; `said` has when the turns of each were said.

    A strip goes from the first moment that is reported any to the last one, so that a page of a moment
    stays what it was. What tells no `valid_from` has none.
    """
    spans = {one.id: span for one in facts if (span := _span(one)) is not None}
    moments = [each for span in spans.values() for each in span if each is not None]
    moments += [each for id in spans for each in said.get(id, ())]
    if not moments:
        return {}
    first, whole = min(moments), (max(moments) - min(moments)).total_seconds()

    def placed(moment: datetime) -> float:
        return round((moment - first).total_seconds() / whole * 96, 2) if whole else 0.0

    found = {}
    for one in facts:
        if one.id not in spans:
            continue
        since, until = spans[one.id]
        last = max(said.get(one.id, ()), default=None)
        is_open = until is None and one.superseded_by_id is None and one.retired_at is None
        x, end = placed(since), 100.0 if until is None else placed(until)
        mark = None if last is None else placed(last)
        found[one.id] = Strip(since, until, is_open, last, x, max(round(end - x, 2), 1.0), mark)
    return found


def _span(fact: ContextRecord) -> tuple[datetime, datetime | None] | None:
    about = fact.metadata.get("fact")
    if not isinstance(about, Mapping) or (since := _moment(about.get("valid_from"))) is None:
        return None
    return since, _moment(about.get("valid_to")) or fact.retired_at


def _moment(text: object) -> datetime | None:
    """A moment of a record, which anybody may have written; None if it is none."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        return None if moment is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
