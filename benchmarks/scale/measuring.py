"""One store of one size, measured: each work in a process of its own, against an exact oracle."""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.processes import Program, Side
from benchmarks.scale.records import DIMENSION, SHARES, Made, Questions

FIRST = ("history", "words", "vector")
"""What a new process is asked."""

_K = 10
_STARTS = 5
_TURNS = 200
_PATIENCE_SECONDS = 3_600

Flags = npt.NDArray[np.bool_]


@dataclass(kw_only=True)
class Measured:
    """What was measured at one size; seconds and bytes."""

    rows: int
    seconds: dict[str, float] = field(default_factory=dict)
    """Of what is done once."""
    times: dict[str, list[float]] = field(default_factory=dict)
    """Of what is done again and again, call by call."""
    recall: dict[str, float] = field(default_factory=dict)
    """The share of the exact `k` nearest that was found, by question."""
    peaks: dict[str, int] = field(default_factory=dict)
    """The most memory that the process of a work ever had."""
    sizes: dict[str, int] = field(default_factory=dict)
    """What is on the disk."""


def measure(rows: int, folder: Path) -> Measured:
    """Build a store of so many rows in `folder`, measure it, and remove it."""
    place = folder / f"store-{rows}"
    shutil.rmtree(place, ignore_errors=True)
    measured = Measured(rows=rows, sizes={"vectors": rows * DIMENSION * 4})
    try:
        _build(measured, folder, str(place))
        _read(measured, folder, str(place))
        _append(measured, folder, str(place))
        measured.sizes["settled"] = _asked(folder, "settle", uri=str(place))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return measured


def _build(measured: Measured, folder: Path, uri: str) -> None:
    done = _asked(folder, "add", uri=uri, rows=measured.rows)
    measured.seconds["add"], measured.peaks["add"] = done["seconds"], done["peak"]
    done = _asked(folder, "maintain", uri=uri)
    measured.seconds["maintain"], measured.peaks["maintain"] = done["seconds"], done["peak"]
    measured.sizes["built"] = done["bytes"]


def _read(measured: Measured, folder: Path, uri: str) -> None:
    rows = measured.rows
    done = _asked(folder, "ask", uri=uri, rows=rows)
    measured.times |= done["seconds"]
    measured.peaks["ask"] = done["peak"]
    exact = _nearest(rows)
    for kind, found in done["found"].items():
        shares = [
            len(set(some) & wanted) / len(wanted)
            for some, wanted in zip(found, exact[kind], strict=True)
        ]
        measured.recall[kind] = sum(shares) / len(shares)
    starts: dict[str, list[float]] = {kind: [] for kind in FIRST}
    for _ in range(_STARTS):
        for kind, seconds in starts.items():
            seconds.append(_asked(folder, "first", uri=uri, rows=rows, kind=kind))
    measured.seconds |= {f"first {kind}": median(each) for kind, each in starts.items()}
    done = _asked(folder, "read_all", uri=uri, rows=rows)
    measured.seconds["read_all"], measured.peaks["read_all"] = done["seconds"], done["peak"]


def _append(measured: Measured, folder: Path, uri: str) -> None:
    for name, has_ids in (("append", False), ("append with ids", True)):
        measured.times[name] = _asked(
            folder, "append", uri=uri, rows=measured.rows, turns=_TURNS, has_ids=has_ids
        )


def _asked(folder: Path, op: str, **arguments: Any) -> Any:
    """The answer of a process of its own."""
    with _process(folder) as side:
        began = time.monotonic()
        answer = side.ask(op, timeout_seconds=_PATIENCE_SECONDS, **arguments)
        print(f"  {op}: {time.monotonic() - began:.1f} s", file=sys.stderr)
    return answer


@contextmanager
def _process(folder: Path) -> Iterator[Side]:
    side = Program(script="store_at_scale").start(folder / "scale.log")
    try:
        yield side
    finally:
        side.close()


# The oracle


def _nearest(rows: int) -> dict[str, list[set[str]]]:
    """The ids of the exact nearest records, by kind of question; all vectors are compared."""
    made = Made()
    questions = made.questions()
    best: dict[str, tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]] = {}
    for number, batch in enumerate(made.batches(rows)):
        vectors = np.array([one["embedding"] for one in batch])
        cosines = questions.vectors @ vectors.T
        places = np.arange(len(batch)) + number * len(batch)
        for kind, is_meant in _meant(batch, questions).items():
            some = np.where(is_meant, cosines, np.float32(-np.inf))
            which = np.broadcast_to(places, some.shape)
            if kind in best:
                some = np.hstack([best[kind][0], some])
                which = np.hstack([best[kind][1], which])
            top = np.argpartition(-some, _K, axis=1)[:, :_K]
            best[kind] = (np.take_along_axis(some, top, 1), np.take_along_axis(which, top, 1))
    return {
        kind: [
            {f"x{one}" for one, cosine in zip(row, scores, strict=True) if cosine > -np.inf}
            for scores, row in zip(cosines, which, strict=True)
        ]
        for kind, (cosines, which) in best.items()
    }


def _meant(batch: list[dict[str, Any]], questions: Questions) -> dict[str, Flags]:
    """Which records of a batch each question is about, by kind: a row a question."""
    few, half = (np.array(questions.values[share])[:, None] for share in SHARES)
    users = np.array([int(one["user_id"][1:]) for one in batch])
    topics = np.array([one["metadata"]["topic"] for one in batch])
    is_assistant = np.array([one["role"] == "assistant" for one in batch])
    return {
        "vector": np.ones((len(questions.texts), len(batch)), dtype=np.bool_),
        "vector, 1 % by user": users == few,
        "vector, 1 % by metadata": topics == few,
        "vector, 50 % by role": is_assistant == half,
        "vector, 50 % by metadata": topics % 2 == half,
    }
