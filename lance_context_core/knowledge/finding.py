"""Extraction with verification: only facts that the turns prove remain, paraphrased if wanted."""

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lance_context_core._util.calls import called
from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError
from lance_context_core.jobs.types import USAGE, note_usage, spend, tokens_of
from lance_context_core.knowledge.evidence_text import fault_of
from lance_context_core.knowledge.protocols import (
    AsyncParaphraser,
    Extractor,
    ExtractorInContext,
    Paraphraser,
)
from lance_context_core.knowledge.types import (
    Counted,
    Extraction,
    FactCandidate,
    SpokenTurn,
    Surroundings,
)

MENDED = "mended_"
"""Prefix of the faults whose candidates are accepted after a repair."""
UNREAD = "language"
"""The fault of a turn that an extractor cannot read; rejects no fact."""


@frozen
class Finding:
    """The proven facts of an extractor, with its faults."""

    candidates: Sequence[FactCandidate]
    faults: Counter[str]
    """Rejections and repairs, by fault."""
    n_kept_as_said: int = 0
    """Number of facts whose paraphrase was rejected in favour of the turn's own words."""

    @property
    def decisions(self) -> Counter[str]:
        """Number of candidates rejected, repaired, and left in their own words."""
        mended = sum(n for name, n in self.faults.items() if name.startswith(MENDED))
        unread = self.faults[UNREAD]
        rejected = self.faults.total() - mended - unread - self.n_kept_as_said
        return Counter(rejected=rejected, mended=mended, refused=self.n_kept_as_said)


async def find(
    extractor: Extractor,
    paraphraser: Paraphraser | AsyncParaphraser | None,
    turns: Sequence[SpokenTurn],
    around: Surroundings,
) -> Finding:
    """Return the facts of these turns. Raises the errors of the extractor and the model."""
    finding = _proven(await _extraction(extractor, turns, around), turns)
    if paraphraser is None or not finding.candidates:
        return finding
    sentences = [one.text for one in finding.candidates]
    n_characters = sum(map(len, sentences))
    usage = Counter(calls=1, characters=n_characters, tokens=tokens_of(n_characters))
    spend(calls=1, tokens=usage["tokens"])
    note_usage(usage)
    said, faults = _said_otherwise(finding.candidates, await called(paraphraser, sentences))
    return Finding(said, finding.faults + faults, faults.total())


async def _extraction(
    extractor: Extractor, turns: Sequence[SpokenTurn], around: Surroundings
) -> Extraction:
    if isinstance(extractor, ExtractorInContext):
        found = await counted(partial(extractor.extract_within, turns, around))
    else:
        found = await counted(partial(extractor.extract, turns))
    if isinstance(found, Extraction):
        return found
    if isinstance(found, str) or not isinstance(found, Sequence):
        raise InvalidRequestError(
            f"extractor {extractor.name!r} returned {shown(found)}: it has to return FactCandidates"
        )
    return Extraction(candidates=found)


async def counted(ask: Callable[[], Any]) -> Any:
    """Return the answer of a part; adds its usage unless already recorded."""
    before = dict(USAGE.get() or {})
    answer = ask()
    answer = await answer if inspect.isawaitable(answer) else answer
    if isinstance(answer, Counted) and before == dict(USAGE.get() or {}):
        note_usage(answer.usage)
    return answer


def _proven(found: Extraction, given: Sequence[SpokenTurn]) -> Finding:
    """Return the candidates whose evidence the given turns contain."""
    texts = {one.id: one.text for one in given}
    proven: list[FactCandidate] = []
    faults = Counter(found.faults)
    for one in found.candidates:
        if (fault := _fault(one, texts.get(one.source_id))) is None:
            proven.append(one)
        else:
            faults[fault] += 1
    return Finding(proven, faults)


def _fault(one: FactCandidate, text: str | None) -> str | None:
    if text is None:
        return "unknown_turn"
    if not 0 <= one.start < one.end <= len(text):
        return "not_said"
    if not one.text.strip():
        return "empty"
    if one.slot is not None and not one.value and one.polarity == "states":
        return "slot_without_value"
    if one.valid_from is not None and one.valid_from.tzinfo is None:
        return "no_date"
    return None


def _said_otherwise(
    found: Sequence[FactCandidate], answer: Any
) -> tuple[list[FactCandidate], Counter[str]]:
    """Return the candidates with valid paraphrases, and the faults of the other paraphrases.

    Raises InvalidRequestError for an answer that is not one sentence for each.
    """
    if isinstance(answer, str) or not isinstance(answer, Sequence) or len(answer) != len(found):
        what = type(answer).__name__
        raise InvalidRequestError(
            f"the model answered {len(found)} sentences with {what}"
            f"{f' of {len(answer)}' if isinstance(answer, list | tuple) else ''}: "
            "it has to return one text for each, in order"
        )
    faults: Counter[str] = Counter()
    said: list[FactCandidate] = []
    for one, text in zip(found, answer, strict=True):
        if (fault := fault_of(text, most=3 * len(one.text) + 100)) is None:
            said.append(replace(one, text=text.strip()))
        else:
            faults[fault] += 1
            said.append(one)
    return said, faults
