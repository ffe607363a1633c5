"""Lists of ids that indexes pass of themselves: `VectorStoreIndex` notes no other nodes than these.

Of a vector store that keeps texts an index notes the ids of index and image nodes alone, and its
retriever passes all that it has noted, as if nothing else were asked for.
"""

from collections.abc import Sequence

from llama_index.core.schema import ImageNode, IndexNode

from lance_context_core import AsyncVectors, Document, Field
from llama_index_lance_context._nodes import CLASS_NAME, NATIVE

_NAMES = [one.class_name() for one in (IndexNode, ImageNode)]

ARE_OTHERS = ~Field("metadata", NATIVE, CLASS_NAME).is_in(_NAMES)
"""The nodes that no index notes."""

_N_AT_ONCE = 500


async def are_noted(vectors: AsyncVectors, ids: Sequence[str]) -> bool:
    """Whether all nodes that these ids name are such as indexes note, and at least one is there.

    Reads the nodes by their ids, which is cheaper than to ask the store for what they are not, and
    ends with the first ones that no index has noted.
    """
    is_one_there = False
    for start in range(0, len(ids), _N_AT_ONCE):
        documents = await vectors.get(ids[start : start + _N_AT_ONCE])
        if not all(map(is_noted, documents)):
            return False
        is_one_there = is_one_there or bool(documents)
    return is_one_there


def is_noted(document: Document) -> bool:
    """Whether an index notes such a node."""
    return document.metadata.get(NATIVE, {}).get(CLASS_NAME) in _NAMES
