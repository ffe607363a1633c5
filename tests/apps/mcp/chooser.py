"""Chooses a tool for a user's words by the words of the tools' cards: a baseline, and no model.

A tool scores by BM25: each word of the request that its card has, by how few cards have it. A model
chooses better; a card whose words lead even this to the right tool is clear to a model, too.
"""

import math
import re
from collections import Counter

_K1, _B = 1.2, 0.5
_COMMON = frozenset(
    [
        "a",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "by",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "here",
        "i",
        "in",
        "into",
        "is",
        "it",
        "its",
        "me",
        "my",
        "of",
        "on",
        "or",
        "our",
        "so",
        "some",
        "than",
        "that",
        "the",
        "their",
        "them",
        "there",
        "these",
        "this",
        "to",
        "up",
        "us",
        "was",
        "we",
        "were",
        "will",
        "with",
        "you",
        "your",
        "please",
    ]
)
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ied", "es", "ed", "s", "e", "y")


def chosen(cards, said):
    """The name of the tool whose card has most of what was said; the first one of equals."""
    words = {card.name: Counter(_words(_text(card))) for card in cards}
    mean = sum(map(Counter.total, words.values())) / len(words)
    n_with = Counter(word for found in words.values() for word in found)

    def score(name):
        found = words[name]
        length = 1 - _B + _B * found.total() / mean
        return sum(
            math.log(1 + (len(words) - n_with[word] + 0.5) / (n_with[word] + 0.5))
            * found[word] * (_K1 + 1) / (found[word] + _K1 * length)
            for word in {*_words(said)}
        )  # fmt: skip

    return max(words, key=score)


def _text(card):
    parts = [card.name, card.title, card.description]
    for name, schema in card.input_schema["properties"].items():
        parts += [name, schema.get("description", ""), *map(str, schema.get("enum", []))]
    return " ".join(parts)


def _words(text):
    return [_stem(word) for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in _COMMON]


def _stem(word):
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
