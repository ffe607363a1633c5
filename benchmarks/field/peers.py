"""Who takes part, in the order of the table."""

from dataclasses import dataclass

from benchmarks.processes import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer(Program):
    """A line of the table."""

    name: str
    group: str
    """What it is used through; the peers of a group are compared with this project's among them."""
    is_ours: bool = False
    has_vectors: bool = True
    """Whether a message is kept with its vector."""
    how: str
    """How it is used, as far as a reader could wonder."""


_HAND = "by hand"
_VECTORS = "LangChain, vector store"
_HISTORY = "LangChain, chat history"
_THREADS = "LangGraph, checkpointer"
_ITEMS = "LangGraph, store"
_NODES = "LlamaIndex, vector store"

PEERS = (
    Peer(
        name="lance-context-core",
        group=_HAND,
        script="store_conversations",
        is_ours=True,
        how="`store.history` and `store.search`; `neighbours=0`, so that each hit is found for itself; "
        "`maintain()` once, after filling",
    ),
    Peer(
        name="LanceDB",
        group=_HAND,
        script="lancedb_conversations",
        environment="lancedb",
        how="one table of six columns; an index on each of session, topic, text and vector; "
        "`optimize()` after filling and between the parts of appending, which is not timed",
    ),
    Peer(
        name="lance-context",
        group=_HAND,
        script="lance_context_conversations",
        environment="lance-context",
        how="its record API; filled with 2,000 messages a call; `compact()` after filling and between "
        "the parts of appending, which is not timed and merges nothing that was added by itself",
    ),
    Peer(
        name="Chroma",
        group=_HAND,
        script="chroma",
        environment="chromadb",
        how="its persistent client, cosine; search by words is its filter `$contains`, which ranks "
        "nothing",
    ),
    Peer(
        name="LanceContextVectorStore",
        group=_VECTORS,
        script="langchain_ours",
        environment="langchain-lance-context",
        is_ours=True,
        how="with all defaults; `maintain()` once, after filling",
    ),
    Peer(
        name="LanceDB of langchain-community",
        group=_VECTORS,
        script="langchain_community_lancedb",
        environment="langchain-community, LanceDB",
        how='`mode="append"`, else with all defaults; by words and hybrid through '
        "`similarity_search_with_score`, because `similarity_search` with a `query_type` raises a "
        "TypeError; filtered as it does by default, and with `prefilter=True` it would find them all",
    ),
    Peer(
        name="LanceDB of langchain-lancedb",
        group=_VECTORS,
        script="langchain_lancedb",
        environment="langchain-lancedb",
        how="with all defaults",
    ),
    Peer(
        name="LanceContextChatMessageHistory",
        group=_HISTORY,
        script="langchain_ours_history",
        environment="langchain-lance-context",
        is_ours=True,
        how="its store has an embedder, and LanceContextRetriever searches, with `neighbours=0`; "
        "`maintain()` once, after filling",
    ),
    Peer(
        name="SQLChatMessageHistory on SQLite",
        group=_HISTORY,
        script="langchain_sql_history",
        environment="langchain-community, SQL",
        has_vectors=False,
        how="one engine for all sessions; it needs `greenlet` besides what is installed with it",
    ),
    Peer(
        name="LanceContextSaver",
        group=_THREADS,
        script="langgraph_ours_saver",
        environment="langgraph",
        is_ours=True,
        has_vectors=False,
        how="messages are added with `update_state`; `maintain()` once, after filling",
    ),
    Peer(
        name="SqliteSaver",
        group=_THREADS,
        script="langgraph_sqlite_saver",
        environment="langgraph-checkpoint-sqlite",
        has_vectors=False,
        how="messages are added with `update_state`",
    ),
    Peer(
        name="LanceContextStore",
        group=_ITEMS,
        script="langgraph_ours_store",
        environment="langgraph",
        is_ours=True,
        how="an item a message, indexed by its text; `maintain()` once, after filling",
    ),
    Peer(
        name="SqliteStore",
        group=_ITEMS,
        script="langgraph_sqlite_store",
        environment="langgraph-checkpoint-sqlite",
        how="an item a message, indexed by its text with `text_fields`, because it ignores `fields`; "
        "on `pysqlite3` where Python's own `sqlite3` loads no extensions",
    ),
    Peer(
        name="LanceContextVectorStore for LlamaIndex",
        group=_NODES,
        script="llama_index_ours",
        environment="llama-index-lance-context",
        is_ours=True,
        how="with all defaults; `maintain()` once, after filling",
    ),
    Peer(
        name="LanceDBVectorStore",
        group=_NODES,
        script="llama_index_lancedb",
        environment="llama-index, LanceDB",
        how='`mode="create"`, else with all defaults; its `query_type` is set before each question',
    ),
)
