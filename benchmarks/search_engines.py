"""Searches of one store by LanceDB and by other engines, of one user and of all.

    PYTHONPATH=tests:. python -m benchmarks.search_engines --rows 20000 --engines postgres
    PYTHONPATH=tests:. python -m benchmarks.search_engines --milvus http://localhost:19530

Starts PostgreSQL on this machine. `--milvus` is the address of a server, or a file of Milvus Lite,
which needs the extra `milvus`. Engines are measured in turn, so that only ratios of what was
measured in one run mean something.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from random import Random

import numpy as np
from postgres import PostgresServer  # type: ignore[import-not-found]  # of tests/

from lance_context_core import ContextStore, Document
from lance_context_core.engines import MilvusEngine, PostgresEngine, SearchEngine, SearchEngines
from lance_context_core.protocols import SearchMode

_DIMENSION = 256
_USERS = 100
_BATCH = 2_000
_MODES: tuple[SearchMode, ...] = ("text", "vector")
_PATIENCE = timedelta(minutes=1)


def main(arguments: Sequence[str]) -> None:
    """Measure, and print tables as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search_engines")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--engines", nargs="*", default=["postgres"], choices=["postgres"])
    parser.add_argument("--milvus")
    options = parser.parse_args(arguments)
    random = Random(0)
    words = [f"word{number}" for number in range(20_000)]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    generator = np.random.default_rng(0)
    vectors = _vectors(generator, options.rows)
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory())
        plain = stack.enter_context(ContextStore.open(place, search_cache=None))
        for start in range(0, options.rows, _BATCH):
            numbers = range(start, min(start + _BATCH, options.rows))
            for user in range(_USERS):
                some = [
                    Document(
                        id=str(number),
                        text=" ".join(random.choices(words, weights, k=30)),
                        embedding=vectors[number],
                    )
                    for number in numbers
                    if number % _USERS == user
                ]
                plain.scope(user_id=f"user {user}").vectors("all").upsert(some)
        plain.maintain()
        engines: list[SearchEngine] = []
        if "postgres" in options.engines:
            server = stack.enter_context(PostgresServer())
            engines.append(PostgresEngine(server.address()))
        if options.milvus:
            engines.append(MilvusEngine(options.milvus))
        stores = {"lancedb": plain}
        print("| engine | rows | seconds to index all | rows a second |\n|---|---:|---:|---:|")
        for engine in engines:
            stack.callback(engine.close)
            given = SearchEngines(text=engine, vector=engine, timeout=_PATIENCE)
            opened = ContextStore.open(
                place, search_cache=None, maintenance=None, search_engines=given
            )
            store = stores[engine.name] = stack.enter_context(opened)
            began = time.perf_counter()
            store.maintain(only_due=True)
            took = time.perf_counter() - began
            print(f"| {engine.name} | {options.rows} | {took:.1f} | {options.rows / took:.0f} |")
        _compare(stores, random, words[20:], _vectors(generator, options.calls))


def _compare(
    stores: Mapping[str, ContextStore], random: Random, words: Sequence[str], asked: np.ndarray
) -> None:
    """Measure the searches of each store in turn, and print a line for each kind."""
    n_calls = len(asked)
    names = list(stores)
    print(f"\n| search | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
    queries = [" ".join(random.choices(words, k=3)) for _ in range(n_calls)]
    for scope in ("one user", "all"):
        for mode in _MODES:
            taken: dict[str, list[float]] = {name: [] for name in names}
            found: dict[str, list[set[str]]] = {name: [] for name in names}
            for number in range(-2, n_calls):
                for name, store in stores.items():
                    part = store.scope(user_id="user 7") if scope == "one user" else store
                    query = queries[number] if mode == "text" else asked[number].tolist()
                    began = time.perf_counter()
                    hits = part.vectors("all").search(query, mode=mode)
                    took = 1_000 * (time.perf_counter() - began)
                    assert all(name in hit.engines.values() for hit in hits if hit.engines)
                    if number >= 0:
                        taken[name].append(took)
                        found[name].append({str(hit.record.id) for hit in hits})
            print(f"| {scope}, {mode} | {' | '.join(_told(names, taken, found))} |", flush=True)


def _vectors(generator: np.random.Generator, n: int) -> np.ndarray:
    """Vectors near to some hundreds of topics, as those of texts are."""
    topics = np.random.default_rng(7).normal(size=(300, _DIMENSION))
    near = topics[generator.integers(0, len(topics), n)]
    made: np.ndarray = near + 0.7 * generator.normal(size=(n, _DIMENSION))
    return made.astype(np.float32)


def _told(
    names: Sequence[str], taken: dict[str, list[float]], found: dict[str, list[set[str]]]
) -> list[str]:
    """The median of each engine, and the share of LanceDB's hits that it has."""
    said = []
    for name in names:
        both = zip(found[name], found[names[0]], strict=True)
        same = statistics.mean(_share(mine, theirs) for mine, theirs in both)
        said.append(f"{statistics.median(taken[name]):.1f} ms, {100 * same:.0f} %")
    return said


def _share(mine: set[str], theirs: set[str]) -> float:
    return len(mine & theirs) / len(theirs) if theirs else float(not mine)


if __name__ == "__main__":
    main(sys.argv[1:])
