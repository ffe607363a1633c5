"""Options to open, search and maintain a store."""

from lance_context_core._opening import OpenOptions
from lance_context_core.coordination.changes import STANDARD_CONFLICTS, Conflicts
from lance_context_core.maintenance.types import Maintenance
from lance_context_core.memory_index.cache import SearchCache
from lance_context_core.search.boosts import Boost, Candidate, Period, Recency, Role, Turn
from lance_context_core.search.fusion import Convex, Fusion, ReciprocalRank
from lance_context_core.search.options import SearchOptions
from lance_context_core.storage.lance.durability import Durability
from lance_context_core.storage.lance.fragments import FragmentPolicy
from lance_context_core.storage.lance.indexes import IndexPolicy, TextIndex
from lance_context_core.storage.lance.retention import VersionRetention
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.stores.records.lookup import ContextOptions
from lance_context_core.text.analysis import index_words, query_words
from lance_context_core.text.composer import Composable, Composer, dated, spoken
from lance_context_core.text.queries import without_names

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # Opening
    "OpenOptions",
    "ContextOptions",
    # Searching
    "SearchOptions",
    "Fusion",
    "Convex",
    "ReciprocalRank",
    "Boost",
    "Role",
    "Recency",
    "Period",
    "Candidate",
    "Turn",
    "SearchCache",
    # Search
    "TextIndex",
    "Composer",
    "Composable",
    "spoken",
    "dated",
    "index_words",
    "query_words",
    "without_names",
    # Keeping
    "Durability",
    "JournalPolicy",
    "VersionRetention",
    # Working together
    "Conflicts",
    "STANDARD_CONFLICTS",
    # Maintaining
    "Maintenance",
    "IndexPolicy",
    "FragmentPolicy",
]
