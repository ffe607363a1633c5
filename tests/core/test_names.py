"""Every name that other memories of agents have is one of ours, or the page says that it is not."""

import re
from pathlib import Path

import pytest

from lance_context_core import ContextStore, names
from lance_context_core.coordination import conversation, current_conversation

PAGE = (
    (Path(__file__).parents[2] / "docs" / "migration.md")
    .read_text(encoding="utf-8")
    .split("\n## Names of other memory systems\n")[1]
)

HERE = [
    "LanceClient",
    "EmbeddingProvider",
    "MessageStore",
    "MessageMetadata",
    "ConversationStore",
    "ConversationMetadata",
    "TaskStore",
    "AgentStateStore",
    "PlanStore",
    "SummaryStore",
    "FactStore",
    "DocumentChunker",
    "ChunkerConfig",
    "DocumentProcessor",
    "DocumentStore",
    "DocumentMetadataStore",
    "DocumentScope",
    "LockStore",
    "LockRecord",
    "LockStats",
    "TemplateStore",
    "PlanTemplate",
    "PersistentTaskManager",
    "FileContextManager",
    "Task",
    "ContextConfig",
    "AgentContext",
    "HistoryRetention",
    "HistoryProvider",
    "InMemoryHistoryProvider",
    "CompactionPipeline",
    "CompactionStrategy",
    "SlidingWindowCompaction",
    "ToolResultCompactionStrategy",
    "SelectiveToolCallCompactionStrategy",
    "SummarizationCompaction",
    "TruncationStrategy",
    "TokenBudgetComposedStrategy",
    "InMemoryVectorStore",
    "BlobStore",
    "InMemoryFileStore",
    "ImageStore",
    "GraphStore",
    "InMemoryGraphStore",
    "CypherCapable",
    "EntityStore",
    "RelationshipGraph",
    "VectorStore",
    "SearchResult",
    "GlobalTaskStore",
    "TaskList",
    "ShortTermMemory",
    "ChatMessage",
    "Context",
    "ContextStore",
    "Relationship",
    "MemoryService",
    "TieredMemory",
    "TieredMemoryConfig",
    "TierMetadataStore",
    "TierMetadata",
    "TieredSearchResult",
    "MemoryTier",
    "MemoryAuthority",
    "CanonicalWriteToken",
]
CALLS = [
    "add_batch",
    "get_by_conversation",
    "search_conversation",
    "delete_by_conversation",
    "delete_expired",
    "index_file",
    "index_bytes",
    "delete_document",
    "list_by_conversation",
    "list_by_project",
    "get_document_chunks",
    "try_acquire",
    "is_locked",
    "cleanup_stale",
    "list_locks",
    "force_release",
    "get_by_plan",
    "list_by_category",
    "get_by_name",
    "mark_used",
    "instantiate",
    "create_task",
    "add_subtask",
    "start_task",
    "complete_task",
    "fail_task",
    "add_dependency",
    "persist_all",
    "reload",
    "get_ready_tasks",
    "create_task_list",
    "update_status",
    "add_tasks",
    "increment_retry",
    "force_retry",
    "settle_conversation",
    "get_by_task",
    "clear_run",
    "add_message",
    "add_canonical_message",
    "evict_expired",
    "search_adaptive",
    "search_adaptive_multi_factor",
    "get_demotion_candidates",
    "demote_to_warm",
    "demote_to_cold",
    "promote_to_hot",
    "get_stats",
    "count_messages",
    "get_state",
    "set_state",
    "update_state",
    "add_memory",
    "search_memory",
    "list_memory",
    "delete_memory",
    "presign_url",
    "get_neighbors",
    "add_extraction",
    "drain_contradictions",
    "get_top_entities",
    "add_node",
    "add_edge",
    "get_node",
    "get_image_data",
    "get_by_hash",
    "count_by_conversation",
]
VARIABLES = {
    "current_thread_id": "thread",
    "current_agent_id": "agent",
    "current_agent_label": "label",
    "current_parent_agent_id": "parent",
}
ELSEWHERE = [
    "ContextManager",
    "ContextComposer",
    "SessionHistoryService",
    "InMemorySessionHistoryService",
    "InMemoryMemoryService",
    "RAGService",
    "LangChainRAGService",
    "create_context_manager",
]


@pytest.mark.parametrize("name", HERE)
def test_a_name_from_elsewhere_is_another_name_of_what_the_page_says(name):
    ours = getattr(names, name)
    assert name in names.__all__
    rows = (line.split("|")[1:3] for line in PAGE.splitlines() if line.startswith("| `"))
    here = next(here for there, here in rows if f"`{name}`" in there)
    assert f"`{ours.__name__}`" in here or here.strip() == "the same"


@pytest.fixture(scope="module")
def store():
    with ContextStore.open("memory://") as opened:
        yield opened


@pytest.mark.parametrize("call", CALLS)
def test_a_call_from_elsewhere_is_what_the_page_says(store, call):
    found = [(there, said[call]) for there, said in SAID if call in said]
    assert found, "the page does not tell of it"
    for there, here in found:
        if here is None:
            assert call in WITHOUT_A_NAME
        else:
            assert is_there(store, here, [getattr(names, one) for one in there if one in HERE])


def test_the_variables_of_a_conversation_are_what_the_page_says():
    (cells,) = (line.split("|") for line in PAGE.splitlines() if "`current_thread_id`" in line)
    theirs, ours = (re.findall(r"`(\w+)`", cells[number]) for number in (1, 3))
    with conversation("thread", agent_id="agent", label="label", parent_agent_id="parent"):
        now = current_conversation()
        assert {
            name: getattr(now, one) for name, one in zip(theirs, ours, strict=True)
        } == VARIABLES


WITHOUT_A_NAME = {"update_status", "persist_all", "reload"}
"""Calls of which the page says in words what becomes of them."""


def said_of(cell):
    """What calls are here, by what they are there; None of those of which words tell it."""
    said, waiting = {}, []
    is_answer = False
    for name, arrow, word in re.findall(r"`([^`]+)`(?:\s*(→)\s*([^`\s])?)?", cell):
        plain = re.sub(r"\(.*", "", name)
        if is_answer:
            said |= dict.fromkeys(waiting, plain)
            waiting = []
        else:
            waiting.append(plain)
        if arrow and word:
            said |= dict.fromkeys(waiting)
            waiting = []
        is_answer = bool(arrow) and not word
    return {one: one for one in waiting} | said


def is_there(store, path, classes):
    """Whether one of these classes has it, or the store, if the path begins there."""
    first, *others = path.split(".")
    if first == "store":
        found = store
    elif not others:
        return any(hasattr(one, first) for one in classes)
    else:
        (found,) = (getattr(one, first) for one in rooms(store) if type(one) in classes)
    for name in others:
        found = getattr(found, name)
    return callable(found)


def rooms(store):
    properties = [name for name, one in vars(ContextStore).items() if isinstance(one, property)]
    return [getattr(store, name) for name in properties]


SAID = [
    (re.findall(r"`(\w+)`", cells[1]), said_of(cells[3]))
    for cells in (line.split("|") for line in PAGE.splitlines() if line.startswith("| `"))
]
"""Of each row the names that are there, and what it says of their calls."""


def test_what_is_not_here_is_said_and_not_pretended():
    assert [name for name in ELSEWHERE if hasattr(names, name)] == []
    assert [
        name for name in ELSEWHERE if f"`{name}`" not in PAGE.split("### In an adapter")[1]
    ] == []
