"""Facts that say nearly the same, told without a model: near by their vectors, and alike in what turns a sentence round.

By vectors alone `I can swim` is as near to `I can't swim` as to anything: of sentences about the same
what tells them apart are small words. So numbers, names, negations and words that turn a sentence
round have to agree first, each as often; what is left to the vectors is how it is said.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from lance_context_core._util.calls import called
from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen
from lance_context_core.embedders import AnyEmbedder
from lance_context_core.embedders._adapt import as_embedder
from lance_context_core.errors import InvalidRequestError
from lance_context_core.knowledge.values import Consolidation, Decision
from lance_context_core.types import ContextRecord

NEARLY_THE_SAME = 0.93
"""A cosine of the `local` embedder, between those of sentences that agree in the words below and say
the same (8 of 14 are above it) and those that do not (none of 22, the nearest is at 0.91)."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NOT = _words("no not never none nobody nothing nowhere neither nor without hardly cannot")
_HOW_MANY = _words(
    "one two three four five six seven eight nine ten eleven twelve twenty hundred thousand once "
    "twice half first second third all some most few many more less only both"
)
_ROUND = _words(
    "out off away from up down in on before after since until ago next last left right under over "
    "used will can could may might must should if but except stop stopped quit start started "
    "unlike instead former"
)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_CURLY = "\N{RIGHT SINGLE QUOTATION MARK}"


@frozen
class SimilarConsolidator:
    """Makes one fact of those that say nearly the same; asks no language model.

    A new fact without a slot is merged into the nearest known one of the same subject whose cosine is
    `threshold` or more, and which has the same numbers, names, negations and words such as `out` or
    `before`: that one has the evidence of both then, and an undo of the job takes its part back. All
    others are added. The words are English; of other languages numbers and names alone.

    - `embedder`: what makes the vectors; as in `ContextStore.open`.
    - `threshold`: in (0, 1]; the default is measured of `"local"`, and other models have their own.

    Raises InvalidRequestError for a threshold or an embedder that is none.
    """

    embedder: Any = "local"
    threshold: float = NEARLY_THE_SAME
    _embedder: AnyEmbedder = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        is_number = isinstance(self.threshold, int | float) and not isinstance(self.threshold, bool)
        if not is_number or not 0 < self.threshold <= 1:
            raise InvalidRequestError(
                f"threshold={shown(self.threshold)}: give a cosine above 0, at most 1"
            )
        object.__setattr__(self, "_embedder", as_embedder(self.embedder))

    @property
    def name(self) -> str:
        """The rules, the embedder and the threshold."""
        return f"similar/1+{self._embedder.model}+{self.threshold:g}"

    async def decide(
        self, new: Sequence[ContextRecord], known: Sequence[ContextRecord]
    ) -> Consolidation:
        """To merge each new fact that says nearly the same as a known one."""
        texts = [one.text or "" for one in (*new, *known)]
        one = self._embedder
        embed = one.aembed_documents if hasattr(one, "aembed_documents") else one.embed_documents
        vectors = _directions(await called(embed, texts))
        cosines = vectors[: len(new)] @ vectors[len(new) :].T
        decided = []
        for fact, row in zip(new, cosines, strict=True):
            for n in np.argsort(-row, kind="stable"):
                if row[n] < self.threshold:
                    break
                if agree(fact.text or "", known[n].text or ""):
                    reason = f"cosine {row[n]:.2f}"
                    decided.append(
                        Decision(new_id=fact.id, op="merge", target_id=known[n].id, reason=reason)
                    )
                    break
        return Consolidation(decisions=decided)


def agree(one: str, other: str) -> bool:
    """Whether two sentences have the same numbers, names, negations and words that turn them round."""
    first, second = (_WORD.findall(text.replace(_CURLY, "'")) for text in (one, other))
    return _telling(first, second) == _telling(second, first)


def _telling(words: Sequence[str], others: Sequence[str]) -> Counter[str]:
    """What of a sentence has to be in the other one too, and how often."""
    plain = {word for word in others if word.islower()}
    found: Counter[str] = Counter()
    for place, word in enumerate(words):
        small = word.casefold()
        if small in _NOT or small.endswith("n't"):
            found["not"] += 1
        elif any(letter.isdigit() for letter in small) or small in _HOW_MANY or small in _ROUND:
            found[small] += 1
        elif word[0].isupper() and small.split("'")[0] != "i":
            # The first word of a sentence may be any: it is a name unless the other has it small.
            is_name = small not in plain and (place > 0 or small not in _BEGINNINGS)
            found[small] += is_name
    return +found


_BEGINNINGS = _words(
    "a an and at every he her his it it's my our she so the their there they this we we're we've "
    "well yes you your"
)


def _directions(vectors: Any) -> np.ndarray:
    """Vectors of length 1; of zeros zeros, which are near to nothing."""
    given = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(given, axis=1, keepdims=True)
    directions: np.ndarray = given / np.where(lengths > 0, lengths, 1)
    return directions
