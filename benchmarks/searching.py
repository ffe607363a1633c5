"""What searches cost that no small scope answers, and whether many scopes are as good as many stores.

    python -m benchmarks.searching [--records 10000 100000] [--scopes 100000] [--users 10000]
                                   [--repeats 20] [--only unscoped filters process scopes blocks statistics]

Milliseconds of CPU of all threads, medians. `unscoped`: a collection without a filter, vs. LanceDB's
own queries of the same table, asked in turn. `filters`: `$in` with 50,000 values and `$or` of 1,000
conditions, vs. the same search without. `process`: a search right after another process has written
to the scope, vs. the same search again. `scopes`: what the process has in memory while so many scopes
come and go, each searched once, of one table; `blocks` the same of ten times as many scopes, each made, searched,
kept and let go of as there, of rows that are made here instead of read from a table. `statistics`: the share of questions for whose turns the
first ten hold the one that is asked for, in one store of all users and in stores of their own.
"""

import argparse
import asyncio
import gc
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa

from lance_context_core import AsyncContextStore, Document
from lance_context_core.memory_index.bm25 import words_of
from lance_context_core.memory_index.cache import Table, segments_of
from lance_context_core.memory_index.columns import Condition
from lance_context_core.memory_index.segment import Segment
from lance_context_core.settings import SearchCache, SearchOptions
from lance_context_core.storage.changes import Position
from lance_context_core.storage.lance.indexes import TextIndex
from lance_context_core.storage.lance.schema import KEY, SEARCH_TEXT
from lance_context_core.storage.sql import EVERYTHING, equals

_DIMENSION = 256
_N_WORDS = 5_000
_LENGTH = 20
_BATCH = 5_000
_N_VALUES, _N_PARTS = 50_000, 1_000
_MEMORIES = 20
"""What each user of the statistics has."""

_WRITER = """
import sys
from lance_context_core import ContextStore
with ContextStore.open(sys.argv[1], maintenance=None) as store:
    for number, _ in enumerate(sys.stdin):
        store.memory.add([f"w1 w2 written {number}"], user_id="u")
        print(number, flush=True)
"""


class Drawn:
    """Texts of words that are as rare as in a language, and vectors."""

    def __init__(self) -> None:
        """The same at each run."""
        self.random = random.Random(0)
        self._numbers = np.random.default_rng(0)
        self._weights = [1 / (n + 10) for n in range(_N_WORDS)]

    def words(self, n: int) -> list[str]:
        """So many words."""
        return [f"w{n}" for n in self.random.choices(range(_N_WORDS), self._weights, k=n)]

    def text(self) -> str:
        """One of the usual length."""
        return " ".join(self.words(_LENGTH))

    def vectors(self, n: int) -> list[list[float]]:
        """So many of any direction."""
        drawn: list[list[float]] = self._numbers.normal(size=(n, _DIMENSION)).tolist()
        return drawn


async def _cost(call: Callable[[], Awaitable[Any]]) -> float:
    start = time.process_time()
    await call()
    return (time.process_time() - start) * 1_000


async def _costs(
    calls: Sequence[Mapping[str, Callable[[], Awaitable[Any]]]],
) -> dict[str, float]:
    """The median of each, of calls in turn; the first turn is not counted."""
    ms: dict[str, list[float]] = {}
    for number, one in enumerate(calls):
        for what, call in one.items():
            cost = await _cost(call)
            if number:
                ms.setdefault(what, []).append(cost)
    return {what: median(some) for what, some in ms.items()}


async def _filled(store: AsyncContextStore, drawn: Drawn, n: int) -> Any:
    docs = store.vectors("docs")
    for start in range(0, n, _BATCH):
        vectors = drawn.vectors(min(_BATCH, n - start))
        await docs.add(
            [
                Document(
                    id=f"d{start + number}",
                    text=drawn.text(),
                    embedding=vector,
                    metadata={"n": start + number},
                )
                for number, vector in enumerate(vectors)
            ]
        )
    await store.maintain()
    return docs


