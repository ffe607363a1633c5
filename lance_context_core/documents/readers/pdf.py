"""PDF, page by page: its structure by pypdf, what stands on a page by PDFium in a process of its own."""

import io
import logging
import time
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from lance_context_core._util.extras import importing
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers.pdfium import PdfiumDocument, TooLongError
from lance_context_core.documents.reading import ReadDocument, Written, joined
from lance_context_core.errors import InvalidRequestError, UnreadableDocumentError

# The pages of a PDF one after the other, of which pypdf itself makes a list of all.

_KEPT_OBJECTS = 500
"""Of those that were read; one page is rarely made of as many."""
_MOST_DEPTH = 100
_INHERITED = ("/Resources", "/MediaBox", "/CropBox", "/Rotate")


class _Node(NamedTuple):
    """A branch of the tree that is being walked."""

    reference: Any
    kids: Iterator[Any]
    inherited: dict[Any, Any]


class Pages:
    """The pages of a `pypdf.PdfReader`; what it keeps of those that are done is let go of."""

    def __init__(self, reader: Any, *, most_entries: int) -> None:
        """They are the leaves of a tree of at most so many: a node may be in it many times, in a small file."""
        self._reader = reader
        self._most_entries = most_entries

    def __iter__(self) -> Iterator[Any]:
        """A `pypdf.PageObject` each. Raises anything where the tree is none, has a circle, or is too large."""
        from pypdf import PageObject

        way = [self._entered(self._reader.root_object.raw_get("/Pages"), {})]
        n_entries = 0
        while way:
            if (kid := next(way[-1].kids, None)) is None:
                way.pop()
                continue
            n_entries += 1
            if n_entries > self._most_entries or len(way) > _MOST_DEPTH:
                raise ValueError("the tree of its pages is too large or too deep")
            if len(self._reader.resolved_objects) > _KEPT_OBJECTS:
                self._reader.resolved_objects.clear()
            node = kid.get_object()
            if not hasattr(node, "raw_get") or not node:
                continue  # of a broken file
            reference, type = _reference(kid), node.get("/Type")
            if type == "/Pages" or (type is None and "/Kids" in node):
                if reference is not None and any(one.reference == reference for one in way):
                    raise ValueError("its pages hold each other")
                way.append(self._entered(kid, way[-1].inherited))
                continue
            if type not in {"/Page", None}:
                continue
            page = PageObject(self._reader, None if reference is None else kid)
            page.update(node)
            for name, value in way[-1].inherited.items():
                page.setdefault(name, value)
            yield page

    def _entered(self, kid: Any, inherited: dict[Any, Any]) -> _Node:
        from pypdf.generic import NameObject

        node = kid.get_object()
        own = {NameObject(name): node.raw_get(name) for name in _INHERITED if name in node}
        return _Node(_reference(kid), iter(node.get("/Kids", [])), {**inherited, **own})


def _reference(kid: Any) -> tuple[int, int] | None:
    """Which object it is; None where it stands there itself."""
    number = getattr(kid, "idnum", None)
    return None if number is None else (number, kid.generation)


# What pypdf has to say of broken files is for who listens, not for everybody's terminal.
logging.getLogger("pypdf").addHandler(logging.NullHandler())


_ENTRIES_PER_PAGE = 5

_PARTED = "\ufffe"
"""What PDFium reads for a hyphen at the end of a line, together with the end."""

_NO_NOTES = frozenset({"/Link", "/Popup"})
"""Annotations without a text of their own."""

_MOST_ANNOTATIONS = 10_000
"""Of a page."""


_MOST_NESTED, _MOST_FORMS = 5, 2_000
"""Drawings in drawings, and drawings of a page: PDFium reads one as often as it is drawn."""


def _is_deep(resources: Any, levels: int, left: list[int]) -> bool:
    """Whether drawings hold drawings, or each other, at more levels, or there are more than are left."""
    if not levels:
        return True
    for kid in (resources.get("/XObject") or {}).values():
        left[0] -= 1
        if left[0] < 0:
            return True
        one = kid.get_object()
        if one.get("/Subtype") == "/Form" and _is_deep(
            one.get("/Resources") or resources, levels - 1, left
        ):
            return True
    return False


class _Shown:
    """The texts of the pages as they are shown; PDFium is given what pypdf has seen to be no trap.

    It would go through a tree in which a node stands many times as often as that.
    """

    def __init__(self, file: IO[bytes], password: str, until: float) -> None:
        self._opened = PdfiumDocument.opened(file, password)
        self._until = until

    def text(self, number: int, page: Any) -> str:
        """The text of a page, which is counted from 1. Raises anything if neither can read it."""
        shown = None
        if self._opened is not None and self._is_sound(page):
            shown = self._opened.text(number - 1, self._until)
        if shown is None:
            return str(page.extract_text())
        return shown.replace(_PARTED, "-\n").replace("\r\n", "\n")

    def _is_sound(self, page: Any) -> bool:
        try:
            drawings = page.get("/Resources") or {}
            # PDFium looks for what a page inherits there alone.
            return "/Parent" in page and not _is_deep(drawings, _MOST_NESTED, [_MOST_FORMS])
        except Exception:  # noqa: BLE001 - pypdf raises anything
            return False

    def close(self) -> None:
        """Let go of the file."""
        if self._opened is not None:
            self._opened.close()


