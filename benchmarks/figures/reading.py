"""Reading: one record by what it is called, and the end of one session."""

import random
from collections.abc import Mapping
from typing import Any

from benchmarks.bench import LANCE_CONTEXT, STORE, Bench, in_turn, ratio
from benchmarks.corpus import SESSIONS
from benchmarks.registry import Row, Target, figure

_LAST = 50


@figure("get", "Get one record")
def get_one(bench: Bench) -> list[Row]:
    """By id, and by external id, vs. LanceDB with a B-tree."""
    return [_get(bench, "id", "r"), _get(bench, "external_id", "x")]


@figure("session", "Last 50 messages of one session among 1,000")
def read_session(bench: Bench) -> list[Row]:
    """A session's end, vs. a session that has no messages."""
    draw = random.Random(1)
    ids = [f"s{draw.randrange(SESSIONS)}" for _ in range(bench.repeats)]
    # One request of each kind after the other, so that both meet the same load.
    pairs: list[Mapping[str, Any]] = []
    for session in ids:
        pairs.append({"op": "last", "session": session, "limit": _LAST})
        pairs.append({"op": "last", "session": "nobody", "limit": _LAST})
    turns = in_turn(bench, bench.loaded.sides, pairs)
    full = {name: _median_ms(answers[2::2]) for name, answers in turns.answers.items()}
    empty = {name: _median_ms(answers[3::2]) for name, answers in turns.answers.items()}
    wrong = [
        f"{name}: {answers[0]['found']} messages found"
        for name, answers in turns.answers.items()
        if answers[0]["found"] != _LAST
    ]
    own = (
        ratio({"full": full[STORE], "empty": empty[STORE]}, of="full", to="empty")
        if (STORE in full)
        else None
    )
    return [
        Row(
            what="time, vs. an empty session of the same store",
            unit="ms",
            values=full,
            judged=own,
            target=Target(at_most=10),
            notes=(*bench.loaded.notes, *wrong, *turns.notes),
        ),
        Row(what="an empty session", unit="ms", values=empty),
    ]


def _get(bench: Bench, by: str, prefix: str) -> Row:
    draw = random.Random(2)
    loaded = bench.loaded
    # Its ids are its own, so none of ours is one of them.
    skipped = {LANCE_CONTEXT} if by == "id" else set()
    sides = {name: side for name, side in loaded.sides.items() if name not in skipped}
    smallest = min((loaded.rows[name] for name in sides), default=1)
    requests = [
        {"op": "get", "by": by, "value": f"{prefix}{draw.randrange(smallest)}"}
        for _ in range(bench.repeats)
    ]
    turns = in_turn(bench, sides, requests)
    wrong = [
        f"{name}: found {sum(answer['found'] for answer in answers)} of {len(answers)}"
        for name, answers in turns.answers.items()
        if any(answer["found"] != 1 for answer in answers)
    ]
    times = turns.medians_ms()
    return Row(
        what=f"time by {by}, vs. LanceDB with a B-tree",
        unit="ms",
        values=times,
        judged=ratio(times),
        target=Target(at_most=2),
        notes=(*bench.loaded.notes, *wrong, *turns.notes),
    )


def _median_ms(answers: list[Any]) -> float:
    seconds = sorted(float(answer["seconds"]) for answer in answers)
    return seconds[len(seconds) // 2] * 1_000
