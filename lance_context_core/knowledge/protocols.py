"""Protocols for callers' own extractors, consolidators, summarisers and paraphrasers."""

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
    """Extracts facts from turns of one session, synchronously or as a coroutine."""

    @property
    def name(self) -> str:
        """The name with its version: results of another name are made again."""
        ...

    def extract(
        self, turns: Sequence[SpokenTurn]
    ) -> "Sequence[FactCandidate] | Extraction | Awaitable[Sequence[FactCandidate] | Extraction]":
        """Return the facts of these turns in order, each with its place.

        If it raises, the job is retried later; InvalidRequestError fails the job.
        """
        ...


@runtime_checkable
class ExtractorInContext(Extractor, Protocol):
    """An extractor that works in batches, each stored separately, and reads their surroundings.

    The store calls `batches` and `extract_within` instead of `extract`.
    """

    def batches(self, turns: Sequence[SpokenTurn]) -> Sequence[Sequence[SpokenTurn]]:
        """Split the turns into batches, in order; each result is stored separately."""
        ...

    def extract_within(
        self, turns: Sequence[SpokenTurn], around: Surroundings
    ) -> "Sequence[FactCandidate] | Extraction | Awaitable[Sequence[FactCandidate] | Extraction]":
        """As `extract`, for one batch, with the messages before it and known facts."""
        ...


class Consolidator(Protocol):
    """Decides on new facts by comparing them with known facts nearby."""

    @property
    def name(self) -> str:
        """The name with its version."""
        ...

    def decide(
        self, new: Sequence[ContextRecord], known: Sequence[ContextRecord]
    ) -> Consolidation | Awaitable[Consolidation]:
        """Return a decision for each new fact. It is called once per neighbourhood.

        All facts have one owner and no slot. Its decisions are checked before they are applied.
        """
        ...


class SessionSummariser(Protocol):
    """Summarises sessions."""

    @property
    def name(self) -> str:
        """The name with its version."""
        ...

    def summarise(
        self, turns: Sequence[SpokenTurn], before: str | None
    ) -> Summary | Awaitable[Summary]:
        """Return the updated summary of the session. It is called once per job.

        `before` is the summary of the messages before these turns; None if absent.
        """
        ...


class Paraphraser(Protocol):
    """Paraphrases sentences, for example with a language model; optional."""

    def __call__(self, sentences: Sequence[str], /) -> Sequence[str]:
        """Return one sentence for each, in order. If it raises, the job is retried later."""
        ...


class AsyncParaphraser(Protocol):
    """A `Paraphraser` that is awaited."""

    async def __call__(self, sentences: Sequence[str], /) -> Sequence[str]:
        """Return one sentence for each, in order."""
        ...
