"""What callers may bring: who finds facts in turns, and who says them in other words."""

from collections.abc import Awaitable, Sequence
from typing import Protocol, runtime_checkable

from lance_context_core.knowledge.types import (
    Consolidation,
    Extraction,
    FactCandidate,
    SpokenTurn,
    Summary,
    Surroundings,
)
from lance_context_core.types import ContextRecord


class Extractor(Protocol):
    """Finds facts in turns, at once or to be awaited. It is given one session at a time."""

    @property
    def name(self) -> str:
        """What it is, with its version: results of another name are made anew."""
        ...

    def extract(
        self, turns: Sequence[SpokenTurn]
    ) -> "Sequence[FactCandidate] | Extraction | Awaitable[Sequence[FactCandidate] | Extraction]":
        """The facts that these turns state, in their order; each says where it stands.

        What it raises leaves the job to be run again later; InvalidRequestError fails it.
        """
        ...


@runtime_checkable
class ExtractorInContext(Extractor, Protocol):
    """An extractor that works in batches, each of which is kept by itself, and asks what is around.

    The store calls `batches` and `extract_within`, and `extract` no more.
    """

    def batches(self, turns: Sequence[SpokenTurn]) -> Sequence[Sequence[SpokenTurn]]:
        """The turns in parts, in order: what is found in one is kept, whatever becomes of another."""
        ...

    def extract_within(
        self, turns: Sequence[SpokenTurn], around: Surroundings
    ) -> "Sequence[FactCandidate] | Extraction | Awaitable[Sequence[FactCandidate] | Extraction]":
        """As `extract`, of one batch, with what was said before it and what is known."""
        ...


class Consolidator(Protocol):
    """Says what becomes of new facts beside the known ones that are near to them."""

    @property
    def name(self) -> str:
        """What it is, with its version."""
        ...

    def decide(
        self, new: Sequence[ContextRecord], known: Sequence[ContextRecord]
    ) -> Consolidation | Awaitable[Consolidation]:
        """A decision for each of the new facts. It is asked once for a neighbourhood.

        All of them are of one owner, and have no slot. What it decides is checked before it is done.
        """
        ...


class SessionSummariser(Protocol):
    """Says what a session is about."""

    @property
    def name(self) -> str:
        """What it is, with its version."""
        ...

    def summarise(
        self, turns: Sequence[SpokenTurn], before: str | None
    ) -> Summary | Awaitable[Summary]:
        """The summary of a session, as far as it was said. It is asked once for a job.

        `before` is the summary of what was said before these turns; None if there is none.
        """
        ...


class Paraphraser(Protocol):
    """Says sentences in other words, such as a call of a language model; never needed."""

    def __call__(self, sentences: Sequence[str], /) -> Sequence[str]:
        """One sentence for each, in order. What it raises leaves the job to be run again later."""
        ...


class AsyncParaphraser(Protocol):
    """The same, to be awaited."""

    async def __call__(self, sentences: Sequence[str], /) -> Sequence[str]:
        """One sentence for each, in order."""
        ...
