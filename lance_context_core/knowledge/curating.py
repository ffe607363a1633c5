"""What people say of a fact: no job says otherwise after."""

from dataclasses import replace

from lance_context_core._util.checks import check_name, check_text
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.jobs.commits import held
from lance_context_core.knowledge import kept, states
from lance_context_core.storage import sql
from lance_context_core.stores.records import archive, changes
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord

_MADE = sql.in_list("kind", [kept.FACT, kept.CHUNK, kept.SUMMARY])


async def correct(made: Records, id: str, text: str) -> ContextRecord:
    """The fact as it says something else, and what it said before in its revisions."""
    said = check_text(text, "text")
    if not said.strip():
        raise InvalidRequestError("text is empty: invalidate the fact instead")

    def change(record: ContextRecord) -> ContextRecord:
        before = {"text": record.text, "until": made.now().isoformat()}
        revisions = [*record.metadata.get("revisions", ()), before]
        metadata = {**record.metadata, "curated": True, "revisions": revisions}
        return replace(record, text=said, embedding=None, metadata=metadata)

    return await _changed(made, id, change)


async def invalidate(made: Records, id: str, reason: str) -> ContextRecord:
    """The fact as it is hidden."""
    why = check_name(reason, "reason")

    def change(record: ContextRecord) -> ContextRecord:
        metadata = {**record.metadata, "curated": True}
        return replace(states.retired(record, why, made.now()), metadata=metadata)

    return await _changed(made, id, change)


async def pin(made: Records, id: str, *, pinned: bool) -> ContextRecord:
    """The fact as it stays, or as it may change again."""
    return await _changed(
        made, id, lambda one: replace(one, metadata={**one.metadata, "pinned": bool(pinned)})
    )


async def _changed(made: Records, id: str, change: changes.Change) -> ContextRecord:
    named = sql.all_of([_MADE, sql.equals("id", check_name(id, "id"))])
    is_there = bool(await held(made, named))
    if not is_there and await archive.are_any(made):
        is_there = bool(await archive.bring_back(made, named))
    if not is_there:
        raise NotFoundError(f"{id!r} is no fact, chunk or summary of this store")
    record = await changes.patch(made, made.own(named), change)
    assert record is not None
    return record
