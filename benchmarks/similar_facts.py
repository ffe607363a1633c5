"""How near facts are to each other that people state, and which of them a `SimilarConsolidator` merges.

On conversations in JSON, as `benchmarks.recall` takes them:

    python -m benchmarks.similar_facts --conversations DIR [--least 0.85]

Facts without a slot are made by the rules, and compared with all others of their speaker. Each pair
that is at least so near is listed, to be judged by who reads it: whether it says the same no program
can tell.
"""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.recall import of_conversations
from lance_context_core.knowledge.policies import NEARLY_THE_SAME, agree

LEVELS = (0.8, 0.85, 0.9, NEARLY_THE_SAME)


def near_pairs(found: Sequence[Mapping[str, Any]]) -> list[tuple[float, str, str]]:
    """The cosine of every two facts of one speaker, the nearest first."""
    vectors = np.array([one["embedding"] for one in found], dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    whose = [one["metadata"]["fact"]["subject"] for one in found]
    pairs = [
        (float(cosines[a, b]), found[a]["text"], found[b]["text"])
        for a, b in combinations(range(len(found)), 2)
        if whose[a] == whose[b]
    ]
    return sorted(pairs, reverse=True)


async def main(arguments: Sequence[str]) -> None:
    """Print the pairs, and a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.similar_facts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--conversations", type=Path, required=True, help="a folder of JSON files")
    parser.add_argument(
        "--least", type=float, default=0.85, help="list pairs with at least this cosine"
    )
    options = parser.parse_args(arguments)
    options.together, options.embedder, options.over_time = False, "local", False
    pairs: list[tuple[float, str, str]] = []
    n_facts = 0
    async with of_conversations(options) as places:
        for store, _ in places:
            await store.knowledge.distill(apply="merge")
            found = await store.context("knowledge").list(
                filters={"kind": "fact", "fact.slot": None}, include_embedding=True
            )
            n_facts += len(found)
            pairs += near_pairs(found)
    for cosine, one, other in sorted(pairs, reverse=True):
        if cosine >= options.least:
            print(f"{cosine:.2f} {'agree' if agree(one, other) else 'differ'}: {one} | {other}")
    print(
        f"\n| {n_facts} facts: pairs from a cosine of | all | whose telling words agree |\n|---:|---:|---:|"
    )
    for level in LEVELS:
        near = [pair for pair in pairs if pair[0] >= level]
        print(f"| {level} | {len(near)} | {sum(agree(*pair[1:]) for pair in near)} |")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
