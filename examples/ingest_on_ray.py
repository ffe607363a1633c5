"""Read a folder of files into a store with tasks of Ray.

    python examples/ingest_on_ray.py FOLDER --store URI [--workers N]

Each of Ray's tasks reads its share of the files, cuts and embeds them, and adds each as a whole: a file
is in the store with all its passages, or not at all. It may be killed at any moment: run it again, and it
goes on with what is left, since what is there already is known by its content. A file that cannot be read
is told, and the others go in.

On a cluster start it with `ray job submit`, with the folder where every machine finds it, and a store on
an object store.

    pip install "lance-context-core[local,documents]" ray
"""

import argparse
import sys
from pathlib import Path

import ray
from _ray_cluster import start_ray

from lance_context_core import ContextStore


# Half a processor each, so that two fit on a machine with two.
@ray.remote(num_cpus=0.5)  # type: ignore[untyped-decorator]  # Ray is untyped
def add(uri: str, files: list[Path]) -> list[str]:
    """Add files, one commit each; returns why those are missing that could not be read."""
    with ContextStore.open(uri, embedder="local", maintenance=None) as store:
        done = store.documents.add_many(files)
    return [str(one.error) for one in done.failed]


def main() -> int:
    """Read the folder; returns the exit code."""
    arguments = _arguments()
    files = sorted(one.resolve() for one in arguments.folder.rglob("*") if one.is_file())
    with ContextStore.open(arguments.store, embedder="local") as store:
        n_before = len(store.documents.list())
    start_ray()
    n = arguments.workers
    tasks = [add.remote(arguments.store, files[first::n]) for first in range(n)]
    refused = [why for each in ray.get(tasks) for why in each]
    ray.shutdown()
    with ContextStore.open(arguments.store, embedder="local") as store:
        store.maintain()
        n_there = len(store.documents.list())
    for why in refused:
        print(why)
    print(f"{n_there - n_before} new documents, {n_there} in all, {len(refused)} files refused")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="what is read, with all folders in it")
    parser.add_argument("--store", metavar="URI", required=True, help="the store")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="tasks at a time")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
