"""Every name that other memories of agents have is one of ours, or the page says that it is not."""

import re
from pathlib import Path

import pytest

from lance_context_core import names

PAGE = (Path(__file__).parents[2] / "docs" / "names.md").read_text(encoding="utf-8")

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
    "current_thread_id",
    "current_agent_id",
    "current_agent_label",
    "current_parent_agent_id",
]
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
NOT_YET = [
    "DocumentProcessor",
]


@pytest.mark.parametrize("name", HERE)
def test_a_name_from_elsewhere_is_another_name_of_what_the_page_says(name):
    ours = getattr(names, name)
    assert name in names.__all__
    rows = (line.split("|")[1:3] for line in PAGE.splitlines() if line.startswith("| `"))
    here = next(here for there, here in rows if f"`{name}`" in there)
    assert f"`{ours.__name__}`" in here or here.strip() == "the same"


def test_each_call_from_elsewhere_is_on_the_page():
    assert [call for call in CALLS if not re.search(rf"\b{call}\b", PAGE)] == []


def test_what_is_not_here_is_said_and_not_pretended():
    assert [name for name in ELSEWHERE + NOT_YET if hasattr(names, name)] == []
    assert [
        name for name in ELSEWHERE if f"`{name}`" not in PAGE.split("## In an adapter")[1]
    ] == []
    assert [name for name in NOT_YET if f"`{name}`" not in PAGE.split("## Not there yet")[1]] == []
