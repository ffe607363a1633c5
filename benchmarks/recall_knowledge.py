"""Evidence recall of the layers of the knowledge, each alone and as the chain.

On conversations in JSON, as `benchmarks.recall` takes them:

    python -m benchmarks.recall_knowledge --conversations DIR

Of all turns chunks, facts and summaries are made by the rules, without a model. The figure is the mean
over questions of the share of their evidence that the first hits were made of; a turn counts as itself.
`chain < facts` counts the questions of which the chain has found less than the facts and chunks alone.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from benchmarks.recall import Asked, Places, interval, of_conversations
from lance_context_core import AsyncContextStore
from lance_context_core.knowledge import SearchType

LIMITS = (5, 10)


async def shares(
    store: AsyncContextStore, asked: Sequence[Asked], limit: int, search_type: SearchType
) -> list[float]:
    """The share of its evidence that is found, for each question."""
    found = []
    for one in asked:
        view = store if one.whose is None else store.scope(agent_id=one.whose)
        hits = await view.knowledge.search(one.question, top_k=limit, search_type=search_type)
        ids = {
            id
            for hit in hits
            for id in ([hit.record.id] if hit.layer == "L2" else hit.record.source_ids)
        }
        found.append(len(one.evidence & ids) / len(one.evidence))
    return found


async def table(places: Places) -> list[str]:
    """The lines of the table, in Markdown."""
    found: dict[str, list[list[float]]] = {}
    for search_type in get_args(SearchType):
        found[search_type] = [
            [
                share
                for store, asked in places
                for share in await shares(store, asked, limit, search_type)
            ]
            for limit in LIMITS
        ]
        print(search_type, file=sys.stderr)
    n = sum(len(asked) for _, asked in places)
    lines = [f"| {n:,} questions | R@5 | R@10 | 95 of 100 |", "|---|---:|---:|---:|"]
    for search_type, by_limit in found.items():
        low, high = interval(by_limit[-1])
        means = " | ".join(f"{100 * sum(some) / len(some):.1f}" for some in by_limit)
        lines.append(f"| {search_type} | {means} | {100 * low:.1f} to {100 * high:.1f} |")
    fewer = [
        sum(chain < facts for chain, facts in zip(*pair, strict=True))
        for pair in zip(found["chain"], found["facts"], strict=True)
    ]
    lines.append(f"| chain < facts | {' | '.join(map(str, fewer))} | |")
    return lines


async def main(arguments: Sequence[str]) -> None:
    """Print the table that `arguments` ask for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recall_knowledge",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--conversations", type=Path, required=True, help="a folder of JSON files")
    parser.add_argument("--together", action="store_true", help="one store for all conversations")
    parser.add_argument("--embedder", default="local", help="as in `ContextStore.open`, or none")
    options = parser.parse_args(arguments)
    options.embedder = None if options.embedder == "none" else options.embedder
    options.over_time = False
    async with of_conversations(options) as places:
        for store, _ in places:
            began = time.process_time()
            proposal = await store.knowledge.distill(apply="merge")
            seconds = time.process_time() - began
            print(f"{dict(proposal.report)} in {seconds:.1f} s of CPU", file=sys.stderr)
        print("\n".join(await table(places)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
