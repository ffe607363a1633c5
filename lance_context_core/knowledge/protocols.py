"""What callers may bring: who finds facts in turns, and who says them in other words."""

from collections.abc import Sequence
from typing import Protocol

from lance_context_core.knowledge.values import FactCandidate, SpokenTurn


class Extractor(Protocol):
    """Finds facts in turns. It is given no more than one session at a time."""

    @property
    def name(self) -> str:
        """What it is, with its version: results of another name are made anew."""
        ...

    def extract(self, turns: Sequence[SpokenTurn]) -> Sequence[FactCandidate]:
        """The facts that these turns state, in their order; each says where it stands."""
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
