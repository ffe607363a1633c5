"""The section that tells what came before the part of the history that is shown, in short."""

from dataclasses import replace

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.codecs.records import SUMMARIES
from lance_context_core.errors import InvalidRequestError
from lance_context_core.types import ContextRecord
from lance_context_core.window import summary_records
from lance_context_core.window.compaction.summarising import (
    MAX_INPUT_TOKENS,
    Summariser,
    SummaryError,
    SummaryMaker,
    summary_message,
)
from lance_context_core.window.sections import Offer, Placement, Section
from lance_context_core.window.sources import Sources, records_of
from lance_context_core.window.summary_jobs import submitted


@frozen_by_name
class SummarySection(Section):
    """What came before the part of the history that is shown, in short.

    It shows the last summary that there is. When the history was cut anew, a `summariser` has the
    next one made and kept at once: from the last summary, and what was said since. With `later` a job
    is submitted instead, which `store.windows.jobs` does, beside the conversation. If either fails,
    the last summary is shown, and the report says so. With neither, it makes none.
    """

    summariser: Summariser | None = None
    later: bool = False
    """Whether a job makes them."""
    producer: str = "summariser"
    """Who makes them: kept with each."""
    timeout_seconds: float = 60.0
    """How long one call of it is waited for."""
    max_input_tokens: int = MAX_INPUT_TOKENS
    """What one call is given of the conversation at most: of a longer one it is told in several."""
    max_tokens: int | None = 600
    share: float | None = 0.15
    placement: Placement = "prefix"
    priority: int = 65
    follows_history: bool = True

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        # Without one there is none to be refused.
        self._maker(self.summariser or str)
        if self.later and self.summariser is not None:
            raise InvalidRequestError(
                "later=True with a summariser: give it to store.windows.jobs, or leave later out"
            )

    async def offer(self, sources: Sources) -> Offer:
        """The message that quotes the summary, if there is one."""
        if not sources.cut:
            return Offer()
        last = await summary_records.last(sources)
        notes: tuple[str, ...] = ()
        if summary_records.covered(last) < sources.cut:
            try:
                if self.summariser is not None:
                    last = await self._made(self.summariser, sources, last)
                elif self.later:
                    job = await submitted(sources, last, self.producer)
                    why = f": {job.error}" if job.error else ""
                    notes = (f"job {job.id}, which makes the next one, is {job.state}{why}",)
            except SummaryError as error:
                notes = (str(error),)
        if last is None:
            return Offer(notes=notes)
        sources.covered = summary_records.covered(last)
        message = replace(summary_message(last.text or ""), id=last.id)
        return Offer(messages=[message], notes=notes)

    async def _made(
        self, summariser: Summariser, sources: Sources, last: ContextRecord | None
    ) -> ContextRecord:
        """A summary of all up to the cut, which is kept."""
        messages = await sources.messages(summary_records.covered(last), sources.cut)
        maker = self._maker(summariser)
        records = records_of(sources, SUMMARIES)
        made = summary_records.record_of(
            records,
            await maker.make(maker.parts(messages), last.text if last else None),
            agent_id=records.whose("agent_id", sources.agent_id),
            session_id=sources.session_id,
            before=last,
            messages=messages,
            producer=self.producer,
        )
        return await summary_records.kept(records, made)

    def _maker(self, summariser: Summariser) -> SummaryMaker:
        return SummaryMaker(summariser, self.timeout_seconds, self.max_input_tokens)
