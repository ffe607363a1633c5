"""What was read for agents, row by row."""

from typing import Any

from lance_context_core._util.checks import dumps
from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.sources import CHUNK
from lance_context_core.documents.documents import AsyncDocuments
from lance_context_core.documents.scoped import ScopedDocuments
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import VECTOR

Rows = list[dict[str, Any]]


@frozen
class OfDocuments:
    """The rows of the family `ctx_kb`."""

    held: ScopedDocuments

    @property
    def read(self) -> AsyncDocuments:
        """The documents, as their users read them."""
        return AsyncDocuments(self.held)

    async def documents(self) -> Rows:
        """One a file, with its text."""
        return [
            {
                "doc_id": one.id,
                "source_uri": one.uri,
                "content": await self.read.text(one.id),
                "metadata": dumps({"name": one.name, "title": one.title, **one.metadata}),
                "imported_at": one.created_at,
            }
            for one in await self.read.list()
        ]

    async def chunks(self) -> Rows:
        """One a passage."""
        return [
            {
                "chunk_id": one.id,
                "doc_id": one.document_id,
                "content": one.text,
                "metadata": dumps({"page": one.page, "section": one.section, **one.metadata}),
            }
            for document in await self.read.list()
            for one in await self.read.chunks(document.id)
        ]

    async def embeddings(self) -> Rows:
        """One a passage that has a vector."""
        service = self.held.resources.embeddings
        where = self.held.where(sql.equals("kind", CHUNK))
        rows = await self.held.table.select(where, columns=["id", VECTOR])
        return [
            {
                "chunk_id": row["id"],
                "vector": row[VECTOR],
                "model_name": service.model if service is not None else None,
            }
            for row in rows.to_pylist()
            if row.get(VECTOR) is not None
        ]
