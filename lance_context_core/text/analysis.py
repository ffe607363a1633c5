"""The words of texts and of questions: what the word index splits, and what is looked up in it."""

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._util.lru import remembered

# What the word index has to know of languages: which one a text is in, and what stands for all forms of a word.
#
# A language is added by a row of `_LATIN` or `_SCRIPTS`, if snowballstemmer knows its endings.

# ruff: noqa: RUF001 - these are the letters of other languages, none is a slip


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
    known = words & _ALL_FUNCTION_WORDS
    accented = [] if text.isascii() else [word for word in words if not word.isascii()]
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
        return (_STEM + stem, _LANGUAGE_PART + stem, *(_STEM + part for part in parts))
    return (_STEM + stem, *(_LANGUAGE_PART + part for part in parts))


def is_form(word: str) -> bool:
    """Whether this stands for the word before it, as one of its `forms`."""
    return word.startswith(_LANGUAGE_PART)


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
_LANGUAGE_PART = "0"
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
_ALL_FUNCTION_WORDS = frozenset(_FUNCTION_WORDS)

_SCRIPTS = [
    (re.compile("[\u0400-\u04ff]"), Language(name="russian", same=str.maketrans("ёЁ", "ее"))),
    (re.compile("[\u0370-\u03ff]"), Language(name="greek")),
    (re.compile("[\u0600-\u06ff]"), Language(name="arabic")),
    (
        re.compile("[\u0900-\u097f]"),
        Language(name="hindi", same=str.maketrans("\u0901", "\u0902", "\u093c")),
    ),
]


# Scripts that put no spaces between words: their texts as overlapping pieces, which are words of the index.
#
# A dictionary would cut a question otherwise than the text that answers it, and only the engine has
# one; pieces are the same everywhere.


def with_pieces(text: str) -> str:
    """`text` with the pieces of each run instead of it.

    Of Chinese and Japanese each ideograph and all pairs of characters; of Thai, Lao, Burmese and
    Khmer all two and three letters that follow each other.
    """
    return _RUN.sub(lambda run: f" {' '.join(_pieces(run[0]))} ", text)


def with_asked_pieces(text: str) -> str:
    """`text`, a question, with the pieces of what it asks for beside each run.

    The run itself finds what was written when the engine still cut it. Words that only ask are left
    out of the pieces, unless the question has no others.
    """
    plain = _ASKING_UNSPACED.sub(" ", text)
    asked = plain if re.search(r"\w", plain) else text
    pieces = [piece for run in _RUN.findall(asked) for piece in _asked_pieces(run)]
    return " ".join([text, *pieces])


def without_runs(text: str) -> str:
    """The text without what is in such a script."""
    return _RUN.sub(" ", text)


def has_runs(text: str) -> bool:
    """Whether some of it is in such a script."""
    return _RUN.search(text) is not None


_IDEOGRAPH = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = "\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_SOUTHEAST = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_RUN = re.compile(f"[{_IDEOGRAPH}{_KANA}]+|[{_SOUTHEAST}]+")
_IS_IDEOGRAPH = re.compile(f"[{_IDEOGRAPH}]")
_IS_SOUTHEAST = re.compile(f"[{_SOUTHEAST}]")
_ASKING_UNSPACED = re.compile(
    "什么时候|什么|甚麼|什麼|哪[里儿些个裡兒個]?|谁|誰|多少|几[个]?|幾[個]?|怎么样|怎么|怎样|怎麼樣?|为什么|為什麼|[吗嗎呢吧了的]"
    "|(?:でし|まし)たか|(?:です|ます)か|何|どこ|どの|どんな|どう|いつ|いくつ|いくら|なぜ"
    "|อะไร|ที่ไหน|ใคร|กี่|เท่าไร|อย่างไร|ทำไม|เมื่อไร|เมื่อไหร่|หรือยัง|หรือเปล่า|ใช่ไหม|ไหม|ไหน|ใด|หรือ"
)


def _pieces(run: str) -> list[str]:
    """Of a text: those of two letters, too, for questions that have no longer word."""
    if _IS_SOUTHEAST.match(run):
        return [_spelled(run)] if len(run) < 2 else [*_grams(run, 2), *_grams(run, 3)]
    return _ideographs_and_pairs(run)


def _asked_pieces(run: str) -> list[str]:
    if _IS_SOUTHEAST.match(run):
        return _grams(run, 3) if len(run) > 2 else [_spelled(run)]
    return _ideographs_and_pairs(run)


def _ideographs_and_pairs(run: str) -> list[str]:
    alone = [_spelled(one) for one in run if _IS_IDEOGRAPH.match(one)]
    return [*alone, *_grams(run, 2)] or [_spelled(run)]


def _grams(run: str, length: int) -> list[str]:
    return [_spelled(run[at : at + length]) for at in range(len(run) - length + 1)]


def _spelled(piece: str) -> str:
    """A piece in letters that no tokenizer cuts and no stemmer strips: there are no vowels."""
    return "x" + "".join(f"{ord(one):04x}" for one in piece).translate(_NO_VOWELS)


_NO_VOWELS = str.maketrans("ae", "gh")


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


def index_words_of_all(texts: pa.Array) -> pa.Array:
    """`index_words` of each text; null for null and blank ones.

    A plain English text, as most are, is its words, and gets no Python object.
    """
    none = pa.scalar(None, pa.string())
    texts = pc.if_else(pc.match_substring_regex(texts, r"\S"), texts, none)
    is_unchanged = pc.and_(
        pc.and_(pc.string_is_ascii(texts), pc.match_substring_regex(texts, _AN_ENGLISH_WORD)),
        pc.invert(pc.match_substring_regex(texts, _MAY_CHANGE)),
    ).fill_null(True)
    if pc.all(is_unchanged).as_py():
        return texts
    is_rest = pc.invert(is_unchanged)
    changed = [
        None if one.isspace() else index_words(one) for one in texts.filter(is_rest).to_pylist()
    ]
    return pc.replace_with_mask(texts, is_rest, pa.array(changed, pa.string()))


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
    """Whether what was said has at most 60 words: long answers have some word of every question.

    False without a text, such as of a tool call alone: no reader would see in it the words of others.
    """
    return text is not None and len(text.split(maxsplit=_SHORT)) <= _SHORT


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
_WHOLE = "(?i:^|[^a-z])(?i:{})(?i:[^a-z]|$)".format
_AN_ENGLISH_WORD = _WHOLE("|".join(sorted(_ASKING)))
# As many function words of another language as of English need one that is not English, too.
_MAY_CHANGE = (
    _WHOLE("|".join(sorted(one for one in _ALL_FUNCTION_WORDS - _ASKING if one.isascii())))
    + "|[a-z][A-Z]|[A-Z][A-Z][a-z]"
)
"""For the engine of Arrow; in ASCII."""
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
# It begins with the rarer letter, a capital: the search skips all others.
_HUMP = re.compile("[A-Z](?:(?<=[a-z].)|[A-Z][a-z])")
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
