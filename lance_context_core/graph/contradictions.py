"""Statements about entities, and the contradictions between them."""

import builtins
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from typing import Literal

from lance_context_core._handle import handle
from lance_context_core._util.calls import called
from lance_context_core._util.checks import check_name, check_text, loads, shown
from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs import graph as rows
from lance_context_core.codecs.graph import COLUMNS, STATEMENT, name_key, node, scope_of
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.graph import writing
from lance_context_core.graph.scoped import Moment, Row, ScopedGraph
from lance_context_core.graph.writing import Batch
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.names import next_revision
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.types.graph import Contradiction, Statement

# Which statement of a slot holds: computed when they are read, from all existing ones.
#
# Only decisions are stored. So an erased statement supersedes nothing any more, and a statement
# merged from another branch takes its place among the others.

LATER = "valid from later"
UNDATED = "no date shows which of them is newer"
BEGINNING = datetime(1, 1, 1, tzinfo=UTC)


@frozen
class Decision:
    """A decision that another statement stays in a statement's place."""

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
"""The subject, as a node, and the predicate."""


def slots(statements: Iterable[Statement]) -> dict[Slot, list[Statement]]:
    """Groups the statements by subject and predicate."""
    found: dict[Slot, list[Statement]] = defaultdict(list)
    for one in statements:
        scope = scope_of(one)
        found[node(scope, one.subject_id), name_key(one.predicate)].append(one)
    return found


