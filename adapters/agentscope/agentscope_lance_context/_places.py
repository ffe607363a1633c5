"""The names and namespaces of each class's items in the store.

Release lines of AgentScope that exclude each other may open one store in turn, and none may read or
overwrite another's items. So the namespaces of each class begin with a segment of its own: their
items never collide, under any names.
"""

from dataclasses import dataclass

from lance_context_core.arguments import ItemKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The items of one class: their default name, and the prefix of their namespaces."""

    name: str
    """The default name of the items in `store.kv(name)`."""
    segment: str

    def namespace(self, *segments: str) -> tuple[str, ...]:
        """The namespace with these further segments."""
        return self.segment, *segments

    def key(self, key: str, *segments: str) -> ItemKey:
        """The path of an item in the namespace with these further segments."""
        return self.namespace(*segments), key


SESSIONS = Place(name="agentscope_sessions", segment="sessions")
"""Of `LanceContextSessionHistoryService`: existing and deleted sessions."""
STATES = Place(name="agentscope_states", segment="states")
"""Of `LanceContextStateService`, by session and round."""
SESSION_STATES = Place(name="agentscope_session_states", segment="session states")
"""Of `LanceContextSession`, by session."""
SUMMARIES = Place(name="agentscope_summaries", segment="summaries")
"""Of `LanceContextMemory`, by session and agent."""
AGENT_STATES = Place(name="agentscope_agent_states", segment="agent states")
"""Of `LanceContextAgentStateStore`, by agent and session."""
COLLECTIONS = Place(name="agentscope_collections", segment="collections")
"""Of `LanceContextVectorStore`: existing collections."""
APP = Place(name="agentscope_app", segment="app")
"""Of `LanceContextStorage`, by kind."""
BUS = Place(name="agentscope_bus", segment="bus")
"""Of `LanceContextMessageBus`, by kind and key."""
BLOBS = Place(name="agentscope_blobs", segment="blobs")
"""Of `LanceContextBlobStore`: the blob of each key."""

PLACES = (SESSIONS, STATES, SESSION_STATES, SUMMARIES, AGENT_STATES, COLLECTIONS, APP, BUS, BLOBS)

TOLD = "agentscope memory/"
"""The prefix of the sessions in which `LanceContextKnowledgeService` stores messages."""
