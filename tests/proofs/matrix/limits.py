"""What cannot be translated between two frameworks, and why: all of it, and nothing else.

A limit that no longer holds breaks its cells, just as a fault does.
"""

from dataclasses import dataclass

ALL = (
    *("core", "langchain", "llama_index"),
    *("runtime0", "runtime1", "agentscope1", "agentscope2"),
    "pydantic_ai",
)
"""The frameworks, in the order of the table."""

TITLES = {
    "core": "core",
    "langchain": "LangChain",
    "llama_index": "LlamaIndex",
    "runtime0": "AgentScope runtime 0.x",
    "runtime1": "AgentScope runtime 1.0",
    "agentscope1": "AgentScope 1.x",
    "agentscope2": "AgentScope 2.x",
    "pydantic_ai": "Pydantic AI",
}

ASPECTS = {
    "history": "The conversation, line by line and in order, with everything in it.",
    "goes on": "The reader goes on with a conversation that the writer began: the writer finds what was "
    "added, and its own messages equal to what it wrote.",
    "said, words": "A word finds what was said.",
    "said, meaning": "A word of the same meaning, which nobody said, finds it, too.",
    "memory, words": "A word finds a long-term memory.",
    "memory, meaning": "A word of the same meaning finds it, too.",
    "documents": "The nearest documents among those whose metadata match.",
    "session": "Another conversation of the same user, and none of this one; of searches, too.",
    "user": "Another user's conversation of the same name, and memories; nobody finds the other's.",
    "forget": "What the reader forgets of a conversation is gone for the writer; the rest is there.",
    "forget memories": "What the reader forgets of a user is gone for the writer.",
    "delete": "The document that the reader deletes is gone for the writer; the others are there.",
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
_NO_CAPTION = ("llama_index", *_AGENTSCOPE, "pydantic_ai")
_NO_FAILURE = ("llama_index", *_SERVICES, "agentscope1")
_NO_FORGETTING = ("langchain", "llama_index", "agentscope1", "agentscope2", "pydantic_ai")

LIMITS = {
    "a": Limit(
        field="caption",
        without=None,
        writers=_NO_CAPTION,
        readers=_NO_CAPTION,
        reason="The caption of an image: only the core and LangChain have a word for it. It stays in the "
        "store, and finds the image.",
    ),
    "b": Limit(
        field="failed",
        without=False,
        writers=_NO_FAILURE,
        readers=_NO_FAILURE,
        reason="That a tool failed: only the core, LangChain, AgentScope 2.x and Pydantic AI have a word "
        "for it. What the tool answered is there.",
    ),
    "c": Limit(
        field="name of a result",
        without=None,
        writers=("runtime0",),
        but_readers=("pydantic_ai",),
        reason="Which tool answered: AgentScope runtime 0.x names it in the call alone, by whose id the "
        "answer is known. Pydantic AI looks it up there.",
    ),
    "D": Limit(
        aspects=("said, words", "said, meaning"),
        readers=_AGENTSCOPE,
        reason="AgentScope searches long-term memories, and reads conversations whole.",
    ),
    "E": Limit(
        aspects=("memory, words", "memory, meaning", "forget memories"),
        writers=("langchain",),
        reason="What LangChain's agents remember of a user is what was said in conversations, which are "
        "history; it has no long-term memories beside them. It finds those of others.",
    ),
    "F": Limit(
        aspects=("forget memories",),
        readers=_NO_FORGETTING,
        reason="Forgetting all long-term memories of a user: there is no word for it here; use the core's "
        "`store.memory.delete` or `store.erase`.",
    ),
    "G": Limit(
        aspects=("documents", "delete"),
        writers=("runtime1",),
        readers=("runtime1",),
        reason="AgentScope runtime 1.0 has no retrieval of documents.",
    ),
    "H": Limit(
        aspects=("delete",),
        readers=("runtime0",),
        reason="AgentScope runtime 0.x retrieves documents, and deletes none.",
    ),
    "I": Limit(
        aspects=("documents", "delete"),
        writers=("pydantic_ai",),
        readers=("pydantic_ai",),
        reason="Pydantic AI has no retrieval of documents.",
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
