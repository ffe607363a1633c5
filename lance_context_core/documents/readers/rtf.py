"""Rich text (RTF)."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.reading import ReadDocument
from lance_context_core.errors import UnreadableDocumentError

_TOKEN = re.compile(
    r"\\([a-zA-Z]{1,32})(-?\d{1,9})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+|([^\\{}\r\n]+)",
    re.DOTALL,
)
_SIGNS = {
    **dict.fromkeys(("par", "sect", "page", "line", "row"), "\n"),
    "tab": "\t",
    "cell": " | ",
    "emdash": "—",
    "endash": "\u2013",
    "bullet": "•",
    "lquote": "\u2018",
    "rquote": "\u2019",
    "ldblquote": "“",
    "rdblquote": "”",
    "emspace": " ",
    "enspace": " ",
    "footnote": " ",
}
_NO_TEXT = re.compile(
    "fonttbl|colortbl|stylesheet|info|pict|object|fldinst|themedata|xmlnstbl|listtable|rsidtbl"
    "|listoverridetable|generator|datastore|latentstyles|filetbl"
)
"""The groups that say how something looks, or what the file is."""
_HIDDEN = frozenset(("v", "deleted"))
"""Until the group ends."""


@frozen_by_name
class RtfReader:
    """Reads rich text, in the code pages of the file and of its fonts, without what it hides."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text without what says how it looks."""
        if not content.lstrip().startswith(b"{\\rtf"):
            raise UnreadableDocumentError(f"{name!r} is not RTF: it does not begin as such")
        text = "\n".join(line.strip(" |") for line in _rich(content).split("\n")).strip()
        return ReadDocument(text=re.sub(r"\n{3,}", "\n\n", text))


class _State(NamedTuple):
    """What counts in a group, until it ends."""

    is_silent: bool = False
    n_skipped: int = 1
    """How many letters stand for a Unicode letter, for those who do not know it."""
    codec: str | None = None
    """That of the font; None for the one of the file."""
    end: str = ""
    """What stands behind the group."""


_CHARSETS = {
    77: "mac_roman",
    128: "cp932",
    129: "cp949",
    130: "cp1361",
    134: "cp936",
    136: "cp950",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
}
"""The code pages of `\\fcharset`."""
_FONT = re.compile(r"\\f(\d{1,9})(?:\\(?!fcharset)[a-z]+-?\d* ?|\{[^{}]*\}|\s)*\\fcharset(\d{1,3})")


def _rich(content: bytes) -> str:
    said, above, now = list[str](), list[_State](), _State()
    written, pending = content.decode("latin-1"), bytearray()
    left, codec, fonts = 0, "cp1252", _fonts(written)

    def end_bytes() -> None:
        if pending:
            said.append(pending.decode(now.codec or codec, "replace"))
            pending.clear()

    for found in _TOKEN.finditer(written):
        word, number, code, sign, brace, text = found.groups()
        if code is not None:
            left, is_left = max(left - 1, 0), left > 0
            if not now.is_silent and not is_left:
                pending.append(int(code, 16))
            continue
        if text is not None and pending and not left and not now.is_silent:
            # The second byte of a letter may be one of ASCII.
            pending += text.encode("latin-1")
            continue
        end_bytes()
        if brace == "{":
            above.append(now)
            left = 0
        elif brace == "}":
            ended, now = now, above.pop() if above else _State()
            said += [ended.end] if ended.end != now.end else []
            left = 0
        elif sign is not None:
            now = now._replace(is_silent=now.is_silent or sign == "*")
            if not now.is_silent:
                said.append(
                    {"~": "\xa0", "_": "-", "\n": "\n", "\r": "\n"}.get(
                        sign, sign if sign in "\\{}" else ""
                    )
                )
        elif text is not None:
            shown, left = text[left:], max(left - len(text), 0)
            if not now.is_silent:
                said.append(shown.encode("latin-1").decode(now.codec or codec, "replace"))
        elif word is not None:
            n = int(number or 0)
            now = _changed(now, word, number, fonts)
            if word == "ansicpg" and n:
                codec = _codec(n)
            elif word == "u" and not now.is_silent:
                said.append(chr(n % 0x10000))
                left = now.n_skipped
            elif word in _SIGNS and not now.is_silent:
                said.append(_SIGNS[word])
    end_bytes()
    # Two halves of a letter are one.
    return (
        "".join(said)
        .encode("utf-16", "surrogatepass")
        .decode("utf-16", "replace")
        .replace("\0", "")
    )


def _changed(now: _State, word: str, number: str | None, fonts: Mapping[int, str]) -> _State:
    """What counts behind a control word."""
    if _NO_TEXT.fullmatch(word) or (word in _HIDDEN and number != "0"):
        return now._replace(is_silent=True)
    if word == "footnote":
        return now._replace(end=" ")
    if word in {"plain", "f"}:
        return now._replace(codec=fonts.get(int(number or 0)) if word == "f" else None)
    return now._replace(n_skipped=int(number or 0)) if word == "uc" else now


def _fonts(written: str) -> dict[int, str]:
    """The code page of each font whose letters are not in that of the file, by its number."""
    return {
        int(number): _CHARSETS[int(charset)]
        for number, charset in _FONT.findall(written)
        if int(charset) in _CHARSETS
    }


def _codec(page: int) -> str:
    try:
        "".encode(f"cp{page}")
    except LookupError:
        return "cp1252"
    return f"cp{page}"
