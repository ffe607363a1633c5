"""PDF, by pypdf: page by page."""

import io
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lance_context_core._extras import importing
from lance_context_core.documents.reading import ReadDocument, Written
from lance_context_core.errors import (
    InvalidRequestError,
    UnreadableDocumentError,
)

# What pypdf has to say of broken files is for who listens, not for everybody's terminal.
logging.getLogger("pypdf").addHandler(logging.NullHandler())


_KEPT_PAGES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class PdfReader:
    """Reads the text of PDF files; what they run or show beside it is never touched.

    The sections are those of the file's outline. Pages without text, which are scanned, are listed
    in the property `pages_without_text`; a file that has no others is refused, as is one that is
    broken, or encrypted with another password. Raises MissingExtraError without the extra.
    """

    password: str = ""
    max_pages: int = 20_000
    max_characters: int = 200_000_000
    """Of the text; a small file may hold very much."""
    max_seconds: float = 600
    """Looked at between two pages."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text of the pages."""
        with importing("pypdf", extra="documents", by="reading PDF"):
            import pypdf
        try:
            return self._read(pypdf.PdfReader(io.BytesIO(content), strict=False), name)
        except InvalidRequestError:
            raise
        except pypdf.errors.DependencyError as error:
            raise UnreadableDocumentError(
                f"{name!r} is encrypted in a way that needs the package cryptography: install it"
            ) from error
        # What a broken file makes pypdf raise is anything: the recursion limit among it.
        except Exception as error:
            raise UnreadableDocumentError(
                f"{name!r} cannot be read as PDF, it is broken or not all there: {error}"
            ) from error

    def _read(self, reader: Any, name: str) -> ReadDocument:
        if reader.is_encrypted and not reader.decrypt(self.password):
            raise UnreadableDocumentError(
                f"{name!r} is encrypted: pass reader=PdfReader(password=…)"
            )
        n_pages = len(reader.pages)
        if n_pages > self.max_pages:
            raise UnreadableDocumentError(
                f"{name!r} has {n_pages} pages, over max_pages={self.max_pages}: pass a PdfReader "
                "that takes more"
            )
        sections, section = _outline(reader), None
        written, without, broken = Written(), list[int](), list[int]()
        end = time.monotonic() + self.max_seconds
        for number in range(1, n_pages + 1):
            section = sections.get(number, section)
            try:
                text = _clean(reader.pages[number - 1].extract_text())
            except Exception:  # noqa: BLE001 - one page of many; pypdf raises anything
                broken.append(number)
                continue
            if number % _KEPT_PAGES == 0:
                # It remembers all that it has ever read, of the pages that are done, too.
                reader.resolved_objects.clear()
            if not text.strip():
                without.append(number)
            written.add(text, page=number, section=section)
            if written.n_characters > self.max_characters or time.monotonic() > end:
                raise UnreadableDocumentError(
                    f"{name!r} holds too much: page {number} of {n_pages} went over "
                    f"max_characters={self.max_characters} or max_seconds={self.max_seconds}"
                )
        if not written.n_characters:
            what = "is broken" if broken else "has no text, it is scanned or drawn"
            raise UnreadableDocumentError(
                f"{name!r} {what} on all of its {n_pages} pages: pass a reader= that recognises text"
            )
        properties = _said(reader)
        properties |= {"pages_without_text": without} if without else {}
        properties |= {"broken_pages": broken} if broken else {}
        title = properties.pop("title", None)
        return written.document(title=title, n_pages=n_pages, properties=properties)


def _outline(reader: Any) -> dict[int, str]:
    """The section that begins on each page, of those on which one does; the first, if several do."""
    found: dict[int, str] = {}
    try:
        for path, destination in _entries(reader.outline, ()):
            page = reader.get_destination_page_number(destination)
            if page is not None and page >= 0:
                found.setdefault(page + 1, " > ".join(path))
    except Exception:  # noqa: BLE001 - a broken outline is as good as none
        return found
    return found


def _entries(outline: Any, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    path = above
    for entry in outline:
        if isinstance(entry, list):
            yield from _entries(entry, path)
        else:
            path = (*above, _clean(" ".join(str(entry.title).split())))
            yield path, entry


def _said(reader: Any) -> dict[str, Any]:
    """What the file says of itself."""
    try:
        about = reader.metadata or {}
        named = {name: about.get(f"/{name.title()}") for name in ("title", "author", "subject")}
    except Exception:  # noqa: BLE001 - as above
        return {}
    texts = {name: " ".join(_clean(str(one)).split()) for name, one in named.items() if one}
    return {name: one for name, one in texts.items() if one}


def _clean(text: str) -> str:
    """The text without what is no text: NUL, and halves of characters."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
