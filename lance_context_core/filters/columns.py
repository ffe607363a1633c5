"""Names in filters: the columns of each table; every other name is a key in a JSON column."""

import re
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import FilterError, InvalidRequestError

METADATA = "metadata"
"""The JSON column of every key that is not the name of a column."""

VALUE = "value"
"""The same for key-value items."""

WRITTEN_BY = "written_by"
"""The filter name of a row's author: metadata often has an `author` of its own."""

_AUTHOR = {WRITTEN_BY: "author"}


class ColumnType(StrEnum):
    """The type of a column in filters."""

    TEXT = "text"
    INTEGER = "integer"
    """Signed, 64 bits."""
    TIMESTAMP = "timestamp"
    TEXT_LIST = "list of texts"
    TARGETS = "relationships"
    """Also a list of texts, but only `contains` applies: the ids of related records."""
    JSON = "JSON"
    OPAQUE = "opaque"
    """Bytes, vectors and the like: filters cannot read it."""


class FieldType(StrEnum):
    """The type of a declared field, by the name of its type in Python."""

    TEXT = "str"
    INTEGER = "int"
    """Signed, 64 bits."""
    FLOAT = "float"
    """Any number; integers below 2**53."""
    BOOLEAN = "bool"
    MOMENT = "datetime"
    """With a time zone."""


class DeclaredField(NamedTuple):
    """A key of the metadata that has columns of its own."""

    name: str
    type: FieldType

    @property
    def column(self) -> str:
        """The column of its values."""
        return f"{METADATA}:{self.type}:{self.name}"

    @property
    def known(self) -> str:
        """The column that is true where the other one has all that the metadata has."""
        return f"known:{self.type}:{self.name}"


@frozen_by_name
class Columns:
    """The columns of a table, by public name; other names are metadata keys."""

    types: Mapping[str, ColumnType]
    stored_as: Mapping[str, str] = field(default_factory=dict)
    """The names in the table of columns with a different public name."""
    json: str = METADATA
    """The JSON column of every key that is not the name of a column."""
    declared: Mapping[str, DeclaredField] = field(default_factory=dict)
    """The keys of it that have columns, which hold all that it has."""

    def check(self, name: str) -> ColumnType:
        """Returns the type of the column `name`; raises FilterError if filters cannot use it."""
        type_ = self.types.get(name)
        if type_ is None or type_ is ColumnType.OPAQUE:
            known = sorted(one for one in self.types if self.types[one] is not ColumnType.OPAQUE)
            problem = "is not a column" if type_ is None else "cannot be filtered"
            detour = f"; '{self.json}.{name}' means the {self.json} key"
            detour = detour if self.json in known else ""
            raise FilterError(f"{name!r} {problem}; filter by {', '.join(known)}{detour}")
        return type_


_PYTHON_TYPES = {
    str: FieldType.TEXT,
    int: FieldType.INTEGER,
    float: FieldType.FLOAT,
    bool: FieldType.BOOLEAN,
    datetime: FieldType.MOMENT,
}
_FIELD_NAME = re.compile(r"[^\W\d][\w-]{0,99}")


def declared_fields(
    fields: Mapping[str, type] | None, *, columns: Columns
) -> tuple[DeclaredField, ...]:
    """The fields that a caller declares, by name. Raises InvalidRequestError for others."""
    if fields is None:
        return ()
    if not isinstance(fields, Mapping):
        raise InvalidRequestError(
            f"fields={shown(fields)}: pass a dict of names and types, such as {{'page': int}}"
        )
    found: dict[str, DeclaredField] = {}
    for name, type_ in fields.items():
        if not isinstance(name, str) or not _FIELD_NAME.fullmatch(name):
            raise InvalidRequestError(
                f"fields has {shown(name)}: a name has up to 100 letters, digits, '_' and '-', and "
                "begins with a letter or '_'; keys of nested objects cannot be declared"
            )
        if name in columns.types:
            raise InvalidRequestError(
                f"fields has {name!r}, which is a column already: filter by it as it is"
            )
        if not isinstance(type_, type) or type_ not in _PYTHON_TYPES:
            raise InvalidRequestError(
                f"fields[{name!r}]={shown(type_)}: use str, int, float, bool or datetime"
            )
        if (other := found.get(name.lower())) is not None:
            raise InvalidRequestError(
                f"fields has {other.name!r} and {name!r}, which differ in case alone: use one"
            )
        found[name.lower()] = DeclaredField(name, _PYTHON_TYPES[type_])
    return tuple(found.values())


