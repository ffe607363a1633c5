"""The tables of the information layer: their families, their columns, and what they are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from lance_context_core._util.checks import dumps
from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.records import COLUMNS
from lance_context_core.codecs.sources import CHUNK
from lance_context_core.documents.documents import AsyncDocuments
from lance_context_core.documents.scoped import ScopedDocuments
from lance_context_core.graph.graph import AsyncGraph
from lance_context_core.graph.scoped import ScopedGraph
from lance_context_core.jobs.queue import Queue
from lance_context_core.knowledge import params
from lance_context_core.knowledge.pruning import Tidying, candidates
from lance_context_core.messages import ToolCallPart, ToolResultPart, parts_text
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import VECTOR
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.stores.sessions import AsyncSessions
from lance_context_core.types import ContextRecord

Family = Literal["ctx_agent", "ctx_kb", "ctx_meta"]
"""What agents were told and did, what was read for them, and what is known about both."""

_TEXT = pa.string()
_TIME = pa.timestamp("us", tz="UTC")
_VECTOR = pa.list_(pa.float32())


@frozen
class Layout:
    """A table: the family that it is in, of which sort it is, and its columns."""

    family: Family
    sort: str
    """`l2`, `l1`, `l0`, `graph`, `log` or `meta`."""
    columns: Mapping[str, pa.DataType]

    @property
    def schema(self) -> pa.Schema:
        """The columns, as Arrow has them."""
        return pa.schema(list(self.columns.items()))


def _texts(*names: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(names, _TEXT)


LAYOUTS: Mapping[str, Layout] = {
    "agent_sessions": Layout(
        "ctx_agent",
        "log",
        {
            **_texts("session_id", "agent_id", "user_id", "status"),
            "start_time": _TIME,
            "end_time": _TIME,
            "metadata": _TEXT,
        },
    ),
    "agent_l2_raw": Layout(
        "ctx_agent",
        "l2",
        {
            **_texts("raw_id", "source_id", "content", "content_type"),
            "created_at": _TIME,
            "agent_id": _TEXT,
        },
    ),
    "agent_l1_chunks": Layout(
        "ctx_agent",
        "l1",
        {
            **_texts("chunk_id", "raw_id", "content", "metadata"),
            "created_at": _TIME,
            "agent_id": _TEXT,
        },
    ),
    "agent_l1_embeddings": Layout(
        "ctx_agent",
        "l1",
        {
            "chunk_id": _TEXT,
            "vector": _VECTOR,
            "model_name": _TEXT,
            "created_at": _TIME,
            "agent_id": _TEXT,
        },
    ),
    "agent_l0_summaries": Layout(
        "ctx_agent",
        "l0",
        {**_texts("target_id", "target_type", "summary"), "updated_at": _TIME, "agent_id": _TEXT},
    ),
    "agent_skills": Layout(
        "ctx_agent",
        "log",
        _texts("skill_id", "name", "schema", "description", "agent_id", "version"),
    ),
    "agent_tool_calls": Layout(
        "ctx_agent",
        "log",
        {
            **_texts("call_id", "session_id", "tool_name", "params", "result", "status"),
            "timestamp": _TIME,
            "agent_id": _TEXT,
        },
    ),
    "agent_relations": Layout(
        "ctx_agent",
        "graph",
        {
            **_texts("source_id", "target_id", "relation_type", "agent_id"),
            "created_at": _TIME,
        },
    ),
    "kb_l2_raw_documents": Layout(
        "ctx_kb",
        "l2",
        {**_texts("doc_id", "source_uri", "content", "metadata"), "imported_at": _TIME},
    ),
    "kb_l1_chunks": Layout("ctx_kb", "l1", _texts("chunk_id", "doc_id", "content", "metadata")),
    "kb_l1_embeddings": Layout(
        "ctx_kb", "l1", {"chunk_id": _TEXT, "vector": _VECTOR, "model_name": _TEXT}
    ),
    "meta_tables": Layout(
        "ctx_meta",
        "meta",
        {**_texts("table_name", "db_name", "table_type"), "version": pa.int64()},
    ),
    "meta_columns": Layout(
        "ctx_meta",
        "meta",
        {
            **_texts("table_name", "column_name", "data_type"),
            "is_time": pa.bool_(),
            "is_vector": pa.bool_(),
        },
    ),
    "meta_jobs": Layout(
        "ctx_meta",
        "meta",
        {**_texts("job_id", "job_type", "payload", "status"), "scheduled_at": _TIME},
    ),
    "meta_mem_candidates": Layout(
        "ctx_meta",
        "meta",
        {**_texts("session_id", "chunk_id"), "score": pa.float64(), "candidate_level": _TEXT},
    ),
}
"""All of them, by name."""


# What the rows of the tables are made of.


@dataclass(frozen=True)
class OfRecords:
    """Rows made of the records of one handle."""

    spoken: Records

    @property
    def made(self) -> Records:
        """What is made of what was said."""
        return replace(self.spoken, context=params.CONTEXT)


# What agents were told and did, row by row.

Rows = list[dict[str, Any]]

_MESSAGES = sql.equals("kind", "message")
_SKILLS = sql.equals("kind", "skill")
_L1 = sql.in_list("kind", [params.CHUNK, params.FACT])
_L0 = sql.equals("kind", params.SUMMARY)


class OfAgents(OfRecords):
    """The rows of the family `ctx_agent`."""

    async def sessions(self) -> Rows:
        """One a conversation."""
        return [
            {
                "session_id": one.id,
                "agent_id": one.agent_id,
                "user_id": one.user_id,
                "metadata": dumps(one.metadata),
                "status": one.status,
                "start_time": one.created_at,
                "end_time": one.ended_at,
            }
            for one in await AsyncSessions(self.spoken).list()
        ]

    async def turns(self) -> Rows:
        """One a turn, as it was said."""
        return [
            {
                "raw_id": one.id,
                "source_id": one.session_id,
                "content": one.text,
                "content_type": one.content_type,
                "created_at": one.created_at,
                "agent_id": one.agent_id,
            }
            for one in await self._said()
        ]

    async def chunks(self) -> Rows:
        """One a chunk or a fact: metadata tells which."""
        return [
            {
                "chunk_id": one.id,
                "raw_id": one.source_ids[0] if one.source_ids else None,
                "content": one.text,
                "metadata": dumps({"kind": one.kind, **one.metadata}),
                "created_at": one.created_at,
                "agent_id": one.agent_id,
            }
            for one in await self._made(_L1)
        ]

    async def embeddings(self) -> Rows:
        """One a chunk or a fact that has a vector."""
        service = self.spoken.resources.embeddings
        found = await self.made.read(self.made.where(_L1), columns=[*COLUMNS, VECTOR])
        return [
            {
                "chunk_id": one.id,
                "vector": one.embedding,
                "model_name": service.model if service is not None else None,
                "created_at": one.created_at,
                "agent_id": one.agent_id,
            }
            for one in found
            if one.embedding is not None
        ]

    async def summaries(self) -> Rows:
        """One a session."""
        return [
            {
                "target_id": one.session_id,
                "target_type": "session",
                "summary": one.text,
                "updated_at": one.updated_at,
                "agent_id": one.agent_id,
            }
            for one in await self._made(_L0)
        ]

    async def skills(self) -> Rows:
        """One a record of the kind `skill`, whose metadata has its `name`, `schema` and `version`."""
        where = self.spoken.where(_SKILLS)
        return [
            {
                "skill_id": one.id,
                "name": one.metadata.get("name", one.name),
                "schema": dumps(one.metadata.get("schema", {})),
                "description": one.text,
                "agent_id": one.agent_id,
                "version": str(one.metadata.get("version", "")) or None,
            }
            for one in await self.spoken.read(where, columns=WITHOUT_BLOB)
        ]

    async def tool_calls(self) -> Rows:
        """One a call, with the result that answers it in its session: else it is `pending`."""
        calls: list[tuple[ContextRecord, ToolCallPart]] = []
        results: dict[tuple[str | None, str | None], ToolResultPart] = {}
        for one in await self._said():
            for part in one.parts:
                if isinstance(part, ToolCallPart):
                    calls.append((one, part))
                elif isinstance(part, ToolResultPart):
                    results[one.session_id, part.call_id] = part
        rows = []
        for one, call in calls:
            found = results.get((one.session_id, call.call_id)) if call.call_id else None
            rows.append(
                {
                    "call_id": call.call_id,
                    "session_id": one.session_id,
                    "tool_name": call.name,
                    "params": call.arguments
                    if isinstance(call.arguments, str)
                    else dumps(call.arguments),
                    "result": None if found is None else parts_text(found.content),
                    "status": _status(found),
                    "timestamp": one.created_at,
                    "agent_id": one.agent_id,
                }
            )
        return rows

    async def relations(self) -> Rows:
        """One an edge: what records relate to, cite, and took the place of; and those of the graph."""
        graph = AsyncGraph(ScopedGraph(self.spoken.resources, self.spoken.scope))
        return [
            {
                "source_id": one.id,
                "target_id": target,
                "relation_type": relation,
                "agent_id": one.agent_id,
                "created_at": one.created_at,
            }
            for one in [*await self._said(), *await self._made(_L1), *await self._made(_L0)]
            for relation, target in _edges(one)
        ] + [
            {
                "source_id": one.source_id,
                "target_id": one.target_id,
                "relation_type": one.type,
                "agent_id": one.agent_id,
                "created_at": one.recorded_at,
            }
            for one in await graph.relations()
        ]

    async def _said(self) -> list[ContextRecord]:
        return await self.spoken.read(self.spoken.where(_MESSAGES), columns=WITHOUT_BLOB)

    async def _made(self, which: sql.Clause) -> list[ContextRecord]:
        return await self.made.read(self.made.where(which), columns=WITHOUT_BLOB)


def _status(result: ToolResultPart | None) -> str:
    if result is None:
        return "pending"
    return "error" if result.is_error else "success"


def _edges(one: ContextRecord) -> list[tuple[str, str]]:
    edges = [(each.relation, each.target_id) for each in one.relationships]
    edges += [("cites", id) for id in one.source_ids]
    return edges + ([("supersedes", one.supersedes_id)] if one.supersedes_id else [])


# What was read for agents, row by row.


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


# What is known about the tables, the jobs, and what is worth keeping, row by row.


def tables(version: int) -> Rows:
    """One a table of the layer."""
    return [
        {
            "table_name": name,
            "db_name": one.family,
            "table_type": one.sort,
            "version": version,
        }
        for name, one in LAYOUTS.items()
    ]


def columns() -> Rows:
    """One a column of each of them."""
    return [
        {
            "table_name": name,
            "column_name": column,
            "data_type": str(type_),
            "is_time": pa.types.is_timestamp(type_),
            "is_vector": pa.types.is_list(type_),
        }
        for name, one in LAYOUTS.items()
        for column, type_ in one.columns.items()
    ]


class OfJobs(OfRecords):
    """The rows that tell what is owed, and what is worth keeping."""

    async def jobs(self) -> Rows:
        """One a job."""
        return [
            {
                "job_id": one.id,
                "job_type": one.kind,
                "payload": dumps({"input_ids": [*one.input_ids], "session_id": one.session_id}),
                "status": one.state,
                "scheduled_at": one.scheduled_at,
            }
            for one in await Queue(self.made).list()
        ]

    async def candidates(self) -> Rows:
        """One a fact, as `knowledge.candidates` tells them."""
        tidying = Tidying(self.spoken, self.made, Queue(self.made))
        return [
            {
                "session_id": one.record.session_id,
                "chunk_id": one.record.id,
                "score": one.score,
                "candidate_level": one.level,
            }
            for one in await candidates(self.made, tidying, None)
        ]
