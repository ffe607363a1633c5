"""Prints what the vector store does with every filter, in every mode and with both kinds of methods.

    PYTHONPATH=tests python -m adapters.llama_index.matrix

It needs the adapter and what tests need; the tests check that docs/llama_index.md contains what it prints.
"""

import asyncio
import sys
from functools import cache

from adapters.llama_index.doubles import Backwards
from adapters.llama_index.filter_cases import CASES, NODES, REFUSED, every, leaf
from adapters.llama_index.filter_oracle import matches, visible
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index_lance_context import LanceContextVectorStore

MODES = ("default", "text_search", "sparse", "hybrid", "semantic_hybrid", "mmr")
UNSUPPORTED = ("svm", "linear_regression", "logistic_regression")
GET_NODES = "get_nodes"
WAYS = (*MODES, GET_NODES)
KINDS = ("sync", "async")

_INTRODUCTION = """\
`LanceContextVectorStore` finds exactly the nodes that plain Python finds for each of {n_cases} filters, in every supported query mode, through
`query`, `aquery`, `get_nodes` and `aget_nodes`. Filters see the metadata, the document of a node (`doc_id`, `document_id`, `ref_doc_id`) and its class
(`_node_type`). The tests check each case, and compare this section with the output of this command:"""


def filled(place):
    """A vector store in `place` that holds the ten nodes."""
    made = LanceContextVectorStore(place, reranker=Backwards())
    made.add(NODES)
    return made


def asked(filters, mode="default", *, limit=100, vector=None):
    """For all nodes that match: the word is in each of them."""
    return VectorStoreQuery(
        query_embedding=vector or NODES[0].embedding,
        query_str="common",
        similarity_top_k=limit,
        mode=mode,
        filters=filters,
    )


def found(store, filters, way, kind, *, vector=None):
    """The ids that are found, in their order."""
    if way == GET_NODES:
        get = store.get_nodes if kind == "sync" else store.aget_nodes
        answer = get(filters=filters)
        return [one.node_id for one in (answer if kind == "sync" else asyncio.run(answer))]
    query = asked(filters, way, vector=vector)
    return (store.query(query) if kind == "sync" else asyncio.run(store.aquery(query))).ids


def wanted(filters):
    """What plain Python finds."""
    return [one.node_id for one in NODES if matches(filters, visible(one))]


def outcome(store, filters, way, kind):
    """`ok` where exactly what matches is found; else what is wrong."""
    try:
        ids = found(store, filters, way, kind)
    except Exception as error:  # noqa: BLE001 - told, in the table
        return f"{type(error).__name__}: {error}"
    return "ok" if sorted(ids) == sorted(wanted(filters)) else f"finds {' '.join(ids) or 'none'}"


class Outcomes:
    """What the ten nodes answer to each case, asked once."""

    def __init__(self, store):
        self.store = store
        self.of = cache(self._of)

    def _of(self, case):
        """By mode, or `get_nodes`, and kind."""
        return {
            (way, kind): outcome(self.store, CASES[case], way, kind)
            for way in WAYS
            for kind in KINDS
        }

    def refusal(self, case):
        """What it says to an operand that the operator cannot take: the same in every way."""
        (said,) = {outcome(self.store, REFUSED[case], way, kind) for way in WAYS for kind in KINDS}
        return said

    def unsupported(self, mode):
        """What it says to a mode that it does not have."""
        (said,) = {outcome(self.store, every(leaf("n", ">", 0)), mode, kind) for kind in KINDS}
        return said


def section(outcomes):
    """The section of docs/llama_index.md."""
    assert all(set(outcomes.of(case).values()) == {"ok"} for case in CASES)
    parts = [
        _INTRODUCTION.format(n_cases=len(CASES)),
        "```bash\nPYTHONPATH=tests python -m adapters.llama_index.matrix\n```",
        "An operand that an operator cannot take raises the same error in every mode:",
        _table(
            ["filter", "answer"],
            [[_code(case), _said(outcomes.refusal(case))] for case in REFUSED],
        ),
        "Modes that are not supported:",
        _table(
            ["mode", "answer"],
            [[_code(mode), _said(outcomes.unsupported(mode))] for mode in UNSUPPORTED],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _code(text):
    return f"`{text}`"


def _said(text):
    return text.replace("|", "\\|")


if __name__ == "__main__":
    with filled("memory://") as store:
        sys.stdout.write(section(Outcomes(store)))