async def unscoped(place: str, options: argparse.Namespace) -> None:
    """One collection, all of it, vs. the engine's queries."""
    print("| records | search | ours | LanceDB's | ratio |\n|---:|---|---:|---:|---:|")
    for n in options.records:
        drawn, there = Drawn(), f"{place}/{n}"
        async with AsyncContextStore.open(there, maintenance=None) as store:
            docs = await _filled(store, drawn, n)
            table = await (await lancedb.connect_async(there)).open_table("vectors.docs")

            def asked(docs: Any = docs, table: Any = table, drawn: Drawn = drawn) -> dict[str, Any]:
                (vector,), words = drawn.vectors(1), " ".join(drawn.words(6))

                async def near() -> None:
                    query = table.query().nearest_to(vector).distance_type("cosine")
                    await query.select(["id", "text", "_distance"]).limit(10).to_list()

                async def match() -> None:
                    query = table.query().nearest_to_text(words, columns="search_text")
                    await query.select(["id", "text", "_score"]).limit(10).to_list()

                ours = partial(docs.search, words, vector=vector)
                return {
                    "vector": partial(ours, mode="vector"),
                    "vector, raw": near,
                    "text": partial(ours, mode="text"),
                    "text, raw": match,
                    "hybrid": partial(ours, mode="hybrid"),
                }

            costs = await _costs([asked() for _ in range(options.repeats + 1)])
            costs["hybrid, raw"] = costs["vector, raw"] + costs["text, raw"]
            for mode in ("vector", "text", "hybrid"):
                ms, raw = costs[mode], costs[f"{mode}, raw"]
                print(f"| {n:,} | {mode} | {ms:.2f} | {raw:.2f} | {ms / raw:.2f} |", flush=True)


async def filters(place: str, options: argparse.Namespace) -> None:
    """What large filters add, in the process and by the engine."""
    print("| records | filter | where | ms of CPU | more than without |\n|---:|---|---|---:|---:|")
    n = options.records[0]
    for where, cache in (("in the process", SearchCache()), ("by the engine", None)):
        drawn, there = Drawn(), f"{place}/{where}"
        async with AsyncContextStore.open(there, maintenance=None, search_cache=cache) as store:
            docs = await _filled(store, drawn, n)

            def asked(docs: Any = docs, drawn: Drawn = drawn) -> dict[str, Any]:
                (vector,), words = drawn.vectors(1), " ".join(drawn.words(6))
                values = drawn.random.sample(range(4 * _N_VALUES), _N_VALUES)
                kinds: dict[str, Any] = {
                    "none": None,
                    f"$in, {_N_VALUES:,} ids": {"id": {"$in": [f"d{one}" for one in values]}},
                    f"$or of {_N_PARTS:,}": {
                        "$or": [{"id": f"d{one}"} for one in values[:_N_PARTS]]
                    },
                    f"$or of {_N_PARTS:,} of metadata": {
                        "$or": [{"metadata.n": one} for one in values[:_N_PARTS]]
                    },
                }

                def search(filter: Any) -> Callable[[], Awaitable[Any]]:
                    return lambda: docs.search(words, vector=vector, filter=filter)

                return {kind: search(filter) for kind, filter in kinds.items()}

            costs = await _costs([asked() for _ in range(min(options.repeats, 5) + 1)])
            for kind, ms in costs.items():
                more = ms - costs["none"]
                print(f"| {n:,} | {kind} | {where} | {ms:.1f} | {more:.1f} |", flush=True)


async def process(place: str, options: argparse.Namespace) -> None:
    """A search after what another process wrote."""
    drawn, costs = Drawn(), []
    async with AsyncContextStore.open(place, maintenance=None) as store:
        await store.memory.add([drawn.text() for _ in range(100)], user_id="u")
        await store.memory.search("w1", user_id="u")
        writer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _WRITER, place, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert writer.stdin is not None
        assert writer.stdout is not None
        for _ in range(options.repeats + 1):
            writer.stdin.write(b"write\n")
            number = int(await writer.stdout.readline())

            async def search(number: int = number) -> None:
                hits = await store.memory.search(f"written {number}", user_id="u")
                assert hits[0].record.text == f"w1 w2 written {number}"

            costs.append((await _cost(search), await _cost(search)))
        writer.stdin.close()
        await writer.wait()
    after, again = (median(some) for some in zip(*costs[1:], strict=True))
    print("| search of 100 memories, by words | ms of CPU |\n|---|---:|")
    print(f"| right after another process wrote | {after:.2f} |\n| again | {again:.2f} |")


