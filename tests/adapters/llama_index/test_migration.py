"""What LlamaIndex's own LanceDB integration holds, moved here."""

from pathlib import Path

import lancedb
import pyarrow as pa
import pytest
from adapters.llama_index.doubles import node
from core.test_docs import blocks
from llama_index.core.schema import IndexNode, MetadataMode
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.core.vector_stores.utils import node_to_metadata_dict
from llama_index_lance_context import LanceContextVectorStore

README = Path(__file__).parents[3] / "adapters" / "llama_index" / "README.md"

NODES = [
    node("Ginger tea", id="tea", source="it's a book", metadata={"minutes": 5, "hot": True}),
    node("Carrot cake", id="cake", metadata={"minutes": 90, "hot": False}),
    node("See the index", id="see", index_id="spices", node_class=IndexNode, metadata={}),
]


def row(one):
    """As version 0.6 of the integration writes a node."""
    return {
        "id": one.node_id,
        "doc_id": one.ref_doc_id,
        "vector": one.embedding,
        "text": one.get_content(metadata_mode=MetadataMode.NONE),
        "metadata": node_to_metadata_dict(one, remove_text=False, flat_metadata=True),
    }


@pytest.fixture
def _old(tmp_path, monkeypatch):
    """Two of its tables, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    database = lancedb.connect("lancedb")
    vector = pa.list_(pa.float32(), len(NODES[0].embedding))
    for name in ("vectors", "more"):
        table = pa.Table.from_pylist([row(one) for one in NODES])
        column = table.schema.get_field_index("vector")
        database.create_table(
            name, table.set_column(column, "vector", table["vector"].cast(vector))
        )


@pytest.mark.usefixtures("_old")
def test_the_readme_moves_every_node_as_it_was(store):
    (moving,) = [block for block in blocks(README) if '"lancedb"' in block.code]
    for _ in range(2):
        namespace = {"store": store, "LanceContextVectorStore": LanceContextVectorStore}
        exec(moving.code, namespace)  # noqa: S102 - our own page
        for name in ("vectors", "more"):
            moved = LanceContextVectorStore(store, collection=name)
            assert moved.get_nodes() == NODES
    query = VectorStoreQuery(query_embedding=NODES[1].embedding, similarity_top_k=1)
    assert moved.query(query).ids == ["cake"]
