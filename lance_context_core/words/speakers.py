"""The speakers whom a question names: told apart from common words, and left out of what is embedded."""

import re
from collections.abc import Collection
from typing import TypeAlias

from lance_context_core._util.lru import remembered
from lance_context_core.words.analysis import asks

_Mentions: TypeAlias = list[tuple[re.Match[str], frozenset[str]]]


def named(question: str, names: Collection[str]) -> set[str]:
    """Those of `names` that the question speaks of, by a part of them, or by a short form.

    A part is a word of a name, as in `Ann` of `Ann Lee`; a short form its first three letters or
    more, as in `Mel` of `Melanie`, if no name has it as a part. A word counts where its letters are
    those of the name, so that `will` is not `Will`; in a question without any capital, any word that
    does not only ask. Names of scripts without spaces count wherever they stand.
    """
    found = {name for _, meant in _mentions(question, names) for name in meant}
    return found | {name for name in names if _is_unspaced(name) and name in question}


def without_names(question: str, names: Collection[str]) -> str:
    """The question without the words by which it names any of `names`, as in `named`.

    The question as it is if nothing else would be left. In a static embedding the name outweighs
    the rest: what is said by that speaker is then all near, whatever it is about.
    """
    kept, end = [], 0
    for word, _ in _mentions(question, names):
        kept.append(question[end : word.start()])
        end = word.end()
    if not kept:
        return question
    left = " ".join("".join([*kept, question[end:]]).split())
    return left if re.search(r"\w", left) else question


def _mentions(question: str, names: Collection[str]) -> _Mentions:
    """The words of the question that name somebody, in order, and whom each may mean."""
    if len(question) > _LONG:
        return _looked_for(question, names)
    # A search asks twice: whom to leave out of what is embedded, and whose turns gain.
    return _looked_for_before(question, frozenset(names))


def _looked_for(question: str, names: Collection[str]) -> _Mentions:
    meant = {name: re.findall(r"\w+", name) for name in names}
    parts: dict[str, set[str]] = {}
    for name, words in meant.items():
        for word in words:
            parts.setdefault(word, set()).add(name)
    if question == question.lower():
        for word in list(parts):
            if not asks(word.lower(), starts=False):
                parts.setdefault(word.lower(), set()).update(parts[word])
    found, starts = [], True
    for word in _WORD.finditer(question):
        text = word[1]
        whom = parts.get(text, set())
        if starts and asks(text, starts=True):
            whom = set()
        elif not whom and not starts and len(text) >= _SHORTEST and text[0].isupper():
            whom = {name for name, some in meant.items() if any(p.startswith(text) for p in some)}
        if whom:
            found.append((word, frozenset(whom)))
        starts = question[word.end() : word.end() + 2].strip() in {".", "!", "?"}
    return found


_looked_for_before = remembered(64 * 1024)(_looked_for)


def _is_unspaced(name: str) -> bool:
    return bool(_UNSPACED.search(name))


_WORD = re.compile(r"(\w+)(?:['\u2019]s\b)?")
_SHORTEST = 3
_LONG = 1_000
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f\uac00-\ud7a3]")
