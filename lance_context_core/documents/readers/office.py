"""Slides and sheets of Office, and the documents of LibreOffice."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import repeat
from xml.etree.ElementTree import Element

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers.packages import (
    Package,
    Packed,
    Relation,
    child,
    described,
    drop_alternatives,
    each,
    local,
    of_package,
    said_in,
    value,
    within,
)
from lance_context_core.documents.reading import Headings, ReadDocument, Written

_MOST_CHARACTERS = 200_000_000
"""Of the text: a small file may name a long one very often."""
_MOST_DEPTH = 200


@frozen_by_name
class PptxReader(Packed):
    """Reads slides of PowerPoint of 2007 and later, with their notes; a slide is a page."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text of the slides, in the order in which they are shown."""
        return of_package(content, name, self, _slides)


def _slides(package: Package) -> ReadDocument:
    main = package.main()
    related, written = package.related(main), Written()
    # Of the two attributes of that name the other is a number.
    listed = [
        next((said for said in one.attrib.values() if said in related), "")
        for one in each(package.xml(main), "sldId")
    ]
    first, seen = None, set[str]()
    for number, id in enumerate(listed, 1):
        if id not in related or (part := related[id].target) not in package.names - seen:
            continue
        seen.add(part)
        title, texts = _of_slide(package.xml(part), package, package.related(part))
        first = first or title or None
        written.add(title, kind="heading", page=number, section=title or None)
        written.add("\n".join(texts), page=number, section=title or None)
        for one in package.related(part).values():
            if one.type == "notesSlide" and one.target in package.names - seen:
                seen.add(one.target)
                root = package.xml(one.target)
                noted = "\n".join(_of_slide(root, package, {})[1])
                written.add(noted, page=number, section=title or None)
    about = package.about()
    said = about.pop("title", None)
    return written.document(title=said or first, n_pages=len(listed), properties=about)


def _of_slide(
    root: Element, package: Package, related: Mapping[str, Relation]
) -> tuple[str, list[str]]:
    """The title of a slide, and what else stands on it."""
    title, lines = "", list[str]()
    drop_alternatives(root)
    for shape in each(root, "sp", "graphicFrame", "pic"):
        about = next(each(shape, "cNvPr"), None)
        if description := (value(about, "descr") or "").strip():
            lines.append(f"[{description}]")
        kind = value(next(each(shape, "ph"), None), "type") or ""
        if kind in {"sldNum", "dt", "ftr", "hdr", "sldImg"}:
            continue
        rows = list(each(shape, "tr"))
        for row in rows:
            cells = (" ".join(_paragraphs(cell)) for cell in each(row, "tc"))
            lines.append(" | ".join(cells))
        if rows:
            continue
        for drawn in each(shape, "relIds", "chart"):
            for id in (value(drawn, "dm"), value(drawn, "id")):
                if text := said_in(package, related.get(id or "")):
                    lines.append(text)
        said = list(filter(None, _paragraphs(shape)))
        if kind in {"title", "ctrTitle"} and not title:
            title = " ".join(said)
        else:
            lines += said
    return title, [line for line in lines if line.strip(" |")]


def _paragraphs(above: Element) -> Iterator[str]:
    for one in each(above, "p"):
        signs = ("\n" if local(kid.tag) == "br" else kid.text or "" for kid in each(one, "t", "br"))
        yield "".join(signs).strip()


# Sheets