RECORD_FIELDS = Columns(
    types={
        **dict.fromkeys(
            (
                *("id", "external_id", "context", "kind", "layer", "role", "name", "content_type"),
                WRITTEN_BY,
                *("text", "tenant", "user_id", "agent_id", "bot_id", "session_id", "run_id"),
                *("payload_uri", "payload_checksum", "source", "lifecycle_status"),
                *("retention_policy", "retired_reason", "supersedes_id", "superseded_by_id"),
            ),
            ColumnType.TEXT,
        ),
        **dict.fromkeys(
            ("created_at", "updated_at", "expires_at", "retired_at"), ColumnType.TIMESTAMP
        ),
        **dict.fromkeys(("tags", "source_ids"), ColumnType.TEXT_LIST),
        "payload_size": ColumnType.INTEGER,
        "relationships": ColumnType.TARGETS,
        METADATA: ColumnType.JSON,
        **dict.fromkeys(
            ("embedding", "vector", "blob", "parts", "native", "state_metadata"), ColumnType.OPAQUE
        ),
    },
    stored_as={"bot_id": "agent_id", "relationships": "edges", **_AUTHOR},
)
"""The filterable columns of records."""

DOCUMENT_FIELDS = Columns(
    types={
        "id": ColumnType.TEXT,
        "text": ColumnType.TEXT,
        WRITTEN_BY: ColumnType.TEXT,
        "embedding": ColumnType.OPAQUE,
        METADATA: ColumnType.JSON,
    },
    stored_as=_AUTHOR,
)
"""The filterable columns of the documents in a vector collection."""

_OF_DOCUMENTS = {
    **dict.fromkeys(
        ("id", "name", "type", "title", "uri", "conversation_id", "project_id"), ColumnType.TEXT
    ),
    **dict.fromkeys(("created_at", "updated_at"), ColumnType.TIMESTAMP),
    METADATA: ColumnType.JSON,
}

SOURCE_FIELDS = Columns(
    types={
        **_OF_DOCUMENTS,
        "hash": ColumnType.TEXT,
        **dict.fromkeys(("size", "n_pages", "n_chunks"), ColumnType.INTEGER),
        **dict.fromkeys(("properties", "blob"), ColumnType.OPAQUE),
    },
    stored_as={"type": "file_type"},
)
"""The filterable columns of source documents."""

CHUNK_FIELDS = Columns(
    types={
        **_OF_DOCUMENTS,
        **dict.fromkeys(("document_id", "section", "text"), ColumnType.TEXT),
        **dict.fromkeys(("page", "position", "start", "end"), ColumnType.INTEGER),
        "embedding": ColumnType.OPAQUE,
    },
    stored_as={"type": "file_type", "start": "start_offset", "end": "end_offset"},
)
"""The filterable columns of their chunks."""

ITEM_FIELDS = Columns(
    types={
        **dict.fromkeys(("key", "data_type", WRITTEN_BY), ColumnType.TEXT),
        **dict.fromkeys(("created_at", "updated_at", "expires_at"), ColumnType.TIMESTAMP),
        **dict.fromkeys(("namespace", "data", "vectors"), ColumnType.OPAQUE),
        VALUE: ColumnType.JSON,
    },
    stored_as={"key": "id", **_AUTHOR},
    json=VALUE,
)
"""The filterable columns of key-value items."""
