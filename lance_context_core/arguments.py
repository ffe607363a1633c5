"""Argument types, for annotations in code that wraps calls."""

from lance_context_core.blobs.blobs import BlobRef
from lance_context_core.blobs.spool import BlobSource
from lance_context_core.coordination.tasks import TaskOutcome
from lance_context_core.coordination.templates import TemplateSyntax
from lance_context_core.documents.loading import DocumentSource, Fetch, Kept, ReadingArguments
from lance_context_core.documents.scoped import Scopes
from lance_context_core.erasure.selector import Derived
from lance_context_core.filters import FilterLike
from lance_context_core.information.schema import Family
from lance_context_core.messages import Content
from lance_context_core.protocols import ItemConditions, ItemKey, ItemListing, ItemOrder, SearchMode
from lance_context_core.search.options import SearchArguments
from lance_context_core.storage.lance.versions import Ref
from lance_context_core.stores.memory import Duplicates
from lance_context_core.stores.records.lookup import HitArguments
from lance_context_core.stores.records.mappings import RecordChanges, RecordDict, RecordFields
from lance_context_core.transfer.coding_agents import CodingAgent
from lance_context_core.transfer.conversations import ExportFormat, ImportFormat
from lance_context_core.types.versions import Stored
from lance_context_core.versioning.conflicts import MergePolicy

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # Any store
    "SearchMode",
    "FilterLike",
    "Ref",
    "MergePolicy",
    "Stored",
    "Derived",
    "ExportFormat",
    "ImportFormat",
    "CodingAgent",
    # Tables of fixed names
    "Family",
    # Messages
    "Content",
    # Memories
    "Duplicates",
    # Key-value items
    "ItemKey",
    "ItemConditions",
    "ItemListing",
    "ItemOrder",
    # Tasks
    "TaskOutcome",
    # Templates
    "TemplateSyntax",
    # Files
    "DocumentSource",
    "ReadingArguments",
    "Fetch",
    "Kept",
    "Scopes",
    # Bytes
    "BlobSource",
    "BlobRef",
    # Any search
    "SearchArguments",
    # The record API
    "RecordFields",
    "RecordChanges",
    "RecordDict",
    "HitArguments",
]
