"""Summaries of the beginning of a session: records with sources, which serve until the cut moves on.

A summary is of the messages up to a place at which the history is cut. It is kept under the context
`SUMMARIES`, in the layer L0, and names among its `source_ids` the summary before it and what was said
since: so it is erased with any of what it is of. One that is of what is no longer there is not shown.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lance_context_core._checks import shown
from lance_context_core.engine import sql
from lance_context_core.errors import AlreadyExistsError, InvalidRequestError, ReadOnlyError
from lance_context_core.records import ContextRecord
from lance_context_core.rows.records import SUMMARIES
from lance_context_core.stores.records.context import AsyncContext
from lance_context_core.stores.records.scoped import WITHOUT_BLOB
from lance_context_core.window.compaction.summarising import (
    Summariser,
    SummaryError,
    check_timeout,
    summarised,
    summary_message,
    transcript,
)
from lance_context_core.window.sections import Offer, Placement, Section
from lance_context_core.window.sources import Sources, records_of

_N_LAST = 100
"""So many of a session's summaries are looked through; each covers a step more than the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarySection(Section):
    """What came before the part of the history that is shown, in short.

    Without a `summariser` it shows a summary that is there. With one it has one made and kept when the
    history was cut anew: from the last summary, and what was said since. If that fails, the last one is
    shown, and the report says so.
    """

    summariser: Summariser | None = None
    producer: str = "summariser"
    """Who makes them: kept with each."""
    timeout_seconds: float = 60.0
    max_tokens: int | None = 600
    share: float | None = 0.15
    placement: Placement = "prefix"
    priority: int = 65
    follows_history: bool = True

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        if self.summariser is not None and not callable(self.summariser):
            raise InvalidRequestError(
                f"summariser={shown(self.summariser)}: give a function of a text"
            )
        check_timeout(self.timeout_seconds)

    async def offer(self, sources: Sources) -> Offer:
        """The message that quotes the summary, if there is one."""
        if not sources.cut:
            return Offer()
        last = await _last(sources)
        notes: tuple[str, ...] = ()
        if self.summariser is not None and (last is None or _covered(last) < sources.cut):
            try:
                last = await self._made(sources, last)
            except SummaryError as error:
                notes = (str(error),)
        if last is None:
            return Offer(notes=notes)
        sources.covered = _covered(last)
        message = replace(summary_message(last.text or ""), id=last.id)
        return Offer(messages=[message], notes=notes)

    async def _made(self, sources: Sources, last: ContextRecord | None) -> ContextRecord:
        """A summary of all up to the cut, which is kept."""
        assert self.summariser is not None
        start = 0 if last is None else _covered(last)
        messages = await sources.messages(start, sources.cut)
        text = transcript(messages)
        if last is not None:
            text = f"Summary so far: {last.text}\n{text}"
        summary = await summarised(self.summariser, text, self.timeout_seconds)
        ids = [*([last.id] if last else ()), *(str(one.id) for one in messages)]
        first = last.metadata.get("first_id") if last else ids[0]
        return await _kept(sources, summary, ids, f"{first}", self.producer)


async def _last(sources: Sources) -> ContextRecord | None:
    """The summary that is of the most, and of nothing but what is there before the cut."""
    records = records_of(sources, SUMMARIES)
    where = records.where(
        sql.equals("session_id", sources.session_id),
        sql.equals("agent_id", records.whose("agent_id", sources.agent_id)),
    )
    found = await records.read(where, columns=WITHOUT_BLOB, last=_N_LAST)
    fitting = [one for one in found if 0 < _covered(one) <= sources.cut]
    for one in sorted(fitting, key=_covered, reverse=True):
        end = await sources.messages(_covered(one) - 1, _covered(one))
        if end and one.source_ids and end[0].id == one.source_ids[-1]:
            return one
    return None


async def _kept(
    sources: Sources, summary: str, ids: Sequence[str], first_id: str, producer: str
) -> ContextRecord:
    """The record of a summary; of two that make one at the same time, the first is kept."""
    records = records_of(sources, SUMMARIES)
    named = "\0".join([sources.agent_id, sources.session_id, *ids])
    fields: dict[str, Any] = {
        "id": f"summary-{hashlib.blake2b(named.encode(), digest_size=12).hexdigest()}",
        "kind": "summary",
        "layer": "L0",
        "source_ids": tuple(ids),
        "session_id": sources.session_id,
        "metadata": {
            "n_covered": sources.cut,
            "first_id": first_id,
            "last_id": ids[-1],
            "producer": producer,
        },
    }
    if (agent := records.whose("agent_id", sources.agent_id)) is not None:
        fields["agent_id"] = agent
    try:
        await AsyncContext(records).add("summary", summary, **fields)
    except ReadOnlyError as error:
        raise SummaryError("an earlier version of the store keeps no new summary") from error
    except AlreadyExistsError:
        pass
    found = await records.visible(sql.equals("id", fields["id"]))
    if found is None:
        raise SummaryError("the summary was removed as soon as it was kept")
    return found


def _covered(record: ContextRecord) -> int:
    """How many messages it is of, from the first one on."""
    n_covered = record.metadata.get("n_covered")
    return n_covered if isinstance(n_covered, int) else 0
