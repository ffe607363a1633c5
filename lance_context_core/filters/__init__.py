"""The filter language of the store: dicts or SQL, parsed into a typed tree."""

from lance_context_core.filters.columns import (
    CHUNK_FIELDS,
    DOCUMENT_FIELDS,
    ITEM_FIELDS,
    METADATA,
    RECORD_FIELDS,
    SOURCE_FIELDS,
    VALUE,
    Columns,
    ColumnType,
    DeclaredField,
    FieldType,
)
from lance_context_core.filters.language import FilterLike, parse
from lance_context_core.filters.tree import (
    Absent,
    And,
    Comparison,
    Condition,
    Contains,
    ContainsAll,
    ContainsAny,
    Field,
    Filter,
    Membership,
    Not,
    Or,
    Ordered,
    Text,
)

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # Creating a filter
    "Field",
    "Filter",
    "FilterLike",
    "Ordered",
    # The tree
    "Condition",
    "Comparison",
    "Membership",
    "Contains",
    "ContainsAny",
    "ContainsAll",
    "Text",
    "Absent",
    "And",
    "Or",
    "Not",
    # Tables and their columns
    "parse",
    "Columns",
    "ColumnType",
    "DeclaredField",
    "FieldType",
    "RECORD_FIELDS",
    "DOCUMENT_FIELDS",
    "ITEM_FIELDS",
    "SOURCE_FIELDS",
    "CHUNK_FIELDS",
    "METADATA",
    "VALUE",
]
