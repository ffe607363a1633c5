"""Changes of facts by people, and the history of a fact."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from difflib import SequenceMatcher

from lance_context_core._util.checks import check_name, check_text, shown
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.filters import RECORD_FIELDS
from lance_context_core.jobs.types import KIND as JOB
from lance_context_core.jobs.types import Job, from_record
from lance_context_core.knowledge import facts, params
from lance_context_core.knowledge.distilling import EXTRACT
from lance_context_core.knowledge.fold import curated
from lance_context_core.knowledge.types import FactChange
from lance_context_core.knowledge.undo_log import ARCHIVE, PRUNE, UNDO
from lance_context_core.storage import sql
from lance_context_core.stores.records import archive
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord

# Changes by people: no job overrides them later.

_WORD = re.compile(r"\w[\w'&+#-]*")


async def correct_fact(
    spoken: Records, made: Records, id: str, text: str, value: str | None
) -> ContextRecord:
    """Replace the text and value of a fact; its revisions contain the old ones."""
    said = check_text(text, "text")
    if not said.strip():
        raise InvalidRequestError("text is empty: invalidate the fact instead")
    if value is not None and not check_text(value, "value").strip():
        raise InvalidRequestError("value is empty: invalidate the fact instead")

    def change(record: ContextRecord, fact: ContextRecord) -> ContextRecord:
        facts.refuse_hidden(record)
        known = params.about(fact)
        if value is not None and known.get("slot") is None:
            raise InvalidRequestError(
                f"value={shown(value)}: {fact.kind} {fact.id!r} is no value of a slot: leave it out"
            )
        before = {"text": record.text, "until": made.now().isoformat()}
        if (old := known.get("value")) is not None:
            before["value"] = old
            record = params.with_fact(record, value=value or _corrected_value(fact, said))
        revisions = [*record.metadata.get("revisions", ()), before]
        metadata = {**record.metadata, "curated": True, "revisions": revisions}
        return replace(record, text=said, embedding=None, metadata=metadata)

    return await curated(spoken, made, id, change)


def _corrected_value(fact: ContextRecord, text: str) -> str:
    """Return the value that the new text of a fact states, as well as its words show."""
    old, before = params.about(fact)["value"], fact.text or ""
    for one in fact.metadata.get("revisions", ()):
        if one["text"] == text and "value" in one:
            return str(one["value"])
    head, found, tail = before.partition(old)
    is_framed = found and text.startswith(head) and text.endswith(tail)
    if is_framed and (new := text[len(head) : len(text) - len(tail)].strip()) and head + tail:
        return new
    if f" {params.normalised(old)} " in f" {params.normalised(text)} ":
        return str(old)
    was, now = [*_WORD.finditer(before)], [*_WORD.finditer(text)]
    a, b = ([one[0].casefold() for one in words] for words in (was, now))
    for what, start, end, first, last in SequenceMatcher(a=a, b=b, autojunk=False).get_opcodes():
        is_old = params.normalised(" ".join(a[start:end])) == params.normalised(old)
        if what == "replace" and is_old:
            return text[now[first].start() : now[last - 1].end()]
    return text


async def invalidate_fact(spoken: Records, made: Records, id: str, reason: str) -> ContextRecord:
    """Hide the fact and return it."""
    why = check_name(reason, "reason")

    def change(record: ContextRecord, _: ContextRecord) -> ContextRecord:
        facts.refuse_hidden(record, by_jobs=True)
        metadata = {**record.metadata, "curated": True}
        out = params.taken_out(replace(record, metadata=metadata), params.BY_PERSON, why)
        return params.shown(out, made.now())

    return await curated(spoken, made, id, change)


async def pin_fact(spoken: Records, made: Records, id: str, *, pinned: bool) -> ContextRecord:
    """Pin or unpin the fact and return it."""

    def change(record: ContextRecord, _: ContextRecord) -> ContextRecord:
        if pinned:
            facts.refuse_hidden(record)
        return replace(record, metadata={**record.metadata, "pinned": bool(pinned)})

    return await curated(spoken, made, id, change)


# The history of a fact, in order: changes by jobs and by people.


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
