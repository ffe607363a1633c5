"""Extractive summaries: the most informative sentences of a session, in order.

The score of a sentence depends on itself alone. So the best sentences of all turns are the best
among those of the last summary and of the turns since: a summary is updated without reading the
session again.
"""

import math
import re
from collections.abc import Iterable, Sequence

from lance_context_core.knowledge import params
from lance_context_core.knowledge.chunks import Span, sentences
from lance_context_core.knowledge.types import Evidence, SpokenTurn

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
