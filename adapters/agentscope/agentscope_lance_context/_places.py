"""Where in the store each class keeps its items.

Lines of AgentScope that exclude each other open one store in turn, and what one of them has saved
no other may read as its own, or write over. So the namespaces of each class begin with a segment
that no other class has: whatever names they are given, their items never meet.
"""

from dataclasses import dataclass

from lance_context_core.arguments import ItemKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The items of one class: where they are by default, and how their namespaces begin."""

    name: str
    """What the store calls them by default, which are `store.kv(name)`."""
    segment: str

    def namespace(self, *segments: str) -> tuple[str, ...]:
        """The namespace of these further segments."""
        return self.segment, *segments

    def key(self, key: str, *segments: str) -> ItemKey:
        """That of an item in the namespace of these further segments."""
        return self.namespace(*segments), key


SESSIONS = Place(name="agentscope_sessions", segment="sessions")
"""Of `LanceContextSessionHistoryService`: which sessions there are, and which were deleted."""
STATES = Place(name="agentscope_states", segment="states")
"""Of `LanceContextStateService`, by session and round."""
SESSION_STATES = Place(name="agentscope_session_states", segment="session states")
"""Of `LanceContextSession`, by session."""
SUMMARIES = Place(name="agentscope_summaries", segment="summaries")
"""Of `LanceContextMemory`, by session and agent."""
AGENT_STATES = Place(name="agentscope_agent_states", segment="agent states")
"""Of `LanceContextAgentStateStore`, by agent and session."""
COLLECTIONS = Place(name="agentscope_collections", segment="collections")
"""Of `LanceContextVectorStore`: which collections there are."""
APP = Place(name="agentscope_app", segment="app")
"""Of `LanceContextStorage`, by kind."""
BUS = Place(name="agentscope_bus", segment="bus")
"""Of `LanceContextMessageBus`, by kind and key."""
BLOBS = Place(name="agentscope_blobs", segment="blobs")
"""Of `LanceContextBlobStore`: which blob is under which key."""

PLACES = (SESSIONS, STATES, SESSION_STATES, SUMMARIES, AGENT_STATES, COLLECTIONS, APP, BUS, BLOBS)

TOLD = "agentscope memory/"
"""How the sessions begin in which `LanceContextKnowledgeService` keeps what it was told."""
