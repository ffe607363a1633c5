"""Word documents, by python-docx: paragraphs, headings, lists and tables, in their order."""

import io
import re
import zipfile
from typing import Any

from lance_context_core._util.extras import importing
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.reading import Headings, ReadDocument, Written
from lance_context_core.errors import InvalidRequestError, UnreadableDocumentError

_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)


@frozen_by_name
class DocxReader:
    """Reads Word documents of 2007 and later; a row of a table becomes a line, with ` | ` between cells.

    There are no page numbers: a Word document has pages only where it is printed. Raises
    MissingExtraError without the extra.
    """

    max_unpacked_bytes: int = 500_000_000
    """Of all that is packed in the file; it may say that there is less, and is not believed."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text of the document's body."""
        with importing("python-docx", extra="documents", by="reading DOCX"):
            import docx
        try:
            self._check(content, name)
            return _read(docx.Document(io.BytesIO(content)))
        except InvalidRequestError:
            raise
        # As of PDF: broken XML, parts that are not there, values out of range.
        except Exception as error:
            raise UnreadableDocumentError(
                f"{name!r} cannot be read as DOCX, it is broken or not all there: {error}"
            ) from error

    def _check(self, content: bytes, name: str) -> None:
        """Unpack all of it once, part by part and keeping nothing, to see how much there is."""
        left = self.max_unpacked_bytes
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            for one in packed.infolist():
                with packed.open(one) as part:
                    while piece := part.read(1 << 20):
                        left -= len(piece)
                        if left < 0:
                            raise UnreadableDocumentError(
                                f"{name!r} unpacks to more than max_unpacked_bytes="
                                f"{self.max_unpacked_bytes}: pass a DocxReader that takes more"
                            )


def _read(document: Any) -> ReadDocument:
    written, headings, first = Written(), Headings(), None
    listed: list[str] = []

    def end_list() -> None:
        written.add("\n".join(listed), section=headings.path)
        listed.clear()

    for block in document.iter_inner_content():
        if hasattr(block, "rows"):
            end_list()
            written.add("\n".join(_rows(block)), kind="whole", section=headings.path)
            continue
        text, style = block.text.strip(), (block.style.name if block.style else "") or ""
        if not text:
            continue
        level = _HEADING.match(style)
        if level or style == "Title":
            end_list()
            headings.enter(int(level[1]) if level else 1, text)
            first = first or " ".join(text.split())
            written.add(text, kind="heading", section=headings.path)
        elif style.startswith("List") or _is_numbered(block):
            listed.append(f"- {text}")
        else:
            end_list()
            written.add(text, section=headings.path)
    end_list()
    about = document.core_properties
    said = {name: value for name in ("author", "subject") if (value := getattr(about, name))}
    return written.document(title=about.title or first, properties=said)


def _rows(table: Any) -> list[str]:
    """Its rows; a cell that spans several columns stands once."""
    lines = []
    for row in table.rows:
        cells, last = [], None
        for cell in row.cells:
            if cell._tc is not last:  # noqa: SLF001 - the only name of what is merged
                cells.append(" ".join(cell.text.split()))
            last = cell._tc  # noqa: SLF001
        if any(cells):
            lines.append(" | ".join(cells))
    return lines


def _is_numbered(paragraph: Any) -> bool:
    properties = paragraph._p.pPr  # noqa: SLF001 - python-docx has no name for it
    return properties is not None and properties.numPr is not None
