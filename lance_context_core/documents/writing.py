"""The rows of a document's chunks: those that are there, and those that are to be."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lance_context_core import _steps as steps
from lance_context_core._embedding import embedded
from lance_context_core._resources import Resources
from lance_context_core.engine import sql
from lance_context_core.engine.schema import KEY, SEARCH_TEXT, VECTOR
from lance_context_core.engine.table.table import Table
from lance_context_core.records import Passage
from lance_context_core.rows import sources
from lance_context_core.rows.sources import Source
from lance_context_core.scope import Scope

Rows = dict[int, dict[str, Any]]
"""By position."""


async def chunk_rows(table: Table, where: sql.Clause) -> Rows:
    """The rows of the chunks that match, all of one document, with their vectors."""
    has_vectors = VECTOR in (await table.schema()).names
    columns = [*sources.REPLACED, *([VECTOR] if has_vectors else [])]
    rows = (await table.select(where, columns=columns)).to_pylist()
    return {row["position"]: row for row in rows}


async def new_chunk_rows(
    source: Source,
    id: str,
    before: Rows,
    *,
    table: Table,
    resources: Resources,
    scope: Scope,
    now: datetime,
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows to write for a document's chunks, and the keys of those that are to go.

    A chunk that says what it said is not written again, and one whose words stood elsewhere in the
    document keeps their vector.
    """
    composer = resources.composer

    def made(position: int) -> dict[str, Any] | None:
        row = sources.to_chunk_row(source, id, position, scope=scope, now=now)
        if (old := before.get(position)) is None:
            return row
        return None if sources.says_the_same(row, old) else sources.succeeding(row, old)

    positions = range(len(source.passages))
    rows = [row for row in await steps.each(made, positions) if row is not None]
    shown = await steps.each(sources.as_record, rows)
    texts = [composer.embed_text(one) for one in shown]
    known = {
        composer.embed_text(sources.as_record(old)): old[VECTOR]
        for old in before.values()
        if old.get(VECTOR) is not None
    }
    new = [index for index, text in enumerate(texts) if text not in known]
    vectors = await embedded(
        table, resources, given=[None] * len(new), texts=[texts[index] for index in new]
    )
    made_now = dict(zip(new, vectors, strict=True))
    for index, row in enumerate(rows):
        row[SEARCH_TEXT] = composer.index_text(shown[index])
        row[VECTOR] = made_now[index] if index in made_now else known[texts[index]]
    return rows, [row[KEY] for position, row in before.items() if position not in positions]


def unchanged(row: Mapping[str, Any], chunks: Mapping[int, Mapping[str, Any]]) -> Source:
    """What is kept of a document, as it is."""
    document = sources.from_row(row)
    return Source(
        name=document.name,
        type=document.type,
        hash=document.hash,
        size=document.size,
        text=row["text"],
        passages=tuple(
            Passage(
                start=one["start_offset"],
                end=one["end_offset"],
                page=one["page"],
                section=one["section"],
            )
            for _, one in sorted(chunks.items())
        ),
        scope=document.scope,
        title=document.title,
        n_pages=document.n_pages,
        uri=document.uri,
        payload_uri=row.get("payload_uri"),
        blob=row["blob"],
        metadata=document.metadata,
        properties=document.properties,
    )
