"""Summaries of sessions: their most informative sentences, in order, or the words of a model.

The score of a sentence depends on itself alone. So the best sentences of all turns are the best
among those of the last summary and of the turns since: a summary is updated without reading the
session again.
"""

import math
import re
from collections.abc import Iterable, Sequence

from lance_context_core._util.checks import check_count
from lance_context_core._util.frozen import frozen
from lance_context_core.knowledge import params, prompts
from lance_context_core.knowledge.chunks import Span, sentences
from lance_context_core.knowledge.evidence_text import fault_of
from lance_context_core.knowledge.extracting import TIMEOUT, asked
from lance_context_core.knowledge.types import Evidence, SpokenTurn, Summary
from lance_context_core.models.asking import LanguageModel, check_asking

Sentence = tuple[SpokenTurn, Span]

MOST_SENTENCES = 6
MOST_CHARACTERS = 900
_SHORT = 200
"""Length of a sentence, in characters, beyond which more words count for less."""
_LONG_WORD = 4
"""In letters: shorter words carry little information."""

_WORD = re.compile(r"[^\W_]+")
_NAME_OR_NUMBER = re.compile(r"(?<!^)\b(?!I\b)[A-Z][a-z]+|\d+")
_SPEAKERS = ("user", "assistant")


def said_in(turns: Iterable[SpokenTurn]) -> list[Sentence]:
    """Return the sentences of people and of their assistants, in order."""
    return [
        (turn, span) for turn in turns if turn.role in _SPEAKERS for span in sentences(turn.text)
    ]


def quoted_in(found: Iterable[Evidence], turns: Iterable[SpokenTurn]) -> list[Sentence]:
    """Return the sentences of a summary that the turns still contain, in order."""
    of_turn: dict[str, list[Evidence]] = {}
    for one in found:
        of_turn.setdefault(one.source_id, []).append(one)
    return [
        (turn, (one.start, one.end))
        for turn in turns
        for one in of_turn.get(turn.id, ())
        if params.digest(turn.text[one.start : one.end]) == one.sha256
    ]


def picked(found: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences of a summary, ranked by words, names and numbers; each once."""
    texts = [turn.text[start:end] for turn, (start, end) in found]
    scored = sorted((-_score(text), index) for index, text in enumerate(texts))
    chosen: dict[str, int] = {}
    n_characters = 0
    for _, index in scored:
        text, words = texts[index], params.normalised(texts[index])
        if len(text) > MOST_CHARACTERS or words in chosen:
            continue
        n_characters += len(text)
        # Nothing behind the first that does not fit: otherwise more turns could bring it back.
        if n_characters > MOST_CHARACTERS or len(chosen) == MOST_SENTENCES:
            break
        chosen[words] = index
    return [found[index] for index in sorted(chosen.values())]


def text_of(chosen: Sequence[Sentence]) -> str:
    """Return the text of a summary: each sentence with its speaker."""
    return "\n".join(
        f"{turn.name or turn.role}: {turn.text[start:end]}" for turn, (start, end) in chosen
    )


def _score(sentence: str) -> float:
    words = {word for word in _words(sentence) if len(word) >= _LONG_WORD}
    weight = len(words) + 2.0 * len({*_NAME_OR_NUMBER.findall(sentence)})
    return weight / math.sqrt(max(len(sentence), _SHORT) / _SHORT)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


# Summaries by a model; if it fails, sentences of the session.

_CHARACTERS_A_WORD = 12


@frozen
class ModelSummariser:
    """Summarises sessions with a language model: one call per job, over new turns.

    The model receives the last summary and the new turns, and updates the summary.

    - `words`: maximum number requested; an answer twice as long is rejected.
    - `most_characters`: length of the end of the new turns that the model receives.
    """

    model: LanguageModel
    instructions: str = ""
    words: int = 80
    most_characters: int = 24_000
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        check_asking(self.model, self.instructions, self.timeout)
        check_count(self.words, "words")
        check_count(self.most_characters, "most_characters")

    @property
    def name(self) -> str:
        """The prompt and the model."""
        return f"{prompts.SUMMARISE_NAME}+{self.model.name}"

    async def summarise(self, turns: Sequence[SpokenTurn], before: str | None) -> Summary:
        """Return the model's summary, or the reason why it is rejected."""
        shown = self._shown(turns)
        if not shown:
            return Summary()
        request = prompts.summarise(
            shown, before=before, words=self.words, instructions=self.instructions
        )
        answer = await asked(self.model, request, self.timeout)
        text, faults = answer.data["summary"], answer.faults
        if (fault := fault_of(text, most=2 * self.words * _CHARACTERS_A_WORD)) is not None:
            faults[fault] += 1
        return Summary(
            text=text.strip() if fault is None else None,
            faults=dict(faults),
            usage=dict(answer.usage),
        )

    def _shown(self, turns: Sequence[SpokenTurn]) -> list[SpokenTurn]:
        """The last turns that fit; always the last one."""
        shown: list[SpokenTurn] = []
        n_characters = 0
        for one in reversed([one for one in turns if one.role in _SPEAKERS]):
            n_characters += len(one.text)
            if shown and n_characters > self.most_characters:
                break
            shown.append(one)
        return shown[::-1]
