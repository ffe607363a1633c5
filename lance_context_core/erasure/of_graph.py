"""What is known in the graph from erased sources: what nothing else supports goes, the rest forgets them."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.graph import LEADING, without_sources
from lance_context_core.erasure.references import Names, scrubbed_revision
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage import sql
from lance_context_core.storage.lance import purge
from lance_context_core.storage.lance.purge import TableRef
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.table import Table

_FEW = 1_000
"""So many sources are asked for by name; of more, all that has any is looked through."""

_AT_ONCE = 5_000
_SUPPORT = (KEY, "source_ids", "node", *SCOPE_PARTS)


async def was_named(ref: TableRef, names: Names, scope_condition: str, main: Any) -> bool:
    """Whether any version of the ref has something that is known from an erased source."""
    asked = [(_supported(names, scope_condition), _SUPPORT)]
    async for _, (found,) in purge.past(ref, asked, main):
        if any(_meant(row, names) for row in found.to_pylist()):
            return True
    return False


async def is_named(table: Table, names: Names, scope_condition: str) -> bool:
    """Whether the newest version has something that is known from an erased source."""
    found = await purge.present(table, _supported(names, scope_condition), _SUPPORT)
    return any(_meant(row, names) for row in found.to_pylist())


async def unsupported(table: Table, names: Names, scope_condition: str) -> set[str]:
    """The keys of what is known from erased sources alone, and of all that leads to such entities."""
    found = await purge.present(table, _supported(names, scope_condition), _SUPPORT)
    gone = [row for row in found.to_pylist() if len(_meant(row, names)) == len(row["source_ids"])]
    keys = {row[KEY] for row in gone}
    for some in _chunks(sorted({row["node"] for row in gone if row["node"] is not None})):
        ends = sql.any_of([sql.in_list(column, some) for column in LEADING])
        led = await purge.present(table, sql.all_of([scope_condition, ends]), [KEY])
        keys |= set(led[KEY].to_pylist())
    return keys


async def scrub(table: Table, names: Names, scope_condition: str, *, all_of_them: bool) -> None:
    """Take erased sources out of what has others, too; out of what has no others if it is to stay."""
    attempts = Attempts("the same part of the graph kept being changed by others")
    while True:
        attempts.begin()
        found: pa.Table = await purge.present(
            table, _supported(names, scope_condition), [*table.spec.schema.names]
        )
        changed = []
        for row in found.to_pylist():
            meant = _meant(row, names)
            if meant and (all_of_them or len(meant) < len(row["source_ids"])):
                kept = without_sources(row, meant.__contains__)
                changed.append(kept | {"revision": scrubbed_revision(row["revision"])})
        if not changed or await table.replace(changed) == len(changed):
            return


def _supported(names: Names, scope_condition: str) -> str:
    few = len(names.ids) <= _FEW
    named = sql.has_any("source_ids", [*names.ids]) if few else sql.is_not_empty("source_ids")
    return sql.all_of([named, scope_condition])


def _meant(row: Mapping[str, Any], names: Names) -> set[str]:
    """The sources of a row that are erased ones."""
    within = (None, *(row.get(part) for part in SCOPE_PARTS), None)
    return {one for one in row.get("source_ids") or () if names.mean([one], within)}


def _chunks(nodes: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(nodes), _AT_ONCE):
        yield nodes[start : start + _AT_ONCE]
