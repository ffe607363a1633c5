"""Jobs that have no row of their own yet: the records that they are about say that they are owed.

What a turn owes is written with the turn, and costs no more than it: a relationship to the job that is
to be. The job becomes a row when somebody takes it, cancels it, or lets it be due again.
"""

from collections.abc import Iterable
from datetime import UTC
from typing import Any

from lance_context_core.engine import sql
from lance_context_core.jobs.rows import KIND, scheduled
from lance_context_core.jobs.values import Job
from lance_context_core.records import Relationship
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.stores.records.scoped import Records

_OWES = "owes"


def owing(kind: str, id: str, producer: str) -> Relationship:
    """What a record says that this job is to be about."""
    return Relationship(target_id=id, relation=f"{_OWES}:{kind}:{producer}")


async def implied(records: Records) -> list[Job]:
    """The jobs that records of the scope owe, in whatever context, and that are no rows yet; in order."""
    where = sql.all_of([records.inside(), sql.is_present("edges")])
    columns = ["id", "session_id", "created_at", "relationships", *SCOPE_PARTS]
    rows = (await records.table.select(where, columns=columns)).to_pylist()
    owed: dict[str, list[tuple[dict[str, Any], str]]] = {}
    for row in rows:
        for edge in row["relationships"] or ():
            if edge["relation"].startswith(f"{_OWES}:"):
                owed.setdefault(edge["target_id"], []).append((row, edge["relation"]))
    if not owed:
        return []
    there = records.own(sql.equals("kind", KIND))
    known = await records.table.select(there, columns=["id"])
    for id in known["id"].to_pylist():
        owed.pop(id, None)
    return [_job(id, found) for id, found in owed.items()]


def _job(id: str, found: Iterable[tuple[dict[str, Any], str]]) -> Job:
    rows = [row for row, _ in found]
    (first, relation) = next(iter(found))
    _, kind, producer = relation.split(":", 2)
    return scheduled(
        kind,
        id,
        owner=Scope(**{part: first[part] for part in SCOPE_PARTS}),
        now=first["created_at"].replace(tzinfo=UTC),
        input_ids=tuple(row["id"] for row in rows),
        session_id=first["session_id"],
        producer=producer,
    )
