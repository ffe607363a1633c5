"""Extractive summaries: the sentences of a session that say most of what it is about, in their order."""

import math
import re
from collections import Counter
from collections.abc import Sequence

from lance_context_core.knowledge.chunks import Span, sentences
from lance_context_core.knowledge.types import SpokenTurn

MOST_SENTENCES = 6
MOST_CHARACTERS = 900
_SHORT = 200
"""Characters of a sentence beyond which more words count for less."""

_WORD = re.compile(r"[^\W_]+")
_NAME_OR_NUMBER = re.compile(r"(?<!^)\b(?!I\b)[A-Z][a-z]+|\d+")
_SPEAKERS = ("user", "assistant")


def picked(turns: Sequence[SpokenTurn]) -> list[tuple[SpokenTurn, Span]]:
    """The sentences of a summary: by the weight of their words in the session, names and numbers more."""
    found = [
        (turn, span) for turn in turns if turn.role in _SPEAKERS for span in sentences(turn.text)
    ]
    words = [set(_words(turn.text[start:end])) for turn, (start, end) in found]
    in_how_many = Counter(word for some in words for word in some)
    scored = [
        (-_score(turn.text[start:end], some, in_how_many, len(found)), index)
        for index, ((turn, (start, end)), some) in enumerate(zip(found, words, strict=True))
    ]
    chosen: list[int] = []
    n_characters = 0
    for _, index in sorted(scored):
        start, end = found[index][1]
        if len(chosen) == MOST_SENTENCES:
            break
        if n_characters + end - start <= MOST_CHARACTERS:
            chosen.append(index)
            n_characters += end - start
    return [found[index] for index in sorted(chosen)]


def text_of(chosen: Sequence[tuple[SpokenTurn, Span]]) -> str:
    """The text of a summary: each sentence with its speaker."""
    return "\n".join(
        f"{turn.name or turn.role}: {turn.text[start:end]}" for turn, (start, end) in chosen
    )


def _score(sentence: str, words: set[str], in_how_many: Counter[str], n: int) -> float:
    weight = sum(math.log(1 + n / in_how_many[word]) for word in words if len(word) > 2)
    weight += 2.0 * len(set(_NAME_OR_NUMBER.findall(sentence)))
    return weight / math.sqrt(max(len(sentence), _SHORT) / _SHORT)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
