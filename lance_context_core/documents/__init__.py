"""Source documents: files that are read, cut into chunks, found and replaced.

This package is for code that adds or configures a reader or a chunker; the files themselves are
in `ContextStore.documents`.
"""

from lance_context_core.documents.chunking import (
    DEFAULT_CHUNKS,
    LARGE_CHUNKS,
    SMALL_CHUNKS,
    Chunker,
    StreamingChunker,
    TextChunker,
)
from lance_context_core.documents.pieces import BlockChunker, PieceChunker
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
from lance_context_core.documents.reading import (
    Block,
    BlockKind,
    ReadDocument,
    Reader,
    StreamingReader,
)
from lance_context_core.types import Passage

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # Readers
    "Reader",
    "StreamingReader",
    "ReadDocument",
    "Block",
    "BlockKind",
    "PdfReader",
    "DocxReader",
    "MarkdownReader",
    "HtmlReader",
    "CsvReader",
    "TextReader",
    "PptxReader",
    "XlsxReader",
    "OdfReader",
    "EpubReader",
    "EmailReader",
    "OutlookReader",
    "NotebookReader",
    "RtfReader",
    "JsonReader",
    "XmlReader",
    "RstReader",
    "AsciidocReader",
    "ZipReader",
    # Chunkers
    "Chunker",
    "StreamingChunker",
    "Passage",
    "TextChunker",
    "PieceChunker",
    "BlockChunker",
    "SMALL_CHUNKS",
    "DEFAULT_CHUNKS",
    "LARGE_CHUNKS",
]
