"""Jobs that have no row of their own yet: the records that they are about say that they are owed.

What a turn owes is written with the turn, and costs hardly more than it: the name of the job that is to
be. The job becomes a row when somebody takes it, cancels it, or lets it be due again.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core.jobs.rows import KIND, scheduled
from lance_context_core.jobs.values import Job
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import OWES
from lance_context_core.stores.records.scoped import Records

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
