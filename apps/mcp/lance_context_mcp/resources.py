"""Resources: what a person or a client picks out of the memory, by its address."""

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

from mcp.types import Resource, ResourceTemplate, TextResourceContents

from lance_context_core import NotFoundError
from lance_context_mcp import answers
from lance_context_mcp.answers import SESSIONS_URI as SESSIONS
from lance_context_mcp.answers import STORE_URI as STORE
from lance_context_mcp.graph import GRAPH, Graph
from lance_context_mcp.memory import Memory
from lance_context_mcp.tools.talking import messages_of

_SESSION = f"{SESSIONS}/"
_RECORD = "memory://records/"

LISTED = (
    Resource(
        uri=STORE,
        name="store",
        title="Contents",
        description="The users, and the counts of sessions, records, documents and collections",
        mime_type="application/json",
    ),
    Resource(
        uri=GRAPH,
        name="knowledge-graph",
        title="Knowledge Graph",
        description="The full knowledge graph with all entities and relations",
        mime_type="application/json",
    ),
    Resource(
        uri=SESSIONS,
        name="sessions",
        title="Conversations",
        description="The hundred conversations that were active last",
        mime_type="application/json",
    ),
)

TEMPLATES = (
    ResourceTemplate(
        uri_template=_SESSION + "{session_id}",
        name="session",
        title="Conversation",
        description="The last hundred messages of a conversation",
        mime_type="application/json",
    ),
    ResourceTemplate(
        uri_template=_RECORD + "{id}",
        name="record",
        title="Record",
        description="A memory, a message or a fact, by the id that recall returns",
        mime_type="application/json",
    ),
)


async def read(memory: Memory, uri: str) -> TextResourceContents:
    """What is at an address, as JSON. Raises NotFoundError if there is nothing."""
    found = None
    for begins, reader in _READERS.items():
        if uri == begins or (begins.endswith("/") and uri.startswith(begins)):
            found = await reader(memory, unquote(uri.removeprefix(begins)))
    if found is None:
        raise NotFoundError(f"no resource {uri[:200]!r}")
    told = json.dumps(found, ensure_ascii=False, indent=2)
    return TextResourceContents(uri=uri, mime_type="application/json", text=told)


async def _graph(memory: Memory, _: str) -> dict[str, Any]:
    return await Graph(memory.store, memory.has_meaning).read()


async def _sessions(memory: Memory, _: str) -> dict[str, Any]:
    return {
        "sessions": [answers.session(one) for one in await memory.store.sessions.list(limit=100)]
    }


async def _session(memory: Memory, id: str) -> dict[str, Any] | None:
    found = await memory.store.sessions.get(id)
    if found is None:
        return None
    said = await messages_of(memory.store, id, last=100)
    return {**answers.session(found), "messages": [answers.said(one) for one in said]}


async def _store(memory: Memory, _: str) -> dict[str, Any]:
    store = memory.store
    items = {name: await store.kv(name).count() for name in await store.kv().names()}
    names = await store.vectors().list_collections()
    collections = {name: await store.vectors(name).count() for name in names}
    return {
        "users": await store.user_ids(),
        "sessions": await store.sessions.count(),
        "records": await store.context().entries(),
        "documents": await store.documents.count(),
        # The names of other scopes' tables are known to the store, and are not shown.
        "items": {name: count for name, count in items.items() if count},
        "collections": {name: count for name, count in collections.items() if count},
    }


async def _record(memory: Memory, id: str) -> dict[str, Any] | None:
    found = await memory.store.context().get(id=id)
    return None if found is None else answers.kept(found)


_READERS: dict[str, Callable[[Memory, str], Awaitable[dict[str, Any] | None]]] = {
    GRAPH: _graph,
    SESSIONS: _sessions,
    STORE: _store,
    _SESSION: _session,
    _RECORD: _record,
}
"""By what an address is, or begins with where it ends with a slash."""