@frozen_by_name
class XlsxReader(Packed):
    """Reads sheets of Excel of 2007 and later, row by row as `CsvReader`; the section names sheet and row.

    Of a formula the value is read that Excel has kept, of a date its day and time.
    """

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The rows of the sheets."""
        return of_package(content, name, self, _sheets)


_DATES = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}
_ELAPSED = 46
"""The format `[h]:mm:ss`."""
_LETTERS = re.compile("[A-Z]{1,3}")
_LITERAL = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')


def _sheets(package: Package) -> ReadDocument:
    main = package.main()
    related, root, written = package.related(main), package.xml(main), Written()
    by_type = {one.type: one.target for one in related.values()}
    strings = list[str]()
    if (part := by_type.get("sharedStrings")) in package.names and part is not None:
        strings = [_string(one) for one in each(package.xml(part), "si")]
    dates = list[str]()
    if (part := by_type.get("styles")) in package.names and part is not None:
        dates = _dates(package.xml(part))
    is_1904 = value(next(each(root, "workbookPr"), None), "date1904") in {"1", "true"}
    since = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30)  # noqa: DTZ001 - of no zone
    for sheet in each(root, "sheet"):
        id = next((said for said in sheet.attrib.values() if said in related), "")
        if not id or related[id].target not in package.names:
            continue
        title, names = sheet.get("name", ""), dict[int, str]()
        comments = _comments(package, related[id].target)
        for number, row in enumerate(each(package.xml(related[id].target), "row"), 1):
            cells = _cells(row, strings, dates, since)
            at = row.get("r", str(number))
            noted = comments.pop(at, [])
            if not names:
                names = cells
                said = "; ".join(filter(None, [", ".join(cells.values()), *noted]))
                written.add(said, kind="whole", section=title)
                continue
            pairs = (f"{names[n]}: {text}" if n in names else text for n, text in cells.items())
            said = "; ".join([*pairs, *noted])
            written.add(said, kind="whole", section=f"{title} > row {at}")
            if written.n_characters > _MOST_CHARACTERS:
                raise ValueError(f"it has more than {_MOST_CHARACTERS} characters")
    about = package.about()
    return written.document(title=about.pop("title", None), properties=about)


_ROW = re.compile("[A-Z]{1,3}([0-9]+)$")


def _comments(package: Package, sheet: str) -> dict[str, list[str]]:
    """The comments on the cells of a sheet, by the number of the row."""
    found: dict[str, list[str]] = {}
    for one in package.related(sheet).values():
        if one.type != "comments" or one.target not in package.names:
            continue
        for comment in each(package.xml(one.target), "comment"):
            text = " ".join(_string(comment).split())
            if text and (at := _ROW.match(comment.get("ref", ""))):
                found.setdefault(at[1], []).append(f"[{comment.get('ref')}: {text}]")
    return found


def _cells(row: Element, strings: list[str], dates: list[str], since: datetime) -> dict[int, str]:
    """What is in the cells of a row that are not empty, by their column."""
    found, column, n_characters = dict[int, str](), 0, 0
    for cell in each(row, "c"):
        column += 1
        if letters := _LETTERS.match(cell.get("r", "")):
            column = 0
            for letter in letters[0]:
                column = column * 26 + ord(letter) - 64
        if text := " ".join(_cell(cell, strings, dates, since).split()):
            found[column] = text
            n_characters += len(text)
            if n_characters > _MOST_CHARACTERS:
                raise ValueError(f"a row has more than {_MOST_CHARACTERS} characters")
    return found


def _cell(cell: Element, strings: list[str], dates: list[str], since: datetime) -> str:
    said, type = child(cell, "v"), cell.get("t", "n")
    if type == "inlineStr":
        return _string(cell).strip()
    text = "" if said is None else (said.text or "").strip()
    if type == "s":
        # A damaged file may name a string that it does not have; its other cells are read.
        return strings[int(text)].strip() if text.isdigit() and int(text) < len(strings) else ""
    if type == "b":
        return {"1": "TRUE", "0": "FALSE"}.get(text, text)
    style = int(cell.get("s", "0"))
    if text and type == "n" and style < len(dates) and dates[style]:
        return (_span if dates[style] == "span" else _moment)(float(text), since) or text
    if type == "n" and len(text) > _DIGITS and "." in text:
        # The file has more digits than Excel computes with, and shows: 1.1000000000000001.
        return f"{float(text):.{_DIGITS}g}"
    return text


_DIGITS = 15


def _span(days: float, _: datetime) -> str:
    """A length of time, in hours, minutes and seconds."""
    minutes, seconds = divmod(round(abs(days) * 86_400), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{'-' if days < 0 else ''}{hours}:{minutes:02}:{seconds:02}"


def _moment(days: float, since: datetime) -> str | None:
    """A day, with its time if it has one; a time alone for less than a day; None for no moment."""
    try:
        moment = since + timedelta(seconds=round(days * 86_400))
    except (OverflowError, ValueError):  # Excel shows no date either
        return None
    if 0 <= days < 1:
        return moment.isoformat(" ", "minutes").partition(" ")[2]
    return moment.isoformat(" ", "minutes").removesuffix(" 00:00")


def _string(above: Element) -> str:
    spoken = {id(t) for one in each(above, "rPh") for t in each(one, "t")}
    return "".join(one.text or "" for one in each(above, "t") if id(one) not in spoken)


def _dates(root: Element) -> list[str]:
    """For each style whether numbers are moments (`date`), lengths of time (`span`), or neither."""
    own = {
        int(one.get("numFmtId", "0")): _kind(one.get("formatCode", "").lower())
        for one in each(root, "numFmt")
    }
    formats = next(each(root, "cellXfs"), None)
    used = [] if formats is None else [int(one.get("numFmtId", "0")) for one in each(formats, "xf")]
    known = {**dict.fromkeys(_DATES, "date"), _ELAPSED: "span", **own}
    return [known.get(one, "") for one in used]


def _kind(code: str) -> str:
    if re.search(r"\[(h+|m+|s+)\]", code):
        return "span"
    return "date" if any(letter in _LITERAL.sub("", code) for letter in "ymdhs") else ""


# LibreOffice


@frozen_by_name
class OdfReader(Packed):
    """Reads texts, slides and sheets of LibreOffice: `.odt`, `.odp`, `.ods`."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text of the document."""
        return of_package(content, name, self, _open_document)


