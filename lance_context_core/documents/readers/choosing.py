"""Which reader a file is read by: what it is, by what it begins with, and else by its name."""

import zipfile
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import IO, Any

from lance_context_core._util.checks import shown
from lance_context_core.documents.readers.archives import ZipReader
from lance_context_core.documents.readers.docx import DocxReader
from lance_context_core.documents.readers.epub import EpubReader
from lance_context_core.documents.readers.html import HtmlReader
from lance_context_core.documents.readers.mail import EmailReader, OutlookReader
from lance_context_core.documents.readers.markdown import MarkdownReader
from lance_context_core.documents.readers.markup import AsciidocReader, RstReader
from lance_context_core.documents.readers.office import OdfReader, PptxReader, XlsxReader
from lance_context_core.documents.readers.pdf import PdfReader
from lance_context_core.documents.readers.rtf import RtfReader
from lance_context_core.documents.readers.structured import JsonReader, NotebookReader, XmlReader
from lance_context_core.documents.readers.text import CsvReader, TextReader
from lance_context_core.documents.reading import Reader
from lance_context_core.errors import InvalidRequestError, UnreadableDocumentError

GROUP = "lance_context_core.readers"
"""The entry points of further readers: the name is the type, which is also the ending of the files."""

_READERS: dict[str, type[Any]] = {
    "pdf": PdfReader,
    "docx": DocxReader,
    "markdown": MarkdownReader,
    "html": HtmlReader,
    "csv": CsvReader,
    "text": TextReader,
    "pptx": PptxReader,
    "xlsx": XlsxReader,
    "odf": OdfReader,
    "epub": EpubReader,
    "email": EmailReader,
    "outlook": OutlookReader,
    "notebook": NotebookReader,
    "rtf": RtfReader,
    "json": JsonReader,
    "xml": XmlReader,
    "rst": RstReader,
    "asciidoc": AsciidocReader,
    "zip": ZipReader,
}
_ENDINGS = {
    "md": "markdown",
    "mdown": "markdown",
    "mkd": "markdown",
    "htm": "html",
    "xhtml": "html",
    "tsv": "csv",
    **dict.fromkeys(("docm", "dotx", "dotm"), "docx"),
    **dict.fromkeys(("pptm", "ppsx", "ppsm", "potx", "potm"), "pptx"),
    **dict.fromkeys(("xlsm", "xltx", "xltm"), "xlsx"),
    **dict.fromkeys(("odt", "odp", "ods", "ott", "otp", "ots"), "odf"),
    "eml": "email",
    "ipynb": "notebook",
    "txt": "text",
    "log": "text",
    "jsonl": "json",
    "ndjson": "json",
    "rest": "rst",
    "adoc": "asciidoc",
    "msg": "outlook",
}
_WRITTEN = frozenset(
    ("markdown", "html", "csv", "text", "email", "notebook", "json", "xml", "rst", "asciidoc")
)
"""Types that are text: the first bytes do not tell them from each other."""


def type_of(file: IO[bytes], name: str) -> str:
    """What a file is. Its first bytes go before its name: endings are wrong often enough.

    Raises UnreadableDocumentError for what is known to be no text.
    """
    file.seek(0)
    head = file.read(1024)
    if b"%PDF-" in head:
        return "pdf"
    said = _ending(name)
    if said in _others():
        return said
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _packed(file, name)
    if head.startswith(_OLE):
        if (what := _in_ole(file)) == "outlook":
            return what
        raise UnreadableDocumentError(f"{name!r} is {what}")
    for mark, what in _NO_TEXTS.items():
        if head.startswith(mark):
            raise UnreadableDocumentError(f"{name!r} is {what}: pass a reader= for it")
    if head[4:8] == b"ftyp":
        what = "an image" if head[8:12] in _PICTURES else "a film or a recording"
        raise UnreadableDocumentError(f"{name!r} is {what}: put it into store.images")
    if head.startswith(b"{\\rtf"):
        return "rtf"
    if said in _WRITTEN:
        return said
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:15].lower()
    if not start.startswith((b"<!doctype html", b"<html")):
        return "xml" if start.startswith(b"<?xml ") and b"<html" not in head.lower() else "text"
    if said in _READERS:
        raise UnreadableDocumentError(
            f"{name!r} is a page of HTML, perhaps the error of a download: pass type='html' to read it"
        )
    return "html"


