"""What holds a blob: the records and documents that name it, within its scope."""

from lance_context_core._resources import Resources
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.database import COLD_TABLE, DOCUMENTS_TABLE
from lance_context_core.storage.lance.schema import COLD, DOCUMENTS
from lance_context_core.types.media import uri_of


async def holders(resources: Resources, scope: Scope, hash: str) -> list[str]:
    """The ids of all that name the blob which that scope has: of documents first, then of records."""
    documents = resources.database.table(DOCUMENTS_TABLE, DOCUMENTS)
    where = sql.all_of([sql.equals("payload_uri", uri_of(hash)), sql.all_equal(scope.parts())])
    found = []
    cold = resources.database.table(COLD_TABLE, COLD)
    for table in (documents, resources.records, cold):
        if "payload_uri" in (await table.schema()).names:
            found += (await table.select(where, columns=["id"]))["id"].to_pylist()
    return found
