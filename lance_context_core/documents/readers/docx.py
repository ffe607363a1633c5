"""Word documents: every text that is in them, in the order in which it stands."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers.packages import (
    Package,
    Packed,
    child,
    chosen,
    each,
    local,
    of_package,
    said_in,
    value,
)
from lance_context_core.documents.reading import Headings, ReadDocument, Written

_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_GONE = frozenset({"del", "moveFrom", "instrText", "delText", "pPr", "rPr", "tblPr", "sdtPr"})
"""What was deleted, and what says how something looks."""
_SIGNS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_MOST_COLUMNS = 1_000
_MOST_REPEATED = 200
"""So many characters of a cell that spans rows stand in each of them; more only in the first."""
_MOST_DEPTH = 200
_MOST_IN_AN_EQUATION = 100


@frozen_by_name
class DocxReader(Packed):
    """Reads Word documents of 2007 and later; a row of a table becomes a line, with ` | ` between cells.

    What is tracked as deleted is left out. A note stands behind the paragraph that names it, a box
    behind the one at which it hangs. There are no page numbers: a Word document has pages only where
    it is printed.
    """

    comments: bool = True
    """Whether comments are read, each behind the paragraph that it ends in."""
    headers: bool = True
    """Whether headers and footers are read, each that says something else once, at the end."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text of the document."""
        return of_package(content, name, self, self._read)

    def _read(self, package: Package) -> ReadDocument:
        return _Reading(package, has_comments=self.comments).document(has_headers=self.headers)


class _Paragraph(NamedTuple):
    text: str
    behind: list[Element]
    """Boxes, whose paragraphs stand behind it."""
    notes: list[str]


