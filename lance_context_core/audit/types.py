"""The types of the audit log."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Literal, NamedTuple

from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.types import ContextRecord, SearchHit
from lance_context_core.types.answers import Checked, Wrong

AuditAction = Literal[
    "begin",
    "write",
    "read",
    "merge",
    "erase",
    "restore",
    "tag",
    "untag",
    "branch",
    "drop branch",
    "thin",
    "import",
]
"""The event of an entry; "write" is the changes in the versions of one table, from any process."""

AuditRowAction = Literal["added", "changed", "replaced", "removed", "read", "named"]
"""The change of a row: "replaced" is the older one of a replaced item, "named" is the tag,
branch or version of an entry."""


AuditProblemKind = Literal["chain", "rows", "gap", "table"]
"""`chain`: an entry is missing or was changed; `rows`: its rows were changed; `gap`:
versions were removed before they were logged; `table`: rows differ from the entries."""


class AuditRow(NamedTuple):
    """The change of one row."""

    did: AuditRowAction
    key: str | None
    """The row's key in its table; None for reads and names."""
    id: str | None
    tenant: str | None
    user_id: str | None
    agent_id: str | None
    author: str | None
    """The writer or reader; None if unknown, and for removed rows."""
    revision: int | None


@frozen_by_name
class AuditEntry:
    """One link of the chain."""

    n: int
    """Its number: 1, 2, 3, …"""
    at: datetime
    """The time of logging, by the store's clock."""
    action: AuditAction
    table: str | None = None
    """The table that was written; None for anything but "write", which may concern several tables or
    none."""
    branch: str | None = None
    first_version: int | None = None
    """The rows are the changes after this version of the table, where 0 is before its first, up to
    and including the `last_version`."""
    last_version: int | None = None
    committed_at: datetime | None = None
    """The time of the last of these versions."""
    gap: str | None = None
    """Why versions in between were not read one by one: an `erasure` removed them, or `unknown`.
    Then the rows are the differences from the earlier entries."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The number of rows per change, with erased ones."""
    rows: tuple[AuditRow, ...] = ()
    """The rows not erased since."""
    n_erased: int = 0
    """How many of its rows were erased since: they can no longer be identified."""
    hash: str = ""
    """SHA-256 of all these fields, of the rows' digests, and of the hash before."""


@frozen_by_name
class AuditHead:
    """The last entry: stored elsewhere, it later proves that nothing was cut off."""

    n: int
    hash: str


@frozen_by_name
class AuditProblem(Wrong):
    """A violation of the chain."""

    kind: AuditProblemKind
    where: str
    """The entry, or the table with its branch."""


@own_first
@frozen_by_name
class AuditReport(Checked):
    """The checked parts, and the problems."""

    n_entries: int
    n_rows: int
    n_unsealed: int
    """Versions since the last entry about their table: not covered yet."""
    problems: tuple[AuditProblem, ...] = ()


@frozen_by_name
class Recalled:
    """Why a search found a record, or that it did not."""

    rank: int | None
    """1 is the best; None if it was not among the hits considered."""
    hit: SearchHit[ContextRecord] | None
    """With the score of each channel."""
    entries: tuple[AuditEntry, ...]
    """Its history with authors, each entry with its rows alone."""
