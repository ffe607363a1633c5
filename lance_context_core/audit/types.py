"""What the audit tells."""

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
"""What an entry is about; "write" is what the versions of one table brought, whichever process made them."""

AuditRowAction = Literal["added", "changed", "replaced", "removed", "read", "named"]
"""What became of a row: "replaced" is the older one of an item that was put anew, "named" is the tag,
branch or version that an entry is about."""


AuditProblemKind = Literal["chain", "rows", "gap", "table"]
"""`chain`: an entry is missing or was changed; `rows`: what it says of rows was changed; `gap`:
versions went before they were noted; `table`: rows are other than the entries tell."""


class AuditRow(NamedTuple):
    """What was done to one row."""

    did: AuditRowAction
    key: str | None
    """The row's key in its table; None of what was read or named."""
    id: str | None
    tenant: str | None
    user_id: str | None
    agent_id: str | None
    author: str | None
    """Who wrote it so, or read it; None if unknown, and for removed rows."""
    revision: int | None


@frozen_by_name
class AuditEntry:
    """One link of the chain."""

    n: int
    """Its number: 1, 2, 3, …"""
    at: datetime
    """When it was noted, by the store's clock."""
    action: AuditAction
    table: str | None = None
    """The table that was written; None of whatever is no "write": it may be about several of them, or
    about none."""
    branch: str | None = None
    first_version: int | None = None
    """The rows are what was done after this version of the table, where 0 is before its first, up to
    and with the `last_version`."""
    last_version: int | None = None
    committed_at: datetime | None = None
    """When the last of these versions was made."""
    gap: str | None = None
    """Why versions in between were not looked at one by one: an `erasure` removed them, or `unknown`.
    Then the rows are what differs from what the entries before tell."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many rows of each `did`, erased ones among them."""
    rows: tuple[AuditRow, ...] = ()
    """Those that were not erased since."""
    n_erased: int = 0
    """How many of its rows were erased since: nothing tells any more which they were."""
    hash: str = ""
    """SHA-256 of all this, of what stands for the rows, and of the hash before."""


@frozen_by_name
class AuditHead:
    """The last link: who keeps it elsewhere knows later that nothing was cut off."""

    n: int
    hash: str


@frozen_by_name
class AuditProblem(Wrong):
    """Something that the chain does not bear out."""

    kind: AuditProblemKind
    where: str
    """The entry, or the table with its branch."""


@own_first
@frozen_by_name
class AuditReport(Checked):
    """What was checked, and what does not hold."""

    n_entries: int
    n_rows: int
    n_unsealed: int
    """Versions that came since the last entry about their table: nothing holds them yet."""
    problems: tuple[AuditProblem, ...] = ()


@frozen_by_name
class Recalled:
    """Why a search found a record, or that it did not."""

    rank: int | None
    """1 is the best; None if it was not among those that were looked at."""
    hit: SearchHit[ContextRecord] | None
    """With what each channel gave it."""
    entries: tuple[AuditEntry, ...]
    """Who wrote it, and what became of it, each entry with its rows alone."""
