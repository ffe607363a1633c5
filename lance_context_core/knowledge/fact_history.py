"""The history of a fact, in order: changes by jobs and by people."""

from collections.abc import Iterator
from datetime import datetime

from lance_context_core._util.checks import check_name
from lance_context_core.errors import NotFoundError
from lance_context_core.filters import RECORD_FIELDS
from lance_context_core.jobs.types import KIND as JOB
from lance_context_core.jobs.types import Job, from_record
from lance_context_core.knowledge import params
from lance_context_core.knowledge.distilling import EXTRACT
from lance_context_core.knowledge.types import FactChange
from lance_context_core.knowledge.undo_log import ARCHIVE, PRUNE, UNDO
from lance_context_core.storage import sql
from lance_context_core.stores.records import archive
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord


async def changes_of(made: Records, id: str) -> list[FactChange]:
    """Return the changes of a fact, oldest first. Raises NotFoundError if it does not exist."""
    named = sql.all_of([sql.equals("kind", params.FACT), sql.equals("id", check_name(id, "id"))])
    found = await made.read(made.own(named), columns=WITHOUT_BLOB)
    found = found or await archive.read(made, named, columns=WITHOUT_BLOB)
    if not found:
        raise NotFoundError(
            f"{id!r} is not a fact of this store: list the facts with knowledge.list"
        )
    fact = found[0]
    jobs = sql.filtered({"job.state": "succeeded"}, columns=RECORD_FIELDS)
    done = await made.read(made.own(sql.equals("kind", JOB), jobs), columns=WITHOUT_BLOB)
    changes = [change for one in done for change in _of_job(fact, from_record(one))]
    changes += _of_people(fact)
    return sorted(changes, key=lambda one: one.at)


def _of_job(fact: ContextRecord, job: Job) -> Iterator[FactChange]:
    def change(kind: str, other_id: str | None = None) -> FactChange:
        text = _text_at(fact, job.created_at)
        return FactChange(at=job.created_at, kind=kind, text=text, job_id=job.id, other_id=other_id)

    result = job.result
    if job.kind == EXTRACT:
        if fact.id in result["facts"]:
            yield change("add")
        if fact.id in result["merged"]:
            yield change("merge")
        for old, new in result["superseded"]:
            if old == fact.id:
                yield change("supersede", new)
        for old, new in result["conflicts"]:
            if fact.id in (old, new):
                yield change("contradict", new if old == fact.id else old)
    elif fact.id in [one["id"] for one in result.get("changed", ())]:
        yield change(job.kind)


def _of_people(fact: ContextRecord) -> Iterator[FactChange]:
    for one in fact.metadata.get("revisions", ()):
        moment = datetime.fromisoformat(one["until"])
        yield FactChange(at=moment, kind="correct", text=_text_at(fact, moment))
    by_a_job = (UNDO, PRUNE, ARCHIVE, params.MERGED)
    if fact.retired_at is not None and fact.retired_reason not in by_a_job:
        yield FactChange(at=fact.retired_at, kind="invalidate", text=fact.text or "")


def _text_at(fact: ContextRecord, moment: datetime) -> str:
    """Return the text of a fact from that moment on."""
    for one in fact.metadata.get("revisions", ()):
        if moment < datetime.fromisoformat(one["until"]):
            return str(one["text"])
    return fact.text or ""
