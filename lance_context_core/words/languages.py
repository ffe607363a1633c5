"""What the word index has to know of languages: which one a text is in, and what stands for all forms of a word.

A language is added by a row of `_LATIN` or `_SCRIPTS`, if snowballstemmer knows its endings.
"""

# ruff: noqa: RUF001 - these are the letters of other languages, none is a slip

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from lance_context_core._util.lru import remembered


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Language:
    """A language that the core strips the endings of."""

    name: str
    """As snowballstemmer calls it."""
    function_words: frozenset[str] = frozenset()
    """Words that ask, point or join: most texts have some, and none says what a text is about."""
    letters: re.Pattern[str] = re.compile(r"(?!)")
    """Letters that English does not have."""
    is_compounding: bool = False
    """Whether words are joined without a space, as in `Haustürschlüssel`."""

    same: Mapping[int, int | str | None] = field(default_factory=dict)
    """Letters that are written in two ways, and what they become before endings are stripped."""

    def stem(self, word: str) -> str:
        """The word without its endings, in lower case."""
        return _known_stemmer(self.name)(word.translate(self.same).lower())


def of_script(word: str) -> Language | None:
    """The language whose endings the words of this one's script have, where the script tells."""
    return next((language for script, language in _SCRIPTS if script.match(word)), None)


def of_latin(text: str, *, english: AbstractSet[str]) -> tuple[Language, ...]:
    """The languages that a text in Latin script may be in, but for English: mostly one, or none.

    It is the one that most of its words are function words of, or have a letter of. None if English
    has as many, `english` being its function words; all where nothing tells.
    """
    words = {*_LATIN_WORD.findall(text.lower())}
    n_english = len(words & english)
    known = words & _FUNCTION_WORDS.keys()
    accented = [word for word in words if not word.isascii()]
    if n_english and len(known) + len(accented) <= n_english:
        return ()
    found = Counter(name for word in known for name in _FUNCTION_WORDS[word])
    for name, one in _LATIN.items():
        found[name] += sum(one.letters.search(word) is not None for word in accented)
    # The first of equals, in the order of the table.
    best = max(_LATIN, key=found.__getitem__)
    if found[best] > n_english:
        return (_LATIN[best],)
    return () if n_english else tuple(_LATIN.values())


@remembered(4 * 1024 * 1024, size_of=lambda given, made: 400 + 8 * len(given[0]) * len(made))
def forms(word: str, language: Language, is_asked: bool) -> tuple[str, ...]:  # noqa: FBT001 - a key is made of places
    """What finds other forms of a word of a text, or of one that is asked for.

    Its stem, and of a compounding language parts of the stem that may be words. All are marked
    (`is_form`): a stem meets stems, and no word that happens to look like it, as `kit` does like
    the `kite` that a question without a language may mean. Parts meet whole words: the text's those
    of a question, and the question's those of a text, but no part another part.
    """
    stem = language.stem(word)
    if not language.is_compounding:
        return (_STEM + stem,)
    parts = [
        part
        for at in range(_SHORTEST_PART, len(stem) - _SHORTEST_PART + 1)
        for part in (stem[:at], stem[at:])
    ]
    if is_asked:
        return (_STEM + stem, _PART + stem, *(_STEM + part for part in parts))
    return (_STEM + stem, *(_PART + part for part in parts))


def is_form(word: str) -> bool:
    """Whether this stands for the word before it, as one of its `forms`."""
    return word.startswith(_PART)


def stemmer(name: str) -> Callable[[str], str]:
    """What strips the endings of lower-case words of that language, safe to share between threads.

    Raises KeyError for a language that snowballstemmer does not know.
    """
    return _Stemming(name).stem


class _Stemming(threading.local):
    """A stemmer of each thread's own: it keeps the word that it is at in itself."""

    def __init__(self, name: str) -> None:
        import snowballstemmer  # All languages that it knows: who asks for no word needs none.

        self._stemmer: Any = snowballstemmer.stemmer(name)

    def stem(self, word: str) -> str:
        stemmed: str = self._stemmer.stemWord(word)
        return stemmed


_LATIN_WORD = re.compile("[a-z\u00df-\u00f6\u00f8-\u024f]+")
_SHORTEST_PART = 4
_PART = "0"
_STEM = "00"
"""Signs that no word begins with, which are letters to every tokenizer."""


_known_stemmer = cache(stemmer)


def _latin(name: str, words: str, *, letters: str, **more: Any) -> tuple[str, Language]:
    return name, Language(
        name=name,
        function_words=frozenset(words.split()),
        letters=re.compile(f"[{letters}]"),
        **more,
    )


_LATIN: Mapping[str, Language] = dict(
    [
        _latin(
            "german",
            """
            was wer wen wem wessen wo woher wohin womit wofür worauf wann warum wieso wie welche
            welcher welches welchen welchem viel viele ist sind war waren bin bist hat habe haben
            hatte hatten wird werden wurde wurden kann können der die das den dem des ein eine einen
            einem einer eines kein keine und oder aber auch noch schon in im an am auf zu zum zur von
            vom mit bei beim nach für aus über um bis durch ich du er sie es wir ihr mich dich mir dir
            uns euch sich mein meine meinen meiner dein deine sein seine seiner nicht als dass wenn
            """,
            letters="äöüß",
            is_compounding=True,
        ),
        _latin(
            "turkish",
            """
            ne neden niçin nasıl nerede nereye nereden kim kime kimi kimler kimin kimden kaç kaçıncı
            hangi mi mı mu mü bu şu ve ile için bir da de ki çok ama gibi ben sen biz siz onlar bana
            sana var yok değil
            """,
            letters="ığşçöü",
            same=str.maketrans({"I": "ı", "İ": "i"}),
        ),
        _latin(
            "french",
            """
            que qui quoi quel quelle quels quelles où quand comment pourquoi combien est sont était
            a ai as ont avait le la les un une des du de au aux et ou mais dans en sur pour par avec
            sans chez je tu il elle on nous vous ils elles me te se mon ma mes ton ta tes son sa ses
            notre votre leur leurs ce cet cette ces ne pas plus y
            """,
            letters="éèêëàâçœîïôûù",
        ),
        _latin(
            "spanish",
            """
            qué quién quiénes cuál cuáles dónde adónde cuándo cómo cuánto cuántos cuánta cuántas que
            quien donde cuando como es son era eran fue está están ha han había el la los las un una
            unos unas del de al y o pero en por para con sin sobre yo tú él ella nosotros ellos ellas
            me te se le les lo mi mis tu tus su sus este esta estos estas ese esa no más muy
            """,
            letters="ñáéíóú",
        ),
    ]
)

_FUNCTION_WORDS: dict[str, list[str]] = {}
for _name, _language in _LATIN.items():
    for _word in _language.function_words:
        _FUNCTION_WORDS.setdefault(_word, []).append(_name)

_SCRIPTS = [
    (re.compile("[\u0400-\u04ff]"), Language(name="russian", same=str.maketrans("ёЁ", "ее"))),
    (re.compile("[\u0370-\u03ff]"), Language(name="greek")),
    (re.compile("[\u0600-\u06ff]"), Language(name="arabic")),
    (
        re.compile("[\u0900-\u097f]"),
        Language(name="hindi", same=str.maketrans("\u0901", "\u0902", "\u093c")),
    ),
]
