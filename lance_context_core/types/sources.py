"""Source documents and their chunks."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from lance_context_core._util.checks import check_name
from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.errors import InvalidRequestError
from lance_context_core.types.answers import Progress
from lance_context_core.types.media import File


@frozen_by_name
class DocumentScope:
    """The scope of a document: a conversation, a project, or everyone if neither is given.

    It applies within the scope of the handle: see `AsyncContextStore.scope`. Raises
    InvalidRequestError for both at once, and for empty names.
    """

    conversation_id: str | None = None
    project_id: str | None = None

    def __post_init__(self) -> None:
        for name in ("conversation_id", "project_id"):
            if (value := getattr(self, name)) is not None:
                check_name(value, name)
        if self.conversation_id is not None and self.project_id is not None:
            raise InvalidRequestError(
                "a document is for a conversation or for a project: give one of conversation_id and "
                "project_id, or add it to both"
            )


@frozen_by_name
class Stretch:
    """A position in a text."""

    start: int
    end: int
    """Offsets in characters; `end` is exclusive."""


@own_first
@frozen_by_name
class Place(Stretch):
    """A position in a document."""

    page: int | None = None
    """Counted from 1; absent without pages. A chunk never spans two pages."""
    section: str | None = None
    """The headings above the passage, outermost first, joined by ` > `; if its start and end have
    none in common, both."""


@frozen_by_name
class Passage(Place):
    """The position of a chunk in a text, as a chunker returns it."""

    header: str | None = None
    """The header of the table that the passage continues; the chunk's text begins with it."""


@own_first
@frozen_by_name
class SourceDocument(File):
    """A file that was read; its passages are `DocumentChunk`s."""

    id: str
    """Derived from scope and content, so a file added twice exists once."""
    name: str
    """The file name without folders; after `sync`, the path below the folder."""
    type: str
    """The detected type, such as `pdf` or `markdown`."""
    scope: DocumentScope = field(default_factory=DocumentScope)
    uri: str | None = None
    """The original location, if known; stored, never fetched."""
    title: str | None = None
    """The title in the file, if it has one."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    """Properties from the reader: front matter, the author of a PDF, the encoding."""
    n_pages: int | None = None
    """Absent without pages."""
    n_chunks: int


@own_first
@frozen_by_name
class DocumentChunk(Place):
    """A passage of a document with its position and citation."""

    id: str
    """The document's id, a colon, and the `position`."""
    document_id: str
    text: str
    """The text from `start` to `end`: see `AsyncDocuments.text`.

    A passage that continues a long table begins with the lines of the table's header.
    """
    position: int
    """0 for the first of the document."""
    name: str
    """The document's name; so are `type`, `title`, `uri`, `scope` and `metadata`."""
    type: str
    title: str | None = None
    uri: str | None = None
    scope: DocumentScope = field(default_factory=DocumentScope)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def citation(self) -> str:
        """The citation, such as `handbook.pdf, p. 3, Travel > Trains`."""
        page = None if self.page is None else f"p. {self.page}"
        return ", ".join(part for part in (self.name, page, self.section) if part)


@frozen_by_name
class FailedDocument:
    """A file that could not be added, with the reason."""

    name: str
    error: Exception


@frozen_by_name
class DocumentProgress(Progress):
    """The progress of adding many files."""

    what: str = "files"
    name: str
    """The last processed file."""
    document: SourceDocument | None = None
    """The added document; None if it failed."""
    error: Exception | None = None

    @property
    def n_files(self) -> int | None:
        """The same as `n_total`."""
        return self.n_total


@frozen_by_name
class DocumentsAdded:
    """The result of adding many files."""

    documents: tuple[SourceDocument, ...]
    """One for each readable file, in order; files with equal content share one."""
    failed: tuple[FailedDocument, ...] = ()


@frozen_by_name
class DocumentsSynced:
    """The changes that synchronised documents with a folder; names are paths below it."""

    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    """The old and the new name of each moved file."""
    deleted: tuple[str, ...] = ()
    """The names of documents whose files no longer exist."""
    n_unchanged: int = 0
    failed: tuple[FailedDocument, ...] = ()
    """Unreadable files and folders; their documents are unchanged."""
    dry_run: bool = False
    """Whether nothing changed."""
