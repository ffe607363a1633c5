"""The words of a file by another library than ours, one for each format."""

import zipfile
from collections.abc import Iterator
from io import BytesIO

import docx2txt
import openpyxl
import pptx
import pymupdf
from bs4 import BeautifulSoup
from bs4.element import PreformattedString
from lxml.etree import fromstring

_NOT_SHOWN = ("script", "style", "template", "noscript", "head")


def pdf(content: bytes) -> Iterator[str]:
    """Every page by MuPDF."""
    with pymupdf.open(stream=content, filetype="pdf") as document:
        yield from (page.get_text() for page in document)


def docx(content: bytes) -> Iterator[str]:
    """Text, headers, footers and notes by docx2txt."""
    yield docx2txt.process(BytesIO(content))


def pptx_(content: bytes) -> Iterator[str]:
    """What stands in the shapes and the notes of each slide, by python-pptx."""
    for slide in pptx.Presentation(BytesIO(content)).slides:
        yield from _shown(slide.shapes)
        if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None:
            yield frame.text


def _shown(shapes) -> Iterator[str]:
    for shape in shapes:
        if shape.is_placeholder and "NUMBER" in str(shape.placeholder_format.type):
            continue
        if hasattr(shape, "shapes"):
            yield from _shown(shape.shapes)
        elif shape.has_text_frame:
            yield shape.text_frame.text
        elif getattr(shape, "has_table", False):
            yield from (cell.text for row in shape.table.rows for cell in row.cells)


def xlsx(content: bytes) -> Iterator[str]:
    """The texts in the cells of each sheet, by openpyxl: numbers are shown in as many ways as there are libraries."""
    book = openpyxl.load_workbook(BytesIO(content), data_only=True)
    for sheet in book.worksheets:
        yield sheet.title
        for row in sheet.iter_rows(values_only=True):
            yield from (value for value in row if isinstance(value, str))


def html(content: bytes) -> Iterator[str]:
    """The text of a page by BeautifulSoup."""
    page = BeautifulSoup(content, "lxml")
    for one in page(_NOT_SHOWN):
        one.decompose()
    yield from (
        one for one in page.find_all(string=True) if not isinstance(one, PreformattedString)
    )


def epub(content: bytes) -> Iterator[str]:
    """The chapters that the book's spine names, by BeautifulSoup."""
    with zipfile.ZipFile(BytesIO(content)) as book:
        container = fromstring(book.read("META-INF/container.xml"))
        main = next(one.get("full-path") for one in container.iter() if "full-path" in one.attrib)
        folder = main.rpartition("/")[0]
        root = fromstring(book.read(main))
        parts = {
            one.get("id"): one.get("href") for one in root.iter() if "media-type" in one.attrib
        }
        for one in root.iter():
            if (part := parts.get(one.get("idref", ""))) is not None:
                yield from html(book.read(f"{folder}/{part}" if folder else part))


READERS = {"pdf": pdf, "docx": docx, "pptx": pptx_, "xlsx": xlsx, "html": html, "epub": epub}
