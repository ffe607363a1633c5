"""Books in EPUB."""

import posixpath
from urllib.parse import unquote

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers.html import HtmlReader
from lance_context_core.documents.readers.packages import (
    Package,
    Packed,
    described,
    each,
    of_package,
    value,
)
from lance_context_core.documents.reading import ReadDocument, joined


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
    order = [parts.get(one.get("idref")) or "" for one in each(root, "itemref")]
    # A book without an order is read in that of its parts.
    pages = (one for one in each(root, "item") if "html" in one.get("media-type", ""))
    for href in order or [unquote(one.get("href", "")) for one in pages]:
        part = posixpath.normpath(posixpath.join(folder, href.partition("#")[0]))
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
