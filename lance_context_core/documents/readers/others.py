"""Mails, notebooks, books and rich text, by what Python has."""

import json
import posixpath
import re
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any
from urllib.parse import unquote

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers.encodings import decoded
from lance_context_core.documents.readers.html import HtmlReader
from lance_context_core.documents.readers.markdown import MarkdownReader
from lance_context_core.documents.readers.packages import (
    Package,
    Packed,
    described,
    each,
    of_package,
    value,
)
from lance_context_core.documents.reading import ReadDocument, Written, joined
from lance_context_core.errors import UnreadableDocumentError


@frozen_by_name
class EmailReader:
    """Reads a mail: from whom, to whom, when, about what, and what it says; attachments are named."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text of the mail."""
        try:
            mail: Any = message_from_bytes(content, _class=EmailMessage, policy=policy.default)
            return _mail(mail, name)
        except UnreadableDocumentError:
            raise
        except Exception as error:  # of headers and parts that are none, anything
            raise UnreadableDocumentError(f"{name!r} cannot be read as a mail: {error}") from error


def _mail(mail: Any, name: str) -> ReadDocument:
    written = Written()
    said = {
        one: str(mail[one]).strip() for one in ("From", "To", "Cc", "Date", "Subject") if mail[one]
    }
    written.add("\n".join(f"{one}: {text}" for one, text in said.items()))
    body = mail.get_body(preferencelist=("plain", "html"))
    if body is not None:
        packed = body.get_payload(decode=True) or b""
        text = _in_charset(packed, body.get_content_charset(), name)
        if body.get_content_subtype() == "html":
            # A mark goes before what the page says: it is in this encoding now.
            text = HtmlReader().read(text.encode("utf-8-sig", "replace"), name=name).text
        written.add(text)
    attached = [one.get_filename() or one.get_content_type() for one in mail.iter_attachments()]
    properties: dict[str, Any] = {
        one.lower(): text for one, text in said.items() if one != "Subject"
    }
    properties |= {"attachments": attached} if attached else {}
    return written.document(title=said.get("Subject"), properties=properties)


def _in_charset(packed: bytes, charset: str | None, name: str) -> str:
    try:
        return packed.decode(charset or "ascii").replace("\r\n", "\n")
    except (LookupError, UnicodeError):
        return decoded(packed, name=name)[0].replace("\r\n", "\n")


@frozen_by_name
class NotebookReader:
    """Reads Jupyter notebooks: the texts, the code, and what it printed; no pictures."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The cells of the notebook, in their order."""
        try:
            cells = json.loads(content)["cells"]
            parts = [part for cell in cells for part in _cell(cell)]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UnreadableDocumentError(
                f"{name!r} cannot be read as a notebook: {error!r}"
            ) from error
        return MarkdownReader().read("\n\n".join(parts).encode("utf-8", "replace"), name=name)


def _cell(cell: dict[str, Any]) -> list[str]:
    source = _lines(cell.get("source")).strip()
    if cell.get("cell_type") != "code":
        return [source] if source else []
    parts = [_fenced(source)] if source else []
    for output in cell.get("outputs") or []:
        said = _lines(output.get("text")) or _lines((output.get("data") or {}).get("text/plain"))
        if output.get("ename"):
            said = f"{output['ename']}: {output.get('evalue', '')}"
        parts += [_fenced(said.strip())] if said.strip() else []
    return parts


def _fenced(text: str) -> str:
    longest = max(map(len, re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _lines(said: Any) -> str:
    return (
        "".join(map(str, said)) if isinstance(said, list) else said if isinstance(said, str) else ""
    )


@frozen_by_name
class EpubReader(Packed):
    """Reads books: the chapters in the order in which they are read."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text of the book."""
        return of_package(content, name, self, _book)


def _book(package: Package) -> ReadDocument:
    container = package.xml("META-INF/container.xml")
    main = value(next(each(container, "rootfile")), "full-path") or ""
    root, folder = package.xml(main), posixpath.dirname(main)
    parts = {one.get("id"): unquote(one.get("href", "")) for one in each(root, "item")}
    said = described(root)
    chapters, seen = list[ReadDocument](), set[str]()
    for one in each(root, "itemref"):
        part = posixpath.normpath(posixpath.join(folder, parts.get(one.get("idref")) or ""))
        if part in package.names and part not in seen:
            seen.add(part)
            read = HtmlReader(boilerplate=True).read(package.bytes(part), name=part)
            if read.text:
                between = ReadDocument(text="\n\n" if chapters else "")
                chapters += [between, read]
    made = joined(chapters)
    return ReadDocument(
        text=made.text, blocks=made.blocks, title=said.pop("title", None), properties=said
    )


# Rich text

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
