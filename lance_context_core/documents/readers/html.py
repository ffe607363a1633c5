"""HTML: what is to be read of a page, without its scripts and styles."""

import html
import re

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers.encodings import decoded, meant
from lance_context_core.documents.readers.text import Encoded
from lance_context_core.documents.reading import BlockKind, Headings, ReadDocument, Written

# HTML, tag by tag, in time that grows with the page alone, whatever is in it.
#
# `html.parser` looks for the end of what never ends at each of its beginnings.

_NAME = re.compile(r"[a-zA-Z][^\s/>\0]*+")
_TO_END = re.compile(r"""(?>[^>=]++|=\s*+"[^"]*+"|=\s*+'[^']*+'|=)*+>""")
"""The rest of a tag: a `>` in a quoted value is no end. It never goes back."""

_RAW = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style")}
"""In these is no tag but their end."""


class Markup:
    """Calls a method for each tag and each text. Names are in small letters."""

    def __init__(self) -> None:
        self._text = ""
        self._last = -1
        """Where the last `>` is: behind it nothing ends."""
        self._has_quotes = True
        """Whether a `>` in a quoted value is no end: not behind a tag that so has none."""
        self._missing: set[str] = set()
        self.attributes = ""
        """Those of the tag that a method is called for, as they are written."""
        self.n_scanned = 0
        """How many characters were looked at, some of them more than once."""

    def start(self, tag: str) -> None:
        """Is called at the beginning of an element."""

    def empty(self, tag: str) -> None:
        """Is called at an element that ends where it begins, such as `<br/>`."""

    def end(self, tag: str) -> None:
        """Is called at the end of an element."""

    def data(self, text: str) -> None:
        """Is called for a text between tags, or a piece of one."""

    def feed(self, text: str) -> None:
        """Read a whole page."""
        self._text, self._last = text, text.rfind(">")
        at = 0
        while at < len(text):
            begin = self._find("<", at)
            begin = len(text) if begin < 0 else begin
            if begin > at:
                self.data(_unescaped(text[at:begin]))
            if begin == len(text):
                return
            at = self._markup(begin)
            if at == begin:
                self.data("<")
                at += 1

    def _markup(self, at: int) -> int:
        """Where what begins there ends; the same place if it is no markup."""
        if at > self._last:
            return at
        text = self._text
        if text.startswith("<!--", at):
            return self._behind("-->", at + 2, at)
        if text.startswith("<![CDATA[", at):
            return self._behind("]]>", at, at)
        is_end = text.startswith("/", at + 1)
        if (name := _NAME.match(text, at + 1 + is_end)) is None:
            is_other = is_end or text.startswith(("!", "?"), at + 1)
            return self._behind(">", at, at) if is_other else at
        behind = self._behind_tag(name.end(), at)
        if behind == at:
            return at
        tag, self.attributes = name[0].lower(), text[name.end() : behind - 1]
        if is_end:
            self.end(tag)
        elif text.startswith("/", behind - 2):
            self.empty(tag)
        else:
            self.start(tag)
            if tag in _RAW:
                return self._raw_end(tag, behind)
        return behind

    def _behind_tag(self, start: int, otherwise: int) -> int:
        if self._has_quotes:
            if (found := _TO_END.match(self._text, start)) is not None:
                self.n_scanned += found.end() - start
                return found.end()
            self.n_scanned += len(self._text) - start
            self._has_quotes = False
        return self._behind(">", start, otherwise)

    def _raw_end(self, tag: str, start: int) -> int:
        found = _RAW[tag].search(self._text, start)
        end = len(self._text) if found is None else found.start()
        self.n_scanned += end - start
        if end > start:
            self.data(self._text[start:end])
        return end

    def _behind(self, what: str, start: int, otherwise: int) -> int:
        """Where the next one of these ends; else that other place."""
        if what in self._missing or (found := self._find(what, start)) < 0:
            self._missing.add(what)  # Nor will it be found further back.
            return otherwise
        return found + len(what)

    def _find(self, what: str, start: int) -> int:
        found = self._text.find(what, start)
        self.n_scanned += (len(self._text) if found < 0 else found) - start + 1
        return found


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # A number of thousands of digits, which is no character.
        return text


