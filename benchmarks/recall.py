"""Evidence recall with the parts of a search switched off one by one.

On a store of your own, with a file of questions, as JSON lines: `{"question": "...", "evidence": ["ID"]}`:

    python -m benchmarks.recall --store PLACE --questions FILE

What the store holds, with the ids that such a file names, is printed by `--list`. Without a file,
`--draw N` asks for N turns of the store by two of the words that each holds. That shows whether a part
does harm, not how well people's questions are answered. `--memories` does all of this with the
memories of the store, of which a question may name the `user_id`, instead of the turns of its
conversations, of which it may name the `agent_id`. The store is read, and not changed.

On conversations in JSON, a store each or one store for all:

    python -m benchmarks.recall --conversations DIR [--together] [--over-time] [--categories]

The figure is the mean over questions of the share of their evidence that the first hits hold, with
an interval that holds 95 of 100 samples of as many questions drawn from these.

`--sessions` adds LongMemEval's recall of sessions: those of the hits, in the order of their first
one; of the first of these, the share of questions of which they have any session with evidence
(`any`), and all of them (`all`).
"""

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from lance_context_core import (
    AsyncContextStore,
    ImagePart,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from lance_context_core.errors import ContextStoreError
from lance_context_core.protocols import SearchMode
from lance_context_core.settings import Convex, Period, SearchOptions, query_words
from lance_context_core.text.analysis import is_form
from lance_context_core.types import ContextRecord, SearchHit

PARTS: dict[str, tuple[SearchOptions, SearchMode | None]] = {
    "all parts": (SearchOptions(), None),
    "without `surroundings`": (SearchOptions(surroundings=False), None),
    "without the second neighbour": (SearchOptions(neighbours=0.3, preceding=1), None),
    "without `neighbours`": (SearchOptions(neighbours=0, preceding=1), None),
    "without `preceding`": (SearchOptions(preceding=0), None),
    "without `coverage`": (SearchOptions(coverage=0), None),
    "without `speaker`": (SearchOptions(speaker=0), None),
    "without `questions`": (SearchOptions(questions=0), None),
    "with names embedded": (SearchOptions(without_names=False), None),
    "the channels alone": (
        SearchOptions(
            neighbours=0,
            coverage=0,
            speaker=0,
            questions=0,
            surroundings=False,
            without_names=False,
        ),
        None,
    ),
    "words alone, all parts": (SearchOptions(surroundings=True), "text"),
    "vectors alone, all parts": (SearchOptions(surroundings=True), "vector"),
    "as much by vectors as by words": (SearchOptions(fusion=Convex(vector_weight=0.5)), None),
    "with `Period`": (SearchOptions(boosts=[Period()]), None),
}
"""What is measured: all that a conversation has, and each part switched off."""

LIMITS = (5, 10)
"""Of so many hits, or sessions, the recall is told."""

HITS_OF_SESSIONS = 50
"""Of so many hits the sessions are ranked: as many as each channel finds."""

_DRAWS = 1_000
_FEWEST_WORDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, and the ids of what answers it."""

    question: str
    evidence: frozenset[str]
    whose: str | None = None
    """The agent whose turns are searched, or the user whose memories; all without one."""
    asked_at: datetime | None = None
    """When it is asked, where that is not now."""
    category: str = ""
    """What kind of question it is, where the file says so."""


async def shares(
    store: AsyncContextStore, asked: Sequence[Asked], part: str, kind: str = "message"
) -> list[tuple[float, ...]]:
    """The share of its evidence that the first hits hold, for each question and number of hits."""
    found = []
    for one in asked:
        ids = [hit.record.id for hit in await _hits(store, one, part, kind, max(LIMITS))]
        n_of = len(one.evidence)
        found.append(tuple(len(one.evidence & set(ids[:limit])) / n_of for limit in LIMITS))
    return found


async def session_shares(
    store: AsyncContextStore, asked: Sequence[Asked], part: str
) -> list[tuple[float, ...]]:
    """Whether the first sessions hold any of its evidence, then all, for each number of sessions.

    1 or 0, for each question. The sessions are those of the first `HITS_OF_SESSIONS` hits, each at
    the rank of its first hit, as LongMemEval ranks sessions by their turns.
    """
    named = sorted(frozenset[str]().union(*(one.evidence for one in asked)))
    told = await _records(store, {"kind": "message", "id": {"$in": named}})
    session_of = {(one["agent_id"], one["id"]): one["session_id"] for one in told}
    found = []
    for one in asked:
        hits = await _hits(store, one, part, "message", HITS_OF_SESSIONS)
        ranked = [*dict.fromkeys(hit.record.session_id for hit in hits)]
        wanted = {
            session
            for (whose, id), session in session_of.items()
            if id in one.evidence and one.whose in {None, whose}
        }
        first = [set(ranked[:limit]) for limit in LIMITS]
        found.append(
            (
                *(float(bool(wanted & some)) for some in first),
                *(float(wanted <= some) for some in first),
            )
        )
    return found


async def _hits(
    store: AsyncContextStore, one: Asked, part: str, kind: str, limit: int
) -> list[SearchHit[ContextRecord]]:
    options, mode = PARTS[part]
    if options.boosts and one.asked_at is not None:
        options = replace(options, boosts=[Period(asked_at=one.asked_at)])
    given: dict[str, Any] = {"limit": limit, "mode": mode, "options": options}
    if kind == "memory":
        return await store.memory.search(one.question, user_id=one.whose or "", **given)
    return await store.history.search(one.question, agent_id=one.whose, **given)


def interval(found: Sequence[float]) -> tuple[float, float]:
    """The means between which 95 of 100 samples lie, drawn from these with replacement."""
    draw = random.Random(0)
    means = sorted(sum(draw.choices(found, k=len(found))) / len(found) for _ in range(_DRAWS))
    return means[_DRAWS * 25 // 1000], means[_DRAWS * 975 // 1000 - 1]


async def main(arguments: Sequence[str]) -> None:
    """Print the table that `arguments` ask for."""
    options = _parser().parse_args(arguments)
    ways = [options.questions is not None, options.draw is not None, options.list]
    if options.sessions and options.memories:
        sys.exit("--sessions: memories have no sessions; ask for turns")
    if options.store and sum(ways) != 1:
        sys.exit("--store needs one of --questions FILE, --draw N and --list")
    options.embedder = None if options.embedder == "none" else options.embedder
    try:
        await (_listed(options) if options.list else _measured(options))
    except ContextStoreError as error:
        sys.exit(str(error))


async def _measured(options: argparse.Namespace) -> None:
    places = of_conversations(options) if options.conversations else _of_store(options)
    parts = options.only or [
        part for part in PARTS if options.embedder or PARTS[part][1] != "vector"
    ]
    found: dict[str, list[tuple[float, ...]]] = {part: [] for part in parts}
    of_sessions: dict[str, list[tuple[float, ...]]] = {part: [] for part in parts}
    kind = "memory" if options.memories else "message"
    async with places as stores:
        for part, shares_of in found.items():
            for store, asked in stores:
                shares_of.extend(await shares(store, asked, part, kind))
                if options.sessions:
                    of_sessions[part].extend(await session_shares(store, asked, part))
            print(f"asked: {part}", file=sys.stderr)
    every = [one for _, asked in stores for one in asked]
    head = ["R@5", "R@10", "95 of 100"]
    if options.sessions:
        head += [f"sessions, {what}@{limit}" for what in ("any", "all") for limit in LIMITS]
    print(f"| {len(every):,} questions | {' | '.join(head)} |\n|---{'|---:' * len(head)}|")
    for part, shares_of in found.items():
        print(_row(part, shares_of, of_sessions[part]))
        if not options.categories:
            continue
        for category in sorted({one.category for one in every}):
            numbers = [n for n, one in enumerate(every) if one.category == category]
            some = [shares_of[n] for n in numbers]
            beside = [of_sessions[part][n] for n in numbers if options.sessions]
            print(_row(f"- {category or 'without a category'} ({len(some)})", some, beside))


def _row(
    name: str, found: Sequence[tuple[float, ...]], of_sessions: Sequence[tuple[float, ...]]
) -> str:
    low, high = interval([last for *_, last in found])
    cells = [*_means(found), f"{100 * low:.1f} to {100 * high:.1f}", *_means(of_sessions)]
    return f"| {name} | {' | '.join(cells)} |"


def _means(found: Sequence[tuple[float, ...]]) -> list[str]:
    return [f"{100 * sum(some) / len(some):.1f}" for some in zip(*found, strict=True)]


Places = list[tuple[AsyncContextStore, list[Asked]]]


def _opened(options: argparse.Namespace) -> AsyncContextStore:
    if not options.store.is_dir():
        sys.exit(f"--store {options.store}: there is no such directory")
    return AsyncContextStore.open(options.store, embedder=options.embedder, maintenance=None)


@asynccontextmanager
async def _of_store(options: argparse.Namespace) -> AsyncIterator[Places]:
    async with _opened(options) as store:
        kind = "memory" if options.memories else "message"
        if options.questions:
            asked = _read(options.questions, "user_id" if options.memories else "agent_id")
            await _require(store, asked, kind)
        else:
            asked = await drawn(store, options.draw, kind)
        if not asked:
            sys.exit(f"there is nothing to ask: no questions, or no {kind} of four words")
        yield [(store, asked)]


async def _listed(options: argparse.Namespace) -> None:
    """Print what can be evidence, in JSON lines."""
    kind, whose = ("memory", "user_id") if options.memories else ("message", "agent_id")
    async with _opened(options) as store:
        for one in await _records(store, {"kind": kind}):
            told = {name: one[name] for name in ("id", whose, "name", "text") if one[name]}
            print(json.dumps(told, ensure_ascii=False))


async def _records(store: AsyncContextStore, filters: dict[str, Any]) -> list[dict[str, Any]]:
    return await store.context().list(
        filters=filters, include_binary=False, include_embedding=False
    )


async def _require(store: AsyncContextStore, asked: Sequence[Asked], kind: str) -> None:
    """Exit if the store lacks what a question names: its share would be 0 with each part."""
    named = frozenset[str]().union(*(one.evidence for one in asked))
    known = await _records(store, {"kind": kind, "id": {"$in": sorted(named)}})
    if lacking := named.difference(one["id"] for one in known):
        sys.exit(
            f"the store has no {kind} with {len(lacking)} of the {len(named)} ids of the evidence, "
            f"such as {min(lacking)!r:.60}: --list prints those that it has"
        )


def _read(path: Path, whose: str) -> list[Asked]:
    """The questions of a file; exits with the number of a line that is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        sys.exit(f"--questions {path}: {error}")
    asked = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if (one := _asked(line, whose)) is None:
            shape = '{"question": "...", "evidence": ["ID"]}'
            sys.exit(f"{path}, line {number}: write {shape}, not {line[:80]}")
        asked.append(one)
    return asked


def _asked(line: str, whose: str) -> Asked | None:
    """The question of a line; None if it is none, or has no evidence."""
    try:
        match json.loads(line):
            case {"question": str(question), "evidence": [_, *_] as evidence} as one if question:
                return Asked(question=question, evidence=frozenset(evidence), whose=one.get(whose))
    except (ValueError, TypeError):
        pass
    return None


async def drawn(store: AsyncContextStore, n: int, kind: str = "message") -> list[Asked]:
    """Up to `n` turns of the history, or memories, each asked for by two of its words."""
    draw = random.Random(0)
    records = await _records(store, {"kind": kind})
    whose = "user_id" if kind == "memory" else "agent_id"
    asked = []
    for one in draw.sample(records, len(records)):
        found = re.findall(r"[^\W_]{3,}", query_words(one["text"] or ""))
        words = [word for word in dict.fromkeys(found) if not is_form(word)]
        if len(words) < _FEWEST_WORDS:
            continue
        question, evidence = " ".join(draw.sample(words, 2)), frozenset({one["id"]})
        asked.append(Asked(question=question, evidence=evidence, whose=one[whose]))
        if len(asked) == n:
            break
    return asked


@asynccontextmanager
async def of_conversations(options: argparse.Namespace) -> AsyncIterator[Places]:
    """A store for each conversation, or one for all if they are `together`, and its questions."""
    places: Places = []
    with tempfile.TemporaryDirectory(prefix="recall-") as folder:
        try:
            for path in sorted(options.conversations.glob("*.json")):
                data = json.loads(path.read_text(encoding="utf-8"))
                if not (options.together and places):
                    place = Path(folder, path.stem)
                    places.append((AsyncContextStore.open(place, embedder=options.embedder), []))
                store, asked = places[-1]
                asked += await _told(store, data, path.stem, over_time=options.over_time)
            for store, _ in places:
                await store.maintain()
            yield places
        finally:
            for store, _ in places:
                await store.close()


async def _told(
    store: AsyncContextStore, data: dict[str, Any], agent: str, *, over_time: bool
) -> list[Asked]:
    """The questions of a conversation, once the store holds it."""
    turns = data["turns"]
    for session in sorted({turn["session"] for turn in turns}):
        messages = [_message(turn) for turn in turns if turn["session"] == session]
        await store.history.append_many(agent, messages, session_id=f"{agent}-{session}")
    known = {turn["id"] for turn in turns}
    return [
        Asked(
            question=one["question"],
            evidence=evidence,
            whose=agent,
            category=one.get("category") or "",
            asked_at=datetime.fromisoformat(one["asked_at"]) if over_time else None,
        )
        for one in data["questions_over_time" if over_time else "questions"]
        if (evidence := frozenset(one["evidence"]) & known)
    ]


def _message(turn: dict[str, Any]) -> Message:
    return Message(
        role=turn.get("role", "user"),
        parts=tuple(_parts(turn)),
        id=turn["id"],
        name=turn["speaker"],
        created_at=datetime.fromisoformat(turn["session_time"]),
    )


def _parts(turn: dict[str, Any]) -> Iterator[ImagePart | TextPart | ToolCallPart | ToolResultPart]:
    """Yield the text of a turn, and the image or the call of a tool that comes with it."""
    text = TextPart(text=turn["text"])
    if result_of := turn.get("result_of"):
        yield ToolResultPart(call_id=result_of, content=(text,))
        return
    yield text
    if caption := turn["image_caption"]:
        yield ImagePart(url="image:unseen", caption=caption)
    if call := turn.get("call"):
        yield ToolCallPart(call_id=call["id"], name=call["name"], arguments=call["arguments"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--store", type=Path, help="a store whose history is searched")
    what.add_argument("--conversations", type=Path, help="a folder of conversations in JSON")
    parser.add_argument("--questions", type=Path, help="the questions, in JSON lines")
    parser.add_argument(
        "--draw", type=int, metavar="N", help="ask for N turns of the store instead"
    )
    parser.add_argument(
        "--list", action="store_true", help="print the contents of the store, with ids"
    )
    parser.add_argument("--memories", action="store_true", help="its memories, not its turns")
    parser.add_argument("--together", action="store_true", help="one store for all conversations")
    parser.add_argument(
        "--over-time", action="store_true", help="their `questions_over_time`, each at `asked_at`"
    )
    parser.add_argument("--sessions", action="store_true", help="the recall of sessions, too")
    parser.add_argument(
        "--categories", action="store_true", help="of each category of questions, too"
    )
    parser.add_argument("--embedder", default="local", help="as in `ContextStore.open`, or none")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=list(PARTS),
        metavar="PART",
        help="only these rows of the table",
    )
    return parser


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
