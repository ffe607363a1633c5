"""The words of texts and of questions: what the word index splits, and what is looked up in it."""

import re
import unicodedata
from collections.abc import Sequence

from lance_context_core.words.languages import Language, forms, of_latin, of_script
from lance_context_core.words.unspaced import has_runs, with_asked_pieces, with_pieces


def index_words(text: str) -> str:
    """`text` as the word index can split it: folded, with the parts of words that it cannot see.

    Folded: NFKC without accents, vowel points and the like in Latin, Greek, Cyrillic, Hebrew and
    Arabic script. The engine would fold Latin letters alone, and only after it has stripped
    endings, so that `école` and `ecole` would be two words. Upper and lower case are left to it.

    The engine strips English endings. A word of another language is followed by its stem; of German
    long words by the beginnings and ends that may be words of their own. Chinese, Japanese, Thai
    and the like, which put no spaces between words, become overlapping pieces, as do Korean words,
    to which particles are glued. A `getUserName` is followed by `get User Name`, and an emoji, in
    whatever colour of skin, becomes a word of its own: the engine knows none. Everything else keeps
    its words, which are split at `_`, `-`, `.`, `/`, `@` and the like.
    """
    text = _composed(text)
    languages = of_latin(text, english=_ASKING)
    return _prepared(text, languages if len(languages) == 1 else (), is_asked=False)


def query_words(query: str) -> str:
    """The words of `query` that a text may hold which answers it, for an index of `index_words`.

    Words that ask rather than say (`what did he`) are dropped: statements hold few of them, so that
    they would count as rare, and weigh as much as what is asked for. A capital where none is due
    makes an English word a name (`Will`, `US`). A query of such words alone keeps them all.
    """
    query = _composed(query)
    languages = of_latin(query, english=_ASKING)
    function_words = languages[0].function_words if len(languages) == 1 else frozenset()
    kept = []
    starts = True
    for chunk in query.split():
        word = _EDGES.sub("", chunk)
        only_asks = asks(word, starts=starts) or word.lower() in function_words
        if _EMOJI.search(chunk) or (word and not only_asks):
            kept.append(chunk)
        starts = chunk.endswith((".", "!", "?"))
    return _prepared(" ".join(kept) or query, languages, is_asked=True)


def is_short(text: str | None) -> bool:
    """Whether what was said has at most 60 words: long answers have some word of every question."""
    return text is None or len(text.split(maxsplit=_SHORT)) <= _SHORT


_SHORT = 60
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
_IS_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_OTHER = re.compile("[\u0370-\u052f\u0600-\u06ff\u0900-\u097f]")
"""Scripts whose languages have stems."""
# The vowel signs of Devanagari are not among what Python takes for letters.
_WORD = re.compile("[\\w\u0900-\u0963]+")
_NO_WORD = re.compile("[0-9_]|[a-z][A-Z]|[A-Z]{2}[a-z]")
_LONGEST = 64
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
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670"
    "\ufe0e\ufe0f]"  # which say how an emoji is drawn
)
_POINTS = re.compile("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670]")
_SAME = str.maketrans(
    {
        "ß": "ss",
        "ẞ": "SS",
        "ς": "\u03c3",
        "Σ": "\u03c3",
        "\u0131": "i",
        "ø": "o",
        "Ø": "O",
        "ł": "l",
    }
    | {"Ł": "L", "đ": "d", "Đ": "D", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE"}
)
"""Letters that change with the case of a word or with their place in it, or that have no accent to lose."""


def asks(word: str, *, starts: bool) -> bool:
    """Whether `word` only asks; `starts` says that it may owe its capital to its place."""
    head = _APOSTROPHE.split(word.lower())[0]
    is_plain = word.islower() or head == "i" or (starts and word == word.capitalize())
    return is_plain and head in _ASKING


def _prepared(text: str, languages: Sequence[Language], *, is_asked: bool) -> str:
    """As `index_words` says; `languages` are those that words in Latin letters may be in."""
    if not text.isascii() and has_runs(text):
        text = with_asked_pieces(text) if is_asked else with_pieces(text)
    if languages or (not text.isascii() and _OTHER.search(text)):
        text = _WORD.sub(lambda word: _with_forms(word[0], languages, is_asked=is_asked), text)
    if not text.isascii():
        # The tokenizer splits at combining marks, so a mark that is left must be joined to its
        # letter.
        text = _HANGUL.sub(_pairs, unicodedata.normalize("NFKC", _folded(text)))
        text = _EMOJI.sub(_named, text)
    return _IDENTIFIER.sub(_with_parts, text) if _HUMP.search(text) else text


def _composed(text: str) -> str:
    """The text with each accent in its letter, and without vowel points."""
    return text if text.isascii() else _POINTS.sub("", unicodedata.normalize("NFKC", text))


def _with_forms(word: str, languages: Sequence[Language], *, is_asked: bool) -> str:
    if len(word) > _LONGEST or _NO_WORD.search(word):
        return word
    if not _IS_LATIN.match(word):
        languages = [language] if (language := of_script(word)) else []
    more = [form for language in languages for form in forms(word, language, is_asked)]
    return " ".join([word, *dict.fromkeys(more)])


def _folded(text: str) -> str:
    return _MARKS.sub("", unicodedata.normalize("NFKD", text)).translate(_SAME)


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