_SILENT = frozenset({"script", "style", "template", "noscript", "svg", "iframe", "annotation"})
"""What is never shown, or drawn; the annotation of an equation says it once more, for programs."""
_EMPTY = frozenset(
    {"br", "hr", "img", "input", "wbr", "col", "area", "embed", "source", "meta", "link"}
)
_SHOWN_LATER = frozenset({"html", "body"})
"""These are often hidden until a program shows them."""
_IN_LINES = frozenset({"button", "input", "select", "textarea", "mi", "mn", "mo", "mtext", "ms"})
"""What stands in a line, apart from what is beside it."""
_ENDED_BY = {
    **dict.fromkeys(("li", "dt", "dd"), frozenset({"ul", "ol", "menu", "dl"})),
    **dict.fromkeys(("td", "th", "tr", "tbody", "thead", "tfoot"), frozenset({"table"})),
    **dict.fromkeys(("option", "optgroup"), frozenset({"select", "datalist"})),
}
"""What need not end, and the ends of what it is in, with which it does."""
_ATTRIBUTE = re.compile(r"""([^\s=/>"']++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]++)))?+""")
_TELLING = re.compile(r"hidden|display|alt|link|anchor|role", re.IGNORECASE)
"""Where none of this is written, no attribute tells what is shown."""
_NOT_SHOWN = re.compile(r"display\s*+:\s*+none|visibility\s*+:\s*+hidden", re.IGNORECASE)
_PERMALINK = re.compile(r"headerlink|permalink|anchor-link|header-anchor", re.IGNORECASE)
_BOILERPLATE = frozenset({"navigation", "search"})
"""The roles of what leads elsewhere; the first is that of `nav`, too."""
_BEHIND_BOILERPLATE = frozenset({"main", "article", "footer"})
"""No navigation is around these: one before them that does not end has ended."""
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
        *("table", "caption", "thead", "tbody", "tfoot", "tr", "td", "th"),
        *("option", "optgroup", "center", "hgroup", "search", "object", "math"),
    ]
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)

_XML = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE)


@frozen_by_name
class HtmlReader(Encoded):
    """Reads HTML: paragraphs, headings, lists, tables row by row, and preformatted text as it is.

    The encoding is found out by what the page says of itself, too. Time and memory grow with the page
    alone, whatever is in it: markup that does not end is text.
    """

    links: bool = False
    """Whether links are kept with their addresses, as Markdown writes them."""
    boilerplate: bool = False
    """Whether navigation and search, by which readers move between pages, are read too; a page of nothing
    else is read whole."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text of the page."""
        text, encoding = decoded(content, name=name, encoding=self.encoding, said=_said(content))
        page = self._page(text, has_boilerplate=self.boilerplate)
        if not self.boilerplate and page.is_empty:
            page = self._page(text, has_boilerplate=True)
        title = " ".join("".join(page.title).split()) or page.first_heading
        return page.written.document(title=title, properties={"encoding": encoding})

    def _page(self, text: str, *, has_boilerplate: bool) -> "_Page":
        page = _Page(has_links=self.links, has_boilerplate=has_boilerplate)
        page.feed(text)
        page.end_block()
        return page


