"""The tables of the information layer, read: views of what the store keeps, whatever holds it."""

import builtins
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, get_args

import pyarrow as pa

from lance_context_core._handle import handle
from lance_context_core._util.checks import check_name, shown
from lance_context_core.documents.scoped import ScopedDocuments
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.information.schema import (
    LAYOUTS,
    Family,
    OfAgents,
    OfDocuments,
    OfJobs,
    columns,
    tables,
)
from lance_context_core.stores.records.scoped import Records

Rows = builtins.list[dict[str, Any]]


@handle
class AsyncInformationTables:
    """What the store holds, as tables of fixed names, to be read as Arrow.

    Three families: `ctx_agent`, what agents were told and did, in the layers L2, L1 and L0; `ctx_kb`,
    the documents; `ctx_meta`, what is known about both. They are views: a read makes them of what the
    handle's scope sees, hidden and expired things left out, and nothing writes to them.
    """

    _records: Records

    def names(self, family: Family | None = None) -> builtins.list[str]:
        """The tables, of one family or of all. Raises InvalidRequestError for another family."""
        if family is not None and family not in get_args(Family):
            raise InvalidRequestError(
                f"family={shown(family)}: use one of {', '.join(get_args(Family))}"
            )
        return [name for name, one in LAYOUTS.items() if family in (None, one.family)]

    def schema(self, name: str) -> pa.Schema:
        """The columns of a table. Raises NotFoundError if there is none of that name."""
        if check_name(name, "name") not in LAYOUTS:
            raise NotFoundError(f"table {name!r} does not exist: use one of {', '.join(LAYOUTS)}")
        return LAYOUTS[name].schema

    async def read(self, name: str) -> pa.Table:
        """A table, with all its rows. Raises NotFoundError if there is none of that name.

        Metadata, schemas and parameters are JSON; times are UTC.
        """
        schema = self.schema(name)
        return pa.Table.from_pylist(await self._readers()[name](), schema=schema)

    def _readers(self) -> Mapping[str, Callable[[], Awaitable[Rows]]]:
        agents = OfAgents(self._records)
        resources, scope = self._records.resources, self._records.scope
        documents = OfDocuments(ScopedDocuments(resources, scope))
        jobs = OfJobs(self._records)

        async def all_tables() -> Rows:
            return tables(await resources.records.version())

        async def all_columns() -> Rows:
            return columns()

        return {
            "agent_sessions": agents.sessions,
            "agent_l2_raw": agents.turns,
            "agent_l1_chunks": agents.chunks,
            "agent_l1_embeddings": agents.embeddings,
            "agent_l0_summaries": agents.summaries,
            "agent_skills": agents.skills,
            "agent_tool_calls": agents.tool_calls,
            "agent_relations": agents.relations,
            "kb_l2_raw_documents": documents.documents,
            "kb_l1_chunks": documents.chunks,
            "kb_l1_embeddings": documents.embeddings,
            "meta_tables": all_tables,
            "meta_columns": all_columns,
            "meta_jobs": jobs.jobs,
            "meta_mem_candidates": jobs.candidates,
        }
