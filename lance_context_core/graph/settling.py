"""Which of the statements about one thing holds: worked out when they are read, from all that are there.

Nothing of it is kept but what somebody has decided. So an erased statement supersedes nothing any more,
and what comes over from another branch takes its place among the others.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations

from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.graph import name_key, node, scope_of
from lance_context_core.types.graph import Statement

LATER = "valid from later"
UNDATED = "nothing tells which of them came later"
BEGINNING = datetime(1, 1, 1, tzinfo=UTC)


@frozen
class Decision:
    """What somebody has said of a statement: that another one stays in its place."""

    stays: str
    reason: str


@frozen
class Pair:
    """Two statements that cannot both hold."""

    earlier: Statement
    later: Statement
    stays: str | None
    reason: str


Slot = tuple[int, str]
"""Of whom, as a node, and what, by its words."""


def slots(statements: Iterable[Statement]) -> dict[Slot, list[Statement]]:
    """The statements by what they are about."""
    found: dict[Slot, list[Statement]] = defaultdict(list)
    for one in statements:
        scope = scope_of(one)
        found[node(scope, one.subject_id), name_key(one.predicate)].append(one)
    return found


def pairs(of_slot: Sequence[Statement], decisions: Mapping[str, Decision]) -> Iterator[Pair]:
    """The contradictions among the statements of one slot, in the order of the later ones.

    Two contradict each other if they say another object of the same time, and neither is one of many.
    The one that holds from later on supersedes; where neither tells since when, or both since the same
    moment, nobody can tell, until somebody decides.
    """
    ids = {one.id for one in of_slot}
    single = sorted((one for one in of_slot if not one.one_of_many), key=_order)
    for earlier, later in combinations(single, 2):
        if _says(earlier) == _says(later) or not _meet(earlier, later):
            continue
        decided = next(
            (
                decision
                for one, other in ((earlier, later), (later, earlier))
                if (decision := decisions.get(one.id or "")) and decision.stays == other.id
            ),
            None,
        )
        if decided is not None and decided.stays in ids:
            yield Pair(earlier, later, decided.stays, decided.reason)
        elif _since(earlier) < _since(later) and later.valid_from is not None:
            told = f"{LATER}: {later.valid_from.isoformat()}"
            yield Pair(earlier, later, later.id, told)
        else:
            yield Pair(earlier, later, None, UNDATED)


def settled(statements: Sequence[Statement], decisions: Mapping[str, Decision]) -> list[Statement]:
    """The statements, each with what supersedes it, if anything does; in their order."""
    found: dict[str, Statement] = {}
    for of_slot in slots(statements).values():
        for pair in pairs(of_slot, decisions):
            for one in (pair.earlier, pair.later):
                if pair.stays not in (None, one.id) and one.id is not None:
                    # Of several that supersede it, the first one to do so.
                    found.setdefault(
                        one.id, replace(one, superseded_by=pair.stays, reason=pair.reason)
                    )
    return [found.get(one.id or "", one) for one in statements]


def _says(one: Statement) -> str:
    return one.object_id or name_key(one.object)


def _meet(one: Statement, other: Statement) -> bool:
    """Whether there is a moment at which both would hold."""
    return (one.valid_to is None or one.valid_to > _since(other)) and (
        other.valid_to is None or other.valid_to > _since(one)
    )


def _since(one: Statement) -> datetime:
    return one.valid_from or BEGINNING


def _order(one: Statement) -> tuple[datetime, datetime, str]:
    return _since(one), one.recorded_at or BEGINNING, one.id or ""
