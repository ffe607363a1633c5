"""Files that were read: what is known of them, and the passages that they were cut into."""

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
    """For whom a document is: a conversation, a project, or, with neither, everybody.

    This is within what the handle sees: see `AsyncContextStore.scope`. Raises InvalidRequestError
    for both at once, and for what names nothing.
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
    """Where something stands in a text."""

    start: int
    end: int
    """Offsets in characters; `end` is that of the first one behind it."""


@own_first
@frozen_by_name
class Place(Stretch):
    """Where something stands in a document."""

    page: int | None = None
    """Counted from 1; absent for what has no pages. No chunk is on two of them."""
    section: str | None = None
    """The headings above all of it, outermost first, with ` > ` between them; of what has none in
    common, those where it begins and those where it ends."""


@frozen_by_name
class Passage(Place):
    """Where a chunk stands in a text, as a chunker says it."""

    header: str | None = None
    """The header of the table that the passage continues: its chunk's text begins with it."""


@own_first
@frozen_by_name
class SourceDocument(File):
    """A file that was read; its passages are `DocumentChunk`s."""

    id: str
    """Made from the scope and the content, so that a file that is added twice is there once."""
    name: str
    """The name of the file, without its folders; of one that `sync` added its path below the folder."""
    type: str
    """What it was read as, such as `pdf` or `markdown`."""
    scope: DocumentScope = field(default_factory=DocumentScope)
    uri: str | None = None
    """Where it was read from, where that is known; kept, never followed."""
    title: str | None = None
    """As the file says it, where it does."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    """What else the reader learnt: the front matter of Markdown, the author of a PDF, an encoding."""
    n_pages: int | None = None
    """Absent for what has no pages."""
    n_chunks: int


@own_first
@frozen_by_name
class DocumentChunk(Place):
    """A passage of a document, where it stands, and how it is cited."""

    id: str
    """The document's id, a colon, and the `position`."""
    document_id: str
    text: str
    """What stands from `start` to `end` in the text that was read: see `AsyncDocuments.text`.

    A passage that continues a long table has the table's header above it, a line each.
    """
    position: int
    """0 for the first of the document."""
    name: str
    """The document's, as are `type`, `title`, `uri`, `scope` and `metadata`."""
    type: str
    title: str | None = None
    uri: str | None = None
    scope: DocumentScope = field(default_factory=DocumentScope)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def citation(self) -> str:
        """`handbook.pdf, p. 3, Travel > Trains`: what is known of it."""
        page = None if self.page is None else f"p. {self.page}"
        return ", ".join(part for part in (self.name, page, self.section) if part)


@frozen_by_name
class FailedDocument:
    """A file of many that could not be added, and why."""

    name: str
    error: Exception


@frozen_by_name
class DocumentProgress(Progress):
    """How far the adding of many files has come."""

    what: str = "files"
    name: str
    """The file that was dealt with last."""
    document: SourceDocument | None = None
    """What became of it; None if it failed."""
    error: Exception | None = None

    @property
    def n_files(self) -> int | None:
        """The same as `n_total`."""
        return self.n_total


@frozen_by_name
class DocumentsAdded:
    """What the adding of many files left behind."""

    documents: tuple[SourceDocument, ...]
    """One for each file that could be read, in their order; files of one content have the same."""
    failed: tuple[FailedDocument, ...] = ()


@frozen_by_name
class DocumentsSynced:
    """What was done to have the documents of a folder as its files are; names are paths below it."""

    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    """The former and the new name of each file that was moved."""
    deleted: tuple[str, ...] = ()
    """The names of documents whose files are gone."""
    n_unchanged: int = 0
    failed: tuple[FailedDocument, ...] = ()
    """Files and folders that cannot be read; their documents are what they were."""
    dry_run: bool = False
    """Whether nothing was done."""
