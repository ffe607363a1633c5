"""Summaries as records: what each is of, which is the last of a session, and how one is kept.

A summary is of the messages up to a place at which the history is cut. It is kept under the context
`SUMMARIES`, in the layer L0, and names among its `source_ids` the summary before it and what was said
since: so it is erased with any of what it is of. One that is of what is no longer there is not shown.
"""

import hashlib
from collections.abc import Sequence

from lance_context_core.codecs.records import SUMMARIES
from lance_context_core.errors import ReadOnlyError
from lance_context_core.jobs import commits
from lance_context_core.messages import Message
from lance_context_core.storage import sql
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord
from lance_context_core.window.compaction.summarising import SummaryError
from lance_context_core.window.sources import Sources, records_of

_N_LAST = 100
"""So many of a session's summaries are looked through; each covers a step more than the one before."""


def covered(record: ContextRecord | None) -> int:
    """How many messages it is of, from the first one on; none without it."""
    n_covered = None if record is None else record.metadata.get("n_covered")
    return n_covered if isinstance(n_covered, int) else 0


async def last(sources: Sources) -> ContextRecord | None:
    """The summary that is of the most, and of nothing but what is there before the cut."""
    records = records_of(sources, SUMMARIES)
    where = records.where(
        sql.equals("session_id", sources.session_id),
        sql.equals("agent_id", records.whose("agent_id", sources.agent_id)),
    )
    found = await records.read(where, columns=WITHOUT_BLOB, last=_N_LAST)
    fitting = [one for one in found if 0 < covered(one) <= sources.cut]
    for one in sorted(fitting, key=covered, reverse=True):
        end = await sources.messages(covered(one) - 1, covered(one))
        if end and one.source_ids and end[0].id == one.source_ids[-1]:
            return one
    return None


def record_of(
    records: Records,
    text: str,
    *,
    agent_id: str | None,
    session_id: str,
    before: ContextRecord | None,
    messages: Sequence[Message],
    producer: str,
) -> ContextRecord:
    """The record of a summary of the one `before` it and of the `messages` since."""
    ids = [*([before.id] if before else ()), *(str(one.id) for one in messages)]
    named = "\0".join([agent_id or "", session_id, *ids])
    now = records.now()
    record = ContextRecord(
        id=f"summary-{hashlib.blake2b(named.encode(), digest_size=12).hexdigest()}",
        kind="summary",
        content_type="text/plain",
        created_at=now,
        updated_at=now,
        context=SUMMARIES,
        layer="L0",
        source_ids=tuple(ids),
        agent_id=agent_id,
        session_id=session_id,
        role="summary",
        text=text,
        metadata={
            "n_covered": covered(before) + len(messages),
            "first_id": before.metadata.get("first_id") if before else ids[0],
            "last_id": ids[-1],
            "producer": producer,
        },
    )
    return records.stamped(record)


async def kept(records: Records, record: ContextRecord) -> ContextRecord:
    """A summary, once it is kept; of two that make one at the same time, the first one's."""
    try:
        await commits.write(records, [record], [])
    except ReadOnlyError as error:
        raise SummaryError("an earlier version of the store keeps no new summary") from error
    found = await records.visible(sql.equals("id", record.id))
    if found is None:
        raise SummaryError("the summary was removed as soon as it was kept")
    return found
