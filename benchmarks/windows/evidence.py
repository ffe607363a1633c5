"""How much of what answers a question stands in a window, by its budget.

    python -m benchmarks.windows.evidence --conversations DIR [--tiktoken DIR]

Each question of each conversation is asked in a session of its own, and a window is assembled for it.
The figures are the share of the evidence that it holds, and that of the questions whose evidence it
holds whole. Beside it stands what the last turns of the conversation hold, in as many tokens.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.recall import Asked, of_conversations
from lance_context_core import AsyncContextStore, Message
from lance_context_core.window import (
    Budget,
    HeuristicTokenCounter,
    HistorySection,
    Measure,
    RecallSection,
    TiktokenCounter,
    TokenCounter,
)

BUDGETS = (256, 512, 1_024, 2_048, 4_096, 8_192)
SECTIONS = {
    "hits with the turns around them": (HistorySection(), RecallSection(limit=100, share=1)),
    "hits alone": (HistorySection(), RecallSection(limit=100, share=1, neighbours=0)),
    "as the sections are by default": (HistorySection(), RecallSection()),
}
"""What the windows are made of."""


def counter(folder: Path | None) -> TokenCounter:
    """cl100k, if its file is in that folder; an estimate without one."""
    return TiktokenCounter("cl100k_base", cache=folder) if folder else HeuristicTokenCounter()


async def held(
    store: AsyncContextStore, one: Asked, sections: str, total: int, counts: TokenCounter
) -> float:
    """The share of the evidence of a question that its window holds."""
    window = await store.assemble(
        session_id="asked now",
        agent_id=one.whose or "",
        budget=Budget(total=total, margin=0),
        sections=SECTIONS[sections],
        messages=[Message.user(one.question)],
        counter=counts,
    )
    assert window.tokens <= total, f"{window.tokens} tokens of {total}"
    return len(one.evidence & set(window.report.ids("kept", "stubbed"))) / len(one.evidence)


def last_turns(turns: Sequence[Message], total: int, measure: Measure) -> set[str]:
    """The ids of the last turns of a conversation that fit into a budget."""
    found: set[str] = set()
    for turn in reversed(turns):
        total -= measure.message(turn)
        if total < 0:
            break
        found.add(turn.id or "")
    return found


async def main(arguments: Sequence[str]) -> None:
    """Print the table that `arguments` ask for."""
    options = _parser().parse_args(arguments)
    options.embedder = None if options.embedder == "none" else options.embedder
    counts = counter(options.tiktoken)
    paths = sorted(options.conversations.glob("*.json"))
    shares: dict[tuple[str, int], list[float]] = {}
    async with of_conversations(options) as stores:
        for path, (store, asked) in zip(paths, stores, strict=True):
            turns = _turns(path)
            for total in BUDGETS:
                last = last_turns(turns, total, Measure(counts))
                ends = shares.setdefault(("the last turns alone", total), [])
                ends += [len(one.evidence & last) / len(one.evidence) for one in asked]
                for sections in SECTIONS:
                    found = shares.setdefault((sections, total), [])
                    for one in asked:
                        found.append(await held(store, one, sections, total, counts))
                print(f"{total} tokens", file=sys.stderr)
        n = sum(len(asked) for _, asked in stores)
    print(f"| {n:,} questions | {' | '.join(f'{one:,}' for one in BUDGETS)} |")
    print(f"|---|{'---:|' * len(BUDGETS)}")
    for what in dict.fromkeys(what for what, _ in shares):
        row = [shares[what, total] for total in BUDGETS]
        print(f"| {what} | {' | '.join(map(_figures, row))} |")


def _figures(found: Sequence[float]) -> str:
    whole = sum(one == 1 for one in found) / len(found)
    return f"{100 * sum(found) / len(found):.1f} / {100 * whole:.1f}"


def _turns(path: Path) -> list[Message]:
    """All that was said in a conversation, in order."""
    turns = json.loads(path.read_text(encoding="utf-8"))["turns"]
    return [
        Message.user(
            f"{one['text']} {one['image_caption'] or ''}", id=one["id"], name=one["speaker"]
        )
        for one in turns
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.windows.evidence")
    parser.description, parser.formatter_class = __doc__, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--conversations", type=Path, required=True, help="a folder, in JSON")
    parser.add_argument("--tiktoken", type=Path, help="a folder with the file of cl100k")
    parser.add_argument("--embedder", default="local", help="as in `ContextStore.open`, or none")
    parser.set_defaults(together=False, over_time=False)
    return parser


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