class _Reading:
    """One way through a document."""

    def __init__(self, package: Package, *, has_comments: bool) -> None:
        self._package = package
        self._main = package.main()
        self._related = package.related(self._main)
        self._styles = self._read_styles()
        self._notes = {kind: self._read_notes(f"{kind}s") for kind in ("footnote", "endnote")}
        self._comments = self._read_notes("comments") if has_comments else {}
        # Each is read where it is first named: they may name each other, and very often.
        self._drawings = dict(self._related)
        self._written, self._headings = Written(), Headings()
        self._listed: list[str] = []
        self._first: str | None = None

    def document(self, *, has_headers: bool) -> ReadDocument:
        body = child(self._package.xml(self._main), "body")
        if body is None:
            raise ValueError("it has no body")
        self._blocks(body)
        self._end_list()
        if has_headers:
            self._write_headers()
        about = self._package.about()
        title = about.pop("title", None)
        return self._written.document(title=title or self._first, properties=about)

    # What other parts say

    def _parts(self, *types: str) -> Iterator[Element]:
        for one in self._related.values():
            if one.type in types and not one.is_outside and one.target in self._package.names:
                yield self._package.xml(one.target)

    def _read_styles(self) -> dict[str, tuple[str, str | None, str | None]]:
        """The name, the outline level and what it is based on, of each style."""
        found = {}
        for root in self._parts("styles"):
            for style in each(root, "style"):
                level = value(child(style, "pPr", "outlineLvl"), "val")
                name = value(child(style, "name"), "val") or ""
                based = value(child(style, "basedOn"), "val")
                found[value(style, "styleId") or ""] = (name, level, based)
        return found

    def _read_notes(self, type: str) -> dict[str, Element]:
        kinds = {"separator", "continuationSeparator", "continuationNotice"}
        return {
            value(note, "id") or "": note
            for root in self._parts(type)
            for note in root
            if value(note, "type") not in kinds
        }

    def _write_headers(self) -> None:
        said = set[str]()
        for root in self._parts("header", "footer"):
            lines = self._lines(root)
            if (text := "\n".join(lines)) and text not in said:
                said.add(text)
                self._written.add(text)

    # Blocks

    def _blocks(self, above: Iterable[Element], depth: int = 0) -> None:
        if depth > _MOST_DEPTH:
            raise ValueError("it is nested too deeply")
        for one in above:
            name = local(one.tag)
            if name == "p":
                self._block(one, depth)
            elif name == "tbl":
                self._end_list()
                rows = [" | ".join(cells) for cells in self._rows(one)]
                self._written.add(
                    "\n".join(rows),
                    kind="whole",
                    section=self._headings.path,
                    header=rows[0] if rows and _is_headed(one) else "",
                )
            elif name == "AlternateContent":
                self._blocks(chosen(one), depth + 1)
            elif name not in _GONE:
                self._blocks(one, depth + 1)

    def _block(self, one: Element, depth: int) -> None:
        paragraph, (level, is_listed) = self._paragraph(one), self._look(one)
        if text := paragraph.text.strip():
            if level is not None:
                self._end_list()
                self._headings.enter(level, text)
                self._first = self._first or " ".join(text.split())
                self._written.add(text, kind="heading", section=self._headings.path)
            elif is_listed:
                self._listed.append(f"- {text}")
            else:
                self._end_list()
                self._written.add(text, section=self._headings.path)
        if paragraph.behind or paragraph.notes:
            self._end_list()
        for box in paragraph.behind:
            self._blocks(box, depth + 1)
            self._end_list()
        for note in paragraph.notes:
            self._written.add(note, section=self._headings.path)

    def _end_list(self) -> None:
        self._written.add("\n".join(self._listed), section=self._headings.path)
        self._listed.clear()

    def _look(self, paragraph: Element) -> tuple[int | None, bool]:
        """The level of the heading that it is, if it is one; and whether it is an item of a list."""
        properties = child(paragraph, "pPr")
        is_listed = child(properties, "numPr") is not None
        own = value(child(properties, "outlineLvl"), "val")
        level = int(own) + 1 if own is not None and own.isdigit() and int(own) < 9 else None
        style, seen = value(child(properties, "pStyle"), "val"), set[str]()
        while style is not None and style in self._styles and style not in seen:
            seen.add(style)
            name, outline, style = self._styles[style]
            if level is None and (heading := _HEADING.match(name)):
                level = int(heading[1])
            elif level is None and own is None and outline is not None and outline.isdigit():
                level = int(outline) + 1 if int(outline) < 9 else None
            if level is None and name == "Title":
                level = 1
            is_listed = is_listed or name.startswith("List")
        return level, is_listed

    def _rows(self, table: Element, depth: int = 0) -> Iterator[list[str]]:
        """The cells of each row; one that spans several columns stands once, one that spans rows in each."""
        if depth > _MOST_DEPTH:
            raise ValueError("its tables are nested too deeply")
        above: dict[int, str] = {}
        for row in _kids(table, "tr"):
            if child(row, "trPr", "del") is not None:
                continue
            cells, column = [], 0
            for cell in _kids(row, "tc"):
                text = " ".join(self._lines(cell, depth)).strip()
                merged = child(cell, "tcPr", "vMerge")
                if merged is not None and value(merged, "val") != "restart":
                    text = text or above.get(column, "")
                above[column] = text if merged is not None and len(text) < _MOST_REPEATED else ""
                said = value(child(cell, "tcPr", "gridSpan"), "val") or "1"
                column += min(int(said), _MOST_COLUMNS) if said.isdigit() else 1
                cells.append(text)
            if any(cells):
                yield cells

    def _lines(self, above: Element, depth: int = 0) -> list[str]:
        """What stands below an element, as plain lines."""
        lines = []
        for one in _kids(above, "p", "tbl"):
            if local(one.tag) == "tbl":
                lines += ["; ".join(", ".join(cells) for cells in self._rows(one, depth + 1))]
                continue
            paragraph = self._paragraph(one)
            lines.append(" ".join(paragraph.text.split()))
            for box in paragraph.behind:
                lines += self._lines(box, depth + 1)
            lines += paragraph.notes
        return [line for line in lines if line]

    # Within a paragraph

    def _paragraph(self, one: Element) -> _Paragraph:
        made = _Paragraph("", [], [])
        return made._replace(text="".join(self._runs(one, made)))

    def _runs(self, above: Iterable[Element], made: _Paragraph, depth: int = 0) -> Iterator[str]:
        if depth > _MOST_DEPTH:
            raise ValueError("a paragraph is nested too deeply")
        for one in above:
            name = local(one.tag) if isinstance(one.tag, str) else "del"
            if name == "t":
                yield one.text or ""
            elif name in _SIGNS:
                yield _SIGNS[name]
            elif name in {"oMath", "oMathPara"}:
                yield f" {_linear(one)} "
            elif name == "sym":
                yield _symbol(value(one, "char"), value(one, "font"))
            elif name in {"footnoteReference", "endnoteReference"}:
                yield from self._referred(one, name.removesuffix("Reference"), made)
            elif name == "commentReference":
                self._commented(value(one, "id") or "", made)
            elif name == "txbxContent":
                made.behind.append(one)
            elif name == "docPr":
                if text := (value(one, "descr") or value(one, "title") or "").strip():
                    yield f" [{text}] "
            elif name in {"shape", "textpath"}:
                said = value(one, "alt") or value(one, "string") or ""
                yield f" [{said.strip()}] " if said.strip() else ""
                yield from self._runs(one, made, depth + 1)
            elif name in {"relIds", "chart"}:
                made.notes.extend(self._drawn(one))
            elif name == "AlternateContent":
                yield from self._runs(chosen(one), made, depth + 1)
            elif name == "ruby":
                yield from self._runs(_kids(one, "rubyBase"), made, depth + 1)
                if reading := "".join(self._runs(_kids(one, "rt"), made, depth + 1)).strip():
                    yield f"({reading})"
            elif name == "r" and _is_hidden(one):
                continue
            elif name not in _GONE:
                yield from self._runs(one, made, depth + 1)

    def _referred(self, one: Element, kind: str, made: _Paragraph) -> Iterator[str]:
        note = self._notes[kind].pop(value(one, "id") or "", None)
        if note is not None:
            mark = f"[{'e' if kind == 'endnote' else ''}{value(one, 'id')}]"
            made.notes.append(f"{mark} {' '.join(self._lines(note, 1))}".strip())
            yield mark

    def _commented(self, id: str, made: _Paragraph) -> None:
        if (comment := self._comments.pop(id, None)) is not None:
            author = value(comment, "author")
            says = "\n".join(self._lines(comment, 1))
            if says:
                made.notes.append(f"Comment by {author}: {says}" if author else f"Comment: {says}")

    def _drawn(self, one: Element) -> Iterator[str]:
        """What a chart or a diagram says, which are parts of their own."""
        for id in (value(one, "dm"), value(one, "id")):
            if text := said_in(self._package, self._drawings.pop(id or "", None)):
                yield text


