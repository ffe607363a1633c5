"""What agents were told and did, row by row."""

from typing import Any

from lance_context_core._util.checks import dumps
from lance_context_core.codecs.records import COLUMNS
from lance_context_core.graph.graph import AsyncGraph
from lance_context_core.graph.scoped import ScopedGraph
from lance_context_core.information.source import OfRecords
from lance_context_core.knowledge import params
from lance_context_core.messages import ToolCallPart, ToolResultPart, parts_text
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import VECTOR
from lance_context_core.stores.records.scoped import WITHOUT_BLOB
from lance_context_core.stores.sessions import AsyncSessions
from lance_context_core.types import ContextRecord

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
