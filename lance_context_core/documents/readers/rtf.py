"""Rich text (RTF)."""

import re

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
}
_NO_TEXT = re.compile(
    "fonttbl|colortbl|stylesheet|info|pict|object|fldinst|themedata|xmlnstbl|listtable|rsidtbl"
    "|listoverridetable|generator|datastore|latentstyles|filetbl"
)
"""The groups that say how something looks, or what the file is."""


@frozen_by_name
class RtfReader:
    """Reads rich text; what is in other code pages than that of the file needs Unicode in it."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text without what says how it looks."""
        if not content.lstrip().startswith(b"{\\rtf"):
            raise UnreadableDocumentError(f"{name!r} is not RTF: it does not begin as such")
        text = "\n".join(line.strip(" |") for line in _rich(content).split("\n")).strip()
        return ReadDocument(text=re.sub(r"\n{3,}", "\n\n", text))


def _rich(content: bytes) -> str:
    said, above = list[str](), list[tuple[bool, int]]()
    pending = bytearray()
    is_silent, n_skipped, left, codec = False, 1, 0, "cp1252"

    def end_bytes() -> None:
        if pending:
            said.append(pending.decode(codec, "replace"))
            pending.clear()

    for found in _TOKEN.finditer(content.decode("latin-1")):
        word, number, code, sign, brace, text = found.groups()
        if code is not None:
            left, is_left = max(left - 1, 0), left > 0
            if not is_silent and not is_left:
                pending.append(int(code, 16))
            continue
        end_bytes()
        if brace == "{":
            above.append((is_silent, n_skipped))
            left = 0
        elif brace == "}":
            is_silent, n_skipped = above.pop() if above else (False, 1)
            left = 0
        elif sign is not None:
            is_silent = is_silent or sign == "*"
            if not is_silent:
                said.append(
                    {"~": "\xa0", "_": "-", "\n": "\n", "\r": "\n"}.get(
                        sign, sign if sign in "\\{}" else ""
                    )
                )
        elif text is not None:
            shown, left = text[left:], max(left - len(text), 0)
            said += [] if is_silent else [shown.encode("latin-1").decode(codec, "replace")]
        elif word is not None:
            n = int(number or 0)
            if _NO_TEXT.fullmatch(word):
                is_silent = True
            elif word == "ansicpg" and n:
                codec = _codec(n)
            elif word == "uc":
                n_skipped = n
            elif word == "u" and not is_silent:
                said.append(chr(n % 0x10000))
                left = n_skipped
            elif word in _SIGNS and not is_silent:
                said.append(_SIGNS[word])
    end_bytes()
    # Two halves of a letter are one.
    return (
        "".join(said)
        .encode("utf-16", "surrogatepass")
        .decode("utf-16", "replace")
        .replace("\0", "")
    )


def _codec(page: int) -> str:
    try:
        "".encode(f"cp{page}")
    except LookupError:
        return "cp1252"
    return f"cp{page}"
