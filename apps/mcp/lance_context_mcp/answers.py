"""What clients are reported what the store returns: plain JSON, whatever it holds."""

from collections.abc import Iterable, Mapping
from typing import Any

from lance_context_core import AsyncContextStore, ContextRecord, Session, ToolCallPart
from lance_context_core.adapting import arguments_text, content_of, facts_of
from lance_context_core.arguments import RecordDict
from lance_context_core.graph import Entity
from lance_context_core.knowledge import KnowledgeHit
from lance_context_core.results import DocumentChunk, SearchHit, SourceDocument
from lance_context_mcp.tool import Schema

SESSIONS_URI = "memory://sessions"
"""The address under which clients read which conversations there are."""
STORE_URI = "memory://store"
"""The address under which clients read what the store holds."""

RECORD: Schema = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "text": {"type": "string"},
        "kind": {"type": "string"},
        "created_at": {"type": "string"},
        "metadata": {"type": "object"},
    },
    "required": ["id", "text", "kind", "created_at", "metadata"],
}
"""What each record is told with; beside it stands what else is known, such as whose it is."""


def _listed(known: Schema, optional: Mapping[str, str] | None = None, **more: str) -> Schema:
    """The schema of a list of objects with these properties more, `optional` ones after the others.

    Objects may have others still. Clients that make values by the schema, as fastmcp's, lose those.
    """
    types = {**more, **(optional or {})}
    properties = {**known["properties"], **{name: {"type": type} for name, type in types.items()}}
    items = {**known, "properties": properties, "required": [*known["required"], *more]}
    return {"type": "array", "items": items}


_OF_RECORD = dict.fromkeys(("role", "name", "session_id", "created_at"), "string")
_OF_PASSAGE = {"page": "integer", "section": "string"}
_ANY: Schema = {"type": "object", "properties": {}, "required": []}

FOUND = _listed(
    _ANY,
    {**_OF_RECORD, "metadata": "object", "quotes": "array", **_OF_PASSAGE, "is_cut": "boolean"},
    id="string",
    kind="string",
    text="string",
    score="number",
)
HITS = _listed(RECORD, _OF_RECORD, score="number")
FACTS = _listed(RECORD, _OF_RECORD, score="number", evidence="array")
MESSAGES = _listed(
    _ANY, {"id": "string", "name": "string", "created_at": "string"}, role="string", text="string"
)
SESSIONS = _listed(_ANY, id="string", status="string", n_messages="integer", updated_at="string")
LISTED_SESSIONS = _listed(_ANY, id="string")
PASSAGES = _listed(
    _ANY,
    _OF_PASSAGE,
    document_id="string",
    name="string",
    text="string",
    score="number",
)
DOCUMENT: Schema = _listed(_ANY, id="string", name="string", n_passages="integer")["items"]


def record(one: ContextRecord) -> dict[str, Any]:
    """A record, with its content as text; of what has none, such as an image, an empty one."""
    told = {"id": one.id, "text": content_of(one), **facts_of(one), "metadata": dict(one.metadata)}
    if one.author is not None:
        told["author"] = one.author
    return told


def kept(one: RecordDict) -> dict[str, Any]:
    """A record as the record API returns it, as `record` tells of it."""
    names = ("role", "name", "session_id", "user_id", "agent_id", "author")
    told = {"id": one["id"], "text": one["text"] or "", "kind": one["kind"]}
    told |= {name: one[name] for name in names if one[name] is not None}
    return {**told, "created_at": one["created_at"].isoformat(), "metadata": one["metadata"]}


def hits(found: Iterable[SearchHit[ContextRecord]]) -> list[dict[str, Any]]:
    """What a search found, best first, each with its score in [0, 1]."""
    return [{**record(one.record), "score": round(one.score, 4)} for one in found]


