"""Commits several records together: all of them, or none if something has changed."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._embedding import embedded
from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.records import from_row, key_of, to_row
from lance_context_core.jobs.types import KIND, Job, JobState, scheduled
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY, LINK, OWES, VECTOR
from lance_context_core.storage.write_batch import Mode, Tail, WriteBatch
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord


def key(record: ContextRecord) -> str:
    """Return the primary key of a record for its owner, in any scope."""
    owner = Scope(tenant=record.tenant, user_id=record.user_id, agent_id=record.agent_id)
    return key_of(owner, record.context, "id", record.id)


@frozen
class Held:
    """A record as it was read, with its row."""

    record: ContextRecord
    row: Mapping[str, Any]


async def held(records: Records, *conditions: sql.Clause) -> list[Held]:
    """Return all matching records of the view, hidden ones too, in order."""
    rows = await records.whole_rows(records.own(*conditions))
    return [Held(from_row(row), row) for row in rows]


class Basis(NamedTuple):
    """What a decision was made by, besides the records that it changes.

    If another writer has changed it meanwhile, nothing is written.
    """

    held: Collection[Held] = ()
    """These records, as they were read."""
    where: sql.Clause | None = None
    """No record of the context matches this condition, except those of `keys`."""
    keys: Collection[str] = ()

    def joined(self, other: "Basis") -> "Basis":
        """Return both together."""
        both = [one.where for one in (self, other) if one.where is not None]
        where = sql.any_of(both) if both else None
        keys = dict.fromkeys([*self.keys, *other.keys])
        return Basis([*self.held, *other.held], where, [*keys])


@dataclass(slots=True)
class Outcome:
    """The changes of a job, written together with its own state."""

    added: list[ContextRecord] = field(default_factory=list)
    previous: Mapping[str, str] = field(default_factory=dict)
    """By the ids of added records: the previous message, whose words they inherit."""
    changed: list[tuple[Held, ContextRecord]] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)
    state: JobState = "succeeded"
    """`running` if more work is left, for which its handler is called again."""
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Changes of other jobs, by id: field names and values."""
    basis: Basis = field(default_factory=Basis)


async def write(
    records: Records,
    added: Sequence[ContextRecord],
    changed: Sequence[tuple[Held, ContextRecord]],
    *,
    removed: Sequence[Held] = (),
    previous: Mapping[str, str] | None = None,
    basis: Basis | None = None,
) -> bool:
    """Add absent records, replace and remove unchanged ones, in one commit; or write nothing.

    It writes nothing either if the `basis` has changed. `previous` as in an `Outcome`.
    """
    records.resources.writable()
    if not added and not changed and not removed:
        return True
    composer = records.resources.composer
    lenders = previous or {}
    rows = [new_row(records, record) | {LINK: lenders.get(record.id)} for record in added]
    texts = [composer.embed_text(record) for record in added]
    seen: dict[str, int | None] = {row[KEY]: None for row in rows}
    for before, after in changed:
        view = _view(records, after)
        new = view.replacing(before.row, view.changed(after, lambda one: one))
        rows.append(new)
        texts.append(composer.embed_text(after))
        seen[new[KEY]] = before.row["revision"]
    seen |= {one.row[KEY]: one.row["revision"] for one in removed}
    basis = basis or Basis()
    for one in basis.held:
        revision = one.row["revision"]
        if seen.setdefault(one.row[KEY], revision) != revision:
            return False  # It was changed between two reads of this decision.
    tail = None
    if basis.where is not None:
        tail = Tail(records.own(basis.where), [*basis.keys], is_all=True)
    vectors = await embedded(
        records.table, records.resources, given=[row[VECTOR] for row in rows], texts=texts
    )
    for row, vector in zip(rows, vectors, strict=True):
        row[VECTOR] = vector
    # The writer of a turn was told a version that has it; for job results no version was reported.
    replaced = [*(before for before, _ in changed), *removed]
    told = any(one.record.kind == "message" for one in replaced)
    gone = [one.row[KEY] for one in removed]
    batch = WriteBatch(rows, Mode.UPSERT, deletes=gone, expect=seen, tail=tail, keeps_states=told)
    return (await records.table.write(batch)).is_done


def new_row(records: Records, record: ContextRecord) -> dict[str, Any]:
    """Return the row of a new record; its vector is added elsewhere."""
    view = _view(records, record)
    own = view.stamped(record)
    words = records.resources.composer.index_text(own)
    return to_row(own, key=key(own), search_text=words) | {LINK: None}


def _view(records: Records, record: ContextRecord) -> Records:
    """Return the records of the same scope in that record's context."""
    return (
        records if record.context == records.context else replace(records, context=record.context)
    )


# Jobs without a row: the records of their input say that they are owed.
#
# The name of the job is written with the turn, at hardly any cost. The job becomes a row when it is
# taken, cancelled, or rescheduled.

_IN_RELATIONSHIPS = f"{OWES}:"
"""The first stores' format: a relationship to the job, whose name follows this prefix."""


class _Owed(NamedTuple):
    """The job that a record owes."""

    id: str
    kind: str
    producer: str


def owing(kind: str, id: str, producer: str) -> str:
    """Return the mark in a record that owes this job."""
    return f"{id}:{kind}:{producer}"


async def implied(records: Records) -> list[Job]:
    """Return the owed jobs without rows, of all contexts of the scope, in order."""
    says_so = sql.any_of([sql.is_present(OWES), sql.is_present("edges")])
    where = sql.all_of([records.inside(), says_so])
    columns = ["id", "session_id", "created_at", OWES, "relationships", *SCOPE_PARTS]
    rows = await records.table.select(where, columns=columns)
    if not rows.num_rows:
        return []
    there = records.own(sql.equals("kind", KIND))
    known = (await records.table.select(there, columns=["id"]))["id"]
    owed: dict[_Owed, list[dict[str, Any]]] = {}
    for row in _undone(rows, known).to_pylist():
        for one in _owed(row):
            owed.setdefault(one, []).append(row)
    if not owed:
        return []
    there_already = {*known.to_pylist()}
    return [_job(one, about) for one, about in owed.items() if one.id not in there_already]


def _undone(rows: pa.Table, known: pa.ChunkedArray) -> pa.Table:
    """Drop the rows whose job exists by now: these may be a hundred thousand."""
    if OWES not in rows.column_names:
        return rows
    job = pc.list_element(pc.split_pattern(rows[OWES], ":", max_splits=1), 0)
    return rows.filter(pc.invert(pc.is_in(job, value_set=known)))


def _owed(row: Mapping[str, Any]) -> Iterable[_Owed]:
    if said := row.get(OWES):
        yield _Owed(*said.split(":", 2))
    for edge in row["relationships"] or ():
        if edge["relation"].startswith(_IN_RELATIONSHIPS):
            _, kind, producer = edge["relation"].split(":", 2)
            yield _Owed(edge["target_id"], kind, producer)


def _job(owed: _Owed, about: list[dict[str, Any]]) -> Job:
    first = about[0]
    return scheduled(
        owed.kind,
        owed.id,
        owner=Scope(**{part: first[part] for part in SCOPE_PARTS}),
        now=first["created_at"].replace(tzinfo=UTC),
        input_ids=tuple(row["id"] for row in about),
        session_id=first["session_id"],
        producer=owed.producer,
    )
