"""The tables of the information layer: their families, their columns, and what they are."""

from collections.abc import Mapping
from typing import Literal

import pyarrow as pa

from lance_context_core._util.frozen import frozen

Family = Literal["ctx_agent", "ctx_kb", "ctx_meta"]
"""What agents were told and did, what was read for them, and what is known about both."""

_TEXT = pa.string()
_TIME = pa.timestamp("us", tz="UTC")
_VECTOR = pa.list_(pa.float32())


@frozen
class Layout:
    """A table: the family that it is in, of which sort it is, and its columns."""

    family: Family
    sort: str
    """`l2`, `l1`, `l0`, `graph`, `log` or `meta`."""
    columns: Mapping[str, pa.DataType]

    @property
    def schema(self) -> pa.Schema:
        """The columns, as Arrow has them."""
        return pa.schema(list(self.columns.items()))


def _texts(*names: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(names, _TEXT)


LAYOUTS: Mapping[str, Layout] = {
    "agent_sessions": Layout(
        "ctx_agent",
        "log",
        {
            **_texts("session_id", "agent_id", "user_id", "status"),
            "start_time": _TIME,
            "end_time": _TIME,
            "metadata": _TEXT,
        },
    ),
    "agent_l2_raw": Layout(
        "ctx_agent",
        "l2",
        {
            **_texts("raw_id", "source_id", "content", "content_type"),
            "created_at": _TIME,
            "agent_id": _TEXT,
        },
    ),
    "agent_l1_chunks": Layout(
        "ctx_agent",
        "l1",
        {
            **_texts("chunk_id", "raw_id", "content", "metadata"),
            "created_at": _TIME,
            "agent_id": _TEXT,
        },
    ),
    "agent_l1_embeddings": Layout(
        "ctx_agent",
        "l1",
        {
            "chunk_id": _TEXT,
            "vector": _VECTOR,
            "model_name": _TEXT,
            "created_at": _TIME,
            "agent_id": _TEXT,
        },
    ),
    "agent_l0_summaries": Layout(
        "ctx_agent",
        "l0",
        {**_texts("target_id", "target_type", "summary"), "updated_at": _TIME, "agent_id": _TEXT},
    ),
    "agent_skills": Layout(
        "ctx_agent",
        "log",
        _texts("skill_id", "name", "schema", "description", "agent_id", "version"),
    ),
    "agent_tool_calls": Layout(
        "ctx_agent",
        "log",
        {
            **_texts("call_id", "session_id", "tool_name", "params", "result", "status"),
            "timestamp": _TIME,
            "agent_id": _TEXT,
        },
    ),
    "agent_relations": Layout(
        "ctx_agent",
        "graph",
        {
            **_texts("source_id", "target_id", "relation_type", "agent_id"),
            "created_at": _TIME,
        },
    ),
    "kb_l2_raw_documents": Layout(
        "ctx_kb",
        "l2",
        {**_texts("doc_id", "source_uri", "content", "metadata"), "imported_at": _TIME},
    ),
    "kb_l1_chunks": Layout("ctx_kb", "l1", _texts("chunk_id", "doc_id", "content", "metadata")),
    "kb_l1_embeddings": Layout(
        "ctx_kb", "l1", {"chunk_id": _TEXT, "vector": _VECTOR, "model_name": _TEXT}
    ),
    "meta_tables": Layout(
        "ctx_meta",
        "meta",
        {**_texts("table_name", "db_name", "table_type"), "version": pa.int64()},
    ),
    "meta_columns": Layout(
        "ctx_meta",
        "meta",
        {
            **_texts("table_name", "column_name", "data_type"),
            "is_time": pa.bool_(),
            "is_vector": pa.bool_(),
        },
    ),
    "meta_jobs": Layout(
        "ctx_meta",
        "meta",
        {**_texts("job_id", "job_type", "payload", "status"), "scheduled_at": _TIME},
    ),
    "meta_mem_candidates": Layout(
        "ctx_meta",
        "meta",
        {**_texts("session_id", "chunk_id"), "score": pa.float64(), "candidate_level": _TEXT},
    ),
}
"""All of them, by name."""
