"""What the store holds can be read as tables of fixed names."""

import json

import pyarrow as pa
import pytest

from lance_context_core import (
    AsyncContextStore,
    ContextStore,
    InvalidRequestError,
    Message,
    NotFoundError,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from lance_context_core.embedders import LocalEmbedder
from lance_context_core.graph import Entity, Relation

NAMES = {
    "ctx_agent": [
        *("agent_sessions", "agent_l2_raw", "agent_l1_chunks", "agent_l1_embeddings"),
        *("agent_l0_summaries", "agent_skills", "agent_tool_calls", "agent_relations"),
    ],
    "ctx_kb": ["kb_l2_raw_documents", "kb_l1_chunks", "kb_l1_embeddings"],
    "ctx_meta": ["meta_tables", "meta_columns", "meta_jobs", "meta_mem_candidates"],
}
ALL = [name for names in NAMES.values() for name in names]


@pytest.fixture(scope="module")
def lived():
    """A store in which something was said, called, read and related."""
    with ContextStore.open("memory://", embedder="local") as store:
        bot = store.scope(agent_id="bot")
        bot.knowledge.add("I live in Oslo.", session_id="s")
        call = ToolCallPart(call_id="c1", name="weather", arguments={"city": "Oslo"})
        result = ToolResultPart(call_id="c1", name="weather", content=(TextPart(text="rain"),))
        open_call = ToolCallPart(call_id="c2", name="news", arguments={})
        turns = [
            Message(role="assistant", parts=(call,), id="m1"),
            Message(role="tool", parts=(result,), id="m2"),
            Message(role="assistant", parts=(open_call,), id="m3"),
        ]
        store.history.append_many("bot", turns, session_id="s")
        bot.documents.add(b"# Rivers\n\nThe Akerselva runs through Oslo.", name="rivers.md")
        bot.context().add("system", "Looks the weather up.", kind="skill", id="k1")
        yield bot


COLUMNS = {
    "agent_sessions": "session_id agent_id user_id status start_time end_time metadata",
    "agent_l2_raw": "raw_id source_id content content_type created_at",
    "agent_l1_chunks": "chunk_id raw_id content metadata created_at agent_id",
    "agent_l1_embeddings": "chunk_id vector model_name created_at",
    "agent_l0_summaries": "target_id target_type summary updated_at agent_id",
    "agent_skills": "skill_id name schema agent_id description version",
    "agent_tool_calls": "call_id session_id tool_name params result status timestamp",
    "agent_relations": "source_id target_id relation_type agent_id created_at",
    "kb_l2_raw_documents": "doc_id source_uri content metadata imported_at",
    "kb_l1_chunks": "chunk_id doc_id content metadata",
    "kb_l1_embeddings": "chunk_id vector model_name",
    "meta_tables": "table_name db_name table_type version",
    "meta_columns": "table_name column_name data_type is_time is_vector",
    "meta_jobs": "job_id job_type payload status scheduled_at",
    "meta_mem_candidates": "session_id chunk_id score candidate_level",
}
TIMES = {"start_time", "end_time", "created_at", "updated_at", "imported_at"} | {
    "timestamp",
    "scheduled_at",
}


@pytest.mark.parametrize("name", ALL)
def test_a_table_has_the_columns_that_were_promised_of_it_and_times_in_utc(lived, name):
    schema = lived.tables.schema(name)
    promised = {*COLUMNS[name].split()}
    # Whatever is an agent's says whose it is.
    assert {*schema.names} == promised | ({"agent_id"} if name.startswith("agent_") else set())
    assert {one.name: str(one.type) for one in schema if one.name in TIMES} == dict.fromkeys(
        {*schema.names} & TIMES, "timestamp[us, tz=UTC]"
    )


@pytest.mark.parametrize("family", NAMES)
def test_each_family_has_its_tables(lived, family):
    assert lived.tables.names(family) == NAMES[family]


@pytest.mark.parametrize("name", ALL)
def test_a_table_has_the_columns_and_types_that_it_is_described_with(lived, name):
    table = lived.tables.read(name)
    described = [
        row for row in lived.tables.read("meta_columns").to_pylist() if row["table_name"] == name
    ]
    assert [(row["column_name"], row["data_type"]) for row in described] == [
        (one.name, str(one.type)) for one in table.schema
    ]
    assert [row["is_time"] for row in described] == [
        pa.types.is_timestamp(one.type) for one in table.schema
    ]
    assert table.num_rows > 0


def test_a_store_that_holds_nothing_has_all_of_them_empty():
    with ContextStore.open("memory://") as store:
        rows = {name: store.tables.read(name).num_rows for name in ALL}
    assert {name for name, n in rows.items() if n} == {"meta_tables", "meta_columns"}


def test_the_layers_of_a_turn_are_joined_by_their_ids(lived):
    (turn,) = [
        row
        for row in lived.tables.read("agent_l2_raw").to_pylist()
        if row["content"] is not None and row["content"] == "I live in Oslo."
    ]
    chunks = lived.tables.read("agent_l1_chunks").to_pylist()
    assert {row["content"] for row in chunks if row["raw_id"] == turn["raw_id"]} == {
        "I live in Oslo."
    }
    embedded = lived.tables.read("agent_l1_embeddings").to_pylist()
    assert {row["chunk_id"] for row in embedded} == {row["chunk_id"] for row in chunks}
    assert len({len(row["vector"]) for row in embedded}) == 1
    assert {row["model_name"] for row in embedded} == {LocalEmbedder().model}
    (summary,) = lived.tables.read("agent_l0_summaries").to_pylist()
    assert (summary["target_id"], summary["target_type"]) == ("s", "session")
    cited = lived.tables.read("agent_relations").to_pylist()
    assert turn["raw_id"] in {row["target_id"] for row in cited if row["relation_type"] == "cites"}


def test_the_relations_of_the_graph_are_among_those_of_agents(tmp_path):
    with ContextStore.open(tmp_path) as store:
        ada, tea = store.graph.add_entities([Entity(name="Ada"), Entity(name="tea")])
        (likes,) = store.graph.add_relations(
            [Relation(source_id=ada.id, target_id=tea.id, type="likes")]
        )
        assert store.tables.read("agent_relations").to_pylist() == [
            {
                "source_id": ada.id,
                "target_id": tea.id,
                "relation_type": "likes",
                "agent_id": None,
                "created_at": store.graph.get_relation(likes.id).recorded_at,
            }
        ]


def test_a_call_of_a_tool_has_its_result_or_waits_for_it(lived):
    calls = lived.tables.read("agent_tool_calls").to_pylist()
    told = [
        (row["call_id"], row["tool_name"], json.loads(row["params"]), row["result"], row["status"])
        for row in calls
    ]
    assert told == [
        ("c1", "weather", {"city": "Oslo"}, "rain", "success"),
        ("c2", "news", {}, None, "pending"),
    ]


def test_documents_are_a_family_of_their_own(lived):
    (document,) = lived.tables.read("kb_l2_raw_documents").to_pylist()
    chunks = lived.tables.read("kb_l1_chunks").to_pylist()
    assert {row["doc_id"] for row in chunks} == {document["doc_id"]}
    assert "Akerselva" in document["content"]
    assert {row["chunk_id"] for row in lived.tables.read("kb_l1_embeddings").to_pylist()} == {
        row["chunk_id"] for row in chunks
    }


def test_a_scope_reads_its_own_rows_alone(lived):
    other = lived.tables.read("agent_l2_raw").to_pylist()
    assert {row["agent_id"] for row in other} == {"bot"}
    with ContextStore.open("memory://") as store:
        for scope in ({"user_id": "ada"}, {"agent_id": "bot"}):
            store.scope(**scope).knowledge.add("I live in Oslo.")
        for other in ({"user_id": "bob"}, {"agent_id": "clerk"}):
            for name in ("agent_sessions", "agent_l2_raw", "agent_l1_chunks", "meta_jobs"):
                assert store.scope(**other).tables.read(name).num_rows == 0


async def test_they_may_be_awaited():
    async with AsyncContextStore.open("memory://") as store:
        await store.knowledge.add("I live in Oslo.")
        assert (await store.tables.read("meta_jobs"))["status"].to_pylist() == ["succeeded"]


def test_what_is_not_there_is_named(lived):
    with pytest.raises(NotFoundError, match="agent_dreams"):
        lived.tables.read("agent_dreams")
    with pytest.raises(InvalidRequestError, match="ctx_all"):
        lived.tables.names("ctx_all")