def pairs(of_slot: Sequence[Statement], decisions: Mapping[str, Decision]) -> Iterator[Pair]:
    """Returns the contradictions among the statements of one slot, in the order of the later ones.

    Two statements contradict each other if their objects differ at the same time, and neither
    allows several values. The one with the later start supersedes; if neither has a start, or both
    have the same, the pair is undecided until a decision.
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
    """Returns the statements in their order, each with the one that supersedes it, if any."""
    found: dict[str, Statement] = {}
    for of_slot in slots(statements).values():
        for pair in pairs(of_slot, decisions):
            for one in (pair.earlier, pair.later):
                if pair.stays not in (None, one.id) and one.id is not None:
                    # Of several that supersede it, the first one.
                    found.setdefault(
                        one.id, replace(one, superseded_by=pair.stays, reason=pair.reason)
                    )
    return [found.get(one.id or "", one) for one in statements]


def _says(one: Statement) -> str:
    return one.object_id or name_key(one.object)


def _meet(one: Statement, other: Statement) -> bool:
    """Whether both would hold at some moment."""
    return (one.valid_to is None or one.valid_to > _since(other)) and (
        other.valid_to is None or other.valid_to > _since(one)
    )


def _since(one: Statement) -> datetime:
    return one.valid_from or BEGINNING


def _order(one: Statement) -> tuple[datetime, datetime, str]:
    return _since(one), one.recorded_at or BEGINNING, one.id or ""


Policy = (
    Literal["recorded_later", "most_sources"]
    | Callable[[Contradiction], str | None]
    | Callable[[Contradiction], Awaitable[str | None]]
)
"""Selects the statement that stays: the one recorded later, or that with more sources. A function
receives the `Contradiction` and returns the id of the one that stays, or None to leave it open;
a blocking one is called in a thread of its own."""

_POLICIES = ("recorded_later", "most_sources")


@handle
class AsyncStatements:
    """Statements of sources about the entities of a graph, also contradicting ones."""

    _graph: ScopedGraph

    async def add(self, statements: Sequence[Statement]) -> builtins.list[Statement]:
        """Adds statements, or further sources of existing ones; in one commit.

        Raises NotFoundError, before anything is written, if a subject does not exist.
        """
        return await Batch(self._graph).add(statements, Statement, "statements")

    async def list(
        self,
        subject_id: str | None = None,
        *,
        predicate: str | None = None,
        include_superseded: bool = False,
        at: datetime | None = None,
        known_at: datetime | None = None,
    ) -> builtins.list[Statement]:
        """Returns the statements about an entity, or about all; superseded ones only on request.

        With `at`, returns those that held then: a superseded statement holds until its successor
        does. Raises NotFoundError if the entity does not exist.
        """
        found, decisions = await self._read(subject_id, predicate, Moment.of(None, known_at))
        moment = Moment.of(at, None).at
        if moment is not None:
            found = [one for one in found if _holds(one, moment)]
        told = settled(found, decisions)
        return [one for one in told if include_superseded or one.superseded_by is None]

    async def contradictions(
        self,
        subject_id: str | None = None,
        *,
        predicate: str | None = None,
        include_settled: bool = True,
    ) -> builtins.list[Contradiction]:
        """Returns the pairs of statements that cannot both hold, of an entity or of all.

        Each names the statement that supersedes and the reason, or is undecided. Raises
        NotFoundError if the entity does not exist.
        """
        found, decisions = await self._read(subject_id, predicate, Moment())
        of_slots = slots(found)
        subjects = await self._graph.entities({of for of, _ in of_slots})
        return [
            Contradiction(
                subject=subjects[of],
                predicate=pair.later.predicate,
                earlier=pair.earlier,
                later=pair.later,
                stays=pair.stays,
                reason=pair.reason,
            )
            for (of, _), of_slot in of_slots.items()
            if of in subjects
            for pair in pairs(of_slot, decisions)
            if include_settled or pair.stays is None
        ]

    async def resolve(
        self, policy: Policy, *, subject_id: str | None = None, reason: str | None = None
    ) -> builtins.list[Contradiction]:
        """Decides the open contradictions, of an entity or of all; returns the decided ones.

        A decision holds as long as both statements exist; `undecide` reverts it.
        `reason` is stored with it; by default the policy's name.
        """
        if policy not in _POLICIES and not callable(policy):
            raise InvalidRequestError(
                f"policy={shown(policy)}: use one of {', '.join(_POLICIES)}, or pass a function"
            )
        self._graph.resources.writable()
        told = f"policy: {getattr(policy, '__name__', policy)}"
        told = told if reason is None else check_text(reason, "reason")
        done = []
        for one in await self.contradictions(subject_id, include_settled=False):
            stays = await _chosen(policy, one)
            if stays is None:
                continue
            if stays not in {one.earlier.id, one.later.id}:
                raise InvalidRequestError(
                    f"the policy returned {shown(stays)}: return the id of one of both, or None"
                )
            await self.decide(stays, over=_other(one, stays), reason=told)
            done.append(one)
        return done

    async def decide(self, stays: str, *, over: str, reason: str = "") -> None:
        """Lets one statement supersede another one of the same subject and predicate.

        Raises NotFoundError unless both exist, InvalidRequestError if subject or predicate differ.
        """
        check_text(reason, "reason")
        kept, gone = await self._row(stays, "stays"), await self._row(over, "over")
        one, other = _statement(kept), _statement(gone)
        if slots([one]).keys() != slots([other]).keys() or one.id == other.id:
            raise InvalidRequestError(
                f"over={shown(over)} is not about the same as stays={shown(stays)}: nothing is decided"
            )
        await self._note(over, {"stays": one.id, "reason": reason or "decided"})

    async def undecide(self, statement_id: str) -> bool:
        """Reverts the decision that supersedes a statement; returns whether one existed."""
        row = await self._row(statement_id, "statement_id")
        if "decision" not in loads(row["content"], "content"):
            return False
        await self._note(statement_id, None)
        return True

    async def delete(self, statement_id: str) -> bool:
        """Deletes a statement; returns whether it existed. Its superseded statement holds again."""
        return await writing.delete(self._graph, statement_id, STATEMENT, "statement_id")

    async def outdated_sources(self) -> builtins.list[str]:
        """Returns the ids of records, documents and chunks whose statements are all superseded.

        For searches that exclude them: `filter=~Field("id").is_in(...)`.
        """
        told = await self.list(include_superseded=True)
        holding = {id for one in told if one.superseded_by is None for id in one.source_ids}
        return list(dict.fromkeys(id for one in told for id in one.source_ids if id not in holding))

    # Helpers

    async def _read(
        self, subject_id: str | None, predicate: str | None, moment: Moment
    ) -> tuple[builtins.list[Statement], dict[str, Decision]]:
        where = [sql.equals("kind", STATEMENT), *moment.conditions]
        if subject_id is not None:
            subjects = await self._graph.starts(subject_id, "subject_id")
            where.insert(0, sql.in_list("about_node", subjects))
        wanted = None if predicate is None else name_key(check_name(predicate, "predicate"))
        found, decisions = [], dict[str, Decision]()
        for row in await self._graph.read(*where, columns=COLUMNS):
            one = _statement(row)
            if wanted not in (None, name_key(one.predicate)):
                continue
            found.append(one)
            if decision := loads(row["content"], "content").get("decision"):
                decisions[row["id"]] = Decision(decision["stays"], decision["reason"])
        return found, decisions

    async def _row(self, statement_id: str, where: str) -> Row:
        named = sql.equals("id", check_name(statement_id, where))
        columns = self._graph.table.spec.schema.names
        found = await self._graph.read(named, sql.equals("kind", STATEMENT), columns=columns)
        if not found:
            raise NotFoundError(f"{where}={shown(statement_id)}: no such statement")
        return found[0]

    async def _note(self, statement_id: str, decision: dict[str, str | None] | None) -> None:
        self._graph.resources.writable()
        attempts = Attempts(f"statement {statement_id!r} kept being changed by others")
        while True:
            attempts.begin()
            row = await self._row(statement_id, "statement_id")
            changed = rows.with_content(row, decision=decision)
            changed["revision"] = next_revision(row["revision"])
            seen = {row[KEY]: row["revision"]}
            batch = WriteBatch([changed], Mode.UPSERT, expect=seen)
            if (await self._graph.table.write(batch)).is_done:
                return


def _statement(row: Row) -> Statement:
    made = rows.from_row(row)
    assert isinstance(made, Statement)
    return made


def _holds(one: Statement, moment: datetime) -> bool:
    return (one.valid_from is None or one.valid_from <= moment) and (
        one.valid_to is None or moment < one.valid_to
    )


def _other(one: Contradiction, stays: str) -> str:
    other = one.later if one.earlier.id == stays else one.earlier
    assert other.id is not None
    return other.id


async def _chosen(policy: Policy, one: Contradiction) -> str | None:
    if policy == "recorded_later":
        times = [each.recorded_at or BEGINNING for each in (one.earlier, one.later)]
        if times[0] == times[1]:
            return None
        return (one.earlier if times[0] > times[1] else one.later).id
    if policy == "most_sources":
        counts = [len(each.source_ids) for each in (one.earlier, one.later)]
        if counts[0] == counts[1]:
            return None
        return (one.earlier if counts[0] > counts[1] else one.later).id
    assert callable(policy)
    chosen: str | None = await called(policy, one)
    return chosen
