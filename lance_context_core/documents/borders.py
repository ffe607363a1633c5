"""Where a text may be cut: at blank lines, lines, words, and the ends of sentences of many scripts."""

import re

BLANK_LINE = "\n\n"
SPACED_BLANK_LINE = re.compile(r"\n[^\S\n]+\n")
PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n\s*")
LINE_END = re.compile(r"\n\s*")
WORD_END = re.compile(r"\s+")
_SPACED_STOPS, _STOPS = ".!?…؟։۔।॥", "。！？｡．"  # noqa: RUF001 - what they look like is another matter
SENTENCE_END = re.compile(
    # Of scripts that leave a space behind a sentence, and of those that do not. The first character
    # stands by itself, so that all that cannot be one is passed over in C.
    rf"""[{_SPACED_STOPS}{_STOPS}](?:"""
    rf"""(?<=[{_SPACED_STOPS}])[{_SPACED_STOPS}]*["'”’»)\]]*\s+|"""  # noqa: RUF001
    rf"""(?<=[{_STOPS}])[{_STOPS}]*["”’」』）】]*\s*)"""  # noqa: RUF001
)
_ABBREVIATIONS = frozenset(
    [
        "dr",
        "mr",
        "mrs",
        "ms",
        "prof",
        "st",
        "vs",
        "etc",
        "e.g",
        "i.e",
        "cf",
        "no",
        "fig",
        "vol",
        "pp",
        "ca",
        "approx",
        "bzw",
        "z.b",
        "d.h",
        "usw",
        "nr",
        "inc",
        "ltd",
    ]
)
_LAST_WORD = re.compile(r"[\w.]+$")


def is_abbreviation(text: str, stop: int) -> bool:
    """Whether the full stop at `stop` belongs to the word before it."""
    if text[stop] != ".":
        return False
    word = _LAST_WORD.search(text, max(0, stop - 10), stop)
    if word is None:
        return False
    # A letter by itself is an initial.
    return word[0].lower() in _ABBREVIATIONS or (len(word[0]) == 1 and word[0].isalpha())
