"""HTML: what is to be read of a page, without its scripts and styles."""

import codecs
import re

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers._markup import Markup
from lance_context_core.documents.readers.text import Encoded, decoded
from lance_context_core.documents.reading import BlockKind, Headings, ReadDocument, Written

_SILENT = frozenset({"script", "style", "template", "noscript", "svg", "math", "iframe", "object"})
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hr",
        "html",
        "legend",
        "li",
        "main",
        "menu",
        "nav",
        "ol",
        "p",
        "section",
        "summary",
        "ul",
        "table",
        "caption",
    ]
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)


@frozen_by_name
class HtmlReader(Encoded):
    """Reads HTML: paragraphs, headings, lists, tables row by row, and preformatted text as it is.

    The encoding is found out by what the page says of itself, too. Time and memory grow with the page
    alone, whatever is in it: markup that does not end is text.
    """

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text of the page."""
        text, encoding = decoded(content, name=name, encoding=self.encoding or _said(content))
        page = _Page()
        page.feed(text)
        page.end_block()
        title = " ".join("".join(page.title).split()) or page.first_heading
        return page.written.document(title=title, properties={"encoding": encoding})


class _Page(Markup):
    """Puts the text together, tag by tag; it needs no more memory for what stands deep within."""

    def __init__(self) -> None:
        super().__init__()
        self.written = Written()
        self.title: list[str] = []
        self.first_heading: str | None = None
        self._headings = Headings()
        self._held: list[str] = []
        self._n_silent = 0
        self._n_preformatted = 0
        self._n_tables = 0
        self._is_in_row = False
        self._is_title = False
        self._level: int | None = None

    def start(self, tag: str) -> None:
        if tag in _SILENT:
            self._n_silent += 1
        elif tag == "title":
            self._is_title = not self.title
        elif tag == "br":
            self._held.append("\n")
        elif tag in _HEADINGS:
            self.end_block()
            self._level = _HEADINGS[tag]
        elif tag == "table":
            if not self._n_tables:
                self.end_block()
            self._n_tables += 1
            self._is_in_row = False
        elif tag == "pre":
            self.end_block()
            self._n_preformatted += 1
        elif self._n_tables:
            if tag in {"td", "th"}:
                self._held.extend([" | "] if self._is_in_row else [])
                self._is_in_row = True
            elif tag == "tr":
                self._held.append("\n")
                self._is_in_row = False
        elif tag in _BLOCKS:
            self.end_block()
            self._held.extend(["- "] if tag == "li" else [])

    def empty(self, tag: str) -> None:
        if tag not in _SILENT:
            self.start(tag)

    def end(self, tag: str) -> None:
        if tag in _SILENT:
            self._n_silent = max(0, self._n_silent - 1)
        elif tag == "title":
            self._is_title = False
        elif tag in _HEADINGS:
            self.end_block()
            self._level = None
        elif tag == "table":
            if self._n_tables == 1:
                self.end_block()
            self._n_tables = max(0, self._n_tables - 1)
        elif tag == "pre":
            self.end_block()
            self._n_preformatted = max(0, self._n_preformatted - 1)
        elif self._n_tables:
            if tag == "tr":
                self._held.append("\n")
                self._is_in_row = False
        elif tag in _BLOCKS:
            self.end_block()

    def data(self, text: str) -> None:
        if self._n_silent:
            return
        if self._is_title:
            self.title.append(text)
        elif self._n_preformatted:
            self._held.append(text)
        else:
            self._held.append(re.sub(r"\s+", " ", text))

    def end_block(self) -> None:
        """Write what is held."""
        text, self._held = "".join(self._held), []
        if not self._n_preformatted:
            lines = (" ".join(line.split()) for line in text.split("\n"))
            text = "\n".join(line for line in lines if line)
        if text in {"", "-"}:
            return
        if self._level is not None:
            self._headings.enter(self._level, text)
            self.first_heading = self.first_heading or " ".join(text.split())
            self.written.add(text, kind="heading", section=self._headings.path)
        else:
            is_whole = self._n_preformatted or self._n_tables
            kind: BlockKind = "whole" if is_whole else "text"
            self.written.add(text, kind=kind, section=self._headings.path)


def _said(content: bytes) -> str | None:
    """The encoding that a page says it is in, if Python knows it."""
    if (match := _CHARSET.search(content[:2048])) is None:
        return None
    try:
        said = codecs.lookup(match[1].decode("ascii", "replace")).name
    except LookupError:
        return None
    # What can be searched for it is no UTF-16.
    return None if said.startswith(("utf-16", "utf-32", "utf-8")) else said