def _kids(above: Element, *names: str) -> Iterator[Element]:
    """Those of the local names below it, also in what only wraps them, but not below each other."""
    ways: list[Iterator[Element]] = [iter(above)]
    while ways:
        if (one := next(ways[-1], None)) is None:
            ways.pop()
        elif (name := local(one.tag) if isinstance(one.tag, str) else "del") in names:
            yield one
        elif name == "AlternateContent":
            ways.append(iter(chosen(one)))
        elif name not in _GONE:
            ways.append(iter(one))


def _is_hidden(run: Element) -> bool:
    """Whether a run is text that Word does not show."""
    hidden = child(run, "rPr", "vanish")
    return hidden is not None and value(hidden, "val") not in {"0", "false", "off"}


_GREEK = dict(
    zip(
        "ABGDEZHQIKLMNXOPRSTUFCYWabgdezhqiklmnxoprVstufcywJjv",
        "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩαβγδεζηθικλμνξοπρςστυφχψωϑϕϖ",
        strict=True,
    )
)
_SYMBOLS = {
    0xA3: "≤",
    0xA5: "∞",
    0xAE: "→",
    0xB0: "°",
    0xB1: "±",
    0xB3: "≥",
    0xB4: "\u00d7",
    0xB9: "≠",
}
_SYMBOLS |= {
    0xBB: "≈",
    0xB7: "•",
    0xD6: "√",
    0xE5: "∑",
    0xF2: "∫",
    0xCE: "∈",
    0xAC: "←",
    0x2D: "\u2212",
}
"""Signs of the font Symbol that stand for one of Unicode."""


def _symbol(code: str | None, font: str | None) -> str:
    try:
        sign = chr(int(code or "", 16))
    except (ValueError, OverflowError):
        return ""
    if not "\ue000" <= sign <= "\uf8ff":
        return sign
    if font != "Symbol":  # a sign of a font such as Wingdings stands for no letter
        return ""
    number = ord(sign) & 0xFF
    return _GREEK.get(chr(number), _SYMBOLS.get(number, ""))


# Equations, as a line of text: `(a + b)/(2 a)`, `x^2`, `√(y)`.


def _linear(one: Element | None, depth: int = 0) -> str:
    """An element of an equation, in a line."""
    if one is None or depth > _MOST_IN_AN_EQUATION or not isinstance(one.tag, str):
        return ""

    def part(name: str) -> str:
        return _linear(child(one, name), depth + 1)

    def grouped(name: str) -> str:
        text = part(name)
        return text if len(text) < 2 or text.isalnum() else f"({text})"

    def all_of(kids: Iterable[Element], between: str) -> str:
        return between.join(filter(None, (_linear(kid, depth + 1) for kid in kids)))

    name = local(one.tag)
    if name == "t":
        return one.text or ""
    if name.endswith("Pr"):
        return ""
    if name == "f":
        return f"{grouped('num')}/{grouped('den')}"
    if name in {"sSup", "sSub", "sSubSup", "sPre"}:
        below, over = part("sub"), part("sup")
        marks = (f"_{grouped('sub')}" if below else "") + (f"^{grouped('sup')}" if over else "")
        return f"{grouped('e')}{marks}"
    if name == "rad":
        degree = part("deg")
        return f"{degree}√({part('e')})"
    if name == "nary":
        sign = value(child(one, "naryPr", "chr"), "val") or "∫"
        below, over = part("sub"), part("sup")
        marks = (f"_({below})" if below else "") + (f"^({over})" if over else "")
        return f"{sign}{marks} {part('e')}"
    if name == "d":
        begin = value(child(one, "dPr", "begChr"), "val")
        end = value(child(one, "dPr", "endChr"), "val")
        kids = [kid for kid in one if isinstance(kid.tag, str) and local(kid.tag) == "e"]
        return f"{'(' if begin is None else begin}{all_of(kids, '|')}{')' if end is None else end}"
    if name == "func":
        return f"{part('fName')} {part('e')}"
    if name in {"m", "eqArr", "oMathPara"}:
        return all_of(one, "; ")
    if name == "mr":
        return all_of(one, ", ")
    return all_of(one, "")


def _is_headed(table: Element) -> bool:
    """Whether its first row is repeated on each page, or has a look of its own."""
    first = next(_kids(table, "tr"), None)
    is_repeated = None if first is None else child(first, "trPr", "tblHeader")
    look = child(table, "tblPr", "tblLook")
    return is_repeated is not None or value(look, "firstRow") in {"1", "true", "on"}
