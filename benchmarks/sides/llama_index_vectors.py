"""What LlamaIndex's vector stores are asked alike; each peer says where its words differ."""

from collections.abc import Sequence
from typing import Any

from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from benchmarks.sides.conversations import Peer, Said, Wanted


class LlamaIndexVectors(Peer):
    """A vector store; its nodes have numbers, because it has no order."""

    api: BasePydanticVectorStore

    def _turn(self, messages: Sequence[Said]) -> None:
        self.api.add(
            [
                TextNode(
                    text=one.text,
                    embedding=one.vector,
                    metadata={
                        "session": one.session,
                        "role": one.role,
                        "topic": one.topic,
                        "number": one.number,
                    },
                )
                for one in messages
            ]
        )

    def _whole(self, session: str) -> list[str]:
        nodes = self.api.get_nodes(filters=_equal("session", session))
        nodes = sorted(nodes, key=lambda node: node.metadata["number"])
        return [node.get_content() for node in nodes]

    def _vector(self, wanted: Wanted) -> list[str]:
        return self._found(wanted, query_embedding=wanted.vector)

    def _words(self, wanted: Wanted) -> list[str]:
        mode = VectorStoreQueryMode.TEXT_SEARCH
        return self._found(wanted, query_str=wanted.text, mode=mode)

    def _hybrid(self, wanted: Wanted) -> list[str]:
        mode = VectorStoreQueryMode.HYBRID
        return self._found(wanted, query_str=wanted.text, query_embedding=wanted.vector, mode=mode)

    def _filter(self, wanted: Wanted) -> list[str]:
        filters = _equal("topic", wanted.topic)
        return self._found(wanted, query_embedding=wanted.vector, filters=filters)

    def _found(self, wanted: Wanted, **query: Any) -> list[str]:
        found = self.api.query(VectorStoreQuery(similarity_top_k=wanted.limit, **query))
        return [node.get_content() for node in found.nodes or ()]


def _equal(key: str, value: str) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value)])
