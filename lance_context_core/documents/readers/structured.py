"""JSON, JSON lines, XML and Jupyter notebooks."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any
from xml.etree.ElementTree import Element, ParseError, fromstring

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers.encodings import decoded
from lance_context_core.documents.readers.html import HtmlReader
from lance_context_core.documents.readers.markdown import MarkdownReader
from lance_context_core.documents.readers.packages import local
from lance_context_core.documents.readers.text import Encoded, TextReader
from lance_context_core.documents.reading import Block, ReadDocument
from lance_context_core.errors import UnreadableDocumentError


@frozen_by_name
class NotebookReader:
    """Reads Jupyter notebooks: the texts, the code, and what it printed; no pictures.

    The section is the headings above, and the number of the cell: `Results > cell 3`, the first being 1.
    """

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """Returns the cells of the notebook, in their order."""
        try:
            cells = _cells(json.loads(content))
            parts = [(n, part) for n, cell in enumerate(cells, 1) for part in _cell(cell)]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UnreadableDocumentError(
                f"{name!r} cannot be read as a notebook: {error!r}"
            ) from error
        texts = [part.encode("utf-8", "replace").decode() for _, part in parts]
        read = MarkdownReader(encoding="utf-8").read("\n\n".join(texts).encode(), name=name)
        starts = [*accumulate((len(text) + 2 for text in texts), initial=0)]

        def numbered(block: Block) -> Block:
            cell = f"cell {parts[bisect_right(starts, block.start) - 1][0]}"
            is_heading = block.kind == "heading"
            section = cell if block.section is None else f"{block.section} > {cell}"
            return block if is_heading else replace(block, section=section)

        blocks = tuple(numbered(one) for one in read.blocks)
        return ReadDocument(text=read.text, blocks=blocks, title=read.title)


def _cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells; before version 4 they are in worksheets."""
    if "cells" in notebook or "worksheets" not in notebook:
        return list(notebook["cells"])
    return [cell for sheet in notebook["worksheets"] for cell in sheet.get("cells") or []]


_SHOWN = ("text/plain", "text/markdown", "text/latex", "text/html")
"""The texts that an output may be; the first of them is read."""


def _cell(cell: dict[str, Any]) -> list[str]:
    source = _lines(cell.get("source") or cell.get("input")).strip()
    if cell.get("cell_type") == "heading" and source:  # of version 3
        source = f"{'#' * min(max(int(cell.get('level') or 1), 1), 6)} {' '.join(source.split())}"
    if cell.get("cell_type") != "code":
        return [source] if source else []
    parts = [_fenced(source)] if source else []
    for output in cell.get("outputs") or []:
        data = output.get("data") or {}
        kind = next((one for one in _SHOWN if _lines(data.get(one)).strip()), "")
        said = _lines(output.get("text")) or _lines(data.get(kind))
        if kind == "text/html" and not output.get("text"):
            page = said.encode("utf-8-sig", "replace")
            said = HtmlReader(boilerplate=True).read(page, name="an output").text
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
class JsonReader(Encoded):
    """Reads JSON and JSON lines: a line a record, each value with the path of its names.

    `{"name": "Ada", "home": {"city": "London"}}` becomes `name: Ada; home.city: London`. The section
    of a record in a list is its number, `item 3`, the first being 1, behind the name of the list.
    What is no JSON, such as a file with comments, is read as text.
    """

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """Reads the records, each a block of its own."""
        text, encoding = decoded(content, name=name, encoding=self.encoding)
        about = {"encoding": encoding}
        try:
            records = list(_records(_parsed(text), ()))
        except (ValueError, RecursionError):
            return ReadDocument(text=text, properties=about)
        written = Lines()
        for section, line in records:
            written.add(line, section)
        if not written.blocks:
            return ReadDocument(text=text, properties=about)
        return written.document(about)


