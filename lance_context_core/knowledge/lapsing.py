"""Expiry of facts: once their turns have expired, the facts before them are current again.

Rows hide themselves when they expire. The first read after that moment folds the facts again that
they had replaced, if the store is writable.
"""

from collections.abc import Mapping
from datetime import UTC
from typing import Any

from lance_context_core._util.checks import loads
from lance_context_core._util.retry import Attempts
from lance_context_core.errors import ReadOnlyError
from lance_context_core.jobs import commits
from lance_context_core.knowledge.fold import CONTRADICTED, FACT, around_all
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records.scoped import Records

_ENDING = sql.all_of([FACT, sql.is_present("expires_at")])
_BEHIND_OTHERS = sql.all_of(
    [
        FACT,
        sql.any_of(
            [sql.is_present("superseded_by_id"), sql.equals("lifecycle_status", CONTRADICTED)]
        ),
    ]
)


_READ = ("source_ids", "retired_reason")
"""What a search reads of facts, beside the columns of any search."""


async def settle(spoken: Records, made: Records) -> Records:
    """Fold the facts again that expired ones had replaced or contradicted.

    Returns `made` for the reads of the same call. If nothing has expired, as nearly always, that is known from memory. A read-only store is not
    changed: it shows neither the expired facts nor those before them.
    """
    looked = await made.at_once(_READ)
    try:
        made.resources.writable()
    except ReadOnlyError:
        return looked
    attempts = Attempts("facts whose turns have expired kept being changed by others")
    while waiting := await _waiting(looked):
        attempts.begin()
        held = await commits.held(made, FACT, sql.in_list(KEY, waiting))
        facts = await around_all(spoken, made, [one.record for one in held])
        facts.fold()
        if await commits.write(made, *facts.changes(), basis=facts.basis()):
            return await made.at_once(_READ)
        looked = await made.at_once(_READ)
    return looked


async def _waiting(made: Records) -> list[str]:
    """Return the keys of facts that expired ones had replaced."""
    now = made.now()

    def is_over(row: Mapping[str, Any]) -> bool:
        moment = row["expires_at"]
        return bool((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) <= now)

    over = await made.remembered(_ENDING, columns=("id", "expires_at"), such=is_over)
    if not over:
        return []
    ids = {row["id"] for row in over}

    def is_behind(row: Mapping[str, Any]) -> bool:
        if row.get("superseded_by_id") in ids:
            return True
        if row.get("lifecycle_status") != CONTRADICTED:
            return False
        return not ids.isdisjoint(loads(row["metadata"], "metadata").get("conflicts", ()))

    columns = (KEY, "superseded_by_id", "lifecycle_status", "metadata")
    behind = await made.remembered(_BEHIND_OTHERS, columns=columns, such=is_behind)
    return [row[KEY] for row in behind]
