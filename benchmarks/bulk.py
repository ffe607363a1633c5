"""Bulk loading and filtered search of a collection, compared with raw LanceDB.

    python -m benchmarks.bulk [--documents 1000000] [--output docs/evidence/scaling.md]

Both have the same documents, of an id, a text, a vector of 64 numbers and three keys of metadata, and
the same indexes. Each part is done in a process of its own; CPU is that of all its threads.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import FTS, BTree, IvfFlat

from benchmarks.made_part import replaced
from lance_context_core import ContextStore

DIMENSION = 64
FIELDS = {"page": int, "author": str, "score": float}
_ROWS = 50_000
_REPEATS = 30
_ENGLISH = (
    "the a of and in was to storage memory agent vector search index filter page author document "
    "column fast table row commit version branch is are we that for with on question answer model "
    "token session"
)
_WORDS = np.array(_ENGLISH.split(), dtype=object)


def batches(n: int) -> Iterator[pa.RecordBatch]:
    """The documents, the same in each process."""
    for start in range(0, n, _ROWS):
        rng, size = np.random.default_rng(start), min(_ROWS, n - start)
        vectors = rng.standard_normal((size, DIMENSION)).astype(np.float32)
        yield pa.RecordBatch.from_pydict(
            {
                "id": [f"doc-{number:09d}" for number in range(start, start + size)],
                "text": [
                    " ".join(_WORDS[words]) for words in rng.integers(0, len(_WORDS), (size, 20))
                ],
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION),
                "page": pa.array(rng.integers(0, 100, size)),
                "author": [f"author {number}" for number in rng.integers(0, 1_000, size)],
                "score": pa.array(rng.random(size)),
            }
        )


def _reader(n: int) -> tuple[pa.RecordBatchReader, list[float]]:
    """A reader of the documents, and the CPU that making them took."""
    spent: list[float] = []

    def made() -> Iterator[pa.RecordBatch]:
        rest = batches(n)
        while True:
            began = time.thread_time()
            batch = next(rest, None)
            spent.append(time.thread_time() - began)
            if batch is None:
                return
            yield batch

    return pa.RecordBatchReader.from_batches(next(batches(1)).schema, made()), spent


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _size(place: Path) -> float:
    return sum(one.stat().st_size for one in place.rglob("*") if one.is_file()) / 2**20


# Each side


def add_ours(place: Path, n: int) -> dict[str, float]:
    """Add all with `add_arrow`, into a collection with declared fields."""
    reader, spent = _reader(n)
    with ContextStore.open(place, maintenance=None) as store:
        collection = store.vectors("docs", fields=FIELDS)
        began, base = _cpu(), _peak()
        added = collection.add_arrow(reader)
        assert added == n, added
        return {"cpu": _cpu() - began - sum(spent), "peak": _peak() - base}


def index_ours(place: Path, n: int) -> dict[str, float]:
    """Build all indexes."""
    del n
    with ContextStore.open(place, maintenance=None) as store:
        began = _cpu()
        store.maintain()
        used = _cpu() - began
    return {"cpu": used, "peak": _peak()}


def add_raw(place: Path, n: int) -> dict[str, float]:
    """Add all with `table.add`."""
    reader, spent = _reader(n)

    async def add() -> dict[str, float]:
        db = await lancedb.connect_async(place)
        table = await db.create_table("docs", schema=reader.schema)
        began, base = _cpu(), _peak()
        await table.add(reader)
        return {"cpu": _cpu() - began - sum(spent), "peak": _peak() - base}

    return asyncio.run(add())


def scalar_raw(place: Path, n: int) -> dict[str, float]:
    """Build the scalar indexes."""
    del n

    async def index() -> dict[str, float]:
        table = await (await lancedb.connect_async(place)).open_table("docs")
        began = _cpu()
        for column in ("id", *FIELDS):
            await table.create_index(column, config=BTree())
        return {"cpu": _cpu() - began, "peak": _peak()}

    return asyncio.run(index())


def index_raw(place: Path, n: int) -> dict[str, float]:
    """Build the other indexes that a collection has: of the words and of the vectors."""
    del n

    async def index() -> dict[str, float]:
        table = await (await lancedb.connect_async(place)).open_table("docs")
        began = _cpu()
        words = FTS(base_tokenizer="icu/split", remove_stop_words=False, with_position=False)
        await table.create_index("text", config=words)
        await table.create_index("vector", config=IvfFlat(distance_type="cosine"))
        return {"cpu": _cpu() - began, "peak": _peak()}

    return asyncio.run(index())


_ASKED: list[tuple[str, dict[str, Any], str]] = [
    ("1 % by an integer", {"page": 7}, "page = 7"),
    ("0.1 % by a text", {"author": "author 7"}, "author = 'author 7'"),
    ("half by a float", {"score": {"$lt": 0.5}}, "score < 0.5"),
    ("all", {}, ""),
]


def _queries() -> list[np.ndarray]:
    return list(np.random.default_rng(9).standard_normal((_REPEATS, DIMENSION)).astype(np.float32))


def _timed(search: Callable[[Any], Any]) -> list[float]:
    search(_queries()[0])
    took = []
    for query in _queries():
        began, cpu = time.perf_counter(), _cpu()
        search(query)
        took.append((time.perf_counter() - began, _cpu() - cpu))
    return [median(one) for one in zip(*took, strict=True)]


def search_ours(place: Path, n: int) -> dict[str, float]:
    """Filtered searches."""
    del n
    found: dict[str, float] = {}
    with ContextStore.open(place, maintenance=None, search_cache=None) as store:
        collection = store.vectors("docs")
        for name, filter, _ in _ASKED:

            def search(query: Any, filter: dict[str, Any] = filter) -> Any:
                return collection.search(query.tolist(), filter=filter or None, limit=10)

            found[name], found[f"{name}, CPU"] = _timed(search)
    return found


def search_raw(place: Path, n: int) -> dict[str, float]:
    """The same searches."""
    del n
    found: dict[str, float] = {}
    table = lancedb.connect(place).open_table("docs")
    for name, _, where in _ASKED:

        def search(query: Any, where: str = where) -> Any:
            asked: Any = table.search(query)
            asked = asked.distance_type("cosine").nprobes(100_000).limit(10)
            asked = asked.select(["id", "text", "page", "author", "score"])
            return (asked.where(where) if where else asked).to_arrow().to_pylist()

        found[name], found[f"{name}, CPU"] = _timed(search)
    return found


_JOBS: dict[str, Callable[[Path, int], dict[str, float]]] = {
    one.__name__: one
    for one in (
        add_ours,
        index_ours,
        add_raw,
        scalar_raw,
        index_raw,
        search_ours,
        search_raw,
    )
}


def _run(job: str, place: Path, n: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.bulk", "--do", job, "--place", str(place)]
    done = subprocess.run(
        [*command, "--documents", str(n)], check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(n: int, scratch: Path) -> list[tuple[str, str, float, float]]:
    """Each line of the table: what, the unit, ours, and raw LanceDB's."""
    ours, raw = scratch / "ours", scratch / "raw"
    rows: list[tuple[str, str, float, float]] = []
    added, by_hand = _run("add_ours", ours, n), _run("add_raw", raw, n)
    scalar = _run("scalar_raw", raw, n)
    indexed, rest = _run("index_ours", ours, n), _run("index_raw", raw, n)
    rows += [
        ("adding", "s of CPU", added["cpu"], by_hand["cpu"]),
        (
            "adding and all indexes",
            "s of CPU",
            added["cpu"] + indexed["cpu"],
            by_hand["cpu"] + scalar["cpu"] + rest["cpu"],
        ),
        ("memory of adding, at its peak", "MiB", added["peak"], by_hand["peak"]),
        ("disk with all indexes", "MiB", _size(ours), _size(raw)),
    ]
    mine, others = _run("search_ours", ours, n), _run("search_raw", raw, n)
    for name, *_ in _ASKED:
        rows.append((f"the 10 nearest among {name}", "ms", mine[name] * 1e3, others[name] * 1e3))
        name_cpu = f"{name}, CPU"
        rows.append(("the same", "ms of CPU", mine[name_cpu] * 1e3, others[name_cpu] * 1e3))
    return rows