def type_said_by(name: str) -> str:
    """What a file is by its name alone: `text` if that says nothing."""
    said = _ending(name)
    return said if said in _READERS or said in _others() else "text"


def reader_of(type: str) -> Reader:
    """The reader of a type. Raises InvalidRequestError if there is none."""
    if (known := _READERS.get(type)) is not None:
        made: Reader = known()
        return made
    if (entry := _others().get(type)) is None:
        raise InvalidRequestError(
            f"type={shown(type)}: use one of {', '.join([*_READERS, *_others()])}; or pass a reader="
        )
    found = entry.load()
    reader = found() if isinstance(found, type_) else found
    return check_reader(reader, f"the entry point {type!r} of {GROUP}")


def check_reader(reader: object, what: str) -> Reader:
    """The reader. Raises InvalidRequestError if it is none."""
    if not isinstance(reader, Reader) or isinstance(reader, type_):
        raise InvalidRequestError(
            f"{what}={shown(reader)}: give an object with the method read(content, *, name)"
        )
    return reader


type_ = type

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""What old Office documents, encrypted ones and mails of Outlook begin with: files in a file."""

_INSIDE = {
    "EncryptedPackage": "an encrypted Office document: decrypt it, and add that",
    "__substg1.0_": "outlook",
    "WordDocument": "a document of Word before 2007 (.doc): save it as .docx, or pass a reader= for it",
    "Workbook": "a workbook of Excel before 2007 (.xls): save it as .xlsx, or pass a reader= for it",
    "PowerPoint Document": (
        "a presentation of PowerPoint before 2007 (.ppt): save it as .pptx, or pass a reader= for it"
    ),
}
"""What such a file is, by the name of a file in it: its type, or what to do with it."""

_PICTURES = (b"avif", b"avis", b"heic", b"heix", b"heim", b"heis", b"mif1", b"msf1")

_NO_TEXTS = {
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
    b"GIF8": "an image",
    b"\x1f\x8b": "packed by gzip",
    b"\x7fELF": "a program",
}

_PACKED = {"word": "docx", "ppt": "pptx", "xl": "xlsx", "content.xml": "odf", "META-INF": "epub"}
"""What an archive is, by a folder in it."""


def _in_ole(file: IO[bytes]) -> str:
    """What a file of files is: see `_INSIDE`."""
    file.seek(0)
    found, held = set[str](), b""
    while part := file.read(1 << 20):
        held = held[-64:] + part
        found |= {one for one in _INSIDE if one.encode("utf-16-le") in held}
    other = "an old or an encrypted Office document: pass a reader= for it"
    return next((said for one, said in _INSIDE.items() if one in found), other)


def _ending(name: str) -> str:
    """The type that the name ends in; empty if it has no ending."""
    _, dot, ending = name.rpartition(".")
    said = ending.lower() if dot else ""
    return _ENDINGS.get(said, said)


def _packed(file: IO[bytes], name: str) -> str:
    try:
        with zipfile.ZipFile(file) as packed:
            folders = {one.partition("/")[0] for one in packed.namelist()}
            if "mimetype" not in folders and not folders & {"word", "ppt", "xl"}:
                folders = set()  # of Java, which has such a folder, too
            for folder, type in _PACKED.items():
                if folder in folders:
                    return type
    except zipfile.BadZipFile as error:
        if (said := _ending(name)) in _PACKED.values():
            raise UnreadableDocumentError(
                f"{name!r} cannot be read as {said.upper()}, it is broken or not all there: {error}"
            ) from error
    return "zip"


@cache
def _others() -> dict[str, EntryPoint]:
    """What other distributions bring."""
    return {one.name: one for one in entry_points(group=GROUP)}
