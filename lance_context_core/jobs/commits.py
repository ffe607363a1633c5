"""One commit of records that were decided on together: all of them, or, if something changed, nothing."""

from collections.abc import Iterable, Mapping, Sequence
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
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord


def key(record: ContextRecord) -> str:
    """The primary key of a record by its owner, whatever the scope of the handle that writes it."""
    owner = Scope(tenant=record.tenant, user_id=record.user_id, agent_id=record.agent_id)
    return key_of(owner, record.context, "id", record.id)


@frozen
class Held:
    """A record as it was read, with the row that holds it."""

    record: ContextRecord
    row: Mapping[str, Any]


async def held(records: Records, *conditions: sql.Clause) -> list[Held]:
    """All records of the view that match, hidden ones too, in order."""
    rows = await records.whole_rows(records.own(*conditions))
    return [Held(from_row(row), row) for row in rows]


@dataclass(slots=True)
class Outcome:
    """What a job writes when it is done, together with its own state."""

    added: list[ContextRecord] = field(default_factory=list)
    previous: Mapping[str, str] = field(default_factory=dict)
    """By the ids of those that are added: the key of what was said before, which lends to them."""
    changed: list[tuple[Held, ContextRecord]] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)
    state: JobState = "succeeded"
    """`running` if more is to be done, for which its handler is asked again."""
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What else becomes of other jobs, by their ids: values by the names of their fields."""


async def write(
    records: Records,
    added: Sequence[ContextRecord],
    changed: Sequence[tuple[Held, ContextRecord]],
    *,
    removed: Sequence[Held] = (),
    previous: Mapping[str, str] | None = None,
) -> bool:
    """Add what is absent, replace and remove what is still as it was read, in one commit; or nothing.

    `previous` as in an `Outcome`.
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
    vectors = await embedded(
        records.table, records.resources, given=[row[VECTOR] for row in rows], texts=texts
    )
    for row, vector in zip(rows, vectors, strict=True):
        row[VECTOR] = vector
    # Who wrote a turn was told of a version that has it; of what jobs make nobody was.
    replaced = [*(before for before, _ in changed), *removed]
    told = any(one.record.kind == "message" for one in replaced)
    gone = [one.row[KEY] for one in removed]
    batch = WriteBatch(rows, Mode.UPSERT, deletes=gone, expect=seen, keeps_states=told)
    return (await records.table.write(batch)).is_done


def new_row(records: Records, record: ContextRecord) -> dict[str, Any]:
    """The row of a record that is new, without a vector that has to be made."""
    view = _view(records, record)
    own = view.stamped(record)
    words = records.resources.composer.index_text(own)
    return to_row(own, key=key(own), search_text=words) | {LINK: None}


def _view(records: Records, record: ContextRecord) -> Records:
    """The records of the same scope in the context of that one."""
    return (
        records if record.context == records.context else replace(records, context=record.context)
    )


# Jobs that have no row of their own yet: the records that they are about say that they are owed.
#
# What a turn owes is written with the turn, and costs hardly more than it: the name of the job that is to
# be. The job becomes a row when somebody takes it, cancels it, or lets it be due again.

_IN_RELATIONSHIPS = f"{OWES}:"
"""How the first stores said so: with a relationship to the job, whose name is the rest of this one."""


class _Owed(NamedTuple):
    """What one record says of the job that it is to be about."""

    id: str
    kind: str
    producer: str


def owing(kind: str, id: str, producer: str) -> str:
    """What a record says that this job is to be about."""
    return f"{id}:{kind}:{producer}"


async def implied(records: Records) -> list[Job]:
    """The jobs that records of the scope owe, in whatever context, and that are no rows yet; in order."""
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
    """The rows without those that owe what is a job by now: of these there may be a hundred thousand."""
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
