"""Embeddings that tests can predict, nodes that have them, and a reranker."""

import pyarrow as pa
from core.conformance.doubles import WordVectors
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode


class WordEmbedding(BaseEmbedding):
    """Texts that share words are near to each other."""

    model_name: str = "words"
    _vectors: WordVectors = PrivateAttr(default_factory=lambda: WordVectors(dimension=64))

    def _get_text_embedding(self, text):
        return self._vectors.embed_query(text).tolist()

    def _get_query_embedding(self, query):
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query):
        return self._get_text_embedding(query)


def node(text, *, id=None, source=None, node_class=TextNode, **fields):
    """A node that is found by the words of its text, made from the document `source`."""
    if id is not None:
        fields["id_"] = id
    made = node_class(text=text, embedding=WordEmbedding().get_text_embedding(text), **fields)
    if source is not None:
        made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=source)
    return made


class Backwards:
    """A reranker that likes what comes last in the alphabet."""

    def rerank_hybrid(self, query, vector_results, fts_results):
        both = pa.concat_tables(
            [one.select(["_rowid", "text"]) for one in (vector_results, fts_results)]
        ).to_pylist()
        rows = {row["_rowid"]: row["text"] for row in both}
        order = sorted(rows, key=rows.__getitem__)
        scores = pa.array([order.index(id) / 10 for id in rows], pa.float32())
        return pa.table({"_rowid": pa.array(rows, pa.uint64()), "_relevance_score": scores})
