"""What a record is found by: the text that is embedded, and the words that are indexed.

A turn of a conversation is asked for by who said it, when, and what was to be seen, none of which
its text says. Both texts serve the search alone; readers get the original back.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol


class Composable(Protocol):
    """What a composition is made of; every `ContextRecord` is one."""

    @property
    def kind(self) -> str:
        """`message` for a turn of a conversation."""

    @property
    def role(self) -> str | None:
        """What the speaker is to the conversation, such as `user`."""

    @property
    def name(self) -> str | None:
        """Who speaks, where that is known by name."""

    @property
    def text(self) -> str | None:
        """The original text."""

    @property
    def captions(self) -> Sequence[str]:
        """What its images show, in order."""

    @property
    def created_at(self) -> datetime:
        """When it was said; aware."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The caller's own data."""


def spoken(record: Composable) -> str | None:
    """`Ann said, "text" (caption)`, for a message whose speaker has a name.

    Without a name, and for what is no message: the text as it is, and the captions. None if there
    is neither text nor caption. The date is left to the words: an embedding blurs numbers.
    """
    name, text, captions = _content(record)
    if not (text or captions):
        return None
    if name:
        text = f'{name} said, "{text}"' if text else f"{name} shared"
    return _joined(text, captions)


def dated(record: Composable) -> str | None:
    """`[8 May 2023] Ann: text (caption)` for a message, without `Ann:` if the speaker has no name.

    For what is no message: the text and the captions. None if there is neither. The date is that
    of UTC; the whole goes through `index_words`.
    """
    name, text, captions = _content(record)
    if not (text or captions):
        return None
    date = f"[{_date(record.created_at)}]" if record.kind == "message" else ""
    return index_words(_joined(date, f"{name}:" if name else "", text, captions))


def index_words(text: str) -> str:
    """`text` as the word index can split it: folded, and Korean words in overlapping pairs.

    Folded: NFKC without accents, vowel points and the like in Latin, Greek, Cyrillic, Hebrew and
    Arabic script. The engine would fold Latin letters alone, and only after it has stripped
    endings, so that `école` and `ecole` would be two words. Upper and lower case are left to it.

    Korean glues particles to its words, so that whole words seldom meet again; pairs of syllables,
    and the first one for words of one syllable, do. Everything else keeps its words.
    """
    if text.isascii():
        return text
    folded = _MARKS.sub("", unicodedata.normalize("NFKD", text)).translate(_SAME)
    # The tokenizer splits at combining marks, so a mark that is left must be joined to its letter.
    return _HANGUL.sub(_pairs, unicodedata.normalize("NFKC", folded))


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
        if word and not _asks(word, starts=starts):
            kept.append(chunk)
        starts = chunk.endswith((".", "!", "?"))
    return index_words(" ".join(kept) or query)


@dataclass(frozen=True, slots=True, kw_only=True)
class Composer:
    """The compositions of a store; each can be replaced by a function of the same shape.

    `index_text` and `query_text` are a pair: what one does to a word, the other must do too.
    """

    embed_text: Callable[[Composable], str | None] = spoken
    """What of a record is embedded; None if there is nothing to embed."""
    index_text: Callable[[Composable], str | None] = dated
    """What of a record is indexed for words; None if there is nothing to index."""
    query_text: Callable[[str], str] = query_words
    """What of a query is looked up in the words; a query is embedded as it is."""


DEFAULT_COMPOSER = Composer()
"""Names and captions for vectors, names, captions and dates for words."""

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip

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
_HANGUL = re.compile("[\uac00-\ud7a3]{2,}")
# Not those of other scripts: there a mark is a vowel, or makes another letter.
_MARKS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670]"
)
_SAME = str.maketrans({"ß": "ss", "ẞ": "SS", "ς": "\u03c3", "Σ": "\u03c3"})
"""Letters that change with the case of a word, or with their place in it."""


def _content(record: Composable) -> tuple[str, str, str]:
    """A message's speaker; the text as it is; the captions, each in parentheses. "" if blank."""
    name = (record.name or "").strip() if record.kind == "message" else ""
    text = record.text if record.text and not record.text.isspace() else ""
    return name, text, " ".join(f"({caption})" for caption in record.captions if caption.strip())


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _date(moment: datetime) -> str:
    # Not strftime: its names follow the locale of the process, and an index outlives it.
    day = moment.astimezone(UTC)
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def _asks(word: str, *, starts: bool) -> bool:
    """Whether `word` only asks; `starts` says that it may owe its capital to its place."""
    head = _APOSTROPHE.split(word.lower())[0]
    is_plain = word.islower() or head == "i" or (starts and word == word.capitalize())
    return is_plain and head in _ASKING


def _pairs(run: re.Match[str]) -> str:
    word = run[0]
    pairs = [word[start : start + 2] for start in range(len(word) - 1)]
    return " ".join(pairs if len(word) > 2 else [word, word[0]])
