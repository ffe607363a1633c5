"""The words of texts and of questions: what the word index splits, and what is looked up in it."""

import re
import unicodedata


def index_words(text: str) -> str:
    """`text` as the word index can split it: folded, with the parts of words that it cannot see.

    Folded: NFKC without accents, vowel points and the like in Latin, Greek, Cyrillic, Hebrew and
    Arabic script. The engine would fold Latin letters alone, and only after it has stripped
    endings, so that `école` and `ecole` would be two words. Upper and lower case are left to it.

    Korean glues particles to its words, so that whole words seldom meet again; pairs of syllables,
    and the first one for words of one syllable, do. A `getUserName` is followed by `get User Name`,
    and an emoji, in whatever colour of skin, becomes a word of its own: the engine knows none.
    Everything else keeps its words, which are split at `_`, `-`, `.`, `/`, `@` and the like.
    """
    if not text.isascii():
        text = _MARKS.sub("", unicodedata.normalize("NFKD", text)).translate(_SAME)
        # The tokenizer splits at combining marks, so a mark that is left must be joined to its
        # letter.
        text = _HANGUL.sub(_pairs, unicodedata.normalize("NFKC", text))
        text = _EMOJI.sub(_named, text)
    return _IDENTIFIER.sub(_with_parts, text) if _HUMP.search(text) else text


def query_words(query: str) -> str:
    """The words of `query` that a text may hold which answers it, for an index of `index_words`.

    English words that ask rather than say (`what did he`) are dropped: statements hold few of them,
    so that they would count as rare, and weigh as much as what is asked for. A capital where none
    is due makes a word a name (`Will`, `US`). A query of such words alone keeps them all.
    """
    kept = []
    starts = True
    for chunk in query.split():
        word = _EDGES.sub("", chunk)
        if _EMOJI.search(chunk) or (word and not asks(word, starts=starts)):
            kept.append(chunk)
        starts = chunk.endswith((".", "!", "?"))
    return index_words(" ".join(kept) or query)


# Not "may": it is a month. The engine's own list for many languages is the union of all of them, and
# takes "dog" and "cat" for stop words; and what an index has dropped cannot be asked for at all.
_ASKING = frozenset(
    """
    what which who whom whose when where why how
    am is are was were be been being do does did have has had having will would can could should
    i me my mine you your yours he him his she her hers it its we us our ours they them their theirs
    this that these those a an the and or but if than then there so
    of at by for with about to from in on as into
    """.split()  # noqa: SIM905 - one string a word would take a hundred lines
)
_EDGES = re.compile(r"^\W+|\W+$")
_APOSTROPHE = re.compile("['\u2019]")
# A flag is two letters. The five colours of skin stand apart, between the two ranges.
_EMOJI = re.compile(
    "[\U0001f1e6-\U0001f1ff]{2}"
    "|[\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b50\u2b55\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
)
_HUMP = re.compile("[a-z][A-Z]|[A-Z]{2}[a-z]")
# What is longer is a key or a hash: its humps are chance.
_IDENTIFIER = re.compile("(?<![A-Za-z0-9])[A-Za-z0-9]{3,64}(?![A-Za-z0-9])")
_PART = re.compile("[A-Z]+(?=[A-Z][a-z]{2})|[A-Z]?[a-z]+|[A-Z]+")
_HANGUL = re.compile("[\uac00-\ud7a3]{2,}")
# Not those of other scripts: there a mark is a vowel, or makes another letter.
_MARKS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670]"
)
_SAME = str.maketrans({"ß": "ss", "ẞ": "SS", "ς": "\u03c3", "Σ": "\u03c3"})
"""Letters that change with the case of a word, or with their place in it."""


def asks(word: str, *, starts: bool) -> bool:
    """Whether `word` only asks; `starts` says that it may owe its capital to its place."""
    head = _APOSTROPHE.split(word.lower())[0]
    is_plain = word.islower() or head == "i" or (starts and word == word.capitalize())
    return is_plain and head in _ASKING


def _pairs(run: re.Match[str]) -> str:
    word = run[0]
    pairs = [word[start : start + 2] for start in range(len(word) - 1)]
    return " ".join(pairs if len(word) > 2 else [word, word[0]])


def _named(emoji: re.Match[str]) -> str:
    return " emoji" + "".join(f"{ord(character):x}" for character in emoji[0]) + " "


def _with_parts(word: re.Match[str]) -> str:
    if not _HUMP.search(word[0]):
        return word[0]
    parts = [part for part in _PART.findall(word[0]) if len(part) > 1]
    return " ".join(dict.fromkeys([word[0], *parts]))