def said(one: ContextRecord) -> dict[str, Any]:
    """A message of a conversation: its words as text, who wrote it, and its calls of tools."""
    told: dict[str, Any] = {"id": one.id, "role": one.role or "", "text": content_of(one)}
    known = {"name": one.name, "agent_id": one.agent_id, "user_id": one.user_id}
    told |= {name: value for name, value in known.items() if value}
    told["created_at"] = one.created_at.isoformat()
    calls = [
        {"name": part.name, "arguments": arguments_text(part.arguments)}
        for part in one.parts
        if isinstance(part, ToolCallPart)
    ]
    return {**told, "tool_calls": calls} if calls else told


def session(one: Session) -> dict[str, Any]:
    """What is known about a conversation, beside its messages."""
    told = {
        "id": one.id,
        "title": one.title,
        "status": one.status,
        "n_messages": one.n_messages,
        "created_at": one.created_at.isoformat(),
        "updated_at": one.updated_at.isoformat(),
        "user_id": one.user_id,
        "agent_id": one.agent_id,
        "metadata": dict(one.metadata),
    }
    return {name: value for name, value in told.items() if value is not None}


def fact(hit: KnowledgeHit) -> dict[str, Any]:
    """A fact, with the turns that say so."""
    quotes = [
        {
            "text": one.text or "",
            "said_by": one.speaker or "",
            "said_at": one.said_at.isoformat() if one.said_at else "",
            "is_verified": one.is_verified,
        }
        for one in hit.evidence
    ]
    return {**record(hit.record), "score": round(hit.score, 4), "evidence": quotes}


def fact_of(one: ContextRecord) -> dict[str, Any]:
    """A fact as a record, without what the jobs keep of it."""
    return {**record(one), "metadata": {}}


def known(hit: KnowledgeHit) -> dict[str, Any]:
    """A fact that a search found, with the quotes that say so."""
    quotes = [one.text for one in hit.evidence if one.text]
    return {**fact_of(hit.record), "score": round(hit.score, 4), "quotes": quotes}


def found_passage(hit: SearchHit[DocumentChunk]) -> dict[str, Any]:
    """A passage that a search found, by the id of its document."""
    told = passage(hit)
    return {"id": told.pop("document_id"), "kind": "document", **told}


def document(one: SourceDocument) -> dict[str, Any]:
    """What is known of a document."""
    return {
        "id": one.id,
        "name": one.name,
        "title": one.title or "",
        "type": one.type,
        "n_passages": one.n_chunks,
        "created_at": one.created_at.isoformat(),
        "metadata": dict(one.metadata),
    }


def passage(hit: SearchHit[DocumentChunk]) -> dict[str, Any]:
    """A passage of a document, and where it stands."""
    one = hit.record
    told: dict[str, Any] = {
        "document_id": one.document_id,
        "name": one.name,
        "text": one.text,
        "position": one.position,
        "score": round(hit.score, 4),
    }
    if one.page is not None:
        told["page"] = one.page
    return {**told, "section": one.section} if one.section is not None else told


_NAMED = 0.5
"""The score of an entity that a query names: that of one with all words of the query."""
_MOST_NEIGHBOURS = 20


async def entities_named_in(store: AsyncContextStore, query: str) -> list[dict[str, Any]]:
    """The entities of the store's own graph, such as those extracted from documents."""
    return [
        {**await entity(store, one), "score": _NAMED} for one in await store.graph.named_in(query)
    ]


async def entity(store: AsyncContextStore, one: Entity) -> dict[str, Any]:
    """An entity of the store's own graph, with its properties and its relations as text."""
    assert one.id is not None
    around = await store.graph.neighbours(one.id, limit=_MOST_NEIGHBOURS)
    names = {other.id: other.name for other in around.entities}
    lines = [f"{one.name} ({one.type})"]
    lines += (f"{name}: {value}" for name, value in one.properties.items())
    lines += (
        f"{names[link.source_id]} {link.type} {names[link.target_id]}"
        for link in around.relations
        if link.source_id in names and link.target_id in names
    )
    return {
        "id": one.id,
        "kind": "entity",
        "text": "\n".join(lines),
        "created_at": "" if one.recorded_at is None else one.recorded_at.isoformat(),
    }