async def scopes(place: str, options: argparse.Namespace) -> None:
    """Memory while scopes come and go: of users who have nothing, and of some who have."""
    cache = SearchCache(max_bytes=8 * 2**20)
    print("| scopes so far | MB of the process | in the cache |\n|---:|---:|---:|")
    async with AsyncContextStore.open(place, maintenance=None, search_cache=cache) as store:
        await store.context().add_many(
            [
                {"role": "user", "content": "a kite", "user_id": f"u{n}", "kind": "memory"}
                for n in range(min(options.scopes, _BATCH))
            ]
        )
        await store.maintain()
        step = max(options.scopes // 10, 1)
        for number in range(options.scopes):
            # A handle for each, as a server has one for each request.
            handle = store.scope(tenant=f"t{number}")
            if number % 2:
                await handle.memory.search("kite", user_id="anybody")
            else:
                await store.memory.search("kite", user_id=f"u{number}")
            if (number + 1) % step == 0:
                gc.collect()
                kept = (await store.stats()).search_cache
                n_kept = 0 if kept is None else kept.n_scopes
                print(f"| {number + 1:,} | {_resident_mb():.1f} | {n_kept:,} |", flush=True)


async def blocks(_place: str, options: argparse.Namespace) -> None:
    """As `scopes`, without an engine: it is what the process has that may not grow."""
    cache, words, drawn = SearchCache(max_bytes=8 * 2**20), words_of(TextIndex()), Drawn()
    kept, table = segments_of(cache), Table(object(), "records", None)
    everything = Condition.of(EVERYTHING)
    texts, n = [drawn.text() for _ in range(1_000)], 10 * options.scopes
    print("| scopes so far | MB of the process | in the cache | MB in it |\n|---:|---:|---:|---:|")
    for number in range(n):
        said = [
            {KEY: f"k{number}.{one}", SEARCH_TEXT: texts[(number + one) % 1_000]}
            for one in range(3)
        ]
        scope = equals("user_id", f"u{number}")
        rows = pa.Table.from_pylist(said)
        there, state = frozenset(rows.column_names), Position(1, number, 0)
        block = Segment(scope, state, rows, columns=there, vectors=None, words=words)
        asked = texts[number % 1_000].split()[0]
        block.make_words()
        assert len(block.match(everything, everything, asked, 10).best.numbers)
        kept.put(table, str(scope), block)
        if (number + 1) % max(n // 10, 1) == 0:
            del block
            gc.collect()
            mb, in_it = _resident_mb(), kept.n_bytes / 2**20
            print(f"| {number + 1:,} | {mb:.1f} | {kept.n_scopes:,} | {in_it:.1f} |", flush=True)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


async def statistics(place: str, options: argparse.Namespace) -> None:
    """The rank of what is asked for, in one store of all and in stores of their own."""
    drawn, said = Drawn(), {}
    for n in range(options.users):
        # Each user speaks mostly of a few things of their own, rare in the store and common here.
        own = drawn.words(5)
        said[f"u{n}"] = [
            " ".join([*drawn.words(8), *drawn.random.choices(own, k=4)]) for _ in range(_MEMORIES)
        ]
    asked = {}
    for user in drawn.random.sample(list(said), min(options.users, 10 * options.repeats)):
        meant = drawn.random.choice(said[user])
        asked[user] = meant, " ".join(drawn.random.sample(meant.split(), 3))
    words = SearchOptions(n_candidates=50)

    async def found(store: AsyncContextStore, user: str) -> bool:
        meant, question = asked[user]
        hits = await store.memory.search(question, user_id=user, limit=1, options=words)
        return bool(hits) and hits[0].record.text == meant

    alone = []
    for user in asked:
        async with AsyncContextStore.open("memory://", maintenance=None) as store:
            await store.memory.add(said[user], user_id=user)
            alone.append(await found(store, user))
    shares = {"stores of their own": alone}
    for where, cache in (("one store, in the process", SearchCache()), ("by the engine", None)):
        there = f"{place}/one"
        async with AsyncContextStore.open(there, maintenance=None, search_cache=cache) as store:
            if cache is not None:
                rows = [
                    {"role": "user", "content": text, "user_id": user, "kind": "memory"}
                    for user, texts in said.items()
                    for text in texts
                ]
                for start in range(0, len(rows), _BATCH):
                    await store.context().add_many(rows[start : start + _BATCH])
                await store.maintain()
            shares[where] = [await found(store, user) for user in asked]
    print(f"| {options.users:,} users, {len(asked):,} questions | R@1 |\n|---|---:|")
    for where, hits in shares.items():
        print(f"| {where} | {100 * sum(hits) / len(hits):.1f} |")


_PARTS = {one.__name__: one for one in (unscoped, filters, process, scopes, blocks, statistics)}


async def main(arguments: Sequence[str]) -> None:
    """Print the tables that `arguments` ask for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.searching", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--scopes", type=int, default=100_000, help="number of scopes")
    parser.add_argument("--users", type=int, default=10_000, help="users of one store")
    parser.add_argument("--repeats", type=int, default=20, help="repetitions of each query")
    parser.add_argument("--only", nargs="+", choices=list(_PARTS), default=list(_PARTS))
    options = parser.parse_args(arguments)
    for name in options.only:
        print(f"\n## {name}\n")
        with tempfile.TemporaryDirectory(prefix="searching-") as place:
            await _PARTS[name](str(Path(place)), options)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
