"""Cost of writing a graph and of walking two steps, vs. networkx, SQLite, Kuzu and LlamaIndex.

    python -m benchmarks.graph [--relations 1000000] [--entities 10000] [--batch 50000] [--repeats 20]

Seconds of CPU of all threads, through the public API, in a fresh directory; the graph is drawn at
random. networkx holds a graph in memory: what it has of a program that begins is a file, here a list
of edges, which it has to read before it answers anything. So each of its rows is told with and
without the load. Both are asked for the same entities, and the answers are compared.
"""

import argparse
import asyncio
import random
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import networkx as nx

from lance_context_core import AsyncContextStore
from lance_context_core.graph import Entity, Relation

_DEPTH = 2
_TYPES = ("knows", "leads", "uses", "cites", "owns")
_MOST = 100_000
"""More than any neighbourhood here has, so that no answer is cut."""


async def timed(call: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    """The seconds of CPU that a call took, and what it gave."""
    start = time.process_time()
    found = await call()
    return time.process_time() - start, found


def drawn(options: argparse.Namespace) -> list[tuple[int, int]]:
    """The ends of each relation; the same for the same arguments."""
    draw = random.Random(0)
    n = options.entities
    return [(draw.randrange(n), draw.randrange(n)) for _ in range(options.relations)]


async def lay(
    store: AsyncContextStore, ends: Sequence[tuple[int, int]], batch: int, n: int
) -> None:
    """Write the graph, so many things a call."""
    for start in range(0, n, batch):
        some = range(start, min(start + batch, n))
        await store.graph.add_entities([Entity(id=f"e{one}", name=f"E {one}") for one in some])
    for start in range(0, len(ends), batch):
        await store.graph.add_relations(
            [
                Relation(
                    id=f"r{number}",
                    source_id=f"e{source}",
                    target_id=f"e{target}",
                    type=_TYPES[number % len(_TYPES)],
                )
                for number, (source, target) in enumerate(ends[start : start + batch], start)
            ]
        )


def near(graph: Any, one: int) -> set[int]:
    """Whom networkx reaches."""
    return set(nx.single_source_shortest_path_length(graph, one, cutoff=_DEPTH))


def write_edges(file: Path, ends: Sequence[tuple[int, int]]) -> None:
    """What networkx reads."""
    file.write_text("".join(f"{source} {target}\n" for source, target in ends), encoding="utf-8")


async def measured(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Seconds of CPU, by what was done."""
    ends, place, file = drawn(options), str(folder / "store"), folder / "edges.txt"
    await asyncio.to_thread(write_edges, file, ends)
    asked = random.Random(1).sample([source for source, _ in ends], options.repeats)
    found: dict[str, float] = {}
    async with AsyncContextStore.open(place, maintenance=None) as store:
        found["write the graph"], _ = await timed(
            lambda: lay(store, ends, options.batch, options.entities)
        )
        found["indexed, once"], _ = await timed(store.maintain)
    found["on disk, MB"] = size_of(folder / "store")

    reached: list[set[int]] = []

    async def walk(one: int) -> None:
        near = await store.graph.neighbours(f"e{one}", depth=_DEPTH, limit=_MOST)
        reached.append({int((entity.id or "")[1:]) for entity in near.entities})

    async def first() -> None:
        nonlocal store
        store = await AsyncContextStore.open(place, maintenance=None)
        await walk(asked[0])

    found["two steps: opened, and asked once"], _ = await timed(first)
    try:
        before = peak()
        costs = [(await timed(partial(walk, one)))[0] for one in asked[1:]]
        found["two steps: asked again, median"] = median(costs)
        found["two steps: memory that all of them added, MB"] = peak() - before
    finally:
        await store.close()

    async def load() -> Any:
        return nx.read_edgelist(file, nodetype=int, create_using=nx.MultiGraph)

    loaded, graph = await timed(load)
    costs, expected = [], []
    for one in asked:
        start = time.process_time()
        expected.append(near(graph, one))
        costs.append(time.process_time() - start)
    found["networkx: loaded, and asked once"] = loaded + costs[0]
    found["networkx: asked again, median"] = median(costs[1:])
    if reached != expected:
        raise AssertionError("the store and networkx reach different entities")
    found |= of_sqlite(folder / "table.db", ends, asked, expected)
    ratio = found["two steps: asked again, median"] / found["SQLite: asked again, median"]
    found["two steps: times as long as SQLite's table"] = ratio
    found |= of_kuzu(folder, ends, asked, expected)
    found |= of_llama_index(folder / "simple.json", ends, asked)
    found["entities reached, mean"] = sum(map(len, reached)) / len(reached)
    return found


def of_sqlite(
    file: Path, ends: Sequence[tuple[int, int]], asked: Sequence[int], expected: list[set[int]]
) -> dict[str, float]:
    """The same of a table of both ends with an index of each, which answers with numbers alone."""
    start, found = time.process_time(), dict[str, float]()
    with closing(sqlite3.connect(file)) as table:
        table.execute("CREATE TABLE relations (source, target)")
        table.executemany("INSERT INTO relations VALUES (?, ?)", ends)
        table.execute("CREATE INDEX by_source ON relations (source)")
        table.execute("CREATE INDEX by_target ON relations (target)")
        table.commit()
        found["SQLite: write"] = time.process_time() - start
        found["SQLite: on disk, MB"] = file.stat().st_size / 1e6
        either = (
            "SELECT target FROM relations WHERE source = ?1 "
            "UNION SELECT source FROM relations WHERE target = ?1"
        )
        costs = []
        for one, right in zip(asked, expected, strict=True):
            start = time.process_time()
            reached, frontier = {one}, {one}
            for _ in range(_DEPTH):
                frontier = {row[0] for node in frontier for row in table.execute(either, (node,))}
                reached |= frontier
            costs.append(time.process_time() - start)
            if reached != right:
                raise AssertionError("SQLite and networkx reach different entities")
    found["SQLite: asked again, median"] = median(costs[1:])
    return found


def of_kuzu(
    folder: Path, ends: Sequence[tuple[int, int]], asked: Sequence[int], expected: list[set[int]]
) -> dict[str, float]:
    """The same of Kuzu; nothing where it is not installed."""
    try:
        kuzu = import_module("kuzu")
    except ImportError:
        print("kuzu is not installed: skipped")
        return {}
    nodes, edges = folder / "nodes.csv", folder / "edges.csv"
    nodes.write_text("".join(f"{one}\n" for one in {one for pair in ends for one in pair}))
    edges.write_text("".join(f"{source},{target}\n" for source, target in ends))
    start, found = time.process_time(), dict[str, float]()
    asks = kuzu.Connection(kuzu.Database(str(folder / "kuzu")))
    asks.execute("CREATE NODE TABLE E(id INT64, PRIMARY KEY(id))")
    asks.execute("CREATE REL TABLE R(FROM E TO E)")
    asks.execute(f"COPY E FROM '{nodes}'")
    asks.execute(f"COPY R FROM '{edges}'")
    found["Kuzu: write"] = time.process_time() - start
    query = f"MATCH (a:E {{id: $n}})-[:R*1..{_DEPTH}]-(b:E) RETURN DISTINCT b.id"
    costs = []
    for one, right in zip(asked, expected, strict=True):
        start = time.process_time()
        reached = {one, *(row[0] for row in asks.execute(query, {"n": one}).get_all())}
        costs.append(time.process_time() - start)
        if reached != right:
            raise AssertionError("Kuzu and networkx reach different entities")
    found["Kuzu: asked again, median"] = median(costs[1:])
    return found


def size_of(folder: Path) -> float:
    """The megabytes of all files in a folder."""
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file()) / 1e6


def of_llama_index(
    file: Path, ends: Sequence[tuple[int, int]], asked: Sequence[int]
) -> dict[str, float]:
    """The same of LlamaIndex's store, by what was done; nothing where it is not installed."""
    try:
        from llama_index.core.graph_stores import SimplePropertyGraphStore
        from llama_index.core.graph_stores.types import EntityNode, Relation
    except ImportError:
        print("llama-index-core is not installed: skipped")
        return {}

    def near(graph: Any, one: int) -> None:
        # Who asks for relations on the way is told those of each entity that is named.
        graph.get_rel_map(graph.get(ids=[f"e{one}"]), depth=_DEPTH, limit=_MOST)

    simple, found = SimplePropertyGraphStore(), dict[str, float]()
    start = time.process_time()
    names = dict.fromkeys(one for pair in ends for one in pair)
    simple.upsert_nodes([EntityNode(name=f"e{one}", label="entity") for one in names])
    simple.upsert_relations(
        [
            Relation(label=_TYPES[n % len(_TYPES)], source_id=f"e{one}", target_id=f"e{other}")
            for n, (one, other) in enumerate(ends)
        ]
    )
    simple.persist(str(file))
    found["LlamaIndex: build and write to a file"] = time.process_time() - start
    before, start = peak(), time.process_time()
    simple = SimplePropertyGraphStore.from_persist_path(str(file))
    near(simple, asked[0])
    found["LlamaIndex: loaded, and asked once"] = time.process_time() - start
    found["LlamaIndex: memory that the load added, MB"] = peak() - before
    start = time.process_time()
    near(simple, asked[1])
    found["LlamaIndex: asked again"] = time.process_time() - start
    return found


def peak() -> float:
    """The most memory that this process had at any time, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def main(arguments: Sequence[str]) -> None:
    """Print the table that `arguments` ask for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graph", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--relations", type=int, default=50_000, help="number of relations")
    parser.add_argument("--entities", type=int, default=10_000, help="number of entities")
    parser.add_argument("--batch", type=int, default=50_000, help="relations in one call")
    parser.add_argument(
        "--repeats", type=int, default=20, help="repetitions of each query, at least 2"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="graph-") as folder:
        print("| what | s of CPU |\n|---|---:|")
        for what, value in (await measured(Path(folder), options)).items():
            print(f"| {what} | {value:,.4g} |")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