def page(rows: list[tuple[str, str, float, float]], n: int, load: tuple[float, float]) -> str:
    """The rows as a part of a page."""
    lines = [
        (
            f"{n:,} documents with a text of 20 words, a vector of {DIMENSION} numbers and three keys of "
            f"metadata, by `python -m benchmarks.bulk`; raw LanceDB {lancedb.__version__} with the same "
            f"columns and the same indexes. Searches are medians of {_REPEATS}. Load {load[0]:.1f} when it "
            f"began and {load[1]:.1f} when it ended, on {os.cpu_count()} processors."
        ),
        "",
        "| | unit | a collection with declared fields | raw LanceDB | ratio |",
        "|---|---|---:|---:|---:|",
    ]
    lines += [
        f"| {what} | {unit} | {ours:,.3g} | {raw:,.3g} | {ours / raw:.2g} |"
        for what, unit, ours, raw in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, and print a part of a page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--do", choices=sorted(_JOBS), help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.do is not None:
        print(json.dumps(_JOBS[options.do](options.place, options.documents)))
        return
    begun = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bulk-") as scratch:
        rows = measured(options.documents, Path(scratch))
    made = page(rows, options.documents, (begun, os.getloadavg()[0]))
    print(made)
    if options.output:
        old = options.output.read_text(encoding="utf-8")
        options.output.write_text(replaced(old, made, command="benchmarks.bulk"), encoding="utf-8")


if __name__ == "__main__":
    main()
