"""Embeds a whole store again, with another model, on Ray.

    python examples/reembed_on_ray.py [--store URI] [--sample] [--workers N] [--batch N]

With `--sample`, or without a store, it first makes one of a conversation, embedded by a model that
only counts letters. Then the model is changed: lance-ray reads what waits for a vector, and each of
Ray's workers has the model, opens the store for itself, and embeds batch after batch. It may be
killed at any moment: run it again, and it goes on with what is left. Agents may write meanwhile with
the new model, and words find everything all the time.

On a cluster start it with `ray job submit`, with a store on an object store, credentials in the
environment, and your own model in `new_model`.

    pip install "lance-context-core[local]" lance-ray
"""

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import lance_ray
import numpy as np
import ray
from _ray_cluster import start_ray

from lance_context_core import ContextStore, Embedder, LocalEmbedder, Message

SAMPLE = Path(__file__).parent / "data" / "conversation.json"
QUESTION = "When does the lease on the flat end?"
PENDING = "vector IS NULL"


def new_model() -> Embedder:
    """The model that the store shall have; each worker loads it once."""
    return LocalEmbedder()


class Letters:
    """The model that it had: it counts letters, and knows nothing."""

    model = "letters-v1"
    dimension = 26

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """A row a text."""
        return np.array([self.embed_query(text) for text in texts], dtype=np.float32)

    def embed_query(self, text: str) -> np.ndarray:
        """The frequency of each letter."""
        return np.array([text.lower().count(chr(97 + n)) for n in range(26)], dtype=np.float32)


class Worker:
    """One of Ray's workers: a model, and a handle of the store."""

    def __init__(self, uri: str) -> None:
        """Open the store for this worker alone; it is looked after where the job was started."""
        self._store = ContextStore.open(uri, embedder=new_model(), maintenance=None)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Embed the records with these ids that have no vector yet: a commit for each thousand."""
        n_embedded = self._store.embed_pending(filter={"id": {"$in": batch["id"].tolist()}})
        return {"embedded": np.array([n_embedded])}


def main() -> int:
    """Change the model of a store; returns the exit code."""
    arguments = _arguments()
    start_ray()
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="reembed-") as scratch:
        uri = arguments.store or str(Path(scratch) / "memory")
        if arguments.sample or arguments.store is None:
            _remember(uri)
        reembed(uri, n_workers=arguments.workers, batch_size=arguments.batch)
    ray.shutdown()
    return 0


def reembed(uri: str, *, n_workers: int, batch_size: int) -> None:
    """Give the store at `uri` the vectors of the new model; may be killed, and repeated."""
    with ContextStore.open(uri, embedder=new_model()) as store:
        store.change_model()
        store.flush()  # Ray reads the tables themselves, not what the store's journal still holds
        pending = lance_ray.read_lance(
            # A store is a directory of Lance tables, and this is the one of all records.
            namespace_impl="dir",
            namespace_properties={"root": store.uri},
            table_id=["records"],
            columns=["id"],
            filter=PENDING,
        ).materialize()  # ids alone: reading does not compete with the workers for processors
        batches = pending.map_batches(
            Worker,
            fn_constructor_args=[store.uri],
            batch_size=batch_size,
            compute=ray.data.ActorPoolStrategy(size=n_workers),
            num_cpus=0.5,  # so that two fit beside all else on a machine with two processors
        )
        n_done = 0
        for batch in batches.iter_batches(batch_size=1):
            n_done += int(batch["embedded"].sum())
            print(f"{n_done:,} records embedded", flush=True)
        # Deferred writes of the meantime, and the documents of collections.
        n_rest = store.embed_pending()
        print(f"{n_rest:,} more, and all have vectors of {new_model().model}")
        store.maintain()  # with the vectors' index, where it pays
        _ask(store)


def _remember(uri: str) -> None:
    """Make a store of the sample conversation, with the old model."""
    conversation = json.loads(SAMPLE.read_text(encoding="utf-8"))
    messages = [
        Message.user(turn["text"], id=turn["id"], name=turn["speaker"])
        for turn in conversation["turns"]
    ]
    with ContextStore.open(uri, embedder=Letters()) as store:
        store.history.append_many("assistant", messages, session_id="all")
        print(f"{len(messages):,} records have vectors of {Letters.model}")
        _ask(store)


def _ask(store: ContextStore) -> None:
    print(f"\n{QUESTION}")
    for hit in store.search(QUESTION, mode="vector", limit=1):
        print(f"  {hit.record.text}\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", metavar="URI", help="the store; without one, of a sample")
    parser.add_argument("--sample", action="store_true", help="remember a conversation in it first")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="workers of Ray")
    parser.add_argument("--batch", type=int, default=1_000, metavar="N", help="records at a time")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