class Lines:
    """A text of lines, each of which is a block."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._at = 0
        self.blocks: list[Block] = []

    def add(self, line: str, section: str | None) -> None:
        """Adds a line, unless it is blank."""
        # A lone surrogate, as in "\\ud83d" of JSON, is no letter.
        line, section = _encodable(line).strip(), section and _encodable(section)
        if line:
            end = self._at + len(line)
            self._lines.append(line)
            self.blocks.append(Block(start=self._at, end=end, kind="whole", section=section))
            self._at = end + 1

    def document(self, properties: dict[str, Any]) -> ReadDocument:
        """Returns the whole text."""
        text = "\n".join(self._lines)
        return ReadDocument(text=text, blocks=tuple(self.blocks), properties=properties)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _parsed(text: str) -> Any:
    """The value of a file of JSON; the list of those of JSON lines. Raises ValueError for others."""
    text = text.removeprefix("\ufeff")
    try:
        return json.loads(text, object_pairs_hook=_object)
    except ValueError:
        # Other ends of lines, such as U+2028, may stand in a text of JSON.
        lines = [
            json.loads(line, object_pairs_hook=_object)
            for line in re.split(r"[\r\n]", text)
            if line.strip()
        ]
        if not lines:
            raise
        return lines


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; the values of a name that stands there several times become a list."""
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    all_of: dict[str, list[Any]] = {}
    for key, one in pairs:
        all_of.setdefault(key, []).append(one)
    return {key: found[0] if len(found) == 1 else found for key, found in all_of.items()}


def _records(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str | None, str]]:
    """The lines of a value, each with its section."""
    section = " > ".join(path) or None
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        for number, one in enumerate(value, 1):
            yield from _records(one, (*path, f"item {number}"))
    elif isinstance(value, dict):
        own = {key: one for key, one in value.items() if not _is_long(one)}
        yield section, "; ".join(_pairs(own, ""))
        for key, one in value.items():
            if _is_long(one):
                yield from _records(one, (*path, key))
    else:
        yield section, _plain(value)


def _is_long(value: Any) -> bool:
    """Whether a value is records of its own: a list of them, or an object that has such a list."""
    if isinstance(value, list):
        return any(isinstance(one, dict | list) for one in value)
    return isinstance(value, dict) and any(map(_is_long, value.values()))


def _pairs(value: dict[str, Any], above: str) -> Iterator[str]:
    for key, one in value.items():
        path = f"{above}{key}"
        if isinstance(one, dict):
            yield from _pairs(one, f"{path}.")
        elif one not in (None, "", []):
            yield f"{path}: {_plain(one)}"


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@frozen_by_name
class XmlReader:
    """Reads XML: the texts of the elements and the values of their attributes, without the tags.

    An element whose children are short texts is a record, and becomes `name: value; name: value`. The
    section is the names of the elements around it. What is no XML, or declares entities, is read as text.
    """

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """Reads the records and paragraphs, each a block of its own."""
        if re.search(rb"<!ENTITY|<\x00?!\x00?E\x00?N\x00?T\x00?I\x00?T\x00?Y", content):
            return TextReader().read(content, name=name)
        try:
            written = Lines()
            _walked(_root(content), (), written)
        except (ParseError, LookupError, ValueError, RecursionError):
            return TextReader().read(content, name=name)
        return written.document({}) if written.blocks else TextReader().read(content, name=name)


_DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)["'][^>]*\?>""")


def _root(content: bytes) -> Element:
    """The root of XML that declares no entities. Raises ParseError, LookupError or ValueError."""
    try:
        return fromstring(content)  # noqa: S314 - declares no entities
    except (ParseError, ValueError):
        # Encodings of several bytes a letter, such as GB2312, are unknown to the parser.
        if (said := _DECLARED.match(content)) is None:
            raise
        text = content[said.end() :].decode(said[1].decode())
        return fromstring(text)  # noqa: S314 - as above


_LONGEST_VALUE = 200
"""Of a record, in characters; what has a longer one is paragraphs."""


def _walked(one: Element, above: tuple[str, ...], written: Lines) -> None:
    section = " > ".join(above) or None
    children = [kid for kid in one if isinstance(kid.tag, str)]
    about = "; ".join(
        f"{local(key)}: {value}" for key, value in one.attrib.items() if value.strip()
    )
    is_mixed = bool((one.text or "").strip() and children) or any(
        (kid.tail or "").strip() for kid in one
    )
    texts = [(local(kid.tag), " ".join("".join(kid.itertext()).split())) for kid in children]
    is_flat = not any(len(kid) or kid.attrib for kid in children)
    if is_mixed or not children:
        text = " ".join("".join(one.itertext()).split())
        inner = [
            f"{local(key)}: {value}"
            for kid in (one.iter() if is_mixed else (one,))
            for key, value in kid.attrib.items()
            if value.strip()
        ]
        written.add("; ".join([*([text] if text else []), *inner]), section)
    elif is_flat and all(len(text) <= _LONGEST_VALUE for _, text in texts):
        pairs = [f"{name}: {text}" for name, text in texts if text]
        written.add("; ".join([*([about] if about else []), *pairs]), section)
    else:
        written.add(about, section)
        for kid in children:
            _walked(kid, (*above, local(kid.tag)), written)