@frozen_by_name
class PdfReader:
    """Reads the text of PDF files, what their forms hold and the notes on their pages; it runs nothing.

    PDFium, which is native code, reads in a process of its own, which a file may crash. Where none can
    be started, pypdf reads all.

    The sections are those of the file's outline. Pages without text, which are scanned, are listed
    in the property `pages_without_text`; a file that has no others is refused, as is one that is
    broken, or encrypted with another password. Raises MissingExtraError without the extra.
    """

    password: str = ""
    max_pages: int = 20_000
    max_characters: int = 200_000_000
    """Of the text; a small file may hold very much."""
    max_seconds: float = 600
    """After which reading ends, be it within a page."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text of the pages."""
        return joined(self.read_parts(io.BytesIO(content), name=name))

    def read_parts(self, file: IO[bytes], *, name: str) -> Iterator[ReadDocument]:
        """The text of each page."""
        with importing("pypdf", extra="documents", by="reading PDF"):
            import pypdf
        with importing("pypdfium2", extra="documents", by="reading PDF"):
            import pypdfium2  # noqa: F401 - is asked for before anything is read
        try:
            yield from self._parts(pypdf.PdfReader(file, strict=False), file, name)
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

    def _parts(self, reader: Any, file: IO[bytes], name: str) -> Iterator[ReadDocument]:
        if reader.is_encrypted and not reader.decrypt(self.password):
            raise UnreadableDocumentError(
                f"{name!r} is encrypted: pass reader=PdfReader(password=…)"
            )
        end = time.monotonic() + self.max_seconds
        n_pages, sections = self._looked_through(reader, name, end)
        shown = _Shown(file, self.password, end)
        try:
            yield from self._read(reader, shown, name, n_pages, sections, end)
        finally:
            shown.close()

    def _read(
        self,
        reader: Any,
        shown: _Shown,
        name: str,
        n_pages: int,
        sections: dict[int, str],
        end: float,
    ) -> Iterator[ReadDocument]:
        written, without, broken = Written(), list[int](), list[int]()
        section = None
        for number, page in enumerate(self._pages(reader), 1):
            section = sections.get(number, section)
            try:
                text = _clean(shown.text(number, page))
            except TooLongError as error:
                raise self._too_much(name, number, n_pages) from error
            except Exception:  # noqa: BLE001 - one page of many; pypdf raises anything
                broken.append(number)
                text = ""
            noted = _clean("\n".join(_noted(page)))
            if not text.strip() and not noted and number not in broken:
                without.append(number)
            written.add(text, page=number, section=section)
            written.add(noted, page=number, section=section)
            if written.n_characters > self.max_characters or time.monotonic() > end:
                raise self._too_much(name, number, n_pages)
            yield written.part()
        if not written.n_characters:
            what = "is broken" if broken else "has no text, it is scanned or drawn"
            raise UnreadableDocumentError(
                f"{name!r} {what} on all of its {n_pages} pages: pass a reader= that recognises text"
            )
        properties = _said(reader)
        properties |= {"pages_without_text": without} if without else {}
        properties |= {"broken_pages": broken} if broken else {}
        properties |= {"attachments": names} if (names := _attached(reader)) else {}
        title = properties.pop("title", None)
        yield written.part(title=title, n_pages=n_pages, properties=properties)

    def _too_much(self, name: str, number: int, n_pages: int) -> UnreadableDocumentError:
        return UnreadableDocumentError(
            f"{name!r} holds too much: page {number} of {n_pages} went over "
            f"max_characters={self.max_characters} or max_seconds={self.max_seconds}"
        )

    def _pages(self, reader: Any) -> Pages:
        return Pages(reader, most_entries=_ENTRIES_PER_PAGE * self.max_pages)

    def _looked_through(self, reader: Any, name: str, end: float) -> tuple[int, dict[int, str]]:
        """How many pages there are, and the section that begins on each on which one does."""
        sections = _outline(reader)
        n_pages, found = 0, dict[int, str]()
        for page in self._pages(reader):
            n_pages += 1
            if n_pages > self.max_pages or time.monotonic() > end:
                raise UnreadableDocumentError(
                    f"{name!r} has {n_pages} pages or more, over max_pages={self.max_pages} or "
                    f"max_seconds={self.max_seconds}: pass a PdfReader that takes more"
                )
            reference = page.indirect_reference
            if reference is not None and (section := sections.get(reference.idnum)) is not None:
                found[n_pages] = section
        return n_pages, found


def _noted(page: Any) -> list[str]:
    """What is filled into the form of a page, and what was noted on it."""
    lines = list[str]()
    try:
        for kid in list(page.get("/Annots") or [])[:_MOST_ANNOTATIONS]:
            one = kid.get_object()
            if (kind := one.get("/Subtype")) == "/Widget":
                lines += _filled(one)
            elif kind not in _NO_NOTES and (noted := str(one.get("/Contents") or "").strip()):
                lines.append(noted)
    except Exception:  # noqa: BLE001 - broken ones are as good as none
        return lines
    return lines


def _filled(field: Any) -> Iterator[str]:
    """The name and the value of a field, unless there is none, or it is a box that is not ticked."""
    label = field.get("/TU") or field.get("/T")
    value, above = field.get("/V"), field.get("/Parent")
    if above is not None:
        label = label or above.get("/TU") or above.get("/T")
        value = above.get("/V") if value is None else value
    values = value if isinstance(value, list) else [value]
    said = ", ".join(str(one).lstrip("/").strip() for one in values if one not in {None, "/Off"})
    if said:
        yield f"{label}: {said}" if label else said


def _attached(reader: Any) -> list[str]:
    """The names of the files that are in it."""
    try:
        return [_clean(str(name)) for name in reader.attachments]
    except Exception:  # noqa: BLE001 - as above
        return []


def _outline(reader: Any) -> dict[int, str]:
    """The section that begins on a page, by the number of its object; the first, if several do."""
    found: dict[int, str] = {}
    try:
        for path, destination in _entries(reader.outline, ()):
            if (page := destination.page) is not None and hasattr(page, "idnum"):
                found.setdefault(page.idnum, " > ".join(path))
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
