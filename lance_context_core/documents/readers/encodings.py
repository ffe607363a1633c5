"""In which encoding a text is: by its mark, by what is said of it, by UTF-8, and else by its letters."""

import codecs
import re
from collections.abc import Callable
from unicodedata import category

from lance_context_core._util.checks import shown
from lance_context_core.errors import InvalidRequestError, UnreadableDocumentError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LOOKED_AT = 4096
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
"""What stands in no text but those of terminals, and in every third byte of anything else."""
_MOST_CONTROLS = 0.01

_MEANT = {
    **dict.fromkeys(("iso8859-1", "ascii"), "cp1252"),
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
}
"""What a page means that says so, as browsers read it: each has all letters of the other."""


def check_encoding(encoding: str | None) -> None:
    """Raise InvalidRequestError unless Python knows it."""
    if encoding is None:
        return
    try:
        codecs.lookup(encoding)
    except (LookupError, TypeError) as error:
        raise InvalidRequestError(
            f"encoding={shown(encoding)} is unknown to Python: pass one such as 'shift_jis'"
        ) from error


def meant(said: str) -> str | None:
    """The encoding that a file means which says that it is in this one; None if that says nothing."""
    try:
        name = codecs.lookup(said).name
    except LookupError:
        return None
    # What can be searched for what it says is no UTF-16.
    return None if name.startswith(("utf-16", "utf-32", "utf-8")) else _MEANT.get(name, name)


def decoded(
    content: bytes, *, name: str, encoding: str | None = None, said: str | None = None
) -> tuple[str, str]:
    """The text of some bytes, and the encoding that they are in.

    That is the one that is given, else the one whose mark they begin with, else the one that the
    file says of itself, else UTF-8, else what the zeros of UTF-16 and UTF-32 tell, else what makes
    words of Cyrillic or Greek, or common letters of Chinese, Japanese and Korean of them, else
    Windows-1252. A byte that is none of these becomes U+FFFD, unless the encoding was given. Raises
    UnreadableDocumentError for what is no text, or not in the encoding that was given.
    """
    if encoding is not None:
        try:
            return _plain(content.decode(encoding), name), encoding
        except (UnicodeDecodeError, UnicodeError) as error:
            raise UnreadableDocumentError(f"{name!r} is not in {encoding}: {error}") from error
    used = _marked(content) or said or _with_zeros(content)
    if used is None:
        used = "utf-8" if _is_utf8(content) else _by_letters(content) or "cp1252"
    return _plain(content.decode(used, "replace"), name), used


def _marked(content: bytes) -> str | None:
    return next((encoding for mark, encoding in _MARKS if content.startswith(mark)), None)


def _with_zeros(content: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark: where the zeros of its Latin letters stand."""
    head = content[: _LOOKED_AT - _LOOKED_AT % 4]
    if not (n_zeros := head.count(0)) or len(head) < 2:
        return None
    if n_zeros > len(head) * 0.6:
        return "utf-32-le" if head[0] else "utf-32-be"
    if head[1::2].count(0) > len(head) * 0.2 and not head[::2].count(0):
        return "utf-16-le"
    if head[::2].count(0) > len(head) * 0.2 and not head[1::2].count(0):
        return "utf-16-be"
    return None


_MOST_BAD = 0.2
"""Of what is no ASCII in a text of UTF-8; of other encodings most is bad, read as that."""


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        text = content.decode("utf-8", "replace")
        n_bad = text.count("\ufffd")
        n_other = sum(map(len, re.findall(r"[^\x00-\x7f]+", text)))
        return n_bad <= _MOST_BAD * n_other
    return True


# By its letters: a text that is read in another encoding than it is in has letters of which no word is made.

_SAMPLE = 1 << 16
_FEWEST = 4
"""Of letters; fewer tell nothing."""


def _by_letters(content: bytes) -> str | None:
    """The encoding in which most letters are as they are in words, if there is one."""
    sample = content[:_SAMPLE]
    if len(sample) < len(content):  # not within a letter
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    found = ((_share(sample, *one), one[0]) for one in _CANDIDATES)
    share, encoding = max(found, key=lambda one: one[0])
    return encoding if share >= 0.8 else None


def _share(sample: bytes, encoding: str, count: Callable[[str], int]) -> float:
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError:
        # One bad byte says nothing of the others; many do.
        text = sample.decode(encoding, "replace")
        if text.count("\ufffd") > len(text) * 0.02:
            return 0
    n_signs = sum(one > "\x7f" and category(one)[0] not in "PZ" for one in text)
    return count(text) / n_signs if n_signs >= _FEWEST else 0


def _words_of(letters: str, common: str) -> Callable[[str], int]:
    """Counts the letters that are in whole words of a script, if as many are common as in any text."""
    upper, lower = letters.split()
    word = re.compile(rf"(?<!\w)(?:[{upper}]?[{lower}]+|[{upper}]+)(?!\w)")

    def count(text: str) -> int:
        words = "".join(word.findall(text))
        n_common = sum(words.lower().count(one) for one in common)
        return len(words) if n_common >= 0.3 * len(words) else 0

    return count


def _common_in(encoding: str, *ranges: tuple[int, int]) -> Callable[[str], int]:
    """Counts the letters that are among the common ones of an encoding, which are in some ranges."""

    def is_common(letter: str) -> bool:
        code = int.from_bytes(letter.encode(encoding, "ignore"), "big")
        return any(start <= code <= end for start, end in ranges)

    return lambda text: sum(is_common(one) for one in text if one > "\x7f" and one.isalpha())


_CYRILLIC = _words_of("А-ЯЁЄІЇҐЎЂЈЉЊЋЏ а-яёєіїґўђјљњћџ", "оеаинт")  # noqa: RUF001 - is Cyrillic
_GREEK = _words_of("Α-ΩΆΈΉΊΌΎΏ α-ωςάέήίόύώϊϋΐΰ", "αοιετσν")  # noqa: RUF001 - is Greek
_JAPANESE = _common_in("shift_jis", (0x829F, 0x8396), (0x889F, 0x9872))
_KANA = re.compile("[\u3041-\u30fa]")
_CANDIDATES: tuple[tuple[str, Callable[[str], int]], ...] = (
    *((encoding, _CYRILLIC) for encoding in ("cp1251", "koi8-r", "koi8-u", "cp866", "iso8859-5")),
    ("cp1253", _GREEK),
    ("cp932", _JAPANESE),
    ("euc_jp", lambda text: _JAPANESE(text) if _KANA.search(text) else 0),
    # Before Chinese: what is common there as well.
    ("cp949", _common_in("euc_kr", (0xB0A1, 0xC8FE))),
    ("gb18030", _common_in("gb2312", (0xB0A1, 0xD7F9))),
    ("big5hkscs", _common_in("big5", (0xA440, 0xC67E))),
)
"""Encodings, and what counts the letters of a text that are as in words."""


def _plain(text: str, name: str) -> str:
    n_controls = len(_CONTROLS.findall(text))
    if n_controls > len(text) * _MOST_CONTROLS:
        raise UnreadableDocumentError(
            f"{name!r} is not text: it has many control characters. Pass type= or reader="
        )
    return text.replace("\0", "\ufffd")
