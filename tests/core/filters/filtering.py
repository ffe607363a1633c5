"""Tables of records for filters to be tried on, and the three ways of asking."""

import asyncio
import json
from datetime import UTC, datetime

import lancedb
import pyarrow as pa
from lancedb.index import FTS, Bitmap, BTree, LabelList

from lance_context_core.filters import RECORD_FIELDS, parse
from lance_context_core.storage import sql
from lance_context_core.storage.lance.open_table import STABLE_ROW_IDS
from lance_context_core.storage.sql.predicates import UnsureError

DAY = datetime(2024, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("id", "role", "agent_id", "text")),
        pa.field("created_at", TIME),
        pa.field("expires_at", TIME),
        pa.field("payload_size", pa.int64()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("edges", pa.list_(pa.string())),
        pa.field("metadata", pa.json_()),
        pa.field("search_text", pa.string()),
        pa.field("vector", pa.list_(pa.float32(), 2)),
    ]
)


async def filled_table(records, *, is_searchable=False, is_indexed=False):
    """A table of these records, in which "n" is a record's place.

    The last third was added after the indexes were built, and there are rows that were deleted.
    """
    database = await lancedb.connect_async("memory://")
    table = await database.create_table("records", schema=SCHEMA, storage_options=STABLE_ROW_IDS)
    rows = [_row(record, n) for n, record in enumerate(records)]
    late = len(rows) * 2 // 3
    await table.add(_arrow([*rows[:late], *({**row, "n": -1} for row in rows)]))
    if is_searchable:
        await table.create_index("search_text", config=FTS(remove_stop_words=False))
    if is_indexed:
        for name in ("role", "agent_id"):
            await table.create_index(name, config=Bitmap())
        for name in ("created_at", "payload_size", "expires_at"):
            await table.create_index(name, config=BTree())
        await table.create_index("tags", config=LabelList())
    await table.delete("n = -1")
    await table.add(_arrow(rows[late:]))
    return table


def _row(record, n):
    return {
        "edges": [],
        **record,
        "n": n,
        "metadata": json.dumps(record.get("metadata", {}), ensure_ascii=False),
        "search_text": "every row has these words",
        "vector": [1.0, float(n)],
    }


def _arrow(rows):
    columns = {name: [row.get(name) for row in rows] for name in SCHEMA.names}
    columns["metadata"] = pa.array(columns["metadata"], pa.string()).cast(pa.json_())
    return pa.table(columns, schema=SCHEMA)


async def _numbers(query):
    return sorted((await query.to_arrow())["n"].to_pylist())


async def found_by_scan(table, where):
    return await _numbers(table.query().where(where).select(["n"]))


async def found_by_vector(table, where, limit):
    search = table.vector_search([1.0, 0.5]).distance_type("cosine").limit(limit).where(where)
    return await _numbers(search.select(["n", "_distance"]))


async def found_by_text(table, where, limit):
    search = table.query().nearest_to_text("words", columns=["search_text"]).limit(limit)
    return await _numbers(search.where(where).select(["n", "_score"]))


def found_in_memory(records, clause):
    """The places of those that match, as they are before they are in a table; None if it is unsure."""
    if clause.holds is None:
        return None
    try:
        return [n for n, record in enumerate(records) if clause.holds(_row(record, n))]
    except UnsureError:
        return None


def where(filter, columns=RECORD_FIELDS):
    parsed = parse(filter, columns=columns)
    return sql.compile(parsed) if parsed else sql.EVERYTHING


def places(records, *filters):
    """For each filter, the places of those among these records that the engine finds."""

    async def main():
        table = await filled_table(records)
        return [await found_by_scan(table, where(filter)) for filter in filters]

    return asyncio.run(main())


def matching(values, *filters):
    """For each filter, those of these values of the metadata key "k" that `{"k": filter}` finds.

    A record without the key is among those asked; it is found as "absent".
    """
    records = [*({"metadata": {"k": value}} for value in values), {}]
    found = places(records, *({"k": filter} for filter in filters))
    return [[[*values, "absent"][n] for n in some] for some in found]
