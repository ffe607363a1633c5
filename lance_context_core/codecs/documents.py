"""Documents of a collection to rows and back."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from lance_context_core._util.checks import (
    check_name,
    check_text,
    loads,
    shown,
    written_json_object,
)
from lance_context_core.codecs.records import key_of, new_id
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import DeclaredField
from lance_context_core.scope import Scope
from lance_context_core.storage.lance.fields import as_column
from lance_context_core.storage.lance.schema import KEY, VECTOR
from lance_context_core.storage.names import new_revision, next_revision
from lance_context_core.types import ContextRecord, Document

COLUMNS = ("id", "text", "metadata", "author")
"""What a document is read from, without its vector."""

REPLACED = (KEY, "id", "text", "metadata", "created_at", "revision")
"""What is read of a row that another one is about to replace."""


class CheckedDocument(NamedTuple):
    """A document in plain types, with an id."""

    id: str
    text: str | None
    embedding: Any
    metadata: dict[str, Any]
    metadata_json: str
    """The canonical JSON of `metadata`, which the check has written."""


def checked(document: Any, where: str) -> CheckedDocument:
    """`document` in plain types, with an id. Raises InvalidRequestError for what cannot be kept."""
    if not isinstance(document, Document):
        raise InvalidRequestError(f"{where} is a {type(document).__name__}: pass Document(text=…)")
    if document.text is None and document.embedding is None:
        raise InvalidRequestError(f"{where} has neither a text nor an embedding: give one of them")
    metadata, metadata_json = written_json_object(document.metadata, f"{where}.metadata")
    return CheckedDocument(
        id=new_id() if document.id is None else check_name(document.id, f"{where}.id"),
        text=None if document.text is None else check_text(document.text, f"{where}.text"),
        embedding=document.embedding,  # checked where vectors are made of the texts, too
        metadata=metadata,
        metadata_json=metadata_json,
    )


def refuse_other_types(
    metadata: Mapping[str, Any], fields: Sequence[DeclaredField], where: str
) -> None:
    """Raise InvalidRequestError for a value of another type than its declared field has."""
    for field in fields:
        value = metadata.get(field.name)
        if value is not None and as_column(value, field.type) is None:
            raise InvalidRequestError(
                f"{where}.metadata[{field.name!r}]={shown(value)}: the field is declared as "
                f"{field.type}: convert it, or leave it out"
            )


def to_row(
    document: CheckedDocument,
    *,
    search_text: str | None,
    scope: Scope,
    now: datetime,
    author: str | None = None,
    old: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The row of a checked document, which replaces the row `old`, if there is one."""
    return {
        KEY: old[KEY] if old else key_of(scope, "document", document.id),
        "id": document.id,
        "created_at": old["created_at"] if old else now,
        "updated_at": now,
        "revision": next_revision(old["revision"]) if old else new_revision(),
        "text": document.text,
        "search_text": search_text,
        "metadata": document.metadata_json,
        "author": author,
        VECTOR: document.embedding,
        **scope.parts(),
    }


def from_row(row: Mapping[str, Any]) -> Document:
    """The document of a row; what was not read is absent."""
    return Document(
        id=row["id"],
        text=row["text"],
        embedding=row.get(VECTOR),
        metadata=loads(row["metadata"], "metadata") if row["metadata"] else {},
        author=row.get("author"),
    )


def as_record(document: CheckedDocument | Document, *, created_at: datetime) -> ContextRecord:
    """A document as a `Composer` is shown it: a record of the kind `document`."""
    return ContextRecord(
        id=document.id or "",
        kind="document",
        content_type="text/plain",
        created_at=created_at,
        updated_at=created_at,
        text=document.text,
        metadata=document.metadata,
    )