class _Page(Markup):
    """Puts the text together, tag by tag; it needs no more memory for what stands deep within."""

    def __init__(self, *, has_links: bool, has_boilerplate: bool) -> None:
        super().__init__()
        self.written = Written()
        self.is_empty = True
        """Whether nothing of it was written."""
        self._has_links = has_links
        self._has_boilerplate = has_boilerplate
        self._address: str | None = None
        """Where the link leads that is open."""
        self._header = ""
        """What a table begins with whose first row names its columns."""
        self._first_cells = set[str]()
        self._is_in_first_row = False
        self.title: list[str] = []
        self.first_heading: str | None = None
        self._headings = Headings()
        self._held: list[str] = []
        self._silent: str | None = None
        """The element within which nothing is shown."""
        self._n_within = self._n_around = 0
        """How many of its kind, and of what it would end with, are open in it."""
        self._n_preformatted = 0
        self._n_tables = 0
        self._is_in_row = False
        self._is_title = False
        self._level: int | None = None

    def start(self, tag: str) -> None:
        if self._silent is not None and not self._is_shown_again(tag):
            return
        if self._is_hidden(tag):
            self._silent, self._n_within, self._n_around = tag, 0, 0
            return
        if tag == "title":
            self._is_title = not self.title
        elif tag == "br":
            self._held.append(" " if self._n_tables else "\n")
        elif tag == "a" and self._has_links:
            self._end_link()
            self._begin_link()
        elif tag in {"img", "area"}:
            if text := _unescaped(self._attributes().get("alt", "")).strip():
                self.data(f" [{text}] ")
        elif tag in _HEADINGS:
            self.end_block()
            self._level = _HEADINGS[tag]
        elif tag == "table":
            if not self._n_tables:
                self.end_block()
                self._header, self._first_cells, self._is_in_first_row = "", set(), True
            self._n_tables += 1
            self._is_in_row = False
        elif tag == "pre":
            self.end_block()
            self._n_preformatted += 1
        elif self._n_tables:
            if tag in {"td", "th"}:
                self._held.extend([" | "] if self._is_in_row else [])
                self._is_in_row = True
                if self._n_tables == 1 and self._is_in_first_row:
                    self._first_cells.add(tag)
            elif tag == "tr":
                self._end_row()
                self._held.append("\n")
                self._is_in_row = False
            elif tag in _BLOCKS or tag in _IN_LINES:
                self._held.append(" ")
        elif tag in _BLOCKS:
            self.end_block()
            self._held.extend(["- "] if tag == "li" else [])
        elif tag in _IN_LINES:
            self._held.append(" ")

    def empty(self, tag: str) -> None:
        if tag not in _SILENT and self._silent is None and not self._is_hidden(tag):
            self.start(tag)

    def _is_hidden(self, tag: str) -> bool:
        if tag in _SILENT:
            return True
        if tag in _EMPTY or tag in _SHOWN_LATER:
            return False
        said = self._attributes()
        if not self._has_boilerplate and (
            tag == "nav" or said.get("role", "").lower() in _BOILERPLATE
        ):
            return True
        return (
            "hidden" in said
            or _NOT_SHOWN.search(said.get("style", "")) is not None
            or (tag == "a" and _PERMALINK.search(said.get("class", "")) is not None)
        )

    def _attributes(self) -> dict[str, str]:
        """Those of this tag, by name, if they may tell what is shown."""
        if not _TELLING.search(self.attributes):
            return {}
        found = (one.groups("") for one in _ATTRIBUTE.finditer(self.attributes))
        return {name.lower(): double or single or bare for name, double, single, bare in found}

    def _is_shown_again(self, tag: str) -> bool:
        """Whether what is not shown ends where this begins."""
        around = _ENDED_BY.get(self._silent or "", frozenset())
        ends_nav = self._silent == "nav" and tag in _BEHIND_BOILERPLATE
        if ends_nav or (self._silent in {"svg", "p"} and (tag in _BLOCKS or tag in _HEADINGS)):
            self._silent = None
        elif tag in around:
            self._n_around += 1
        elif tag == self._silent and around and not self._n_around:
            self._silent = None
        elif tag == self._silent:
            self._n_within += 1
        return self._silent is None

    def _end_silent(self, tag: str) -> bool:
        """Whether the end is of what is not shown, or within it."""
        if tag in _ENDED_BY.get(self._silent or "", frozenset()):
            self._n_around -= 1
            if self._n_around >= 0:
                return True
            self._silent = None
            return False
        if tag == self._silent:
            self._n_within -= 1
            self._silent = self._silent if self._n_within >= 0 else None
        return True

    def end(self, tag: str) -> None:
        if self._silent is not None and self._end_silent(tag):
            return
        if tag == "title":
            self._is_title = False
        elif tag == "a":
            self._end_link()
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
                self._end_row()
                self._held.append("\n")
                self._is_in_row = False
            elif tag not in {"td", "th"} and (tag in _BLOCKS or tag in _IN_LINES):
                self._held.append(" ")
        elif tag in _BLOCKS:
            self.end_block()
        elif tag in _IN_LINES:
            self._held.append(" ")

    def _end_row(self) -> None:
        """Know the header of a table once its first row is through."""
        if self._n_tables == 1 and self._first_cells and self._is_in_first_row:
            self._is_in_first_row = False
            self._header = _in_lines("".join(self._held)) if self._first_cells == {"th"} else ""

    def _begin_link(self) -> None:
        found = (one.groups("") for one in _ATTRIBUTE.finditer(self.attributes))
        said = {name.lower(): double or single or bare for name, double, single, bare in found}
        address = "".join(_unescaped(said.get("href", "")).split())
        # A heading names what is below it: it is words alone.
        if address and not address.startswith(("#", "javascript:")) and self._level is None:
            self._held.append("[")
            self._address = address

    def _end_link(self) -> None:
        if self._address is not None:
            self._held.append(f"]({self._address})")
            self._address = None

    def data(self, text: str) -> None:
        if self._silent is not None:
            return
        if self._is_title:
            self.title.append(text)
        elif self._n_preformatted:
            self._held.append(text)
        else:
            self._held.append(re.sub(r"\s+", " ", text))

    def end_block(self) -> None:
        """Write what is held."""
        self._end_link()
        text, self._held = "".join(self._held), []
        if not self._n_preformatted:
            text = _in_lines(text)
        if text in {"", "-"}:
            return
        self.is_empty = False
        if self._level is not None:
            self._headings.enter(self._level, text)
            self.first_heading = self.first_heading or " ".join(text.split())
            self.written.add(text, kind="heading", section=self._headings.path)
        else:
            is_whole = self._n_preformatted or self._n_tables
            kind: BlockKind = "whole" if is_whole else "text"
            header = self._header if self._n_tables else ""
            self.written.add(text, kind=kind, section=self._headings.path, header=header)
            self._header = ""


def _in_lines(text: str) -> str:
    """The text without white space that says nothing."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


def _said(content: bytes) -> str | None:
    """The encoding that a page says it is in, if Python knows it."""
    match = _CHARSET.search(content[:2048]) or _XML.match(content)
    return None if match is None else meant(match[1].decode("ascii", "replace"))
