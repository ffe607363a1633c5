"""Recognizes the lists of node ids that a `VectorStoreIndex` passes automatically.

With a vector store that keeps texts, an index records only ids of index and image nodes, and its
retriever passes all recorded ids with each query.
"""

from collections.abc import Sequence

from llama_index.core.schema import ImageNode, IndexNode

from lance_context_core import AsyncVectors, Document, Field
from llama_index_lance_context._nodes import CLASS_NAME, NATIVE

_NAMES = [one.class_name() for one in (IndexNode, ImageNode)]

ARE_OTHERS = ~Field("metadata", NATIVE, CLASS_NAME).is_in(_NAMES)
"""The classes of nodes that no index records."""

_N_AT_ONCE = 500


async def are_noted(vectors: AsyncVectors, ids: Sequence[str]) -> bool:
    """Whether all of these ids name recordable nodes, and at least one exists.

    Reads the nodes by id, which is cheaper than a search for others, and stops at the first other
    node.
    """
    is_one_there = False
    for start in range(0, len(ids), _N_AT_ONCE):
        documents = await vectors.get(ids[start : start + _N_AT_ONCE])
        if not all(map(is_noted, documents)):
            return False
        is_one_there = is_one_there or bool(documents)
    return is_one_there


def is_noted(document: Document) -> bool:
    """Whether an index records such a node."""
    return document.metadata.get(NATIVE, {}).get(CLASS_NAME) in _NAMES
