"""Detects the language of a text by its letters and small words; None in doubt."""

import re
import unicodedata
from collections import Counter

_LATIN = "latin"
_LETTERS = re.compile(r"[^\W\d_]+")
_MOST_CHARACTERS = 2_000
"""Length of text that is read: the rest is hardly in another language."""
_LEAST_WORDS = 2
"""Minimum number of small words that decide."""
_KANA = ("hiragana", "katakana")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SMALL_WORDS = {
    "en": _words(
        "the and is are was were i i'm i've my we our you your he she it they them this that these of "
        "to in on at for with from not don't doesn't have has had do does did but or if when because "
        "what who how there been be will would can could should as by about an am me us just than "
        "then so a all any everyone people says say my more like now very here some no yes can't won't "
        "didn't isn't you're it's that's there's"
    ),
    "de": _words(
        "der die das und ist sind war waren ich bin mein meine meiner wir unser du dein er sie es nicht "
        "ein eine einen einem einer zu im in auf für mit von aus bei nach den dem des habe hat haben "
        "hatte aber oder wenn weil dass was wer wie auch noch nur schon seit mir mich uns als um am "
        "jetzt wohne gerne kein keine"
    ),
    "fr": _words(
        "le la les et est sont était je j'ai suis mon ma mes nous notre vous votre il elle ils elles ne "
        "pas un une des du de au aux à en dans sur pour avec chez ai as a avons ont mais ou si quand "
        "parce que qui quoi comment aussi plus très ce cette ces me moi c'est j'habite j'aime depuis"
    ),
    "es": _words(
        "el la los las y es son era estaba yo soy estoy mi mis nosotros nuestro tú tu él ella ellos no "
        "un una unos del de al en por para con sin desde he ha hemos han pero o si cuando porque que "
        "qué quién cómo también más muy este esta estos me gusta vivo tengo hay ya como lo"
    ),
    "it": _words(
        "il lo la i gli le e è sono era io mio mia miei noi nostro tu tuo lui lei loro non un uno una "
        "del della dei di a al alla in nel nella su per con da dal ho ha abbiamo hanno ma o se quando "
        "perché che chi come anche più molto questo questa mi piace vivo abito abitiamo c'è"
    ),
    "pt": _words(
        "o a os as e é são era eu sou estou meu minha nós nosso você ele ela eles não um uma do da dos "
        "das de ao à em no na nos nas por para com sem desde tenho tem temos mas ou se quando porque "
        "que quem como também mais muito este esta isso me moro gosto há já"
    ),
    "nl": _words(
        "de het en is zijn was waren ik ben mijn wij we ons jij je hij zij niet een van naar in op voor "
        "met uit bij heb heeft hebben had maar of als omdat dat wat wie hoe ook nog al sinds mij te om "
        "aan deze dit geen woon graag"
    ),
    "no": _words(
        "og er var jeg meg min mitt mine vi vår du din han hun det den de ikke en et ei av til i på for "
        "med fra hos har hadde men eller hvis når fordi at hva hvem hvordan også enn bor liker nå siden"
    ),
    "sv": _words(
        "och är var jag mig min mitt mina vi vår du din han hon det den de inte en ett av till i på för "
        "med från hos har hade men eller om när att vad vem hur också än bor gillar nu sedan"
    ),
}


def language_of(text: str) -> str | None:
    """Return the language, such as `en`, or the non-Latin script; None in doubt."""
    text = text[:_MOST_CHARACTERS]
    script = script_of(text)
    if script != _LATIN:
        return script
    found = _LETTERS_AND_MARKS.findall(
        text.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    )
    scores = Counter(
        {name: sum(one in small for one in found) for name, small in _SMALL_WORDS.items()}
    )
    (first, most), (_, second) = scores.most_common(2)
    return first if most >= _LEAST_WORDS and most > second else None


def script_of(text: str) -> str | None:
    """Return the script of most letters, such as `latin` or `cyrillic`; None without letters."""
    scripts: Counter[str] = Counter()
    for letter in "".join(_LETTERS.findall(text)):
        name = _LATIN if letter.isascii() else unicodedata.name(letter, "").split(" ")[0].lower()
        scripts["cjk" if name in _KANA else name] += 1
    return scripts.most_common(1)[0][0] if scripts else None


_LETTERS_AND_MARKS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
