"""Copies what CrewAI remembered in a LanceDB folder of its own: `import_memories`."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import lancedb
from crewai.memory.types import MemoryRecord

from crewai_lance_context.memory_storage import LanceMemoryStorage
from lance_context_core import InvalidRequestError, NotFoundError

_AT_ONCE = 200


class ImportedMemories(NamedTuple):
    """What came of an import."""

    n_new: int
    """Records that were stored."""
    n_known: int
    """Records whose ids the storage had already, which are left as they are there."""


def import_memories(
    source: str | Path, storage: LanceMemoryStorage, *, table: str = "memories"
) -> ImportedMemories:
    """Store the records of CrewAI's LanceDB folder that `storage` does not have yet.

    `source` is the folder of `LanceDBStorage`: `$CREWAI_STORAGE_DIR/memory`, or `memory` in CrewAI's
    data directory. It is read, and not changed. Ids, scopes, times and vectors stay as they are. It
    may be repeated, also after an interruption. Of several records with one id the first counts.

    Raises NotFoundError if there is no such folder or table, and EmbeddingDimensionMismatchError if
    the storage has vectors of another length.
    """
    n_new, seen = 0, set[str]()
    for records in _batches(Path(source), table):
        first = {one.id: one for one in reversed(records) if one.id not in seen}
        seen |= first.keys()
        known = {one.id for one in storage.get_records([*first])}
        new = [one for one in reversed(first.values()) if one.id not in known]
        storage.save(new)
        n_new += len(new)
    return ImportedMemories(n_new=n_new, n_known=len(seen) - n_new)


def _batches(source: Path, name: str) -> Iterator[list[MemoryRecord]]:
    if not source.is_dir():
        raise NotFoundError(f"source={str(source)!r}: no such folder; give CrewAI's memory folder")
    database = lancedb.connect(str(source))
    try:
        table = database.open_table(name)
    except ValueError as error:
        raise NotFoundError(
            f"source={str(source)!r} has no table {name!r}: give CrewAI's memory folder"
        ) from error
    query = table.search().limit(max(1, table.count_rows()))
    for batch in query.to_batches(_AT_ONCE):
        rows = batch.to_pylist()
        for start in range(0, len(rows), _AT_ONCE):
            yield [_record(row) for row in rows[start : start + _AT_ONCE]]


def _record(row: Mapping[str, Any]) -> MemoryRecord:
    vector = list(row["vector"] or ())
    try:
        return MemoryRecord(
            id=row["id"],
            content=row["content"],
            scope=row["scope"],
            categories=json.loads(row["categories_str"] or "[]"),
            metadata=json.loads(row["metadata_str"] or "{}"),
            importance=row["importance"],
            created_at=datetime.fromisoformat(row["created_at"]),
            last_accessed=datetime.fromisoformat(row["last_accessed"]),
            # CrewAI writes zeros where there is no vector.
            embedding=vector if any(vector) else None,
            source=row["source"] or None,
            private=row["private"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"the record {row.get('id')!r} is not one of CrewAI's: {error}"
        ) from error