_NOT_READ = frozenset(
    {"tracked-changes", "sequence-decls", "forms", "notes-configuration", "annotation"}
)


def _open_document(package: Package) -> ReadDocument:
    body = child(package.xml("content.xml"), "body")
    if body is None:
        raise ValueError("it has no body")
    written, headings, pages = Written(), Headings(), [0]
    is_sheets = child(body, "spreadsheet") is not None

    def walk(above: Element, depth: int = 0) -> None:
        if depth > _MOST_DEPTH:
            raise ValueError("it is nested too deeply")
        for one in above:
            name = local(one.tag)
            if name == "page":
                pages[0] += 1
            page = pages[0] or None
            if name == "h":
                level, text = value(one, "outline-level") or "1", _odf_text(one)
                headings.enter(int(level) if level.isdigit() else 1, text)
                written.add(text, kind="heading", page=page, section=headings.path)
            elif name == "p":
                written.add(_odf_text(one), page=page, section=headings.path)
            elif name == "table":
                rows = (" | ".join(_odf_cells(row)) for row in within(one, "table-row"))
                text = "\n".join(row for row in rows if row.strip(" |"))
                is_headed = child(one, "table-header-rows") is not None
                header = text.partition("\n")[0] if is_headed else ""
                section = value(one, "name") if is_sheets else headings.path
                written.add(text, kind="whole", page=page, section=section, header=header)
            elif name == "list-item":
                text = "\n".join(filter(None, map(_odf_text, within(one, "p", "h"))))
                written.add(f"- {text}" if text else "", page=page, section=headings.path)
            elif name not in _NOT_READ:
                walk(one, depth + 1)

    walk(body)
    said = described(package.xml("meta.xml")) if "meta.xml" in package.names else {}
    return written.document(
        title=said.pop("title", None), n_pages=pages[0] or None, properties=said
    )


def _odf_cells(row: Element) -> Iterator[str]:
    for cell in within(row, "table-cell", "covered-table-cell"):
        text = " ".join(filter(None, map(_odf_text, within(cell, "p", "h"))))
        said = value(cell, "number-columns-repeated") or "1"
        yield from repeat(text, min(int(said), _MOST_REPEATED) if said.isdigit() else 1)


_MOST_REPEATED = 100
"""Cells of a row that are alike; a row of a sheet ends with thousands of empty ones."""


def _odf_text(above: Element, depth: int = 0) -> str:
    if depth > _MOST_DEPTH:
        raise ValueError("a paragraph is nested too deeply")
    signs = {"tab": "\t", "line-break": "\n", "s": " ", "p": " "}
    parts = [above.text or ""]
    for one in above:
        name = local(one.tag)
        said = "" if name in _NOT_READ else _odf_text(one, depth + 1)
        if name in {"title", "desc", "note-citation"} and said.strip():  # of a picture, of a note
            said = f" [{said.strip()}] "
        elif name in {"text-box", "note-body"}:
            said = f"{said} "
        elif name == "ruby-text":
            said = f"({said})" if said.strip() else ""
        parts += [signs.get(name, ""), said, one.tail or ""]
    text = "".join(parts)
    return text if depth else re.sub(" {2,}", " ", text).strip()
