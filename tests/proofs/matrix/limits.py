"""What cannot be translated between two frameworks, and why: all of it, and nothing else.

A limit that no longer holds breaks its cells, just as a fault does.
"""

from dataclasses import dataclass

ALL = (
    *("core", "langchain", "llama_index", "openai_agents"),
    *("runtime0", "runtime1", "agentscope1", "agentscope2"),
    *("pydantic_ai", "google_adk", "agent_framework", "crewai"),
)
"""The frameworks, in the order of the table."""

OLDER = ("runtime0", "runtime1", "agentscope1")
"""The lines of AgentScope before the newest one."""

TITLES = {
    "core": "core",
    "langchain": "LangChain",
    "llama_index": "LlamaIndex",
    "openai_agents": "OpenAI Agents",
    "runtime0": "AgentScope runtime 0.x",
    "runtime1": "AgentScope runtime 1.0",
    "agentscope1": "AgentScope 1.x",
    "agentscope2": "AgentScope 2.x",
    "pydantic_ai": "Pydantic AI",
    "google_adk": "Google ADK",
    "agent_framework": "MS Agent Framework",
    "crewai": "CrewAI",
}

ASPECTS = {
    "history": "The conversation, line by line and in order, with everything in it.",
    "goes on": "The reader continues the writer's conversation: the writer finds the added "
    "messages, and its own ones unchanged.",
    "said, words": "A word finds a message.",
    "said, meaning": "A synonym that the conversation lacks finds it, too.",
    "memory, words": "A word finds a long-term memory.",
    "memory, meaning": "A synonym finds it, too.",
    "documents": "The nearest documents with matching metadata.",
    "session": "Another conversation of the same user is separate, in searches, too.",
    "user": "Another user's conversation of the same name, and memories, are separate.",
    "forget": "Messages that the reader deletes are gone for the writer; the others remain.",
    "forget memories": "Memories that the reader deletes are gone for the writer.",
    "delete": "A document that the reader deletes is gone for the writer; the others remain.",
}
"""What each pair is asked to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What pairs of frameworks do not do."""

    reason: str
    aspects: tuple[str, ...] = ()
    """Those that are left out; none if something is only missing in a line."""
    field: str | None = None
    """What is missing in a line."""
    without: object = None
    """What stands in its place."""
    writers: tuple[str, ...] = ()
    """It holds for pairs in which one of these is the writer,"""
    readers: tuple[str, ...] = ()
    """and for those in which one of these is the reader."""
    but_readers: tuple[str, ...] = ()
    """Readers that have it nevertheless."""

    def holds(self, writer, reader):
        """Whether it is a limit of this pair."""
        return (writer in self.writers and reader not in self.but_readers) or reader in self.readers


_SERVICES = ("runtime0", "runtime1")
_AGENTSCOPE = (*_SERVICES, "agentscope1", "agentscope2")
_NO_CAPTION = (
    *("llama_index", "openai_agents", *_AGENTSCOPE),
    *("pydantic_ai", "google_adk", "agent_framework"),
)
_NO_FAILURE = ("llama_index", "openai_agents", *_SERVICES, "agentscope1")
_NO_DOCUMENTS = ("openai_agents", "runtime1", "pydantic_ai", "google_adk", "agent_framework")
_NO_FORGETTING = (
    *("langchain", "llama_index", "openai_agents", "pydantic_ai"),
    *("agentscope1", "agentscope2", "google_adk", "agent_framework", "crewai"),
)

LIMITS = {
    "a": Limit(
        field="caption",
        without=None,
        writers=_NO_CAPTION,
        readers=_NO_CAPTION,
        reason="The caption of an image: only the core and LangChain have a field for it. It "
        "stays in the store, and a search for it finds the image.",
    ),
    "b": Limit(
        field="failed",
        without=False,
        writers=_NO_FAILURE,
        readers=_NO_FAILURE,
        reason="The failure flag of a tool: only the core, LangChain, AgentScope 2.x, Pydantic AI, "
        "Google ADK and Microsoft Agent Framework have it. The tool's result is kept.",
    ),
    "c": Limit(
        field="name of a result",
        without=None,
        writers=("runtime0",),
        readers=("openai_agents", "agent_framework"),
        but_readers=("pydantic_ai", "google_adk"),
        reason="The name of the tool in a result: AgentScope runtime 0.x, the OpenAI Agents SDK and "
        "Microsoft Agent Framework have it in the call alone, with the same id. Pydantic AI and "
        "Google ADK look it up there.",
    ),
    "D": Limit(
        aspects=("said, words", "said, meaning"),
        readers=(*_AGENTSCOPE, "google_adk"),
        reason="AgentScope and Google ADK search long-term memories, and only read whole "
        "conversations.",
    ),
    "E": Limit(
        aspects=("memory, words", "memory, meaning", "forget memories"),
        writers=("langchain", "openai_agents"),
        reason="Agents of LangChain and of the OpenAI Agents SDK remember a user by the history of "
        "conversations, without separate long-term memories. They find those of others.",
    ),
    "F": Limit(
        aspects=("forget memories",),
        readers=_NO_FORGETTING,
        reason="Deleting all long-term memories of a user: use the core's `store.memory.delete` "
        "or `store.erase`.",
    ),
    "G": Limit(
        aspects=("documents", "delete"),
        writers=_NO_DOCUMENTS,
        readers=_NO_DOCUMENTS,
        reason="The OpenAI Agents SDK, Pydantic AI, Google ADK, Microsoft Agent Framework and "
        "AgentScope runtime 1.0 have no retrieval of documents.",
    ),
    "H": Limit(
        aspects=("delete",),
        readers=("runtime0", "crewai"),
        reason="AgentScope runtime 0.x and CrewAI retrieve documents, and delete no single ones.",
    ),
    "I": Limit(
        aspects=("history", "goes on", "session", "forget"),
        writers=("crewai",),
        readers=("crewai",),
        reason="CrewAI has no conversations: the messages of a flow are part of its state.",
    ),
    "J": Limit(
        aspects=("said, words", "said, meaning"),
        writers=("crewai",),
        reason="The same. Its agents find the conversations of others with a tool.",
    ),
    "K": Limit(
        aspects=("documents", "delete"),
        writers=("crewai",),
        reason="CrewAI's knowledge has texts without metadata. It finds documents by the metadata of "
        "others.",
    ),
}
"""By the mark that stands in the table: a small letter for what is missing in a conversation, a capital one
for checks that are left out."""


def marks(writer, reader):
    """The marks of the limits of a pair."""
    return [mark for mark, limit in LIMITS.items() if limit.holds(writer, reader)]


def is_left_out(aspect, writer, reader):
    """Whether a limit says that a pair does not do something."""
    return any(aspect in LIMITS[mark].aspects for mark in marks(writer, reader))


def translated(lines, writer, reader):
    """What the reader shows of lines that the writer wrote."""
    missing = {LIMITS[mark].field: LIMITS[mark].without for mark in marks(writer, reader)}
    return [_without(line, missing) for line in lines]


def _without(line, missing):
    changed = {key: missing.get(key, value) for key, value in line.items()}
    if line["kind"] == "result" and "name of a result" in missing:
        changed["name"] = None
    return changed
