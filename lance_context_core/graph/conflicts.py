"""Relations that contradict each other: of a type that leads to one entity at a time."""

from collections import defaultdict
from datetime import UTC, datetime
from itertools import combinations, islice
from typing import Literal

from lance_context_core._util.checks import check_count, shown
from lance_context_core.codecs.graph import RELATION, node, scope_of
from lance_context_core.errors import InvalidRequestError
from lance_context_core.graph.scoped import Moment, ScopedGraph, of_types, relation_of
from lance_context_core.storage import sql
from lance_context_core.types.graph import Relation, RelationConflict

End = Literal["target", "source"]
"""The end of which there is one at a time."""

_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)


async def conflicts(
    graph: ScopedGraph, types: object, *, one: End, moment: Moment, limit: int
) -> list[RelationConflict]:
    """As `AsyncGraph.conflicts`."""
    if one not in ("target", "source"):
        raise InvalidRequestError(f"one={shown(one)}: give 'target' or 'source'")
    if types is None:
        raise InvalidRequestError("types=None: name the types that lead to one entity at a time")
    check_count(limit, "limit")
    named, moved = ("source_id", "target_id") if one == "target" else ("target_id", "source_id")
    groups: dict[tuple[int, str], list[Relation]] = defaultdict(list)
    where = [sql.equals("kind", RELATION), *of_types(types), *moment.conditions]
    for row in await graph.read(*where):
        relation = relation_of(row)
        shared = node(scope_of(relation), getattr(relation, named))
        groups[shared, relation.type].append(relation)
    pairs = (
        (shared, earlier, later)
        for (shared, _), some in groups.items()
        for earlier, later in combinations(sorted(some, key=_order), 2)
        if getattr(earlier, moved) != getattr(later, moved) and _meet(earlier, later)
    )
    found = list(islice(pairs, limit))
    entities = await graph.entities({shared for shared, _, _ in found})
    return [
        RelationConflict(entity=entities[shared], earlier=earlier, later=later)
        for shared, earlier, later in found
        if shared in entities
    ]


def _order(one: Relation) -> tuple[datetime, datetime, str]:
    return one.valid_from or _BEGINNING, one.recorded_at or _BEGINNING, one.id or ""


def _meet(one: Relation, other: Relation) -> bool:
    """Whether both would hold at some moment."""
    since, other_since = one.valid_from or _BEGINNING, other.valid_from or _BEGINNING
    return (one.valid_to is None or one.valid_to > other_since) and (
        other.valid_to is None or other.valid_to > since
    )
