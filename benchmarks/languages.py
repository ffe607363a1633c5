"""Evidence recall in other languages than English: a conversation and its questions in each.

    python -m benchmarks.languages [--only Thai German] [--embedder NAME] [--by-engine]

The conversations in `benchmarks/data/languages` are made up, as are the questions. One part of these
asks in forms of the words that the turn has (other endings, compounds, particles), the other part
in other words. All is searched as it is out of the box, in a store for each language.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.recall import Asked, shares
from lance_context_core import AsyncContextStore, Message
from lance_context_core.settings import SearchCache

FOLDER = Path(__file__).parent / "data" / "languages"
LANGUAGES = sorted(path.stem.capitalize() for path in FOLDER.glob("*.jsonl"))
WAYS = ("words alone, all parts", "vectors alone, all parts", "all parts")
"""What is measured, by its name in `benchmarks.recall`."""

_FIRST = datetime(2026, 3, 2, 18, tzinfo=UTC)
_HEAD = """\
| language | questions | words | vectors | both | both, other forms | both, other words |
|---|---:|---:|---:|---:|---:|---:|"""


def lines_of(language: str) -> list[dict[str, Any]]:
    """The turns of a conversation, in order, and the questions about it."""
    path = FOLDER / f"{language.lower()}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


async def told(store: AsyncContextStore, lines: Sequence[dict[str, Any]]) -> None:
    """Have the turns in the store, one session after the other."""
    turns = [line for line in lines if "text" in line]
    for session in sorted({turn["session"] for turn in turns}):
        messages = [
            Message.user(
                turn["text"],
                id=turn["id"],
                name=turn["speaker"],
                created_at=_FIRST + timedelta(weeks=session, minutes=int(turn["id"])),
            )
            for turn in turns
            if turn["session"] == session
        ]
        await store.history.append_many("", messages, session_id=str(session))


async def row(language: str, place: Path, options: argparse.Namespace) -> list[float]:
    """The number of questions, R@5 and R@10 each way, and R@10 of the two parts."""
    lines = lines_of(language)
    asked = [
        Asked(question=line["question"], evidence=frozenset(line["evidence"]))
        for line in lines
        if "question" in line
    ]
    by = [line["by"] for line in lines if "question" in line]
    cache = None if options.by_engine else SearchCache()
    figures: list[float] = [len(asked)]
    embedder = None if options.embedder == "none" else options.embedder
    async with AsyncContextStore.open(place, embedder=embedder, search_cache=cache) as store:
        await told(store, lines)
        await store.maintain()
        ways = WAYS if embedder else WAYS[:1]
        for way in ways:
            for found in zip(*await shares(store, asked, way), strict=True):
                figures.append(_mean(found))
    pairs = list(zip(found, by, strict=True))
    parts = ([share for share, one in pairs if one == part] for part in ("forms", "paraphrase"))
    return [*figures, *map(_mean, parts)]


async def main(arguments: Sequence[str]) -> None:
    """Print the table that `arguments` ask for."""
    options = _parser().parse_args(arguments)
    print(_HEAD)
    rows = []
    with tempfile.TemporaryDirectory(prefix="languages-") as folder:
        for language in options.only:
            rows.append(await row(language, Path(folder, language), options))
            print(_line(language, rows[-1]), flush=True)
    if len(rows) > 1:
        means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        print(_line("mean", [sum(one[0] for one in rows), *means[1:]]))


def _line(name: str, figures: Sequence[float]) -> str:
    n, *shown = figures
    pairs, parts = shown[:-2], shown[-2:]
    cells = [f"{pairs[at]:.0f} / {pairs[at + 1]:.0f}" for at in range(0, len(pairs), 2)]
    cells = ([*cells, "", ""])[: len(WAYS)]
    return f"| {name} | {n:,.0f} | {' | '.join([*cells, *(f'{one:.0f}' for one in parts)])} |"


def _mean(shares: Sequence[float]) -> float:
    return 100 * sum(shares) / len(shares)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.languages", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", nargs="+", choices=LANGUAGES, default=LANGUAGES)
    parser.add_argument("--embedder", default="local", help="as in `ContextStore.open`, or none")
    parser.add_argument("--by-engine", action="store_true", help="bypass the caches in memory")
    return parser


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
